//! Decides the actions that bring the running attempts to the desired state.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_proto::v1;
use borough_shim::spec::StopOrder;

use super::alloc::{alloc_runs, is_occupied};
use super::desired::Desired;
use super::report::Sent;
use super::resize::resize_due;
use super::state::{AgentState, AttemptState, ShimState};
use crate::attempt::AttemptId;

/// One action. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Ask for the tokens that an attempt needs for its start.
    Identify(AttemptId),
    /// Make a directory and start a shim.
    Start(AttemptId, Arc<v1::Assignment>),
    /// Record an attempt as ended that was never started here.
    Decline(AttemptId),
    /// Order the shim to end the attempt.
    Stop(AttemptId, StopOrder),
    /// Give the running attempt other amounts.
    Resize(AttemptId, v1::ResizeOrder),
    /// The shim has ended and the attempt has not: end its remaining processes.
    Clean(AttemptId),
    /// Set the attempt's files aside: only its logs are kept, for a while.
    Forget(AttemptId),
    /// Begin to probe its health.
    Probe(AttemptId),
    ProbeEnd(AttemptId),
}

/// All actions that are due at `now_ms`. Attempts are forgotten after `kept_ms` if they are over, and the control plane
/// has heard so (`sent`), has not named them, and has not ordered to forget them.
pub(crate) fn reconcile(
    state: &AgentState,
    desired: &Desired,
    sent: &Sent,
    now_ms: i64,
    kept_ms: i64,
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in desired.assignments.keys() {
        // An attempt that is over or must end is not started, even if its start arrives late.
        let waits = |attempt: &AttemptState| {
            attempt.shim == ShimState::None && !attempt.busy && attempt.record.exit.is_none()
        };
        let begun = state.attempts.get(id).is_some_and(|attempt| !waits(attempt));
        if !begun
            && !succeeds(state, desired, id)
            && !desired.forget.contains(id)
            && !desired.stops.contains_key(id)
            && let Some(assignment) = desired.assignment(id)
            && alloc_runs(state, desired, &assignment)
        {
            let identified = state.identities.are_there(id, &assignment);
            effects.push(if identified {
                Effect::Start(id.clone(), assignment)
            } else {
                Effect::Identify(id.clone())
            });
        }
    }
    for id in desired.stops.keys() {
        if !state.attempts.contains_key(id) && !desired.forget.contains(id) {
            effects.push(Effect::Decline(id.clone()));
        }
    }
    for (id, attempt) in &state.attempts {
        // The clock alone is no reason to forget one: it may jump by a day.
        let kept_since_ms = sent.has_released(id).then(|| now_ms.saturating_sub(kept_ms));
        let effect = attempt_effect(id, attempt, desired, kept_since_ms);
        // What is in an alloc ends first. Its files are the scratch directory of all.
        let waits = |effect: &Effect| {
            matches!(effect, Effect::Stop(..) | Effect::Forget(_)) && is_occupied(state, id, attempt)
        };
        effects.extend(effect.filter(|effect| !waits(effect)));
        if attempt.to_be_probed() != attempt.probed {
            effects.push(if attempt.probed {
                Effect::ProbeEnd(id.clone())
            } else {
                Effect::Probe(id.clone())
            });
        }
    }
    effects
}

/// Returns true if an earlier attempt of the same task is being ended here: no task has two attempts on one machine. An
/// earlier attempt without a stop is not waited for.
fn succeeds(state: &AgentState, desired: &Desired, id: &AttemptId) -> bool {
    let of_task = AttemptId { incarnation: 0, ..id.clone() }..id.clone();
    let mut earlier = state.attempts.range(of_task);
    earlier
        .any(|(earlier, attempt)| attempt.record.released_ms.is_none() && desired.stops.contains_key(earlier))
}

/// The next action for one attempt, at most one at a time.
fn attempt_effect(
    id: &AttemptId,
    attempt: &AttemptState,
    desired: &Desired,
    kept_since_ms: Option<i64>,
) -> Option<Effect> {
    if attempt.busy {
        return None;
    }
    if let Some(released_ms) = attempt.record.released_ms {
        let named = desired.assignments.contains_key(id) || desired.stops.contains_key(id);
        let is_old = kept_since_ms.is_some_and(|since_ms| released_ms < since_ms);
        let abandoned = desired.complete && !named && is_old;
        return (desired.forget.contains(id) || abandoned).then(|| Effect::Forget(id.clone()));
    }
    if attempt.shim == ShimState::Gone {
        return Some(Effect::Clean(id.clone()));
    }
    if attempt.record.exit.is_some() {
        return None;
    }
    let Some(command) = desired.stops.get(id) else {
        let order = resize_due(attempt, desired.assignments.get(id));
        return order.map(|order| Effect::Resize(id.clone(), order.clone()));
    };
    let wanted = StopOrder { drain_delay_ms: command.drain_delay_ms, grace_ms: command.grace_ms };
    if attempt.shim == ShimState::None {
        return Some(Effect::Decline(id.clone()));
    }
    (attempt.stop != Some(wanted)).then(|| Effect::Stop(id.clone(), wanted))
}

/// Attempts that keep running although the control plane has not named them. They are not ended for that: a control
/// plane restored from an older state may still adopt them.
pub(crate) fn parked(state: &AgentState, desired: &Desired) -> BTreeSet<AttemptId> {
    if !desired.complete {
        return BTreeSet::new();
    }
    let known = |id: &AttemptId| {
        desired.assignments.contains_key(id) || desired.stops.contains_key(id) || desired.forget.contains(id)
    };
    let unknown =
        |(id, attempt): &(&AttemptId, &AttemptState)| attempt.record.released_ms.is_none() && !known(id);
    state.attempts.iter().filter(unknown).map(|(id, _)| id.clone()).collect()
}
