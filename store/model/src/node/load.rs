//! The measured load of a node: the part of it in use, independent of promises. It is a separate row, which placements
//! neither read nor write, so a measurement never conflicts with a placement.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::NodeRow;
use crate::resource::Resources;

/// A measurement counts as changed if it differs by this part of the capacity.
const STEP_PART: u64 = 64;

/// The known load of a node.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Counts every change.
    #[n(0)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970; for people. An unchanged measurement is not written
    /// again: it is valid as long as the node's lease is renewed.
    #[n(1)]
    pub changed_ms: i64,
    /// Absent: the agent cannot measure.
    #[n(2)]
    pub measured: Option<LoadMeasured>,
    /// `Some(true)`: no entry of the journal has this revision, since nobody followed loads when it was written.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjournalled: Option<bool>,
}

impl NodeLoad {
    /// Returns true if no entry of the journal has this revision.
    pub fn is_unjournalled(&self) -> bool {
        self.unjournalled == Some(true)
    }
}

/// A smoothed measurement, in the units of the node's capacity and never more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LoadMeasured {
    /// Processor time in use, by tasks or anything else.
    #[n(0)]
    pub cpu_millis: u64,
    /// Memory in use, by tasks or anything else, without what the kernel would reclaim.
    #[n(1)]
    pub memory_bytes: u64,
    /// Processor time requested by the tasks whose use is part of the measurement. Promises beyond it are to tasks that
    /// the measurement does not include yet.
    #[n(2)]
    pub covered_cpu_millis: u64,
    /// The same for memory.
    #[n(3)]
    pub covered_memory_bytes: u64,
}

impl LoadMeasured {
    /// The same, limited to the node's capacity.
    #[must_use]
    pub fn clamped(self, capacity: &Resources) -> Self {
        Self {
            cpu_millis: self.cpu_millis.min(capacity.cpu_millis),
            memory_bytes: self.memory_bytes.min(capacity.memory_bytes),
            covered_cpu_millis: self.covered_cpu_millis,
            covered_memory_bytes: self.covered_memory_bytes,
        }
    }

    /// Returns true if it differs enough from another measurement to be reported.
    pub fn differs(&self, other: &Self, capacity: &Resources) -> bool {
        let far = |one: u64, other: u64, whole: u64| one.abs_diff(other) >= (whole / STEP_PART).max(1);
        let (cpu, memory) = (capacity.cpu_millis, capacity.memory_bytes);
        far(self.cpu_millis, other.cpu_millis, cpu)
            || far(self.memory_bytes, other.memory_bytes, memory)
            || far(self.covered_cpu_millis, other.covered_cpu_millis, cpu)
            || far(self.covered_memory_bytes, other.covered_memory_bytes, memory)
    }

    /// The expected use of a node with so much promised: the measurement, and the requests of later tasks. Arguments
    /// and result are `(cpu_millis, memory_bytes)`.
    pub fn expected(&self, promised: (u64, u64)) -> (u64, u64) {
        let cpu = promised.0.saturating_sub(self.covered_cpu_millis);
        let memory = promised.1.saturating_sub(self.covered_memory_bytes);
        (self.cpu_millis.saturating_add(cpu), self.memory_bytes.saturating_add(memory))
    }
}

/// A node's load after a measurement of its agent; `None` if it has not changed enough.
pub fn node_load_next(
    before: Option<&NodeLoad>,
    node: &NodeRow,
    measured: Option<LoadMeasured>,
    now_ms: i64,
) -> Option<NodeLoad> {
    let measured = measured.map(|measured| measured.clamped(&node.capacity));
    let known = before.and_then(|before| before.measured);
    let new = match (&known, &measured) {
        (None, None) => false,
        (Some(known), Some(measured)) => measured.differs(known, &node.capacity),
        (None, Some(_)) | (Some(_), None) => true,
    };
    let revision = before.map_or(0, |before| before.revision).saturating_add(1);
    new.then_some(NodeLoad { revision, changed_ms: now_ms, measured, unjournalled: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Name, NodeId};
    use crate::node::{NodeFacts, node_new};

    fn node() -> NodeRow {
        let capacity = Resources { cpu_millis: 6_400, memory_bytes: 64 << 30, ..Resources::default() };
        let facts = NodeFacts {
            capacity,
            port_first: 20_000,
            port_last: 20_001,
            attributes: Default::default(),
            host: String::new(),
            boot_id: String::new(),
            agent_version: String::new(),
            cards: Vec::new(),
            domains: Vec::new(),
        };
        node_new(NodeId(1), Name::new("n1").unwrap(), facts, 0)
    }

    fn cpu(cpu_millis: u64) -> Option<LoadMeasured> {
        Some(LoadMeasured { cpu_millis, ..LoadMeasured::default() })
    }

    #[test]
    fn only_what_is_new_is_noted_and_nothing_beyond_the_node() {
        let node = node();
        assert_eq!(node_load_next(None, &node, None, 5), None, "not known before either");
        let first = node_load_next(None, &node, cpu(1_000), 5).unwrap();
        assert_eq!((first.revision, first.changed_ms, first.measured), (1, 5, cpu(1_000)));
        assert_eq!(node_load_next(Some(&first), &node, cpu(1_099), 6), None);
        assert_eq!(node_load_next(Some(&first), &node, cpu(901), 6), None);
        let next = node_load_next(Some(&first), &node, cpu(1_100), 6).unwrap();
        assert_eq!((next.revision, next.measured), (2, cpu(1_100)));
        let beyond = node_load_next(Some(&next), &node, cpu(u64::MAX), 7).unwrap();
        assert_eq!(beyond.measured, cpu(6_400));
        let unknown = node_load_next(Some(&beyond), &node, None, 8).unwrap();
        assert_eq!((unknown.revision, unknown.measured), (4, None));
        assert_eq!(node_load_next(Some(&unknown), &node, None, 9), None);
    }

    #[test]
    fn what_came_since_the_measurement_counts_as_it_asks() {
        let measured = LoadMeasured {
            cpu_millis: 500,
            memory_bytes: 70,
            covered_cpu_millis: 2_000,
            covered_memory_bytes: 100,
        };
        assert_eq!(measured.expected((2_000, 100)), (500, 70));
        assert_eq!(measured.expected((3_000, 130)), (1_500, 100));
        assert_eq!(measured.expected((0, 0)), (500, 70), "what was measured stays measured");
        let most = LoadMeasured { cpu_millis: u64::MAX, ..LoadMeasured::default() };
        assert_eq!(most.expected((u64::MAX, 0)).0, u64::MAX);
    }
}
