//! The taints of nodes that the tasks of a job tolerate, and for how long.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::Band;
use crate::node::{Pressure, Taint, TaintEffect};

/// Selects taints of nodes that do not keep the tasks of a job away.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// The key of the taints. Empty, which only `Exists` allows: every key.
    #[n(0)]
    pub key: String,
    #[n(1)]
    pub operator: TolerationOperator,
    /// The value to compare with. `Exists` takes none.
    #[n(2)]
    #[serde(default)]
    pub value: String,
    /// The effect of the taints; absent: every effect.
    #[n(3)]
    #[serde(default)]
    pub effect: Option<TaintEffect>,
    /// Milliseconds that a task stays on a node after a `NoExecute` taint was set; absent: no limit.
    #[n(4)]
    #[serde(default)]
    pub evict_after_ms: Option<u64>,
}

/// How the value of a taint is compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum TolerationOperator {
    /// The taint has the value.
    #[n(0)]
    Equal,
    /// Any value.
    #[n(1)]
    Exists,
}

impl Toleration {
    /// Returns true if it tolerates the taint, for a time or without a limit.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let of_value = match self.operator {
            TolerationOperator::Equal => self.key == taint.key && self.value == taint.value,
            TolerationOperator::Exists => self.key.is_empty() || self.key == taint.key,
        };
        of_value && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// Returns true if any of `tolerations` lets new tasks onto a node with a taint. A toleration with a time limit does
/// not: the task would have to leave again, and come again.
pub fn taint_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    let for_good = |toleration: &Toleration| toleration.evict_after_ms.is_none();
    tolerations.iter().any(|toleration| toleration.tolerates(taint) && for_good(toleration))
}

/// The time at which an attempt that began at `begun_ms` must leave a node with these taints: wall time in milliseconds
/// since 1970; `None`: never.
///
/// The most patient matching toleration says for how long a taint is tolerated. Its time starts when the taint is set
/// or the attempt begins, whichever is later. The taint that runs out first decides.
pub fn eviction_due_ms(taints: &[Taint], tolerations: &[Toleration], begun_ms: i64) -> Option<i64> {
    let leave_ms = |taint: &Taint| {
        let meaning = tolerations.iter().filter(|toleration| toleration.tolerates(taint));
        let patience = meaning.map(|toleration| toleration.evict_after_ms.unwrap_or(u64::MAX)).max();
        let patience = patience.unwrap_or(0);
        let from_ms = taint.added_ms.max(begun_ms);
        (patience < u64::MAX).then(|| from_ms.saturating_add(i64::try_from(patience).unwrap_or(i64::MAX)))
    };
    taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).filter_map(leave_ms).min()
}

/// The tolerations of a job's tasks at their placement: those of its owner, and a node short of memory for the
/// production and monitoring bands. Those bands may use the memory that they requested. The lower bands would be
/// evicted for them, so they stay away.
pub fn tolerations_in_force(tolerations: &[Toleration], band: Band) -> Vec<Toleration> {
    let mut all = tolerations.to_vec();
    if band >= Band::Production {
        all.push(Toleration {
            key: Pressure::Memory.key(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: Some(TaintEffect::NoSchedule),
            evict_after_ms: None,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
        Taint { key: key.to_owned(), value: value.to_owned(), effect, added_ms: 1000 }
    }

    fn toleration(key: &str, value: Option<&str>, evict_after_ms: Option<u64>) -> Toleration {
        let operator = value.map_or(TolerationOperator::Exists, |_| TolerationOperator::Equal);
        let value = value.unwrap_or_default().to_owned();
        Toleration { key: key.to_owned(), operator, value, effect: None, evict_after_ms }
    }

    #[test]
    fn a_toleration_means_the_taints_of_its_key_value_and_effect() {
        use TaintEffect::{NoExecute, NoSchedule};
        let db = taint("dedicated", "db", NoSchedule);
        assert!(toleration("dedicated", Some("db"), None).tolerates(&db));
        assert!(!toleration("dedicated", Some("web"), None).tolerates(&db));
        assert!(!toleration("dedicated", Some(""), None).tolerates(&db));
        assert!(toleration("dedicated", None, None).tolerates(&db));
        assert!(!toleration("gpu", None, None).tolerates(&db));
        assert!(toleration("", None, None).tolerates(&db), "every key");
        let executed = Toleration { effect: Some(NoExecute), ..toleration("dedicated", None, None) };
        assert!(!executed.tolerates(&db) && executed.tolerates(&taint("dedicated", "db", NoExecute)));
        assert!(taint_tolerated(&[executed, toleration("", None, None)], &db));
        assert!(!taint_tolerated(&[], &db));
        let a_while = toleration("", None, Some(5000));
        assert!(a_while.tolerates(&db) && !taint_tolerated(&[a_while], &db), "nothing new comes for a while");
    }

    #[test]
    fn the_first_taint_whose_patience_is_over_drives_an_attempt_away() {
        use TaintEffect::{NoExecute, NoSchedule};
        let taints = [taint("a", "", NoExecute), taint("b", "", NoExecute), taint("c", "", NoSchedule)];
        let due = |tolerations: &[Toleration], begun_ms| eviction_due_ms(&taints, tolerations, begun_ms);
        assert_eq!(due(&[], 0), Some(1000), "at once, and whatever does not execute drives nobody away");
        assert_eq!(due(&[toleration("", None, None)], 0), None);
        let patient = [toleration("a", None, Some(500)), toleration("b", None, Some(70))];
        assert_eq!(due(&patient, 0), Some(1070));
        assert_eq!(due(&patient, 2000), Some(2070), "from the begin of an attempt that came after the taint");
        let more = [patient.as_slice(), &[toleration("b", None, None)]].concat();
        assert_eq!(due(&more, 0), Some(1500), "the most patient toleration of a taint counts");
        assert_eq!(eviction_due_ms(&[], &[], 0), None);
    }
}
