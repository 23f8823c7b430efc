//! The input of a plan: tasks that want a node, in the order in which they are planned.

use borough_model::{JobId, TaskId};
use smallvec::SmallVec;

use crate::preempt::PreemptionScope;
use crate::tables::{GangPart, ShapeId};

/// A task that wants a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTask {
    /// The task to place.
    pub task: TaskId,
    /// Its class, an index into [`PendingQueue::classes`].
    pub class: u32,
    /// The gang of which it may become a member, an index into [`PendingQueue::gangs`]. The tasks of a gang are
    /// neighbours.
    pub gang: Option<u32>,
}

/// Tasks of one job with the same request and the same preemption scope. A node that fits one fits all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingClass {
    /// The job of the tasks.
    pub job: JobId,
    pub(crate) shape: ShapeId,
    /// One number per user and priority. If a task of the class fits nowhere, the next task of its lane takes its turn.
    pub(crate) lane: u32,
    /// The preemption scope of its tasks.
    pub(crate) scope: PreemptionScope,
}

/// Tasks of one job of which enough are placed together, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingGang {
    /// The job of the tasks.
    pub job: JobId,
    /// How many members it still needs, by role.
    pub parts: SmallVec<[GangPart; 1]>,
}

impl PendingGang {
    /// How many members it still needs in all.
    pub fn need(&self) -> u32 {
        self.parts.iter().map(|part| part.need).sum()
    }
}

/// Tasks that want a node, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingQueue {
    /// The tasks, in the order in which they are planned.
    pub tasks: Vec<PendingTask>,
    /// The classes of these tasks.
    pub classes: Vec<PendingClass>,
    /// The gangs of these tasks.
    pub gangs: Vec<PendingGang>,
    /// When to plan again, in milliseconds since 1970: a task leaves its back-off, or a port has cooled down. Known
    /// only for jobs within the limit.
    pub later_ms: Option<i64>,
    /// True if the limit cut it short. The worker plans again at once, even if this plan places nothing.
    pub more: bool,
}
