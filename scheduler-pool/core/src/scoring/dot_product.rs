//! Dot product: the node with free capacity that is least aligned with the task's demand. Each dimension is measured by
//! the largest node of the cell. The published packing experiment uses this name ("Beware of Fragmentation", ATC 2023,
//! section 6.1). Tetris (SIGCOMM 2014, section 3.1) takes the most aligned machine instead.

use super::basis::Basis;
use super::{CellStats, Policy, ScoringContext};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct DotProduct;

/// One, in the fixed-point numbers of the products. They stay exact in 64 bits.
const UNIT: u128 = 1 << 14;

impl Policy for DotProduct {
    /// The largest capacity of any node, per requested dimension.
    fn basis(&self, stats: &CellStats<'_>, requirement: &Requirement) -> Basis {
        let most = requirement.demand.iter().map(|&(dimension, _)| stats.limit_most(dimension));
        Basis { amounts: most.collect(), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let product = |(&(dimension, amount), &most): (&(usize, u64), &u64)| {
            let part = |of: u64| u128::from(of) * UNIT / u128::from(most.max(1));
            part(amount) * part(context.free_amount(dimension)) / UNIT
        };
        let sum: u128 = context.requirement.demand.iter().zip(&context.basis.amounts).map(product).sum();
        u32::MAX - u32::try_from(sum).unwrap_or(u32::MAX)
    }
}
