//! What a policy sees of a node: what is promised of it as the plan stands, before the task and with it.

use smallvec::SmallVec;

use super::Basis;
use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::profile::Weights;

/// All of a dimension, in thousandths.
pub(crate) const FULL: u32 = 1000;

/// Processor and memory, which every node is scored by.
const DIMENSIONS_ALWAYS: [usize; 2] = [0, 1];

/// One node in the eyes of a policy.
pub(crate) struct ScoringContext<'w, 'a> {
    pub work: &'w PlanOverlay<'a>,
    pub requirement: &'w Requirement,
    pub basis: &'w Basis,
    pub weights: &'w Weights,
    pub node: u32,
}

impl ScoringContext<'_, '_> {
    /// The dimensions that a node is scored by: processor, memory, and what else is asked for.
    pub fn dimensions(&self) -> SmallVec<[usize; 6]> {
        let asked = self.requirement.demand.iter().map(|&(dimension, _)| dimension);
        let asked = asked.filter(|dimension| !DIMENSIONS_ALWAYS.contains(dimension));
        DIMENSIONS_ALWAYS.into_iter().chain(asked).collect()
    }

    /// The part of `amount` in a dimension of the node, in thousandths, rounded down: small changes change nothing.
    fn share(&self, dimension: usize, amount: u64) -> u32 {
        let limit = self.work.nodes.limit(dimension, self.node);
        if limit == 0 {
            return 0;
        }
        // Nearly always in 64 bits: a division of 128 is many times as dear, and this is asked for every node scored.
        let share = match amount.checked_mul(u64::from(FULL)) {
            Some(thousandths) => thousandths / limit,
            None => amount / (limit / u64::from(FULL)).max(1),
        };
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// What is promised of a dimension now.
    pub fn used(&self, dimension: usize) -> u32 {
        self.share(dimension, self.work.used(dimension, self.node)).min(FULL)
    }

    /// What would be promised of it with the task.
    pub fn used_after(&self, dimension: usize) -> u32 {
        let used = self.work.used(dimension, self.node);
        self.share(dimension, used.saturating_add(self.requirement.amount(dimension))).min(FULL)
    }

    /// What would be free of it with the task.
    pub fn free_after(&self, dimension: usize) -> u32 {
        FULL - self.used_after(dimension)
    }

    /// How much of a dimension is expected to be in use with the task, in thousandths of what the node has (which may
    /// be less than what may be promised of it): what was measured, and what was promised since. Where nothing was
    /// measured, what is promised.
    pub fn expected_after(&self, dimension: usize) -> u32 {
        let overcommit = &self.work.tables.settings.overcommit;
        let per_mille = match dimension {
            0 => overcommit.cpu_per_mille,
            1 => overcommit.memory_per_mille,
            _ => return self.used_after(dimension),
        };
        let promised = (self.work.used(0, self.node), self.work.used(1, self.node));
        let measured = self.work.nodes.measured(self.node);
        let (cpu, memory) = measured.map_or(promised, |measured| measured.expected(promised));
        let expected = if dimension == 0 { cpu } else { memory };
        let after = expected.saturating_add(self.requirement.amount(dimension));
        // A limit is the part of the capacity that may be promised: this is the part of the capacity. In 64 bits where
        // that will do, as above.
        let limit = self.work.nodes.limit(dimension, self.node).max(1);
        let share = match after.checked_mul(u64::from(per_mille)) {
            Some(parts) => parts / limit,
            None => after / (limit / u64::from(per_mille.max(1))).max(1),
        };
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// What is free of it now.
    pub fn free(&self, dimension: usize) -> u32 {
        FULL - self.used(dimension)
    }

    /// How much of a dimension is free now, in its own unit.
    pub fn free_amount(&self, dimension: usize) -> u64 {
        let limit = self.work.nodes.limit(dimension, self.node);
        limit.saturating_sub(self.work.used(dimension, self.node))
    }

    /// Tasks on the node now.
    pub fn tasks(&self) -> u32 {
        self.work.tasks(self.node)
    }
}
