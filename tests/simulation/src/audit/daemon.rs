//! The auditor's rules of daemon jobs: a task is for one node, begins there or nowhere, and is alone of its job there.

use borough_model::job::{Constraint, ConstraintOperator};
use borough_model::node::{NodeRow, Taint};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{JobRow, TaskId};

use super::Auditor;

impl Auditor {
    /// An attempt of a daemon job begins on the node that its task is for, and only while that node matches.
    pub(super) fn daemon_placed_check(&mut self, row: &TaskRow) {
        let is_daemon = self.jobs.get(&row.id.job).is_some_and(|job| job.daemon.is_some());
        let (task, own) = (row.id, row.daemon_node.as_deref().copied());
        self.require(is_daemon == own.is_some(), "daemon_node", || format!("{task} is for {own:?}"));
        let Some(own) = own else { return };
        self.note("daemon_placed");
        let node = row.node;
        self.require(node == Some(own), "daemon_node", || {
            format!("{task} is for {own}, and is placed on {node:?}")
        });
        let spec = self.specs.get(&task.job).cloned();
        let newest = self.jobs.get(&task.job).is_some_and(|job| job.spec_version == row.spec_version);
        let (Some(spec), Some(node)) = (spec.filter(|_| newest), self.nodes.get(&own).cloned()) else {
            return;
        };
        if !node.schedulable {
            self.note("daemon_on_cordoned");
        }
        let unmet = spec.constraints.iter().find(|one| !is_met(one, &node)).cloned();
        self.require(unmet.is_none(), "daemon_unmatched", || format!("{task} begins on {own}: {unmet:?}"));
        let is_kept_away = |taint: &&Taint| {
            taint.effect.refuses()
                && !taint.key.contains('/')
                && spec.tolerations.iter().all(|one| one.key != taint.key)
        };
        let tainted = node.taints.iter().find(is_kept_away).cloned();
        self.require(tainted.is_none(), "daemon_tainted", || format!("{task} begins on {own}: {tainted:?}"));
    }

    /// A daemon job has one live attempt on a node at most.
    pub(super) fn daemon_alone_check(&mut self, task: TaskId) {
        let Some(row) = self.tasks.get(&task).filter(|row| row.daemon_node.is_some()) else { return };
        let Some(node) = row.charged_node() else { return };
        let is_other = |other: &&TaskRow| other.id != task && other.charged_node() == Some(node);
        let other = self.tasks_of(task.job).find(is_other).map(|other| other.id);
        self.require(other.is_none(), "daemon_twice", || format!("{task} and {other:?} are on {node}"));
    }

    /// The tasks for which a rollout of a daemon job answers: those that serve a node, without those that had no room
    /// before it began.
    pub(super) fn daemon_answered_for(&self, job: &JobRow) -> u32 {
        let begun_ms = job.rollout.as_deref().map_or(i64::MAX, |rollout| rollout.begun_ms);
        let aside = |row: &TaskRow| match row.state {
            TaskState::Pending => row.failures == 0 && (row.spec_version == 0 || row.changed_ms < begun_ms),
            state => state == TaskState::Dead,
        };
        let tasks = self.tasks_of(job.id).filter(|row| row.id.index < job.count && !aside(row));
        u32::try_from(tasks.count()).unwrap_or(u32::MAX)
    }
}

/// The simulation's constraints: `in` and no other operator, of an attribute or a label.
fn is_met(constraint: &Constraint, node: &NodeRow) -> bool {
    let key = &constraint.attribute;
    let value = node.labels.get(key).or_else(|| node.attributes.get(key));
    constraint.operator != ConstraintOperator::In
        || value.is_some_and(|value| constraint.values.contains(value))
}
