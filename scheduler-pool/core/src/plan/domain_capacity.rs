//! How many tasks of a shape each node and each domain could take. The counts follow what a plan takes. They ignore
//! rules between tasks, so they are an upper bound.

use std::collections::{BTreeMap, BTreeSet};

use crate::filter::{Requirement, copies};
use crate::overlay::PlanOverlay;

/// The capacity for one shape in the domains of one attribute.
pub(super) struct DomainCapacity {
    requirement: Requirement,
    of_node: BTreeMap<u32, u64>,
    of_domain: BTreeMap<u32, u64>,
    log_at: usize,
}

impl DomainCapacity {
    /// Counts the capacity as it is now.
    pub(super) fn made(
        overlay: &PlanOverlay<'_>,
        mut requirement: Requirement,
        key: u32,
        now_ms: i64,
    ) -> Self {
        requirement.rules.rules.clear();
        let (of_node, of_domain) = (BTreeMap::new(), BTreeMap::new());
        let mut capacity = Self { requirement, of_node, of_domain, log_at: overlay.log.len() };
        for (value, nodes) in overlay.nodes.index.values_of(key) {
            let mut sum = 0u64;
            for &node in nodes {
                let tasks = copies(overlay, &capacity.requirement, node, now_ms);
                if tasks > 0 {
                    capacity.of_node.insert(node, tasks);
                    sum = sum.saturating_add(tasks);
                }
            }
            capacity.of_domain.insert(value, sum);
        }
        capacity
    }

    /// Counts the nodes again that the plan has changed since the last call.
    pub(super) fn follow(&mut self, overlay: &PlanOverlay<'_>, key: u32, now_ms: i64) {
        let changed: BTreeSet<u32> = overlay.log.iter().skip(self.log_at).copied().collect();
        self.log_at = overlay.log.len();
        for node in changed {
            let Some(value) = overlay.nodes.attribute(node, key) else { continue };
            let after = copies(overlay, &self.requirement, node, now_ms);
            let before = self.of_node.insert(node, after).unwrap_or(0);
            let sum = self.of_domain.entry(value).or_default();
            *sum = sum.saturating_sub(before).saturating_add(after);
        }
    }

    /// How many tasks a domain could take.
    pub(super) fn of_domain(&self, value: u32) -> u64 {
        self.of_domain.get(&value).copied().unwrap_or(0)
    }
}
