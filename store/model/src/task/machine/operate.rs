//! Events from the scheduler, the controllers and owners.

use super::CRASHES_BEFORE_AVOIDED;
use super::event::{EndpointEffect, Placement, TransitionRefused};
use super::step::{Decided, TransitionDraft, illegal, stale, unchanged};
use crate::id::NodeId;
use crate::task::{EndReason, Evicted, Health, StopReason, TaskRow, TaskState, Verdict};

const NOT_WANTED: &str = "only a pending task is placed";
const OTHER_NODE: &str = "its daemon job serves another node with it";

/// Whether a hold takes its share of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldShare {
    Taken,
    /// Victims will release it.
    Promised,
}

pub(super) fn hold(row: &TaskRow, placement: &Placement, share: HeldShare, now_ms: i64) -> Decided {
    let promised = share == HeldShare::Promised;
    let event = if promised { "hold_promised" } else { "hold" };
    match row.state {
        TaskState::Pending if placement_is_next(row, placement) => TransitionDraft::new(row, now_ms)
            .with(|row| row.promised = promised)
            .attempt_begin(placement, TaskState::Held)
            .done(),
        TaskState::Held if placement_repeated(row, placement) && row.promised == promised => unchanged(row),
        TaskState::Pending
        | TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Dead => placement_refused(row, placement, event),
    }
}

pub(super) fn place(row: &TaskRow, placement: &Placement, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Pending if placement_is_next(row, placement) => {
            TransitionDraft::new(row, now_ms).attempt_begin(placement, TaskState::Assigned).done()
        }
        TaskState::Assigned | TaskState::Starting | TaskState::Running
            if placement_repeated(row, placement) =>
        {
            unchanged(row)
        }
        TaskState::Pending
        | TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Dead => placement_refused(row, placement, "place"),
    }
}

/// Only the next attempt: a placement decided before the last attempt is refused as stale. A task of a daemon job goes
/// to its own node only.
fn placement_is_next(row: &TaskRow, placement: &Placement) -> bool {
    placement.incarnation == row.incarnation.next() && is_own_node(row, placement)
}

fn is_own_node(row: &TaskRow, placement: &Placement) -> bool {
    row.node_served().is_none_or(|node| node == placement.node)
}

fn placement_repeated(row: &TaskRow, placement: &Placement) -> bool {
    row.incarnation == placement.incarnation && row.node == Some(placement.node)
}

fn placement_refused(row: &TaskRow, placement: &Placement, event: &'static str) -> Decided {
    if placement.incarnation <= row.incarnation {
        return Err(TransitionRefused::Stale {
            reported: placement.incarnation,
            current: row.incarnation,
            state: row.state,
        });
    }
    match row.state {
        TaskState::Pending if !is_own_node(row, placement) => illegal(row, event, OTHER_NODE),
        TaskState::Pending => illegal(row, event, "an attempt has the number after the last one"),
        TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Dead => illegal(row, event, NOT_WANTED),
    }
}

pub(super) fn hold_confirmed(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Held => TransitionDraft::new(row, now_ms).fulfil().state(TaskState::Assigned).done(),
        TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing => unchanged(row),
        TaskState::Pending | TaskState::Lost | TaskState::Dead => stale(row),
    }
}

pub(super) fn hold_fulfilled(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Held if row.promised => TransitionDraft::new(row, now_ms).fulfil().done(),
        TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing => unchanged(row),
        TaskState::Pending | TaskState::Lost | TaskState::Dead => stale(row),
    }
}

pub(super) fn hold_expired(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Held => TransitionDraft::new(row, now_ms).back_to_pending().done(),
        TaskState::Pending | TaskState::Dead => unchanged(row),
        TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost => illegal(row, "hold_expired", "the hold has become a placement"),
    }
}

pub(super) fn stop_requested(row: &TaskRow, reason: StopReason, now_ms: i64) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Pending => stop_pending(row, reason, now_ms),
        TaskState::Held if reason.is_final() => {
            step.with(|row| row.stop = Some(reason)).stopped_for_good().done()
        }
        TaskState::Held => step.back_to_pending().done(),
        TaskState::Assigned | TaskState::Starting => {
            step.with(|row| row.stop = Some(reason)).state(TaskState::Stopping).done()
        }
        TaskState::Running => running_stop(step, reason).done(),
        TaskState::Stopping if reason.is_final() && !stop_is_final(row) => {
            step.with(|row| row.stop = Some(reason)).done()
        }
        TaskState::Releasing if reason.is_final() && row.verdict == Some(Verdict::Again) => step
            .with(|row| {
                row.stop = Some(reason);
                row.verdict = Some(Verdict::Stopped);
            })
            .done(),
        TaskState::Lost if reason.is_final() => step
            .with(|row| row.stop = Some(reason))
            .endpoint(EndpointEffect::Withdraw)
            .stopped_for_good()
            .done(),
        // The task leaves the lost node: that is what every other stop asks for.
        TaskState::Lost => reschedule_lost(row, now_ms),
        TaskState::Stopping | TaskState::Releasing | TaskState::Dead => unchanged(row),
    }
}

/// A stop after which the scheduler prefers another node, while one fits.
pub(super) fn move_requested(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Held | TaskState::Assigned | TaskState::Starting | TaskState::Running => {
            let crashes_there = row.crashes_there.max(CRASHES_BEFORE_AVOIDED);
            let leaving = TaskRow { crashed_on: row.node, crashes_there, ..row.clone() };
            stop_requested(&leaving, StopReason::Restart, now_ms)
        }
        TaskState::Pending
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Dead => stop_requested(row, StopReason::Restart, now_ms),
    }
}

/// An attempt is evicted once: one that ends already, or whose node is lost, frees nothing more.
pub(super) fn evict(row: &TaskRow, evicted: Evicted, now_ms: i64) -> Decided {
    let evicted_by = |row: &mut TaskRow| row.evicted = Some(Box::new(evicted));
    let step = TransitionDraft::new(row, now_ms).with(evicted_by);
    match row.state {
        TaskState::Held => step.back_to_pending().done(),
        TaskState::Assigned | TaskState::Starting => {
            step.with(|row| row.stop = Some(StopReason::Preempted)).state(TaskState::Stopping).done()
        }
        TaskState::Running => running_stop(step, StopReason::Preempted).done(),
        TaskState::Stopping | TaskState::Releasing if row.evicted.as_deref() == Some(&evicted) => {
            unchanged(row)
        }
        TaskState::Pending | TaskState::Dead => unchanged(row),
        TaskState::Stopping | TaskState::Releasing | TaskState::Lost => {
            illegal(row, "evict", "an attempt that ends gives way to nobody else")
        }
    }
}

/// Whatever it does now: the next failure is the first one. One that paused may begin now, which its row says: it has
/// not waited for room since before.
pub(super) fn failures_forgotten(row: &TaskRow, now_ms: i64) -> Decided {
    let has_failed = row.failures > 0 || row.not_before_ms > now_ms;
    if !has_failed || row.state == TaskState::Dead {
        return unchanged(row);
    }
    TransitionDraft::new(row, now_ms)
        .with(|row| {
            row.failures_clear();
            row.not_before_ms = if row.state == TaskState::Pending { now_ms } else { 0 };
        })
        .done()
}

/// A pending task has nothing to stop: it is over, or its owner wants it tried again without the pause.
fn stop_pending(row: &TaskRow, reason: StopReason, now_ms: i64) -> Decided {
    let step = TransitionDraft::new(row, now_ms);
    match reason {
        StopReason::JobStopped | StopReason::JobShrunk | StopReason::NodeLeft | StopReason::SurgeOver => {
            step.with(|row| row.stop = Some(reason)).stopped_for_good().done()
        }
        StopReason::Restart => failures_forgotten(row, now_ms),
        StopReason::Unhealthy
        | StopReason::Drained
        | StopReason::Preempted
        | StopReason::Updated
        | StopReason::Tainted
        | StopReason::Shutdown
        | StopReason::AllocLeft => unchanged(row),
    }
}

fn stop_is_final(row: &TaskRow) -> bool {
    row.stop.is_some_and(StopReason::is_final)
}

/// A running attempt ends: the same commit withdraws its endpoint.
pub(super) fn running_stop(step: TransitionDraft<'_>, reason: StopReason) -> TransitionDraft<'_> {
    step.with(|row| {
        row.stop = Some(reason);
        row.health = Health::Unknown;
    })
    .state(TaskState::Stopping)
    .endpoint(EndpointEffect::Withdraw)
}

pub(super) fn node_declared_lost(row: &TaskRow, node: NodeId, now_ms: i64) -> Decided {
    if row.state.is_charged() && row.node != Some(node) {
        return stale(row);
    }
    let step = TransitionDraft::new(row, now_ms);
    match row.state {
        TaskState::Pending | TaskState::Lost | TaskState::Dead => unchanged(row),
        TaskState::Held => step.back_to_pending().done(),
        TaskState::Assigned | TaskState::Starting => step.lose().done(),
        TaskState::Running => {
            step.lose().with(|row| row.health = Health::Unknown).endpoint(EndpointEffect::Demote).done()
        }
        TaskState::Stopping if stop_is_final(row) => {
            step.exit_unseen(EndReason::NodeLost).attempt_end().done()
        }
        TaskState::Stopping => step.lose().done(),
        TaskState::Releasing => step.attempt_end().done(),
    }
}

pub(super) fn reschedule_lost(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Lost => TransitionDraft::new(row, now_ms)
            .endpoint(EndpointEffect::Withdraw)
            .exit_unseen(EndReason::NodeLost)
            .attempt_end()
            .done(),
        TaskState::Pending | TaskState::Dead => unchanged(row),
        TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing => illegal(row, "reschedule_lost", "its node has come back"),
    }
}

pub(super) fn job_grown(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Dead if row.is_spared() => TransitionDraft::new(row, now_ms).revived().done(),
        // One that is ending is revived when it has ended: what it takes next may be charged differently.
        TaskState::Pending
        | TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Stopping
        | TaskState::Releasing
        | TaskState::Lost
        | TaskState::Dead => unchanged(row),
    }
}

/// Only a task that is over by itself. What its job does not want any more comes again with that job's wish.
pub(super) fn revived(row: &TaskRow, now_ms: i64) -> Decided {
    match row.state {
        TaskState::Pending => unchanged(row),
        _ if row.is_over_by_itself() => TransitionDraft::new(row, now_ms).revived().done(),
        _ => illegal(row, "revived", "it is not over, or its job ended it"),
    }
}

/// Only a new task, or one that was withdrawn from its node.
pub(super) fn node_served(row: &TaskRow, node: NodeId, now_ms: i64) -> Decided {
    let is_new = row.revision == 0 && row.state == TaskState::Pending;
    if is_new || row.is_withdrawn() {
        return TransitionDraft::new(row, now_ms).serving(node).done();
    }
    if row.state != TaskState::Dead && row.node_served() == Some(node) {
        return unchanged(row);
    }
    illegal(row, "node_served", "it has a node to serve, or is over for another reason")
}
