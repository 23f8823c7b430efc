//! What has changed in the tables since somebody last asked: what tasks that fit nowhere wait for.

use borough_model::JobId;
use smallvec::SmallVec;

use super::{ShapeId, TermId};

/// Changes of the tables, in any order. Whoever follows them takes them after each change ([`TableEvents::take`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct TableEvents {
    /// Anything on any node.
    pub changed: bool,
    /// A node came, went or has other attributes: other domains may be the emptiest.
    pub domains_changed: bool,
    /// A job has another priority than its tasks were known by.
    pub priorities_changed: bool,
    /// Nodes that came, opened, changed or got something back.
    pub freed: SmallVec<[u32; 2]>,
    /// Nodes of which a task is on its way out: evictions may help there now.
    pub leaving: SmallVec<[u32; 2]>,
    /// Terms whose counts have changed.
    pub terms: SmallVec<[TermId; 2]>,
    /// Jobs with another row, spec or shape: what was found out about them is void.
    pub jobs: SmallVec<[JobId; 2]>,
    /// Jobs of which a task has changed.
    pub tasks_of: SmallVec<[JobId; 2]>,
    /// Jobs that are forgotten.
    pub jobs_removed: SmallVec<[JobId; 2]>,
    /// Numbers of shapes that nobody asks for any more, free for others.
    pub shapes_released: SmallVec<[ShapeId; 2]>,
}

impl TableEvents {
    /// A node came, opened, changed or got something back.
    pub fn node_freed(&mut self, node: u32) {
        self.changed = true;
        self.freed.push(node);
    }

    /// The counts of a term have changed.
    pub fn term_counted(&mut self, term: TermId) {
        self.changed = true;
        self.terms.push(term);
    }

    /// A task of a job has changed.
    pub fn task_changed(&mut self, job: JobId) {
        if self.tasks_of.last() != Some(&job) {
            self.tasks_of.push(job);
        }
    }

    /// What has changed since the last call.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}
