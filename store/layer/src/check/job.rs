//! Jobs: names, specs, gates, and counters that are what the rows of tasks say.

use borough_model::job::{JobOutcome, JobRow, JobState};
use borough_model::task::{TaskState, Verdict};
use borough_model::{JobId, TaskId};

use super::{CellRows, CheckMode, Violations};

pub(super) fn check(found: &mut Violations, rows: &CellRows, mode: CheckMode) {
    for ((user, name), job) in &rows.names {
        let same = rows.jobs.get(job).is_some_and(|row| row.user == *user && row.name == *name);
        found.require(same, "job_name", || {
            format!("{user}/{name} leads to {job}, which has another name or is gone")
        });
    }
    for job in rows.gates.keys().chain(rows.specs.keys().map(|(job, _)| job)) {
        let known = rows.jobs.contains_key(job);
        found.require(known, "job_known", || format!("{job} has a gate or spec, but no row"));
    }
    for (job, row) in &rows.jobs {
        found.require(row.id == *job, "job_key", || format!("{job} has the row of {}", row.id));
        parts_check(found, rows, row);
        counters_check(found, rows, row);
        let settled = mode == CheckMode::Always || row.state != JobState::Stopping;
        found.require(settled, "job_settled", || format!("{job} {} is still stopping", row.name));
    }
}

fn parts_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let (job, name) = (row.id, &row.name);
    let ended = matches!(row.state, JobState::Ended { .. });
    let named = rows.names.get(&(row.user.clone(), name.clone())) == Some(&job);
    found.require(ended || named, "job_named", || format!("{job} lives, but {name} does not lead to it"));
    let gate = rows.gates.get(&job).is_some_and(|gate| gate.revision <= row.revision);
    found.require(gate, "job_gate", || format!("{job} has no gate, or one newer than its row"));
    let spec = rows.specs.contains_key(&(job, row.spec_version));
    found.require(spec, "job_spec", || format!("{job} has no version {}", row.spec_version));
}

fn counters_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let ended = |verdict| count(rows, row.id, row.count, verdict);
    let (succeeded, failed) = (ended(Verdict::Succeeded), ended(Verdict::Failed));
    found.require((row.succeeded, row.failed) == (succeeded, failed), "job_counters", || {
        let said = format!("{} succeeded and {} failed", row.succeeded, row.failed);
        format!("{} says that {said}; of its rows {succeeded} and {failed} did", row.id)
    });
    let all = row.count > 0 && row.succeeded.saturating_add(row.failed) == row.count;
    let holds = match row.state {
        JobState::Ended { outcome: JobOutcome::Succeeded } => all && row.failed == 0,
        JobState::Ended { outcome: JobOutcome::Failed } => all && row.failed > 0,
        JobState::Running => !all,
        JobState::Waiting | JobState::Stopping | JobState::Ended { .. } => true,
    };
    found.require(holds, "job_outcome", || {
        format!("{} is {:?} with {succeeded} and {failed} of {}", row.id, row.state, row.count)
    });
}

fn count(rows: &CellRows, job: JobId, count: u32, verdict: Verdict) -> u32 {
    let below = rows.tasks.range(TaskId { job, index: 0 }..TaskId { job, index: count });
    let ended = below.filter(|(_, row)| row.state == TaskState::Dead && row.verdict == Some(verdict));
    u32::try_from(ended.count()).unwrap_or(u32::MAX)
}
