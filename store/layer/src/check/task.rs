//! Tasks: each row by itself, and against its job, its spec and its unit.

use borough_model::job::{JobRow, JobState};
use borough_model::task::machine::task_row_check;
use borough_model::task::{TaskRow, TaskState, UnitState};

use super::{CellRows, CheckMode, Violations};

pub(super) fn check(found: &mut Violations, rows: &CellRows, mode: CheckMode) {
    for (task, row) in &rows.tasks {
        found.require(row.id == *task, "task_key", || format!("{task} has the row of {}", row.id));
        if let Err(broken) = task_row_check(row) {
            found.require(false, "task_row", || broken.to_string());
        }
        spec_check(found, rows, row);
        unit_check(found, rows, row, mode);
        match rows.jobs.get(&task.job) {
            None => found.require(false, "task_job", || format!("{task} has no job")),
            Some(job) => wanted_check(found, job, row, mode),
        }
    }
}

/// A life has the ports and the share its spec says.
fn spec_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    if !row.state.is_charged() {
        return;
    }
    let Some(spec) = rows.specs.get(&(row.id.job, row.spec_version)) else {
        found.require(false, "task_spec", || {
            format!("{} runs version {}, which is not there", row.id, row.spec_version)
        });
        return;
    };
    let asked: Vec<_> = spec.task.ports.iter().map(|port| &port.name).collect();
    let given: Vec<_> = row.ports.iter().map(|port| &port.name).collect();
    found.require(asked == given, "task_ports", || {
        format!("{} asked for {asked:?} and has {given:?}", row.id)
    });
    let share = spec.resources_for(row.id.index);
    found.require(*share == row.charge.resources, "task_share", || {
        format!("{} asked for {share} and is charged {}", row.id, row.charge.resources)
    });
}

fn unit_check(found: &mut Violations, rows: &CellRows, row: &TaskRow, mode: CheckMode) {
    let Some(unit) = row.unit.filter(|_| row.state == TaskState::Held) else { return };
    let Some(unit) = rows.units.get(&unit) else {
        found.require(false, "unit_known", || format!("{} holds for {unit}, which is not there", row.id));
        return;
    };
    found.require(unit.job == row.id.job, "unit_job", || {
        format!("{} holds for {} of another job", row.id, unit.id)
    });
    found.require(row.unit_epoch <= unit.epoch, "unit_epoch", || {
        format!("{} holds at epoch {}, {} is at {}", row.id, row.unit_epoch, unit.id, unit.epoch)
    });
    let waits = unit.state == UnitState::Gathering && unit.epoch == row.unit_epoch;
    found.require(mode == CheckMode::Always || waits, "unit_settled", || {
        format!("{} still holds for {}, which is {:?}", row.id, unit.id, unit.state)
    });
}

/// Nothing runs for a job that has never been let go, nothing is left of one that was stopped, and once all is settled
/// nothing is left of what is not wanted.
fn wanted_check(found: &mut Violations, job: &JobRow, row: &TaskRow, mode: CheckMode) {
    let dead = row.state == TaskState::Dead;
    let pending = row.state == TaskState::Pending;
    let (name, state, task) = (&job.name, job.state, row.id);
    match state {
        JobState::Waiting => found.require(dead || pending, "job_waiting", || {
            format!("{task} of {name} is {:?}, though the job waits", row.state)
        }),
        JobState::Ended { .. } if row.id.index < job.count => {
            found.require(dead, "job_ended", || format!("{task} of {name} is {:?} after its end", row.state));
        }
        JobState::Running | JobState::Stopping | JobState::Ended { .. } => {}
    }
    let unwanted = row.id.index >= job.count || state == JobState::Stopping;
    found.require(mode == CheckMode::Always || dead || !unwanted, "unwanted_settled", || {
        format!("{task} of {name} is {:?}; the job is {state:?} with {} tasks", row.state, job.count)
    });
}
