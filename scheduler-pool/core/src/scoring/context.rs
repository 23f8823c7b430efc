//! The view of a node that policies score: its used amounts as the plan has left it, before the task and with it.

use smallvec::SmallVec;

use super::Basis;
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::profile::Weights;

/// All of a dimension, in thousandths.
pub(crate) const FULL: u32 = 1000;

/// Processor and memory, which every node is scored by.
const DIMENSIONS_ALWAYS: [usize; 2] = [0, 1];

/// One node, as a policy sees it.
pub(crate) struct ScoringContext<'w, 'a> {
    pub overlay: &'w PlanOverlay<'a>,
    pub requirement: &'w Requirement,
    pub basis: &'w Basis,
    pub weights: &'w Weights,
    pub node: u32,
}

impl ScoringContext<'_, '_> {
    /// The scored dimensions: processor, memory, and every other requested one.
    pub(crate) fn dimensions(&self) -> SmallVec<[usize; 6]> {
        let asked = self.requirement.demand.iter().map(|&(dimension, _)| dimension);
        let asked = asked.filter(|dimension| !DIMENSIONS_ALWAYS.contains(dimension));
        DIMENSIONS_ALWAYS.into_iter().chain(asked).collect()
    }

    /// The part of `amount` in a dimension of the node, in thousandths, rounded down so that small changes do not
    /// change scores.
    fn share(&self, dimension: usize, amount: u64) -> u32 {
        let limit = self.overlay.nodes.limit(dimension, self.node);
        if limit == 0 {
            return 0;
        }
        // Mostly in 64 bits: a 128-bit division is many times slower, and every scored node needs this one.
        let share = match amount.checked_mul(u64::from(FULL)) {
            Some(thousandths) => thousandths / limit,
            None => amount / (limit / u64::from(FULL)).max(1),
        };
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// The used part of a dimension now, in thousandths.
    pub(crate) fn used(&self, dimension: usize) -> u32 {
        self.share(dimension, self.overlay.used(dimension, self.node)).min(FULL)
    }

    /// The used part with the task, in thousandths.
    pub(crate) fn used_after(&self, dimension: usize) -> u32 {
        let used = self.overlay.used(dimension, self.node);
        self.share(dimension, used.saturating_add(self.requirement.amount(dimension))).min(FULL)
    }

    /// The expected use of a dimension with the task, in thousandths of the node's capacity. It is the measured load
    /// plus what was promised since. Without a measurement it is the promised amount.
    pub(crate) fn expected_after(&self, dimension: usize) -> u32 {
        let overcommit = &self.overlay.tables.settings.overcommit;
        let per_mille = match dimension {
            0 => overcommit.cpu_per_mille,
            1 => overcommit.memory_per_mille,
            _ => return self.used_after(dimension),
        };
        let promised = (self.overlay.used(0, self.node), self.overlay.used(1, self.node));
        let measured = self.overlay.nodes.measured(self.node);
        let (cpu, memory) = measured.map_or(promised, |measured| measured.expected(promised));
        let expected = if dimension == 0 { cpu } else { memory };
        let after = expected.saturating_add(self.requirement.amount(dimension));
        // A limit is the capacity times the overcommit, so this divides by the capacity. In 64 bits if possible, as
        // above.
        let limit = self.overlay.nodes.limit(dimension, self.node).max(1);
        let share = match after.checked_mul(u64::from(per_mille)) {
            Some(parts) => parts / limit,
            None => after / (limit / u64::from(per_mille.max(1))).max(1),
        };
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// The free part of a dimension now, in thousandths.
    pub(crate) fn free(&self, dimension: usize) -> u32 {
        FULL - self.used(dimension)
    }

    /// The free amount of a dimension now, in its own unit.
    pub(crate) fn free_amount(&self, dimension: usize) -> u64 {
        let limit = self.overlay.nodes.limit(dimension, self.node);
        limit.saturating_sub(self.overlay.used(dimension, self.node))
    }

    /// The number of tasks on the node now.
    pub(crate) fn tasks(&self) -> u32 {
        self.overlay.tasks(self.node)
    }
}
