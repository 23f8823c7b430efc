//! Dot product: the node whose free room points least where the task's demand points, each dimension measured by the
//! largest node of the cell. It is what the published packing experiment calls so ("Beware of Fragmentation", ATC 2023,
//! section 6.1, after Tetris, SIGCOMM 2014, section 3.1, which takes the most aligned machine instead).

use super::basis::Basis;
use super::{CellStats, Policy, ScoringContext};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct DotProduct;

/// A whole in the products, so that they stay exact in 64 bits.
const UNIT: u128 = 1 << 14;

impl Policy for DotProduct {
    /// The most that any node has, per dimension asked for.
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
