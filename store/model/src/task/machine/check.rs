//! The invariants of every task row: for tests, for checks over a whole store, for assertions.

use std::collections::BTreeSet;

use crate::task::{ChargeOwner, Health, TaskRow, TaskState, Verdict};

/// A task row that breaks an invariant. The code that wrote it has a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {task} is {state:?} at revision {revision}: {what}", task = row.id, state = row.state, revision = row.revision)]
pub struct TaskInvariantBroken {
    pub what: &'static str,
    pub row: Box<TaskRow>,
}

/// Checks the invariants of a task row.
pub fn task_row_check(row: &TaskRow) -> Result<(), TaskInvariantBroken> {
    let everywhere = first_broken(&common_rules(row));
    let here = first_broken(&state_rules(row));
    match everywhere.or(here) {
        None => Ok(()),
        Some(what) => Err(TaskInvariantBroken { what, row: Box::new(row.clone()) }),
    }
}

type RowRule = (bool, &'static str);

fn first_broken(rules: &[RowRule]) -> Option<&'static str> {
    rules.iter().find(|(holds, _)| !holds).map(|&(_, what)| what)
}

fn common_rules(row: &TaskRow) -> [RowRule; 14] {
    let numbers: BTreeSet<u16> = row.ports.iter().map(|port| port.number).collect();
    let charged = row.state.is_charged();
    let exit_known = row.exit.as_ref().is_none_or(|exit| exit.incarnation <= row.incarnation);
    let began = row.incarnation.0 > 0;
    let resizes = matches!(
        row.state,
        TaskState::Running | TaskState::Stopping | TaskState::Releasing | TaskState::Lost
    );
    let resize_charged = row.resize.as_ref().is_none_or(|resize| resize.charge() == row.charge.resources);
    [
        (!charged || row.node.is_some(), "takes capacity of no node"),
        (!charged || began, "takes capacity without an attempt"),
        (
            !charged || row.charge.owner == ChargeOwner::Task,
            "takes capacity, but its row does not own the charge",
        ),
        (numbers.len() == row.ports.len(), "has a port twice"),
        (exit_known, "remembers the exit of an attempt that has not begun"),
        (row.health != Health::Healthy || row.state == TaskState::Running, "is healthy but does not run"),
        (row.health != Health::Unhealthy, "is unhealthy and not being stopped"),
        (row.pid.is_none() || row.started_ms.is_some(), "has a process without a start"),
        (!row.promised || row.state == TaskState::Held, "is promised a share, but does not wait for it"),
        (row.crashes_there == 0 || row.crashed_on.is_some(), "crashed, but nowhere"),
        (
            row.node.is_none() || row.daemon_node.is_none() || row.node == row.node_served(),
            "is on another node than the one that its daemon job serves with it",
        ),
        (
            row.in_alloc().is_none() || row.charge.resources.is_zero(),
            "takes of its node what its alloc has taken already",
        ),
        (row.resize.is_none() || resizes, "is resized, but does not run"),
        (resize_charged, "is resized, and is not charged the most of what is granted and what is in force"),
    ]
}

fn state_rules(row: &TaskRow) -> Vec<RowRule> {
    let owner = row.charge.owner;
    let no_process = (row.pid.is_none(), "has a process");
    let no_stop = (row.stop.is_none(), "has a reason to stop");
    let no_verdict = (row.verdict.is_none(), "has a verdict before its end");
    match row.state {
        TaskState::Pending => vec![
            (row.node.is_none(), "has a node"),
            (row.ports.is_empty(), "has ports"),
            (row.started_ms.is_none(), "has started"),
            (owner != ChargeOwner::Released, "wants a node, but nobody owns its charge"),
            (
                owner == ChargeOwner::Job || row.incarnation.0 > 0,
                "was never placed, but its row owns the charge",
            ),
            no_process,
            no_stop,
            no_verdict,
        ],
        TaskState::Held | TaskState::Assigned | TaskState::Starting => {
            vec![no_process, no_stop, no_verdict]
        }
        TaskState::Running => vec![(row.pid.is_some(), "runs without a process"), no_stop, no_verdict],
        TaskState::Stopping => vec![(row.stop.is_some(), "stops for no reason"), no_verdict],
        TaskState::Releasing => vec![
            (row.verdict.is_some(), "has ended without a verdict"),
            (
                row.exit.as_ref().is_some_and(|exit| exit.incarnation == row.incarnation),
                "has ended without an exit",
            ),
            no_process,
        ],
        TaskState::Lost => vec![
            (row.node.is_some(), "is lost without a node"),
            (owner == ChargeOwner::Task, "is lost, but its row does not own the charge"),
            (!row.stop.is_some_and(|stop| stop.is_final()), "is lost, but was to be dead"),
            no_verdict,
        ],
        TaskState::Dead => vec![
            (owner == ChargeOwner::Released, "is dead, but its charge is not released"),
            (row.ports.is_empty(), "is dead, but has ports"),
            (row.verdict.is_some_and(|verdict| verdict != Verdict::Again), "is dead without a verdict"),
            no_process,
        ],
    }
}
