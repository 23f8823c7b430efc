//! Checks jobs: names, specs, and counters that must agree with the rows of tasks.

use std::collections::BTreeSet;

use borough_model::job::{JobOutcome, JobRow, JobState};
use borough_model::task::{TaskState, Verdict};
use borough_model::{JobId, TaskId};

use super::{CellRows, CheckMode, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows, mode: CheckMode) {
    indexes_check(found, rows);
    for (job, row) in &rows.jobs {
        found.require(row.id == *job, "job_key", || {
            wrong(format!("job_row/{job}"), format!("the row of {}", row.id), format!("the row of {job}"))
        });
        parts_check(found, rows, row);
        counters_check(found, rows, row);
        daemon_check(found, rows, row);
        let settled = mode == CheckMode::Always || row.state != JobState::Stopping;
        found.require(settled, "job_settled", || {
            wrong(format!("job_row/{job}"), format!("{} is {:?}", row.name, row.state), "its end")
        });
    }
}

/// Every key of a job belongs to a job that exists.
fn indexes_check(found: &mut Violations, rows: &CellRows) {
    for ((user, name), job) in &rows.names {
        let same = rows.jobs.get(job).is_some_and(|row| row.user == *user && row.name == *name);
        found.require(same, "job_name", || {
            let row = rows.jobs.get(job).map(|row| (&row.user, &row.name));
            wrong(
                format!("job/{user}/{name}"),
                job.to_string(),
                format!("a job of this name; {job} is {row:?}"),
            )
        });
    }
    for (user, name, submitted_ms, job) in &rows.past {
        let own = |row: &JobRow| row.user == *user && row.name == *name && row.submitted_ms == *submitted_ms;
        found.require(rows.jobs.get(job).is_some_and(own), "job_past", || {
            let row = rows.jobs.get(job).map(|row| (&row.user, &row.name, row.submitted_ms));
            let key = format!("job_past/{user}/{name}/{submitted_ms}/{job}");
            wrong(key, "an entry", format!("nothing: {job} is {row:?}"))
        });
    }
    let specs = rows.specs.keys().map(|(job, version)| (format!("job_spec/{job}/{version}"), job));
    let gangs = rows.gangs.values().map(|gang| (format!("gang/{}", gang.id), &gang.job));
    for (job, version) in rows.specs.keys() {
        let gone = rows.jobs.get(job).and_then(JobRow::gone_versions);
        found.require(gone.is_none_or(|gone| !gone.has(*version)), "job_spec_gone", || {
            wrong(format!("job_spec/{job}/{version}"), "a spec", "nothing: its job says that it is gone")
        });
    }
    for (key, job) in specs.chain(gangs) {
        found.require(rows.jobs.contains_key(job), "job_known", || {
            wrong(key, "a row", format!("nothing: there is no job {job}"))
        });
    }
    for (id, gang) in &rows.gangs {
        found.require(gang.id == *id, "gang_key", || {
            wrong(format!("gang/{id}"), format!("the row of {}", gang.id), format!("the row of {id}"))
        });
    }
}

fn parts_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let (job, name) = (row.id, &row.name);
    let ended = matches!(row.state, JobState::Ended { .. });
    let named = rows.names.get(&(row.user.clone(), name.clone()));
    found.require(ended || named == Some(&job), "job_named", || {
        wrong(format!("job/{}/{name}", row.user), format!("{named:?}"), format!("{job}, which attempts"))
    });
    let past = (row.user.clone(), name.clone(), row.submitted_ms, job);
    found.require(named == Some(&job) || rows.past.contains(&past), "job_past", || {
        let key = format!("job_past/{}/{name}/{}/{job}", row.user, row.submitted_ms);
        wrong(key, "nothing", "an entry of the job")
    });
    found.require(rows.specs.contains_key(&(job, row.spec_version)), "job_spec", || {
        wrong(format!("job_spec/{job}/{}", row.spec_version), "nothing", "the version in force")
    });
}

fn counters_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let ended = |verdict| count(rows, row.id, row.count, verdict);
    let (succeeded, failed) = (ended(Verdict::Succeeded), ended(Verdict::Failed));
    let key = || format!("job_row/{}", row.id);
    found.require((row.succeeded, row.failed) == (succeeded, failed), "job_counters", || {
        let stored = format!("{} succeeded, {} failed", row.succeeded, row.failed);
        wrong(key(), stored, format!("{succeeded} succeeded, {failed} failed, by its tasks"))
    });
    let all = row.count > 0 && row.succeeded.saturating_add(row.failed) == row.count;
    let holds = match row.state {
        JobState::Ended { outcome: JobOutcome::Succeeded } => all && row.failed == 0,
        JobState::Ended { outcome: JobOutcome::Failed } => all && row.failed > 0,
        JobState::Running => !all,
        JobState::Waiting | JobState::Stopping | JobState::Ended { .. } => true,
    };
    found.require(holds, "job_outcome", || {
        let expected = format!("what follows from {succeeded} and {failed} of {}", row.count);
        wrong(key(), format!("{:?}", row.state), expected)
    });
}

/// A daemon job has a row for each index below its count, no two for one node, and counts those that it has withdrawn.
fn daemon_check(found: &mut Violations, rows: &CellRows, row: &JobRow) {
    let Some(daemon) = &row.daemon else { return };
    let of_job = TaskId { job: row.id, index: 0 }..=TaskId { job: row.id, index: u32::MAX };
    let tasks: Vec<_> = rows.tasks.range(of_job).map(|(_, task)| task).collect();
    let key = || format!("job_row/{}", row.id);
    let indexes = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    found.require(indexes == row.count, "daemon_rows", || {
        wrong(key(), format!("a count of {}", row.count), format!("{indexes}, the number of its rows"))
    });
    let withdrawn = tasks.iter().filter(|task| task.is_withdrawn()).count();
    let withdrawn = u32::try_from(withdrawn).unwrap_or(u32::MAX);
    found.require(daemon.withdrawn == withdrawn, "daemon_withdrawn", || {
        wrong(key(), format!("{} withdrawn", daemon.withdrawn), format!("{withdrawn}, by its tasks"))
    });
    let mut nodes = BTreeSet::new();
    for task in tasks.iter().filter(|task| task.node_served().is_some_and(|node| !nodes.insert(node))) {
        found.require(false, "daemon_node", || {
            wrong(format!("task/{}", task.id), "for a node that another one is for", "a node of its own")
        });
    }
}

fn count(rows: &CellRows, job: JobId, count: u32, verdict: Verdict) -> u32 {
    let below = rows.tasks.range(TaskId { job, index: 0 }..TaskId { job, index: count });
    let ended = below.filter(|(_, row)| row.state == TaskState::Dead && row.verdict == Some(verdict));
    u32::try_from(ended.count()).unwrap_or(u32::MAX)
}
