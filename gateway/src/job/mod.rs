//! `JobService`: admitting, planning, scaling, stopping and showing jobs.

mod admit;
mod plan;
mod service;

#[cfg(test)]
mod tests;

use borough_model::JobRow;
use borough_model::job::JobState;
use borough_proto::convert::{job_to_message, task_counts_add};
use borough_proto::v1;
use borough_store::mirror::MirrorState;

use crate::cell::CellContext;

pub use plan::{explanation_message, scheduler_named};
pub use service::JobServer;

/// Counts a job's tasks by state. Tasks that were never placed count as pending.
pub fn job_counts(state: &MirrorState, row: &JobRow) -> v1::TaskCounts {
    let mut counts = v1::TaskCounts::default();
    let mut known = 0_u32;
    for task in state.job_tasks(row.id) {
        task_counts_add(&mut counts, task);
        known = known.saturating_add(u32::from(task.id.index < row.count && !task.is_spared()));
    }
    if matches!(row.state, JobState::Waiting | JobState::Running) {
        counts.pending = counts.pending.saturating_add(row.count.saturating_sub(known));
    }
    counts
}

/// Converts a job of the mirror to a message.
pub fn job_message(cell: &CellContext, state: &MirrorState, row: &JobRow) -> v1::Job {
    let spec = state.spec_of(row);
    job_to_message(&cell.name, row, spec.as_deref(), job_counts(state, row))
}
