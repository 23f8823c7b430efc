//! Tasks: each row by itself, and against its job, its spec and its unit.

use borough_model::job::{JobRow, JobState};
use borough_model::task::machine::task_row_check;
use borough_model::task::{TaskRow, TaskState, UnitState};

use borough_model::TaskId;

use super::{CellRows, CheckMode, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows, mode: CheckMode) {
    if mode == CheckMode::Settled {
        waiting_check(found, rows);
    }
    for (task, row) in &rows.tasks {
        let key = || format!("task/{task}");
        found.require(row.id == *task, "task_key", || {
            wrong(key(), format!("the row of {}", row.id), format!("the row of {task}"))
        });
        if let Err(broken) = task_row_check(row) {
            found.require(false, "task_row", || wrong(key(), format!("{row:?}"), broken.to_string()));
        }
        spec_check(found, rows, row);
        unit_check(found, rows, row, mode);
        match rows.jobs.get(&task.job) {
            None => found.require(false, "task_job", || {
                wrong(key(), "a row", format!("nothing: there is no job {}", task.job))
            }),
            Some(job) => wanted_check(found, job, row, mode),
        }
    }
}

/// A unit that waits for victims has all its members.
fn waiting_check(found: &mut Violations, rows: &CellRows) {
    for unit in rows.units.values().filter(|unit| unit.state == UnitState::Waiting) {
        let of_job = TaskId { job: unit.job, index: 0 }..=TaskId { job: unit.job, index: u32::MAX };
        let holds = |row: &TaskRow| {
            row.state == TaskState::Held && row.unit == Some(unit.id) && row.unit_epoch == unit.epoch
        };
        let holding = rows.tasks.range(of_job).filter(|(_, row)| holds(row)).count();
        found.require(holding >= unit.min_member as usize, "unit_waiting", || {
            let stored = format!("{holding} members that hold, while it waits for victims");
            wrong(format!("unit/{}", unit.id), stored, format!("{}, or its release", unit.min_member))
        });
    }
}

/// A life has the ports and the share its spec says.
fn spec_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    if !row.state.is_charged() {
        return;
    }
    let key = || format!("task/{}", row.id);
    let Some(spec) = rows.specs.get(&(row.id.job, row.spec_version)) else {
        found.require(false, "task_spec", || {
            wrong(key(), format!("version {} of the spec", row.spec_version), "a version that is there")
        });
        return;
    };
    let asked: Vec<_> = spec.task.ports.iter().map(|port| &port.name).collect();
    let given: Vec<_> = row.ports.iter().map(|port| &port.name).collect();
    found.require(asked == given, "task_ports", || {
        wrong(key(), format!("ports {given:?}"), format!("{asked:?}, as its spec asks"))
    });
    let share = spec.resources_for(row.id.index);
    found.require(*share == row.charge.resources.without_cards(), "task_share", || {
        wrong(key(), format!("charged {}", row.charge.resources), format!("{share}, as its spec asks"))
    });
}

fn unit_check(found: &mut Violations, rows: &CellRows, row: &TaskRow, mode: CheckMode) {
    unit_placed_check(found, rows, row);
    let Some(id) = row.unit.filter(|_| row.state == TaskState::Held) else { return };
    let key = || format!("task/{}", row.id);
    let Some(unit) = rows.units.get(&id) else {
        found.require(false, "unit_known", || {
            wrong(key(), format!("a hold for {id}"), "a unit that is there")
        });
        return;
    };
    found.require(unit.job == row.id.job, "unit_job", || {
        wrong(key(), format!("a hold for {id}"), format!("a unit of its job; that one is of {}", unit.job))
    });
    found.require(row.unit_epoch <= unit.epoch, "unit_epoch", || {
        wrong(
            key(),
            format!("a hold at epoch {}", row.unit_epoch),
            format!("{} at most, that of {id}", unit.epoch),
        )
    });
    let waits = matches!(unit.state, UnitState::Gathering | UnitState::Waiting);
    let waits = waits && unit.epoch == row.unit_epoch;
    found.require(mode == CheckMode::Always || waits, "unit_settled", || {
        wrong(key(), "a hold", format!("none: unit {id} is {:?}", unit.state))
    });
}

/// Nothing of a gang is placed before all of it is.
fn unit_placed_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    let begun = matches!(row.state, TaskState::Assigned | TaskState::Starting | TaskState::Running);
    let Some(unit) = row.unit.filter(|_| begun).and_then(|id| rows.units.get(&id)) else { return };
    let whole = unit.epoch > row.unit_epoch || unit.state == UnitState::Committed;
    found.require(whole, "unit_placed", || {
        wrong(
            format!("task/{}", row.id),
            format!("{:?} for {} at epoch {}", row.state, unit.id, row.unit_epoch),
            "held: the unit gathers",
        )
    });
}

/// Nothing runs for a job that has never been let go, nothing is left of one that was stopped, and once all is settled
/// nothing is left of what is not wanted.
fn wanted_check(found: &mut Violations, job: &JobRow, row: &TaskRow, mode: CheckMode) {
    let dead = row.state == TaskState::Dead;
    let pending = row.state == TaskState::Pending;
    let (name, state, task) = (&job.name, job.state, row.id);
    let stored = || format!("{:?}", row.state);
    let key = || format!("task/{task}");
    match state {
        JobState::Waiting => found.require(dead || pending, "job_waiting", || {
            wrong(key(), stored(), format!("pending or dead: {name} waits"))
        }),
        JobState::Ended { .. } if row.id.index < job.count => {
            found.require(dead, "job_ended", || wrong(key(), stored(), format!("dead: {name} has ended")));
        }
        JobState::Running | JobState::Stopping | JobState::Ended { .. } => {}
    }
    let unwanted = row.id.index >= job.count || state == JobState::Stopping;
    found.require(mode == CheckMode::Always || dead || !unwanted, "unwanted_settled", || {
        wrong(key(), stored(), format!("dead: {name} is {state:?} with {} tasks", job.count))
    });
}
