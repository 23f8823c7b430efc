//! What each task of a running job needs by a changed file: nothing, another weight or a resize in place, or another
//! attempt.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::FieldChange;
use borough_model::node::{node_free, node_resizes};
use borough_model::resize::{amounts_only, attempt_diff, resize_prevented, with_cards_of};
use borough_model::resource::{Resources, resources_add, resources_less, shortfall};
use borough_model::{JobId, JobRow, JobSpec, NodeId, TaskId, TaskRow, TaskState};
use borough_proto::v1;
use borough_proto::v1::planned_need::Need;
use borough_scheduler_core::DryRunTask;
use borough_store::mirror::MirrorState;

/// The attempts that a rollout would change in place.
#[derive(Debug, Default)]
pub(super) struct PlannedInPlace {
    /// Those that run as before: at most their endpoints get another weight.
    adopted: BTreeSet<u32>,
    resized: Vec<u32>,
    /// Why others that differ in amounts only are replaced.
    refused: BTreeMap<u32, String>,
    /// What the attempts before take of their nodes beyond what they have.
    taken: BTreeMap<NodeId, Resources>,
}

impl PlannedInPlace {
    /// Takes an attempt that runs as before.
    pub(super) fn adopt(&mut self, index: u32) {
        self.adopted.insert(index);
    }

    /// Takes an attempt that differs in amounts only. Returns true if it would be resized in place.
    pub(super) fn resize(&mut self, state: &MirrorState, task: &TaskRow, spec: &JobSpec) -> bool {
        match self.refusal(state, task, spec) {
            None => self.resized.push(task.id.index),
            Some(why) => drop(self.refused.insert(task.id.index, why)),
        }
        !self.refused.contains_key(&task.id.index)
    }

    /// Looks again at what would be resized, once the new tasks of the plan have their nodes: they are placed at once,
    /// and a rollout resizes step by step. Returns the attempts that are replaced instead.
    pub(super) fn crowd(
        &mut self,
        state: &MirrorState,
        job: JobId,
        spec: &JobSpec,
        placements: &[DryRunTask],
    ) -> Vec<TaskRow> {
        self.taken.clear();
        // The tasks of an alloc take nothing of its node.
        for placement in placements.iter().filter(|placement| !placement.again && placement.alloc.is_none()) {
            let taken = self.taken.entry(placement.node).or_default();
            *taken =
                resources_add(taken, &spec.resources_for(placement.index)).unwrap_or_else(|_| taken.clone());
        }
        let mut replaced = Vec::new();
        for index in std::mem::take(&mut self.resized) {
            let Some(task) = state.tasks().get(&TaskId { job, index }).cloned() else { continue };
            if !self.resize(state, &task, spec) {
                replaced.push((*task).clone());
            }
        }
        replaced
    }

    fn refusal(&mut self, state: &MirrorState, task: &TaskRow, spec: &JobSpec) -> Option<String> {
        if task.state != TaskState::Running {
            return Some("it does not run yet".to_owned());
        }
        let Some(node) = task.node.and_then(|node| state.nodes().get(&node)) else {
            return Some("its node is gone".to_owned());
        };
        if !node_resizes(node) {
            return Some(format!("the agent of its node {} is of a version that does not resize", node.name));
        }
        let charge = &task.charge.resources;
        let granted = with_cards_of(&spec.resources_for(task.id.index), charge);
        let more = resources_less(&granted, charge);
        let taken = self.taken.entry(node.id).or_default();
        let alloc = state.allocs().get(&node.id).cloned().unwrap_or_default();
        let missing = shortfall(&more, &resources_less(&node_free(&node.capacity, &alloc), taken));
        if missing.is_empty() {
            *taken = resources_add(taken, &more).unwrap_or_else(|_| taken.clone());
            return None;
        }
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        Some(format!("its node {} has no room to resize it in place: {}", node.name, missing.join("; ")))
    }
}

/// What a file changes for attempts of one version.
struct VersionDiff {
    before: JobSpec,
    changes: Vec<FieldChange>,
}

/// What each task of a running job needs, if a rollout changes some in place and replaces `replaced`.
pub(super) fn planned_needs(
    state: &MirrorState,
    row: &JobRow,
    spec: &JobSpec,
    in_place: &PlannedInPlace,
    replaced: &BTreeSet<u32>,
) -> Vec<v1::PlannedNeed> {
    let Some(in_force) = state.spec_of(row).map(|in_force| in_force.in_force(row)) else { return Vec::new() };
    // Tasks beyond the new count end. The owner of a daemon job decides about no count.
    let count = if row.daemon.is_some() { row.owner_count() } else { row.owner_count().min(spec.count) };
    let mut versions: BTreeMap<u32, VersionDiff> = BTreeMap::new();
    let mut groups: BTreeMap<(i32, String), Vec<u32>> = BTreeMap::new();
    // A node that is gone has left its daemon task behind.
    let is_gone = |task: &TaskRow| row.daemon.is_some() && task.state == TaskState::Dead;
    for task in state.job_tasks(row.id).filter(|task| task.id.index < count && !is_gone(task)) {
        let index = task.id.index;
        // After a failed rollout, an attempt may have another version than the one in force.
        let VersionDiff { before, changes } = versions.entry(task.spec_version).or_insert_with(|| {
            let own = state.spec(row.id, task.spec_version).map(|own| own.in_force(row));
            let before = own.unwrap_or_else(|| in_force.clone());
            VersionDiff { changes: attempt_diff(&before, spec), before }
        });
        let fields = fields_for(changes, index);
        let (need, why) = if in_place.adopted.contains(&index) {
            let weighs = before.weight_for(index) != spec.weight_for(index);
            if weighs { (Need::Weight, fields.join(", ")) } else { (Need::Nothing, String::new()) }
        } else if in_place.resized.contains(&index) {
            (Need::Resize, fields.join(", "))
        } else if replaced.contains(&index) {
            let of_job = || resize_prevented(spec).filter(|_| amounts_only(before, spec, index));
            let why = in_place.refused.get(&index).cloned().or_else(|| of_job().map(str::to_owned));
            let why = why.map(|why| format!("; {why}")).unwrap_or_default();
            (Need::Replace, format!("{}{why}", fields.join(", ")))
        } else {
            (Need::Nothing, String::new())
        };
        groups.entry((need.into(), why)).or_default().push(index);
    }
    groups.into_iter().map(|((need, why), indexes)| v1::PlannedNeed { need, indexes, why }).collect()
}

/// The fields of a file that differ for a task.
fn fields_for(changes: &[FieldChange], index: u32) -> Vec<&str> {
    let own = format!("overrides.{index}");
    let is_below = |path: &str, field: &str| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let concerns = |path: &&str| !is_below(path, "overrides") || is_below(path, &own);
    changes.iter().map(|change| change.path.as_str()).filter(concerns).collect()
}

/// The nodes of the attempts that a rollout ends first.
pub(super) fn nodes_before(response: &mut v1::PlanJobResponse, state: &MirrorState, job: JobId) {
    for placement in response.placements.iter_mut().filter(|placement| placement.again) {
        let task = state.tasks().get(&TaskId { job, index: placement.index });
        let node = task.and_then(|task| task.node).and_then(|node| state.nodes().get(&node));
        placement.from = node.map(|node| node.name.to_string()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_concerned_by_its_own_fields_and_by_those_of_all() {
        let change = |path: &str| FieldChange { path: path.to_owned(), old: None, new: None };
        let changes =
            ["task.resources.memory", "overrides.1.resources.cpu", "overrides.12.command[0]"].map(change);
        assert_eq!(fields_for(&changes, 0), ["task.resources.memory"]);
        assert_eq!(fields_for(&changes, 1), ["task.resources.memory", "overrides.1.resources.cpu"]);
    }
}
