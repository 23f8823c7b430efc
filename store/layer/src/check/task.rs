//! Checks tasks: each row alone, and against its job, its spec and its gang.

use borough_model::job::{JobRow, JobState};
use borough_model::task::machine::task_row_check;
use borough_model::task::{GangState, TaskRow, TaskState};

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
        daemon_check(found, rows, row);
        gang_check(found, rows, row, mode);
        match rows.jobs.get(&task.job) {
            None => found.require(false, "task_job", || {
                wrong(key(), "a row", format!("nothing: there is no job {}", task.job))
            }),
            Some(job) => wanted_check(found, job, row, mode),
        }
    }
}

/// A gang that waits for victims has all its members.
fn waiting_check(found: &mut Violations, rows: &CellRows) {
    for gang in rows.gangs.values().filter(|gang| gang.state == GangState::Waiting) {
        let of_job = TaskId { job: gang.job, index: 0 }..=TaskId { job: gang.job, index: u32::MAX };
        let holds = |row: &TaskRow| {
            row.state == TaskState::Held && row.gang == Some(gang.id) && row.gang_epoch == gang.epoch
        };
        let holding = rows.tasks.range(of_job).filter(|(_, row)| holds(row)).count();
        found.require(holding >= gang.min_member as usize, "gang_waiting", || {
            let stored = format!("{holding} members that hold, while it waits for victims");
            wrong(format!("gang/{}", gang.id), stored, format!("{}, or its release", gang.min_member))
        });
    }
}

/// An attempt has the ports and the resources of its spec.
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
    let share = spec.node_resources_for(row.id.index);
    found.require(share == row.in_force().without_cards(), "task_share", || {
        wrong(key(), format!("charged {}", row.in_force()), format!("{share}, as its spec asks"))
    });
    resize_check(found, rows, row);
}

/// What is granted is what its version asks for. That the charge is the most of it and of what is in force is checked
/// with the row.
fn resize_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    let Some(resize) = row.resize_ordered() else { return };
    let key = || format!("task/{}", row.id);
    let Some(spec) = rows.specs.get(&(row.id.job, resize.version)) else {
        found.require(false, "task_spec", || {
            wrong(
                key(),
                format!("a resize to version {} of the spec", resize.version),
                "a version that is there",
            )
        });
        return;
    };
    let share = spec.resources_for(row.id.index);
    found.require(*share == resize.granted.without_cards(), "task_granted", || {
        wrong(key(), format!("granted {}", resize.granted), format!("{share}, as its spec asks"))
    });
}

/// The tasks of a daemon job are each for a node, and those of other jobs for none.
fn daemon_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    let Some(job) = rows.jobs.get(&row.id.job) else { return };
    let (is_daemon, served) = (job.daemon.is_some(), row.node_served());
    found.require(is_daemon == served.is_some(), "task_daemon", || {
        let expected = if is_daemon { "a node that it is for" } else { "none: its job is no daemon job" };
        wrong(format!("task/{}", row.id), format!("for node {served:?}"), expected)
    });
}

fn gang_check(found: &mut Violations, rows: &CellRows, row: &TaskRow, mode: CheckMode) {
    gang_placed_check(found, rows, row);
    let Some(id) = row.gang.filter(|_| row.state == TaskState::Held) else { return };
    let key = || format!("task/{}", row.id);
    let Some(gang) = rows.gangs.get(&id) else {
        found.require(false, "gang_known", || {
            wrong(key(), format!("a hold for {id}"), "a gang that is there")
        });
        return;
    };
    found.require(gang.job == row.id.job, "gang_job", || {
        wrong(key(), format!("a hold for {id}"), format!("a gang of its job; that one is of {}", gang.job))
    });
    found.require(row.gang_epoch <= gang.epoch, "gang_epoch", || {
        wrong(
            key(),
            format!("a hold at epoch {}", row.gang_epoch),
            format!("{} at most, that of {id}", gang.epoch),
        )
    });
    let waits = matches!(gang.state, GangState::Gathering | GangState::Waiting);
    let waits = waits && gang.epoch == row.gang_epoch;
    found.require(mode == CheckMode::Always || waits, "gang_settled", || {
        wrong(key(), "a hold", format!("none: gang {id} is {:?}", gang.state))
    });
}

/// No member of a gang is placed before all are.
fn gang_placed_check(found: &mut Violations, rows: &CellRows, row: &TaskRow) {
    let begun = matches!(row.state, TaskState::Assigned | TaskState::Starting | TaskState::Running);
    let Some(gang) = row.gang.filter(|_| begun).and_then(|id| rows.gangs.get(&id)) else { return };
    let whole = gang.epoch > row.gang_epoch || gang.state == GangState::Committed;
    found.require(whole, "gang_placed", || {
        wrong(
            format!("task/{}", row.id),
            format!("{:?} for {} at epoch {}", row.state, gang.id, row.gang_epoch),
            "held: the gang gathers",
        )
    });
}

/// Nothing runs for a job that still waits for its dependencies, and nothing stays of a stopped one. In a settled cell,
/// unwanted tasks are dead.
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
