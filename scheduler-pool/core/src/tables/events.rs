//! The changes of the tables since the backlog last took them. Unschedulable tasks wait for such events.

use borough_model::JobId;
use smallvec::SmallVec;

use super::{ShapeId, TermId};

/// Changes of the tables, in any order. The backlog takes them after each change ([`TableEvents::take`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct TableEvents {
    pub changed: bool,
    /// A node was added or removed, or changed its attributes. Another domain may be the emptiest now.
    pub domains_changed: bool,
    /// A job's priority changed, so the priority of its resident tasks did.
    pub priorities_changed: bool,
    /// Nodes that were added, opened, changed, or freed capacity.
    pub freed: SmallVec<[u32; 2]>,
    /// Nodes that a task has left or is about to leave, or whose gang has gathered: evictions may succeed there now.
    pub leaving: SmallVec<[u32; 2]>,
    /// Terms with changed counts.
    pub terms: SmallVec<[TermId; 2]>,
    /// Jobs with a new row, spec or shape. What plans found out about them is void.
    pub jobs: SmallVec<[JobId; 2]>,
    /// Jobs with a changed task.
    pub tasks_of: SmallVec<[JobId; 2]>,
    pub jobs_removed: SmallVec<[JobId; 2]>,
    /// Numbers of shapes without users. Another shape may get them.
    pub shapes_released: SmallVec<[ShapeId; 2]>,
}

impl TableEvents {
    /// Records a node that was added, opened, changed, or freed capacity.
    pub(crate) fn node_freed(&mut self, node: u32) {
        self.changed = true;
        self.freed.push(node);
    }

    /// Records a change of a term's counts.
    pub(crate) fn term_counted(&mut self, term: TermId) {
        self.changed = true;
        self.terms.push(term);
    }

    /// Records a changed task of a job.
    pub(crate) fn task_changed(&mut self, job: JobId) {
        if self.tasks_of.last() != Some(&job) {
            self.tasks_of.push(job);
        }
    }

    /// Takes the changes since the last call.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
