//! The nodes whose agents do not answer, so that what their tasks' rows say is known to be old.

use std::collections::BTreeSet;

use borough_model::node::silent_since_ms;
use borough_model::task::TaskRow;
use borough_model::{JobId, NodeId, NodeRow};

use super::state::{MirrorState, tasks_of};

/// The nodes whose agents do not answer, as far as the gateways know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SilentNodes(BTreeSet<NodeId>);

impl SilentNodes {
    /// Follows a node's row.
    pub(super) fn follow(&mut self, row: &NodeRow) {
        if silent_since_ms(&row.taints).is_some() {
            self.0.insert(row.id);
        } else {
            self.0.remove(&row.id);
        }
    }

    /// The node is gone.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}

impl MirrorState {
    /// Returns true if the row of a task says that it is healthy, and the agent of its node does not answer: nobody
    /// knows.
    pub fn is_unseen(&self, task: &TaskRow) -> bool {
        task.is_healthy() && task.node.is_some_and(|node| self.silent.0.contains(&node))
    }

    /// The tasks of a job of which nobody knows whether they are still healthy; by index.
    pub fn unseen_tasks(&self, job: JobId) -> Vec<&TaskRow> {
        let there = self.silent.0.iter().flat_map(|node| self.node_tasks_of(*node, tasks_of(job)));
        let mut unseen: Vec<&TaskRow> = there.map(|row| &**row).filter(|row| row.is_healthy()).collect();
        unseen.sort_unstable_by_key(|row| row.id);
        unseen
    }
}

#[cfg(test)]
mod tests {
    use borough_model::disruption::{DisruptionBudget, DisruptionCause};
    use borough_model::job::{JobKind, JobState, job_new};
    use borough_model::node::{SILENT_KEY, Taint, TaintEffect, node_new};
    use borough_model::task::{Health, TaskState};
    use borough_model::{Delta, Incarnation, JobRow, JobSpec, Name, RequestId, TaskId};

    use crate::journal::Listed;
    use crate::testing::node_facts;

    use super::*;

    /// Were such tasks counted as serving, a drain would end the others of a job whose tasks may be gone.
    #[test]
    fn tasks_of_a_node_that_does_not_answer_use_the_budget_of_their_job() {
        let job = JobId(1);
        let name = |text: &str| Name::new(text).unwrap();
        let spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["run".to_owned()]);
        let row = JobRow { count: 8, state: JobState::Running, ..job_new(job, &spec, RequestId(1), 0) };
        let budget = DisruptionBudget::of(&spec, &row, DisruptionCause::Move);
        let mut state = MirrorState::default();
        for index in 0..8 {
            let on = NodeId(u64::from(index % 4) + 1);
            let known = TaskRow::never_placed(TaskId { job, index });
            let (incarnation, health) = (Incarnation(1), Health::Healthy);
            let state_of = if index == 7 { TaskState::Stopping } else { TaskState::Running };
            let task = TaskRow { state: state_of, node: Some(on), revision: 1, incarnation, health, ..known };
            state.list(Listed::Row(Box::new(Delta::Task { row: task })));
        }
        let mut left = |id: u64, revision: u64, silence: &[&str]| {
            let taint = |key: &&str| {
                let (key, value) = ((*key).to_owned(), String::new());
                Taint { key, value, effect: TaintEffect::NoSchedule, added_ms: 5 }
            };
            let node = node_new(NodeId(id), name(&format!("n{id}")), node_facts(1), 0);
            let node = NodeRow { taints: silence.iter().map(taint).collect(), revision, ..node };
            state.list(Listed::Row(Box::new(Delta::Node { row: node })));
            let used = state.budget_use(&row, &budget, 0);
            let unseen = state.unseen_tasks(job).into_iter().map(|task| task.id.index).collect::<Vec<_>>();
            (used.away, used.left(&budget, 0), unseen)
        };
        assert_eq!(left(1, 1, &[]), (1, 1, vec![]), "a quarter may be away, and one ends");
        assert_eq!(left(4, 1, &[SILENT_KEY]), (2, 0, vec![3]), "the one that ends counts once");
        assert_eq!(left(1, 2, &["other"]), (2, 0, vec![3]));
        assert_eq!(left(2, 1, &[SILENT_KEY]), (2, 0, vec![1, 3, 5]), "no further look is needed");
        assert_eq!(left(2, 2, &[]), (2, 0, vec![3]));
        assert_eq!(left(4, 2, &[]), (1, 1, vec![]), "it answers again");
    }
}
