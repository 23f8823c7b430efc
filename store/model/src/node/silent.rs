//! Silence: the agent of a node does not answer, and the node is not declared lost yet. It is recorded as a taint of
//! the node, as [pressure](super::Pressure) is, so that the scheduler gives the node no new tasks.

use super::{Taint, TaintEffect};

/// The key of the taint that a gateway sets.
pub const SILENT_KEY: &str = "agent/silent";

/// Since when the agent of a node with these taints does not answer, in milliseconds of wall time since 1970. `None`:
/// it answers, as far as the gateways know.
pub fn silent_since_ms(taints: &[Taint]) -> Option<i64> {
    taints.iter().find(|taint| taint.key == SILENT_KEY).map(|taint| taint.added_ms)
}

/// A node's taints while its agent does not answer, in one order. A silence that was known keeps its begin.
pub(super) fn silence_begun(taints: &[Taint], since_ms: i64) -> Vec<Taint> {
    let mut next = taints.to_vec();
    if silent_since_ms(taints).is_none() {
        let (key, value) = (SILENT_KEY.to_owned(), String::new());
        next.push(Taint { key, value, effect: TaintEffect::NoSchedule, added_ms: since_ms });
        next.sort_unstable();
    }
    next
}

/// A node's taints once its agent has answered.
pub(super) fn silence_ended(taints: &[Taint]) -> Vec<Taint> {
    taints.iter().filter(|taint| taint.key != SILENT_KEY).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_keeps_its_begin_and_leaves_other_taints_alone() {
        let own = Taint {
            key: "dedicated".to_owned(),
            value: "db".to_owned(),
            effect: TaintEffect::NoSchedule,
            added_ms: 1,
        };
        let silent = silence_begun(std::slice::from_ref(&own), 5);
        assert_eq!(silent_since_ms(&silent), Some(5));
        assert_eq!(silence_begun(&silent, 9), silent);
        let keys: Vec<String> = silent.iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["agent/silent:no_schedule", "dedicated=db:no_schedule"]);
        assert_eq!(silence_ended(&silent), [own]);
        assert_eq!(silent_since_ms(&[]), None);
    }
}
