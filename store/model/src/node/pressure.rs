//! Pressure: resources that a machine runs short of, whatever is promised on it. It is recorded as taints of the node,
//! so that filters, explanations, guards of commits and operators' views all cover it.

use std::collections::BTreeSet;

use super::{Taint, TaintEffect};

/// The prefix of taints that agents set, not operators.
pub const PRESSURE_PREFIX: &str = "pressure/";

/// A resource that a machine can run short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pressure {
    /// Memory: little is free, or tasks are stalled for lack of it.
    Memory,
    /// The disk of the agent's state, where tasks write their output.
    Disk,
    /// Process numbers.
    Pids,
}

impl Pressure {
    /// Every kind with its name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("memory", Self::Memory), ("disk", Self::Disk), ("pids", Self::Pids)];

    /// Its name in the keys of taints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Pids => "pids",
        }
    }

    /// The key of its taints.
    pub fn key(self) -> String {
        format!("{PRESSURE_PREFIX}{}", self.name())
    }

    /// The effects on tasks. Free memory is kept for tasks of the upper bands, which come only if no better node
    /// exists; the disk and process numbers are kept for nobody.
    fn effects(self) -> &'static [TaintEffect] {
        match self {
            Self::Memory => &[TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule],
            Self::Disk | Self::Pids => &[TaintEffect::NoSchedule],
        }
    }
}

/// A node's taints after its agent's report of shortages, in one order. A taint that was there keeps its time; those of
/// operators stay.
pub(super) fn pressure_applied(taints: &[Taint], short_of: &BTreeSet<Pressure>, now_ms: i64) -> Vec<Taint> {
    let wanted = short_of.iter().flat_map(|kind| kind.effects().iter().map(|&effect| (kind.key(), effect)));
    let of_agents = |taint: &&Taint| taint.key.starts_with(PRESSURE_PREFIX);
    let mut next: Vec<Taint> = taints.iter().filter(|taint| !of_agents(taint)).cloned().collect();
    next.extend(wanted.map(|(key, effect)| {
        let known = taints.iter().find(|taint| taint.key == key && taint.effect == effect);
        let added_ms = known.map_or(now_ms, |taint| taint.added_ms);
        Taint { key, value: String::new(), effect, added_ms }
    }));
    next.sort_unstable();
    next
}

/// The resources that a node is short of, by its taints.
pub fn pressure_of(taints: &[Taint]) -> BTreeSet<Pressure> {
    let kind = |taint: &Taint| {
        let name = taint.key.strip_prefix(PRESSURE_PREFIX)?;
        Pressure::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, kind)| kind)
    };
    taints.iter().filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(taints: &[Taint]) -> Vec<String> {
        taints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_node_has_its_agents_taints_and_keeps_those_of_operators() {
        let own = Taint {
            key: "dedicated".to_owned(),
            value: "db".to_owned(),
            effect: TaintEffect::NoSchedule,
            added_ms: 1,
        };
        let disk = pressure_applied(&[own], &[Pressure::Disk].into(), 5);
        assert_eq!(keys(&disk), ["dedicated=db:no_schedule", "pressure/disk:no_schedule"]);
        let both = pressure_applied(&disk, &[Pressure::Memory, Pressure::Disk].into(), 9);
        let memory = ["pressure/memory:no_schedule", "pressure/memory:prefer_no_schedule"];
        assert_eq!(keys(&both)[2..], memory);
        assert_eq!(both[1].added_ms, 5, "it lasts since then");
        assert_eq!(pressure_of(&both), [Pressure::Memory, Pressure::Disk].into());
        assert_eq!(keys(&pressure_applied(&both, &BTreeSet::new(), 10)), ["dedicated=db:no_schedule"]);
    }
}
