//! What is to be done so that what runs becomes what is wanted.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_proto::v1;
use borough_shim::spec::StopOrder;

use super::desired::Desired;
use super::state::{Life, Shim, State};
use crate::life::LifeId;

/// One thing to be done. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make a directory, start a shim.
    Start(LifeId, Arc<v1::Assignment>),
    /// Remember a life as ended that was never started here.
    Decline(LifeId),
    /// Tell the shim to end the life.
    Stop(LifeId, StopOrder),
    /// The shim is gone and the life is not over: end what is left of it.
    Clean(LifeId),
    /// Set the life's files aside: only its logs are kept, for a while.
    Forget(LifeId),
    /// Probe its health from now on.
    Probe(LifeId),
    /// Probe it no longer.
    ProbeEnd(LifeId),
}

/// Everything that is to be done at `now_ms`. Lives that are over, and that the control plane has neither named nor
/// had forgotten for `kept_ms`, are forgotten.
pub fn reconcile(state: &State, desired: &Desired, now_ms: i64, kept_ms: i64) -> Vec<Effect> {
    let mut effects = Vec::new();
    for id in desired.assignments.keys() {
        // A life that is over or to end is not begun, even where its start arrives late.
        let waits = |life: &Life| life.shim == Shim::None && !life.busy && life.record.exit.is_none();
        let begun = state.lives.get(id).is_some_and(|life| !waits(life));
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
        if !state.lives.contains_key(id) && !desired.forget.contains(id) {
            effects.push(Effect::Decline(id.clone()));
        }
    }
    for (id, life) in &state.lives {
        effects.extend(life_effect(id, life, desired, now_ms.saturating_sub(kept_ms)));
        if life.to_be_probed() != life.probed {
            effects.push(if life.probed { Effect::ProbeEnd(id.clone()) } else { Effect::Probe(id.clone()) });
        }
    }
    effects
}

/// Whether an earlier life of the same task is being ended here: no task has two lives on one machine. One that nobody ends is
/// not waited for.
fn succeeds(state: &State, desired: &Desired, id: &LifeId) -> bool {
    let of_task = LifeId { incarnation: 0, ..id.clone() }..id.clone();
    let mut earlier = state.lives.range(of_task);
    earlier.any(|(earlier, life)| life.record.released_ms.is_none() && desired.stops.contains_key(earlier))
}

/// What is to be done for one life, at most one thing at a time.
fn life_effect(id: &LifeId, life: &Life, desired: &Desired, kept_since_ms: i64) -> Option<Effect> {
    if life.busy {
        return None;
    }
    if let Some(released_ms) = life.record.released_ms {
        let named = desired.assignments.contains_key(id) || desired.stops.contains_key(id);
        let abandoned = desired.complete && !named && released_ms < kept_since_ms;
        return (desired.forget.contains(id) || abandoned).then(|| Effect::Forget(id.clone()));
    }
    if life.shim == Shim::Gone {
        return Some(Effect::Clean(id.clone()));
    }
    if life.record.exit.is_some() {
        return None;
    }
    let command = desired.stops.get(id)?;
    let wanted = StopOrder { drain_delay_ms: command.drain_delay_ms, grace_ms: command.grace_ms };
    if life.shim == Shim::None {
        return Some(Effect::Decline(id.clone()));
    }
    (life.stop != Some(wanted)).then(|| Effect::Stop(id.clone(), wanted))
}

/// Lives that go on although the control plane has not named them. Never ended for that: it may have been restored
/// from an older state and adopt them yet.
pub fn parked(state: &State, desired: &Desired) -> BTreeSet<LifeId> {
    if !desired.complete {
        return BTreeSet::new();
    }
    let known = |id: &LifeId| {
        desired.assignments.contains_key(id) || desired.stops.contains_key(id) || desired.forget.contains(id)
    };
    let unknown = |(id, life): &(&LifeId, &Life)| life.record.released_ms.is_none() && !known(id);
    state.lives.iter().filter(unknown).map(|(id, _)| id.clone()).collect()
}
