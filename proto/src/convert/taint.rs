//! Taints of nodes, and what tolerates them.

use borough_model::node::{PRESSURE_PREFIX, SILENT_KEY, Taint, TaintEffect, TaintMatch};

use super::FieldRefused;
use crate::v1;

const EFFECTS: &str = "no_schedule, prefer_no_schedule or no_execute";

pub(super) fn effect_to_message(effect: TaintEffect) -> v1::TaintEffect {
    match effect {
        TaintEffect::NoSchedule => v1::TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule => v1::TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute => v1::TaintEffect::NoExecute,
    }
}

/// The effect in `field`; `None` where it is left open.
pub(super) fn effect_from_message(field: &str, effect: i32) -> Result<Option<TaintEffect>, FieldRefused> {
    match v1::TaintEffect::try_from(effect) {
        Ok(v1::TaintEffect::Unspecified) => Ok(None),
        Ok(v1::TaintEffect::NoSchedule) => Ok(Some(TaintEffect::NoSchedule)),
        Ok(v1::TaintEffect::PreferNoSchedule) => Ok(Some(TaintEffect::PreferNoSchedule)),
        Ok(v1::TaintEffect::NoExecute) => Ok(Some(TaintEffect::NoExecute)),
        Err(_) => Err(FieldRefused::new(field, effect.to_string(), EFFECTS)),
    }
}

pub(super) fn taint_to_message(taint: &Taint) -> v1::Taint {
    v1::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: effect_to_message(taint.effect).into(),
        added_ms: taint.added_ms,
    }
}

/// Taints that an operator sets (none of those that agents set) at wall time `now_ms`, milliseconds since 1970.
pub fn taints_from_message(messages: &[v1::Taint], now_ms: i64) -> Result<Vec<Taint>, FieldRefused> {
    let one = |(at, message): (usize, &v1::Taint)| {
        if message.key.starts_with(PRESSURE_PREFIX) || message.key == SILENT_KEY {
            let accepted = "any other key: the cell sets those of pressure/, and agent/silent";
            return Err(FieldRefused::new(format!("taints[{at}].key"), message.key.clone(), accepted));
        }
        let field = format!("taints[{at}].effect");
        let effect = effect_from_message(&field, message.effect)?;
        let effect = effect.ok_or_else(|| FieldRefused::new(field, "unspecified", EFFECTS))?;
        Ok(Taint { key: message.key.clone(), value: message.value.clone(), effect, added_ms: now_ms })
    };
    messages.iter().enumerate().map(one).collect()
}

/// Taints that an operator takes away.
pub fn taint_matches_from_message(messages: &[v1::TaintMatch]) -> Result<Vec<TaintMatch>, FieldRefused> {
    let one = |(at, message): (usize, &v1::TaintMatch)| {
        let effect = effect_from_message(&format!("taints[{at}].effect"), message.effect)?;
        Ok(TaintMatch { key: message.key.clone(), value: message.value.clone(), effect })
    };
    messages.iter().enumerate().map(one).collect()
}
