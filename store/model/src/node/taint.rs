//! Taints keep tasks away from a node unless they tolerate them, as in Kubernetes.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, FieldErrors};

/// Most taints of a node.
pub const TAINTS_MAX: usize = 32;

/// A taint of a node. A node has at most one of the same key and effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct Taint {
    /// Such as `dedicated` or `maintenance`.
    #[n(0)]
    pub key: String,
    /// Often empty.
    #[n(1)]
    pub value: String,
    #[n(2)]
    pub effect: TaintEffect,
    /// Wall time at which it was set, milliseconds since 1970.
    #[n(3)]
    pub added_ms: i64,
}

/// The effect of a taint on tasks that do not tolerate it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum TaintEffect {
    /// No new ones are placed.
    #[n(0)]
    NoSchedule,
    /// New ones are placed elsewhere while there is room.
    #[n(1)]
    PreferNoSchedule,
    /// No new ones are placed, and running ones are moved elsewhere.
    #[n(2)]
    NoExecute,
}

impl TaintEffect {
    /// Every effect with its name.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("no_schedule", Self::NoSchedule),
        ("prefer_no_schedule", Self::PreferNoSchedule),
        ("no_execute", Self::NoExecute),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoSchedule => "no_schedule",
            Self::PreferNoSchedule => "prefer_no_schedule",
            Self::NoExecute => "no_execute",
        }
    }

    /// Returns true if it refuses a node to tasks that do not tolerate it.
    pub fn refuses(self) -> bool {
        match self {
            Self::NoSchedule | Self::NoExecute => true,
            Self::PreferNoSchedule => false,
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "{}:{}", self.key, self.effect.name()),
            value => write!(f, "{}={value}:{}", self.key, self.effect.name()),
        }
    }
}

/// Selects the taints that an operator removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintMatch {
    pub key: String,
    /// Absent: any value.
    pub value: Option<String>,
    /// Absent: any effect.
    pub effect: Option<TaintEffect>,
}

impl TaintMatch {
    /// Returns true if it selects a taint.
    pub fn means(&self, taint: &Taint) -> bool {
        self.key == taint.key
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// A node's taints after those in `add` were set and those that match `remove` were removed, in one order. A taint that
/// was there already, with the same value, keeps its time. Another value of the same key and effect replaces the old
/// one.
pub fn taints_changed(taints: &[Taint], add: &[Taint], remove: &[TaintMatch]) -> Vec<Taint> {
    let same = |left: &Taint, right: &Taint| (&left.key, left.effect) == (&right.key, right.effect);
    let mut next: Vec<Taint> =
        taints.iter().filter(|taint| !remove.iter().any(|gone| gone.means(taint))).cloned().collect();
    for taint in add {
        match next.iter_mut().find(|known| same(known, taint)) {
            Some(known) if known.value == taint.value => {}
            Some(known) => known.clone_from(taint),
            None => next.push(taint.clone()),
        }
    }
    next.sort_unstable();
    next
}

/// Checks all taints of a node together.
pub fn node_taints_check(taints: &[Taint]) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let given = format!("{} taints", taints.len());
    fields.require(taints.len() <= TAINTS_MAX, "taints", given, format!("at most {TAINTS_MAX}"));
    for (at, taint) in taints.iter().enumerate() {
        fields.key(&format!("taints[{at}].key"), &taint.key);
        fields.line(&format!("taints[{at}].value"), &taint.value);
    }
    fields.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: TaintEffect, added_ms: i64) -> Taint {
        Taint { key: key.to_owned(), value: value.to_owned(), effect, added_ms }
    }

    #[test]
    fn a_key_has_one_value_per_effect_and_an_unchanged_taint_keeps_its_moment() {
        use TaintEffect::{NoExecute, NoSchedule};
        let known = [taint("a", "1", NoSchedule, 5), taint("a", "1", NoExecute, 5)];
        let add =
            [taint("a", "1", NoSchedule, 9), taint("a", "2", NoExecute, 9), taint("b", "", NoExecute, 9)];
        let next = taints_changed(&known, &add, &[]);
        let expect =
            [taint("a", "1", NoSchedule, 5), taint("a", "2", NoExecute, 9), taint("b", "", NoExecute, 9)];
        assert_eq!(next, expect);
        let of = |value: Option<&str>, effect| TaintMatch {
            key: "a".to_owned(),
            value: value.map(str::to_owned),
            effect,
        };
        assert_eq!(taints_changed(&next, &[], &[of(None, None)]), expect[2..]);
        assert_eq!(
            taints_changed(&next, &[], &[of(Some("2"), None)]),
            [expect[0].clone(), expect[2].clone()]
        );
        assert_eq!(taints_changed(&next, &[], &[of(None, Some(NoSchedule))]), expect[1..]);
    }

    #[test]
    fn taints_without_sense_are_refused_by_field() {
        let wrong =
            [taint("", "", TaintEffect::NoSchedule, 0), taint("a", "x\ny", TaintEffect::NoSchedule, 0)];
        let errors = node_taints_check(&wrong).unwrap_err();
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["taints[0].key", "taints[1].value"]);
        let many: Vec<Taint> =
            (0..33).map(|at| taint(&format!("k{at}"), "", TaintEffect::NoSchedule, 0)).collect();
        assert_eq!(
            node_taints_check(&many).unwrap_err()[0].to_string(),
            "taints: 33 taints; accepted: at most 32"
        );
    }
}
