//! What a job has to do with allocs: it is a set of them, or its tasks run in those of a set.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::validate::{variable_part, variables_named};
use super::{JobKind, JobRow, JobSpec, JobState};
use crate::field_error::FieldError;
use crate::id::{JobId, Name};
use crate::resource::{Resources, Shortfall, resources_add, resources_multiply, shortfall};

/// What an alloc runs: a process that holds its place until it is ended.
pub const ALLOC_COMMAND: [&str; 2] = ["sleep", "infinity"];

/// What the variables of an alloc's ports begin with.
const PORT_PREFIX: &str = "BOROUGH_ALLOC_PORT_";

/// Most jobs in an alloc set. Its row names them.
pub const MEMBERS_MAX: usize = 64;

/// Most tasks of a job in an alloc set: a transaction that ends an alloc reads all rows of the jobs in it.
pub const MEMBER_TASKS_MAX: u32 = 1_024;

/// What a job has to do with allocs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobAlloc {
    /// It is an alloc set.
    #[n(0)]
    Set {
        /// The jobs in it. Some of them may have ended.
        #[n(0)]
        members: Vec<JobId>,
    },
    /// Its tasks run in the allocs of a set.
    #[n(1)]
    Member {
        #[n(0)]
        set: JobId,
    },
}

impl JobAlloc {
    /// What the row of a new job says. A member learns its set when it is admitted.
    pub(super) fn of_new(spec: &JobSpec) -> Option<Box<Self>> {
        (spec.kind == JobKind::AllocSet).then(|| Box::new(Self::Set { members: Vec::new() }))
    }
}

impl JobRow {
    /// The alloc set that has its tasks; `None`: they have places of their own.
    pub fn alloc_set(&self) -> Option<JobId> {
        match self.alloc.as_deref() {
            Some(JobAlloc::Member { set }) => Some(*set),
            Some(JobAlloc::Set { .. }) | None => None,
        }
    }

    /// The jobs in it, if it is an alloc set. Some of them may have ended.
    pub fn alloc_members(&self) -> Option<&[JobId]> {
        match self.alloc.as_deref() {
            Some(JobAlloc::Set { members }) => Some(members),
            Some(JobAlloc::Member { .. }) | None => None,
        }
    }
}

impl JobSpec {
    /// What the task `index` takes of its node and of the quota: nothing if it runs in an alloc, which has both
    /// already.
    pub fn node_resources_for(&self, index: u32) -> Resources {
        if self.alloc_set.is_some() { Resources::default() } else { self.resources_for(index).into_owned() }
    }

    /// What the task `index` takes of an alloc.
    pub fn alloc_resources_for(&self, index: u32) -> Resources {
        if self.alloc_set.is_some() { self.resources_for(index).into_owned() } else { Resources::default() }
    }
}

/// The first task of a job that no alloc of a set can ever hold, with what it lacks; `None`: each fits an empty alloc.
fn member_lacks(member: &JobSpec, set: &JobSpec) -> Option<(u32, Vec<Shortfall>)> {
    let holds = &set.task.resources;
    // Tasks without an override are alike: the first of them speaks for all.
    let plain = (0..member.count).find(|index| !member.overrides.contains_key(index));
    let indexes = plain.into_iter().chain(member.overrides.keys().copied());
    let mut lacking = indexes.map(|index| (index, shortfall(&member.resources_for(index), holds)));
    lacking.find(|(_, lacking)| !lacking.is_empty())
}

/// Checks a new job that names an alloc set. `set` is the job of that name that has not ended, with its spec in force;
/// `members` is how many jobs are in it.
pub fn member_check(
    member: &JobSpec,
    set: Option<(&JobRow, &JobSpec)>,
    members: usize,
) -> Result<(), FieldError> {
    let Some(name) = &member.alloc_set else { return Ok(()) };
    let refused = |value: String, accepted: &str| {
        Err(FieldError { path: "alloc_set".to_owned(), value, accepted: accepted.to_owned() })
    };
    let Some((row, spec)) = set else {
        let value = format!("{name}, and {} has no such job that runs", member.user);
        return refused(value, "an alloc set of the same user: submit a job with `kind: alloc_set` first");
    };
    if row.alloc_members().is_none() {
        return refused(format!("{name}, which is no alloc set"), "a job with `kind: alloc_set`");
    }
    if row.state == JobState::Stopping {
        return refused(format!("{name}, which is stopping"), "an alloc set that runs");
    }
    if members >= MEMBERS_MAX {
        let accepted = format!("an alloc set with less than {MEMBERS_MAX} jobs in it");
        return refused(format!("{name}, which has {members} jobs in it"), &accepted);
    }
    member_fits(member, spec)
}

/// Refuses a job with a task that no alloc of the set can ever hold, or that names a port that no alloc has.
pub fn member_fits(member: &JobSpec, set: &JobSpec) -> Result<(), FieldError> {
    if let Some((path, name)) = ports_lacking(member, set).next() {
        let ports: Vec<String> =
            set.task.ports.iter().map(|port| format!("${{{}}}", port_variable(&port.name))).collect();
        let accepted = match ports.as_slice() {
            [] => format!("no port, since the allocs of {} have none", set.name),
            ports => format!("a port of the allocs of {}: {}", set.name, ports.join(", ")),
        };
        return Err(FieldError { path, value: format!("${{{name}}}"), accepted });
    }
    let Some((index, lacking)) = member_lacks(member, set) else { return Ok(()) };
    let is_own = member.overrides.get(&index).is_some_and(|own| own.resources.is_some());
    let path = if is_own { format!("overrides[{index}].resources") } else { "task.resources".to_owned() };
    let asked =
        |short: &Shortfall| format!("{} {}", short.dimension, short.dimension.amount_display(short.needed));
    let value = lacking.iter().map(asked).collect::<Vec<_>>().join(", ");
    let accepted = format!("at most what an alloc of {} holds: {}", set.name, set.task.resources);
    Err(FieldError { path, value, accepted })
}

/// Refuses a change of an alloc set that takes room from the jobs in it. Each alloc must hold each of their tasks.
/// Where all allocs together come to hold less, it must be enough for all tasks. `before` and `after` have the counts
/// in force; `members` are the specs in force of the jobs in it.
pub fn set_change_check(before: &JobSpec, after: &JobSpec, members: &[JobSpec]) -> Result<(), FieldError> {
    members.iter().try_for_each(|member| each_alloc_holds(after, member))?;
    members.iter().try_for_each(|member| ports_kept(before, after, member))?;
    all_allocs_hold(before, after, members)
}

/// The variable with the number of a port of an alloc.
fn port_variable(port: &Name) -> String {
    format!("{PORT_PREFIX}{}", variable_part(port))
}

/// The ports of allocs that commands of the job name, and that allocs of the set do not have.
fn ports_lacking<'m>(member: &'m JobSpec, set: &JobSpec) -> impl Iterator<Item = (String, &'m str)> {
    let known: BTreeSet<String> = set.task.ports.iter().map(|port| port_variable(&port.name)).collect();
    let named = variables_named(member).into_iter();
    named.filter(move |(_, name)| name.starts_with(PORT_PREFIX) && !known.contains(*name))
}

/// Refuses to take a port that a job in the set names: each of its tasks would fail at its start.
fn ports_kept(before: &JobSpec, after: &JobSpec, member: &JobSpec) -> Result<(), FieldError> {
    let lacked: BTreeSet<&str> = ports_lacking(member, before).map(|(_, name)| name).collect();
    let Some((_, name)) = ports_lacking(member, after).find(|(_, name)| !lacked.contains(name)) else {
        return Ok(());
    };
    let ports: Vec<&str> = after.task.ports.iter().map(|port| port.name.as_str()).collect();
    let value = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
    let accepted = format!(
        "also that of ${{{name}}}, which a command of job {}/{} in it names",
        member.user, member.name
    );
    Err(FieldError { path: "task.ports".to_owned(), value, accepted })
}

fn each_alloc_holds(set: &JobSpec, member: &JobSpec) -> Result<(), FieldError> {
    let Some((index, _)) = member_lacks(member, set) else { return Ok(()) };
    let (path, value) = ("task.resources".to_owned(), set.task.resources.to_string());
    let asked = member.resources_for(index);
    let accepted =
        format!("at least what task {}/{}/{index}, which is in it, takes: {asked}", member.user, member.name);
    Err(FieldError { path, value, accepted })
}

fn all_allocs_hold(before: &JobSpec, after: &JobSpec, members: &[JobSpec]) -> Result<(), FieldError> {
    let held = |set: &JobSpec| resources_multiply(&set.task.resources, set.count);
    // Amounts beyond all bounds hold everything.
    let Ok(left) = held(after) else { return Ok(()) };
    let shrinks = held(before).map(|held| shortfall(&held, &left));
    let shrinks = |short: &Shortfall| {
        shrinks.as_ref().map_or(true, |all| all.iter().any(|lost| lost.dimension == short.dimension))
    };
    let tasks =
        members.iter().flat_map(|member| (0..member.count).map(|index| member.alloc_resources_for(index)));
    let needed = tasks.fold(Resources::default(), |sum, one| resources_add(&sum, &one).unwrap_or(sum));
    let is_short = shortfall(&needed, &left).iter().any(shrinks);
    let has_no_place = after.count == 0 && before.count > 0 && members.iter().any(|member| member.count > 0);
    if !is_short && !has_no_place {
        return Ok(());
    }
    let (path, value) = if after.count < before.count {
        ("count", after.count.to_string())
    } else {
        ("task.resources", after.task.resources.to_string())
    };
    let names = members.iter().map(|member| format!("{}/{}", member.user, member.name)).collect::<Vec<_>>();
    let allocs = if after.count == 1 { "an alloc that holds" } else { "allocs that together hold" };
    let accepted = format!(
        "{allocs} what all tasks of the jobs in the set take, {needed}; scale or stop one of these first: {}",
        names.join(", ")
    );
    Err(FieldError { path: path.to_owned(), value, accepted })
}

/// Why an alloc set with these jobs in it does not end.
pub fn set_stop_refused<'r>(set: &JobRow, members: impl IntoIterator<Item = &'r JobRow>) -> Option<String> {
    let rows: Vec<&JobRow> = members.into_iter().collect();
    let end = if rows.iter().all(|row| row.state == JobState::Stopping) { "Wait for" } else { "Stop" };
    let members: Vec<String> = rows.iter().map(|row| format!("{}/{}", row.user, row.name)).collect();
    let (jobs, them) = match members.len() {
        0 => return None,
        1 => ("a job".to_owned(), "it"),
        many => (format!("{many} jobs"), "them"),
    };
    Some(format!(
        "alloc set {}/{} has {jobs} in it: {}. {end} {them} first: borough job stop {}",
        set.user,
        set.name,
        members.join(", "),
        members.join(" ")
    ))
}
