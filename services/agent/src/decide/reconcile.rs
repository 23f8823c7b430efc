//! What is to be done so that what runs becomes what is wanted.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_proto::v1;
use borough_shim::spec::StopOrder;

use super::desired::Desired;
use super::state::{AgentState, AttemptState, ShimState};
use crate::attempt::AttemptId;

/// One thing to be done. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make a directory, start a shim.
    Start(AttemptId, Arc<v1::Assignment>),
    /// Remember an attempt as ended that was never started here.
    Decline(AttemptId),
    /// Tell the shim to end the attempt.
    Stop(AttemptId, StopOrder),
    /// The shim is gone and the attempt is not over: end what is left of it.
    Clean(AttemptId),
    /// Set the attempt's files aside: only its logs are kept, for a while.
    Forget(AttemptId),
    /// Probe its health from now on.
    Probe(AttemptId),
    /// Probe it no longer.
    ProbeEnd(AttemptId),
}

/// Everything that is to be done at `now_ms`. Attempts that are over, and that the control plane has neither named nor
/// had forgotten for `kept_ms`, are forgotten.
pub fn reconcile(state: &AgentState, desired: &Desired, now_ms: i64, kept_ms: i64) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in desired.assignments.keys() {
        // An attempt that is over or to end is not begun, even where its start arrives late.
        let waits = |attempt: &AttemptState| {
            attempt.shim == ShimState::None && !attempt.busy && attempt.record.exit.is_none()
        };
        let begun = state.attempts.get(id).is_some_and(|attempt| !waits(attempt));
        if !begun
            && !succeeds(state, desired, id)
            && !desired.forget.contains(id)
            && !desired.stops.contains_key(id)
            && let Some(assignment) = desired.assignment(id)
        {
            effects.push(Effect::Start(id.clone(), assignment));
        }
    }
    for id in desired.stops.keys() {
        if !state.attempts.contains_key(id) && !desired.forget.contains(id) {
            effects.push(Effect::Decline(id.clone()));
        }
    }
    for (id, attempt) in &state.attempts {
        effects.extend(attempt_effect(id, attempt, desired, now_ms.saturating_sub(kept_ms)));
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

/// Whether an earlier attempt of the same task is being ended here: no task has two attempts on one machine. One that
/// nobody ends is not waited for.
fn succeeds(state: &AgentState, desired: &Desired, id: &AttemptId) -> bool {
    let of_task = AttemptId { incarnation: 0, ..id.clone() }..id.clone();
    let mut earlier = state.attempts.range(of_task);
    earlier
        .any(|(earlier, attempt)| attempt.record.released_ms.is_none() && desired.stops.contains_key(earlier))
}

/// What is to be done for one attempt, at most one thing at a time.
fn attempt_effect(
    id: &AttemptId,
    attempt: &AttemptState,
    desired: &Desired,
    kept_since_ms: i64,
) -> Option<Effect> {
    if attempt.busy {
        return None;
    }
    if let Some(released_ms) = attempt.record.released_ms {
        let named = desired.assignments.contains_key(id) || desired.stops.contains_key(id);
        let abandoned = desired.complete && !named && released_ms < kept_since_ms;
        return (desired.forget.contains(id) || abandoned).then(|| Effect::Forget(id.clone()));
    }
    if attempt.shim == ShimState::Gone {
        return Some(Effect::Clean(id.clone()));
    }
    if attempt.record.exit.is_some() {
        return None;
    }
    let command = desired.stops.get(id)?;
    let wanted = StopOrder { drain_delay_ms: command.drain_delay_ms, grace_ms: command.grace_ms };
    if attempt.shim == ShimState::None {
        return Some(Effect::Decline(id.clone()));
    }
    (attempt.stop != Some(wanted)).then(|| Effect::Stop(id.clone(), wanted))
}

/// Attempts that go on although the control plane has not named them. Never ended for that: it may have been restored
/// from an older state and adopt them yet.
pub fn parked(state: &AgentState, desired: &Desired) -> BTreeSet<AttemptId> {
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
