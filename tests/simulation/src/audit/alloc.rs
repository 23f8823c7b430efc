//! The auditor's rules of allocs. None gives more than it holds, what is in one is on its node, and a node has its room
//! back only when nothing in the alloc runs.

use std::collections::BTreeMap;

use borough_model::task::{EndReason, StopReason, TaskRow, TaskState};
use borough_model::{Delta, JobId, JournalEntry, Resources, TaskId};

use super::{Auditor, over, resources_count};

impl Auditor {
    /// A task is placed into an alloc of its job's set that runs.
    pub(super) fn alloc_placed_check(&mut self, row: &TaskRow) {
        let set = self.jobs.get(&row.id.job).and_then(|job| job.alloc_set());
        let (task, place) = (row.id, row.alloc.as_deref());
        let own = place.map(|place| place.alloc.job);
        self.require(set == own, "alloc_set", || {
            format!("{task} is in an alloc of {own:?}, its set is {set:?}")
        });
        let Some(place) = place else { return };
        self.note("alloc_placed");
        let holder = self.tasks.get(&place.alloc).cloned();
        let is_open = holder.as_ref().is_some_and(|holder| {
            holder.state == TaskState::Running
                && holder.incarnation == place.attempt
                && holder.node == row.node
        });
        let holder = holder.map(|holder| (holder.state, holder.incarnation, holder.node));
        self.require(is_open, "alloc_open", || {
            format!("{task} is placed into {place:?}, which is {holder:?}")
        });
        let asked = self.specs.get(&task.job).map(|spec| spec.resources_for(task.index));
        let newest = self.jobs.get(&task.job).is_some_and(|job| job.spec_version == row.spec_version);
        let takes = asked.filter(|_| newest).is_none_or(|asked| *asked == place.resources);
        self.require(takes, "alloc_share", || format!("{task} takes {} of its alloc", place.resources));
    }

    /// An alloc that ended while its node was lost is over when the node returns. What is still in it returns with the
    /// node, and is ordered to stop after that.
    pub(super) fn alloc_ended_away_note(&mut self, row: &TaskRow) {
        let was_lost = self.tasks.get(&row.id).is_some_and(|before| before.state == TaskState::Lost);
        if was_lost && !row.state.is_charged() {
            self.allocs_ended_away.insert(row.id, row.incarnation);
        }
    }

    /// Checks the alloc that a task is in, or that it is.
    pub(super) fn alloc_check(&mut self, task: TaskId) {
        let place = self.tasks.get(&task).and_then(|row| row.in_alloc()).map(|place| place.alloc);
        let is_alloc = self.jobs.get(&task.job).is_some_and(|job| job.alloc_members().is_some());
        let Some(alloc) = place.or_else(|| is_alloc.then_some(task)) else { return };
        let Some(holder) = self.tasks.get(&alloc).cloned() else { return };
        let mut given = Resources::default();
        let (mut left, mut elsewhere) = (None, None);
        for row in self.tasks.values() {
            let Some(place) = row.in_alloc().filter(|place| place.alloc == alloc) else { continue };
            if place.attempt == holder.incarnation && holder.state.is_charged() {
                resources_count(&mut given, &place.resources);
                if row.node != holder.node {
                    elsewhere = Some(row.id);
                }
            } else if self.allocs_ended_away.get(&alloc) != Some(&place.attempt)
                && matches!(row.state, TaskState::Starting | TaskState::Running)
            {
                left = left.or(Some(row.id));
            }
        }
        let beyond = over(&given, &holder.charge.resources);
        self.require(beyond.is_empty(), "alloc_given", || format!("{alloc} gives {beyond:?} too much"));
        self.require(elsewhere.is_none(), "alloc_node", || format!("{elsewhere:?} is not where {alloc} is"));
        // A lost node has its tasks declared lost one part after the other, and a rebooted one runs none of them.
        let vanished = holder.state == TaskState::Lost
            || holder
                .exit
                .as_ref()
                .is_some_and(|exit| matches!(exit.reason, EndReason::NodeLost | EndReason::NodeRebooted));
        self.require(vanished || left.is_none(), "alloc_let_go", || {
            format!("{alloc} is {:?} again, and {left:?} still runs in it", holder.state)
        });
    }

    /// The healthy tasks in allocs that an entry ends, by job. They leave with their allocs.
    pub(super) fn alloc_left(&self, entry: &JournalEntry) -> BTreeMap<JobId, Vec<TaskId>> {
        let mut left: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for delta in &entry.deltas {
            if let Delta::Task { row } = delta
                && row.stop == Some(StopReason::AllocLeft)
                && self.tasks.get(&row.id).is_some_and(super::rollout::is_healthy)
            {
                left.entry(row.id.job).or_default().push(row.id);
            }
        }
        left
    }
}
