//! A node's sockets and NUMA domains, and tasks that must stay within one of them.
//!
//! Each has dimensions of its own besides those of the whole node, as cards have. `numa/1` is the processor time of the
//! domain that the kernel calls node 1, `numa.memory/1` its memory; `socket/0` and `socket.memory/0` are those of a
//! socket. A task within a domain is charged to it, to its socket and to the node. A floating task is charged to the
//! node alone.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::card::card_dimension;
use crate::field_error::FieldErrors;
use crate::resource::Resources;

/// Most domains of a node.
pub const DOMAINS_MAX: usize = 64;
/// Most processors of a domain.
pub(super) const DOMAIN_CPUS_MAX: usize = 1024;
/// Kinds of dimensions that belong to the topology: no device may have these names.
pub const TOPOLOGY_KINDS: [&str; 4] = ["numa", "numa.memory", "socket", "socket.memory"];

/// Returns true if an amount of this dimension is bytes: the memory of a domain or socket, `numa.memory/0`.
pub fn is_domain_memory(dimension: &str) -> bool {
    dimension.split_once('/').is_some_and(|(kind, _)| matches!(kind, "numa.memory" | "socket.memory"))
}

/// Checks a kind of device: a key without a slash, since the place of a single card follows one.
pub(crate) fn device_kind_check(fields: &mut FieldErrors, path: &str, kind: &str) {
    fields.key(path, kind);
    let fine = !kind.contains('/') && !TOPOLOGY_KINDS.contains(&kind);
    let accepted = "a kind such as gpu, without '/', and none of numa, numa.memory, socket, socket.memory";
    fields.require(fine, path, format!("{kind:?}"), accepted);
}

/// The attribute with the speed of a core of the node, in thousandths of the reference core's. Without it, the core
/// counts as the reference.
pub const CORE_SPEED: &str = "cpu.speed";
/// As fast as the reference.
pub const CORE_SPEED_REFERENCE: u64 = 1000;
/// Accepted speeds: a hundredth of the reference's to a hundred times it.
pub const CORE_SPEEDS: std::ops::RangeInclusive<u64> = 10..=100_000;

/// The speed of a core of a node with these attributes, in thousandths of the reference core's. Processor time is
/// requested, promised and counted in thousandths of a core of the reference: a core of 1500 has 1500 of them.
pub fn core_speed(attributes: &BTreeMap<String, String>) -> u64 {
    let speed = attributes.get(CORE_SPEED).and_then(|speed| speed.parse().ok());
    speed.filter(|speed| CORE_SPEEDS.contains(speed)).unwrap_or(CORE_SPEED_REFERENCE)
}

/// How many whole cores of that speed have exactly this much processor time; `None` if no number has.
pub fn cores_whole(cpu_millis: u64, speed: u64) -> Option<u64> {
    let cores = cpu_millis.checked_div(speed)?;
    (cores > 0 && cores.checked_mul(speed) == Some(cpu_millis)).then_some(cores)
}

/// One NUMA domain of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct NumaDomain {
    /// The kernel's number.
    #[n(0)]
    pub place: u32,
    #[n(1)]
    pub socket: u32,
    /// The numbers of its processors, ascending.
    #[n(2)]
    pub cpus: Vec<u32>,
    /// Its memory in bytes.
    #[n(3)]
    pub memory_bytes: u64,
}

/// The part of a node that a task must stay within.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    /// The processors of one socket, and its memory.
    #[n(0)]
    OneSocket,
    /// The processors and memory of one NUMA domain.
    #[n(1)]
    OneNumaNode,
}

impl Within {
    /// Both with their names.
    pub const NAMES: [(&'static str, Self); 2] =
        [("one_socket", Self::OneSocket), ("one_numa_node", Self::OneNumaNode)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneSocket => "one_socket",
            Self::OneNumaNode => "one_numa_node",
        }
    }
}

impl NumaDomain {
    /// The dimensions that a task within it takes, processors first: of it, and of its socket.
    pub fn dimensions(&self) -> [(String, String); 2] {
        [
            (card_dimension("numa", self.place), card_dimension("numa.memory", self.place)),
            (card_dimension("socket", self.socket), card_dimension("socket.memory", self.socket)),
        ]
    }
}

/// A node's capacity with the dimensions of its domains. A node with one domain has them too, which distinguishes it
/// from one with an unknown topology. `speed` is that of its cores.
pub fn domains_counted(capacity: &Resources, domains: &[NumaDomain], speed: u64) -> Resources {
    let mut counted = capacity.clone();
    for domain in domains {
        let cpu_millis = (domain.cpus.len() as u64).saturating_mul(speed);
        for (cpu, memory) in domain.dimensions() {
            for (dimension, amount) in [(cpu, cpu_millis), (memory, domain.memory_bytes)] {
                let total = counted.device_millis.entry(dimension).or_default();
                *total = total.saturating_add(amount);
            }
        }
    }
    counted
}

/// The confinement of an attempt that takes `charge` of a node with these domains: processors and memory domains,
/// ascending. Empty if it floats.
pub fn confinement(charge: &Resources, domains: &[NumaDomain]) -> (Vec<u32>, Vec<u32>) {
    let takes = |dimension: &String| charge.device_millis.contains_key(dimension);
    let of_numa = |domain: &&NumaDomain| takes(&domain.dimensions()[0].0);
    let of_socket = |domain: &&NumaDomain| takes(&domain.dimensions()[1].0);
    let mut within: Vec<&NumaDomain> = domains.iter().filter(of_numa).collect();
    if within.is_empty() {
        within = domains.iter().filter(of_socket).collect();
    }
    let mut cpus: Vec<u32> = within.iter().flat_map(|domain| domain.cpus.iter().copied()).collect();
    let mut places: Vec<u32> = within.iter().map(|domain| domain.place).collect();
    cpus.sort_unstable();
    places.sort_unstable();
    (cpus, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(place: u32, socket: u32, cpus: &[u32], memory_bytes: u64) -> NumaDomain {
        NumaDomain { place, socket, cpus: cpus.to_vec(), memory_bytes }
    }

    #[test]
    fn domains_count_for_themselves_and_their_sockets() {
        let domains = [domain(0, 0, &[0, 1], 10), domain(1, 0, &[2, 3], 20), domain(2, 1, &[4], 30)];
        let counted = domains_counted(&Resources::default(), &domains, 1000);
        let amount = |dimension: &str| counted.device_millis.get(dimension).copied().unwrap_or(0);
        assert_eq!((amount("numa/1"), amount("numa.memory/1")), (2000, 20));
        assert_eq!((amount("socket/0"), amount("socket.memory/0"), amount("socket/1")), (4000, 30, 1000));
        assert_eq!(counted.without_cards(), Resources::default());
    }

    #[test]
    fn cores_are_as_fast_as_the_reference_by_default() {
        let speed = |speed: &str| core_speed(&[(CORE_SPEED.to_owned(), speed.to_owned())].into());
        assert_eq!(core_speed(&BTreeMap::new()), 1000);
        assert_eq!((speed("1500"), speed("0"), speed("fast"), speed("1e9")), (1500, 1000, 1000, 1000));
        assert_eq!(cores_whole(3000, 1500), Some(2));
        assert_eq!([cores_whole(1000, 1500), cores_whole(0, 1000), cores_whole(1000, 0)], [None; 3]);
        let counted = domains_counted(&Resources::default(), &[domain(0, 0, &[0, 1], 10)], 1500);
        assert_eq!(counted.device_millis.get("numa/0"), Some(&3000));
    }

    #[test]
    fn an_attempt_stays_where_it_is_charged() {
        let domains = [domain(0, 0, &[0, 1], 10), domain(1, 0, &[2, 3], 20), domain(2, 1, &[4], 30)];
        let charge = |dimensions: &[&str]| Resources {
            device_millis: dimensions.iter().map(|&dimension| (dimension.to_owned(), 1)).collect(),
            ..Resources::default()
        };
        assert_eq!(confinement(&charge(&["numa/1", "socket/0"]), &domains), (vec![2, 3], vec![1]));
        assert_eq!(confinement(&charge(&["socket/0"]), &domains), (vec![0, 1, 2, 3], vec![0, 1]));
        assert_eq!(confinement(&charge(&["gpu/0"]), &domains), (vec![], vec![]));
    }
}
