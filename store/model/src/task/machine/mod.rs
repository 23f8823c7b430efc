//! The one state machine of a task, used by every role.
//!
//! `pending → (held) → assigned → starting → running → stopping → releasing → dead | pending`, and `lost` from any
//! state in which the node had begun with it. [`task_transition`] is pure. From a row, an event and the time it
//! computes the new row, and what the store must do in the same transaction ([`Effects`]). Or it returns a refusal that
//! says what the caller must do. Every pair of state and event is decided by name; the whole table is the golden file
//! of the crate's tests.
//!
//! Invariants over any sequence of events (tested as properties):
//!
//! - Capacity stays with an attempt until its release is confirmed or its node is declared lost, and is released
//!   exactly once. Ports of a lost attempt are kept back until it ends or is given up.
//! - Nothing starts while held. A hold takes its share of the node at once, or has it promised from what victims will
//!   release. In the second case the node is never over capacity, nobody else gets the share, and the hold is confirmed
//!   only when the share is free. Victims stay charged until they are released, even if the hold is given up.
//! - An attempt whose endpoint was withdrawn is never published again. A lost attempt is therefore not withdrawn but
//!   demoted (health unknown); it is withdrawn when the attempt is given up. A node must not become ready again
//!   while lost rows name it, or their ports could be given away under a published endpoint: see [`crate::node`].
//! - A running attempt is charged the most of what is granted to it and what is in force, until its agent confirms or
//!   refuses the first.
//! - Incarnations and revisions only grow; a revision grows with every change and with nothing else.
//! - Dead is final, with two exceptions. A task that died because its job shrank is wanted again when the job grows.
//!   One that its daemon job has withdrawn from its node may serve a node again. Both keep their incarnation, so that
//!   no attempt number is used twice.

mod agent;
mod check;
mod event;
mod gang;
mod operate;
mod resize;
mod restart;
mod step;

pub use check::{TaskInvariantBroken, task_row_check};
pub use event::{
    Attempt, Effects, EndpointEffect, OwnerEffect, Placement, ResizeOrder, StartedProcess, TaskEvent,
    TaskRules, TransitionRefused,
};
pub use gang::{
    GangEvent, GangRefused, GangTransition, HoldStatus, gang_gathering, gang_transition, hold_status,
};
pub use restart::{CRASHES_BEFORE_AVOIDED, RestartDecision, node_avoided, restart_decide, restart_pause_ms};

use self::agent::Release;
use self::operate::HeldShare;
use crate::task::TaskRow;
use step::Decided;

/// Milliseconds for which a port is not assigned again after its attempt was released: longer than views and load
/// balancers keep an endpoint after its withdrawal.
pub const PORT_COOL_DOWN_MS: i64 = 10_000;

/// Most bytes of an exit's message that are kept: a row stays small, whatever an agent reports.
pub const EXIT_MESSAGE_BYTES_MAX: usize = 1024;

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The new row; the old one if nothing has changed.
    pub row: TaskRow,
    /// Otherwise there is nothing to write.
    pub changed: bool,
    /// What commits with the row.
    pub effects: Effects,
}

/// Applies `event` to `row` at wall time `now_ms` (milliseconds since 1970).
///
/// For a task without a row pass [`TaskRow::never_placed`].
///
/// A transaction takes its time before it reads, and may wait for seconds in between. No change is before the one that
/// it follows: otherwise a rest or a back-off would end too early.
pub fn task_transition(row: &TaskRow, event: &TaskEvent, now_ms: i64) -> Decided {
    // A task without a row has not changed yet.
    let now_ms = if row.revision == 0 { now_ms } else { now_ms.max(row.changed_ms) };
    if let Some(attempt) = event.attempt() {
        attempt_check(row, attempt)?;
    }
    match event {
        TaskEvent::Hold(placement) => operate::hold(row, placement, HeldShare::Taken, now_ms),
        TaskEvent::HoldPromised(placement) => operate::hold(row, placement, HeldShare::Promised, now_ms),
        TaskEvent::Place(placement) => operate::place(row, placement, now_ms),
        TaskEvent::HoldConfirmed { .. } => operate::hold_confirmed(row, now_ms),
        TaskEvent::HoldFulfilled { .. } => operate::hold_fulfilled(row, now_ms),
        TaskEvent::HoldExpired { .. } => operate::hold_expired(row, now_ms),
        TaskEvent::StopRequested { reason } => operate::stop_requested(row, *reason, now_ms),
        TaskEvent::MoveRequested => operate::move_requested(row, now_ms),
        TaskEvent::Evict(evicted) => operate::evict(row, *evicted, now_ms),
        TaskEvent::NodeDeclaredLost { node } => operate::node_declared_lost(row, *node, now_ms),
        TaskEvent::RescheduleLost => operate::reschedule_lost(row, now_ms),
        TaskEvent::JobGrown => operate::job_grown(row, now_ms),
        TaskEvent::Revived => operate::revived(row, now_ms),
        TaskEvent::FailuresForgotten => operate::failures_forgotten(row, now_ms),
        TaskEvent::NodeServed { node } => operate::node_served(row, *node, now_ms),
        TaskEvent::AgentAccepted { .. } => agent::agent_accepted(row, now_ms),
        TaskEvent::ProcessStarted { pid, started_ms, health, cores, .. } => {
            let process = StartedProcess { pid: *pid, started_ms: *started_ms };
            agent::process_started(row, process, *health, now_ms).map(|mut decided| {
                if decided.changed && decided.row.pid.is_some() {
                    decided.row.cores.clone_from(cores);
                }
                decided
            })
        }
        TaskEvent::HealthChanged { health, .. } => agent::health_changed(row, *health, now_ms),
        TaskEvent::ProcessExited { exit, released, rules, .. } => {
            let release = if *released { Release::Confirmed } else { Release::Awaited };
            agent::process_exited(row, exit, release, rules, now_ms)
        }
        TaskEvent::StartFailed { message, failure, rules, .. } => {
            let exit = agent::start_failure(row, message, *failure, now_ms);
            agent::start_failed(row, exit, rules, now_ms)
        }
        TaskEvent::ReleaseConfirmed { .. } => agent::release_confirmed(row, now_ms),
        TaskEvent::ResizeOrdered { order, .. } => resize::resize_ordered(row, order, now_ms),
        TaskEvent::ResizeSettled { order, refused, .. } => {
            resize::resize_settled(row, *order, refused.as_ref(), now_ms)
        }
        TaskEvent::VersionAdopted { version, .. } => resize::version_adopted(row, *version, now_ms),
        TaskEvent::HelpersReported { helpers, .. } => agent::helpers_reported(row, helpers, now_ms),
        TaskEvent::NodeReturned { process, health, .. } => {
            agent::node_returned(row, *process, *health, now_ms)
        }
    }
}

/// Refuses an event of another attempt than the row's.
fn attempt_check(row: &TaskRow, attempt: Attempt) -> Result<(), TransitionRefused> {
    if attempt.incarnation < row.incarnation {
        return Err(TransitionRefused::Stale {
            reported: attempt.incarnation,
            current: row.incarnation,
            state: row.state,
        });
    }
    let elsewhere = row.node.is_some_and(|node| node != attempt.node);
    if attempt.incarnation > row.incarnation || elsewhere {
        return Err(TransitionRefused::UnknownAttempt {
            reported: attempt.incarnation,
            node: attempt.node,
            current: row.incarnation,
            state: row.state,
        });
    }
    Ok(())
}
