//! What a plan is asked for: tasks that want a node, in the order in which they are planned.

use borough_model::{JobId, TaskId};
use smallvec::SmallVec;

use crate::preempt::PreemptionScope;
use crate::tables::{GangPart, ShapeId};

/// A task that wants a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTask {
    /// The task.
    pub task: TaskId,
    /// Its class, an index into [`PendingQueue::classes`].
    pub class: u32,
    /// The gang it is a possible member of, an index into [`PendingQueue::gangs`]. They are neighbours.
    pub gang: Option<u32>,
}

/// Tasks of one job that ask the same, and whom the same may give way to: what fits one fits all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingClass {
    /// The job.
    pub job: JobId,
    pub(crate) shape: ShapeId,
    /// One number per user and priority: who gives up a turn where a task of the class fits nowhere.
    pub(crate) lane: u32,
    /// Whose places a task of the class may take.
    pub(crate) scope: PreemptionScope,
}

/// Tasks of one job of which so many are placed together, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingGang {
    /// The job.
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

/// What wants placing, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingQueue {
    /// The tasks.
    pub tasks: Vec<PendingTask>,
    /// Their classes.
    pub classes: Vec<PendingClass>,
    /// Gangs.
    pub gangs: Vec<PendingGang>,
    /// Look again then (milliseconds since 1970): a task leaves its back-off, or a port has cooled down. Only known of
    /// jobs within the limit.
    pub later_ms: Option<i64>,
    /// Whether the limit cut it short: look again at once, also where nothing of it could be placed.
    pub more: bool,
}
