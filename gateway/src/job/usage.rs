//! What the tasks of a job are charged for, and what they use by the last samples of their agents.

use std::collections::BTreeMap;

use borough_model::{JobId, JobRow, TaskRow};
use borough_proto::v1;

use crate::cell::{CellContext, KeptUsage};
use crate::session::desired::DesiredAttempt;

/// Tasks that are read under one hold of the mirror's lock.
const PART_TASKS: usize = 1_024;

/// The sums of `jobs`. One that may not be made yet is as old as the last one, and absent without one.
pub(super) async fn job_usages(cell: &CellContext, jobs: &[&JobRow]) -> BTreeMap<JobId, v1::JobUsage> {
    let counts: Vec<(JobId, u32)> = jobs.iter().map(|row| (row.id, row.count)).collect();
    let due = cell.job_usages.due(&counts, cell.machine.monotonic());
    for (job, counted) in due {
        let (usage, read) = job_usage(cell, job).await;
        let summed = KeptUsage { usage, at: cell.machine.monotonic() };
        cell.job_usages.put(job, summed, read.saturating_sub(counted));
        tokio::task::yield_now().await;
    }
    counts.iter().filter_map(|(job, _)| Some((*job, cell.job_usages.of(*job)?))).collect()
}

/// Sums over the tasks of a job, and how many were read. Rows may change meanwhile: the sums are right to within what
/// has changed.
async fn job_usage(cell: &CellContext, job: JobId) -> (v1::JobUsage, i64) {
    let (mut sum, mut read, mut after) = (v1::JobUsage::default(), 0_i64, None);
    loop {
        let part: Vec<_> = cell
            .mirror
            .read(|state| state.job_tasks_behind(job, after).take(PART_TASKS).map(Clone::clone).collect());
        let Some(last) = part.last() else { return (sum, read) };
        read = read.saturating_add(i64::try_from(part.len()).unwrap_or(i64::MAX));
        after = Some(last.id.index);
        part.iter().for_each(|row| usage_add(&mut sum, row, sample(cell, row).as_ref()));
        tokio::task::yield_now().await;
    }
}

fn sample(cell: &CellContext, row: &TaskRow) -> Option<v1::Usage> {
    let session = cell.sessions.get(row.charged_node()?)?;
    session.usage(DesiredAttempt { task: row.id, incarnation: row.incarnation })
}

/// Adds a task. One that no node is charged for uses nothing.
fn usage_add(sum: &mut v1::JobUsage, row: &TaskRow, sample: Option<&v1::Usage>) {
    if row.charged_node().is_none() {
        return;
    }
    let charge = &row.charge.resources;
    sum.charged = sum.charged.saturating_add(1);
    sum.charged_cpu_millis = sum.charged_cpu_millis.saturating_add(charge.cpu_millis);
    sum.charged_memory_bytes = sum.charged_memory_bytes.saturating_add(charge.memory_bytes);
    if let Some(sample) = sample {
        sum.sampled = sum.sampled.saturating_add(1);
        sum.cpu_millis = sum.cpu_millis.saturating_add(sample.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(sample.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use borough_model::{NodeId, Resources, TaskId, TaskState};

    use super::*;

    #[test]
    fn charges_and_samples_are_summed_over_the_tasks_that_a_node_is_charged_for() {
        let row = |index, state| {
            let mut row = TaskRow::never_placed(TaskId { job: JobId(1), index });
            row.charge.resources =
                Resources { cpu_millis: 100, memory_bytes: 1 << 20, ..Resources::default() };
            TaskRow { state, node: Some(NodeId(1)), ..row }
        };
        let sample = v1::Usage { cpu_millis: 30, memory_bytes: 5, ..v1::Usage::default() };
        let mut sum = v1::JobUsage::default();
        usage_add(&mut sum, &row(0, TaskState::Running), Some(&sample));
        usage_add(&mut sum, &row(1, TaskState::Running), Some(&sample));
        usage_add(&mut sum, &row(2, TaskState::Starting), None);
        usage_add(&mut sum, &row(3, TaskState::Dead), Some(&sample));
        usage_add(&mut sum, &row(4, TaskState::Pending), None);
        let expected = v1::JobUsage {
            charged: 3,
            charged_cpu_millis: 300,
            charged_memory_bytes: 3 << 20,
            sampled: 2,
            cpu_millis: 60,
            memory_bytes: 10,
        };
        assert_eq!(sum, expected);
    }
}
