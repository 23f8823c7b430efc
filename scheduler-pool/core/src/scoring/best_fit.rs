//! Best fit: the node on which the task leaves least, summed over the dimensions that the cell's tasks ask for. Each is
//! measured by the largest node of the cell, as in the published packing experiment ("Beware of Fragmentation", ATC
//! 2023, section 6.1). A small node that fits is thus fuller than a large one with the same part in use.

use super::basis::Basis;
use super::{CellStats, Demanded, Policy, ScoringContext};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BestFit;

/// The free amount of the largest node, in the fixed-point numbers of this score.
const UNIT: u64 = 1 << 16;

impl Policy for BestFit {
    fn basis(&self, stats: &CellStats<'_>, _requirement: &Requirement) -> Basis {
        Basis { demanded: stats.demanded(), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        u32::try_from(u64::from(u32::MAX).saturating_sub(left_over(context))).unwrap_or(0)
    }
}

/// What the task leaves free, in parts of the largest node, summed over the dimensions.
pub(super) fn left_over(context: &ScoringContext<'_, '_>) -> u64 {
    let of = |&Demanded { dimension, largest, .. }: &Demanded| {
        let free = context.free_amount(dimension).saturating_sub(context.requirement.amount(dimension));
        free.saturating_mul(UNIT) / largest
    };
    context.basis.demanded.iter().map(of).fold(0, u64::saturating_add)
}
