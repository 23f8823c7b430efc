//! Tasks: their rows, agents' reports about them, and the actions of controllers and owners.
//!
//! Every change of a row is a transition of the one state machine in `borough-model`, applied through a [`TaskBook`].
//! The book carries out all effects of the transition in the same commit: the node's commitment and index, the
//! endpoint, the job's counters, the charge. Placement is the one exception: it commits without reading, see
//! [`crate::placement`].
//!
//! `node_tasks` contains the tasks that are charged to a node, and those that were lost with it and not yet
//! rescheduled.

mod alloc;
mod apply;
mod book;
mod disrupt;
mod hold;
mod operate;
mod promise;
mod read;
mod report;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use alloc::{AllocsLeave, AllocsLeaving, allocs_leaving};
pub use apply::task_report_apply;
pub use book::{TaskBook, is_on_node};
pub use disrupt::{TaskMoves, moves_surge_begin, moves_surge_end, tasks_move};
pub use hold::{GangHold, gang_hold, gang_holds_settle};
pub(crate) use operate::attempts_apply;
pub use operate::{
    TaskSweep, task_attempt_stop, task_node_lost, task_reschedule_lost, task_restart, task_stop_begin,
    task_unwanted_stop, task_wanted_revive,
};
pub use promise::task_promises_expire;
pub use read::{TaskPage, task_list_by_node, tasks_read_snapshot};
pub(crate) use read::{attempts_read, job_tasks_read};
pub use report::{ReportAnswer, ReportPhase, ResizeReport, TaskReport};

pub use crate::row::ConstraintToken;
