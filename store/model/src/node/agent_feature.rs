//! What agents can do, as attributes of their nodes. An agent that does not know a part of a job would run the job
//! without it, so such a job is placed only where the agent knows it.

use crate::job::{Constraint, ConstraintOperator, JobKind, JobSpec};

/// The attribute of a node with an agent that holds allocs: `yes`. Agents report it of themselves.
pub const AGENT_ALLOCS: &str = "agent.allocs";
/// The same for an agent that runs helpers of tasks.
pub const AGENT_HELPERS: &str = "agent.helpers";
/// The same for an agent that gives tasks their identities.
pub const AGENT_IDENTITIES: &str = "agent.identities";
/// The same for an agent that has a directory of secrets.
pub const AGENT_SECRETS: &str = "agent.secrets";

impl JobSpec {
    /// The constraints of a job, with what it needs of an agent.
    pub fn constraints_in_force(&self) -> impl Iterator<Item = Constraint> + '_ {
        let is_alloc = self.kind == JobKind::AllocSet;
        let allocs = is_alloc.then_some(AGENT_ALLOCS);
        let helpers = (!self.task.helpers.is_empty()).then_some(AGENT_HELPERS);
        let identities = (!self.task.identities.is_empty()).then_some(AGENT_IDENTITIES);
        let secrets = (!self.task.secrets.is_empty()).then_some(AGENT_SECRETS);
        let needed =
            [allocs, helpers, identities, secrets].into_iter().flatten().map(|attribute| Constraint {
                attribute: attribute.to_owned(),
                operator: ConstraintOperator::In,
                values: vec!["yes".to_owned()],
                preference: None,
            });
        self.constraints.iter().cloned().chain(needed)
    }
}
