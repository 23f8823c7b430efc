//! Worst fit after E-PVM: the node with the smallest rise in [`OpportunityCost`] by the task. Borg, EuroSys 2015,
//! section 3.2, calls the outcome worst fit.

use super::context::FULL;
use super::opportunity_cost::OpportunityCost;
use super::{Policy, ScoringContext, SearchStart};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct WorstFit;

const COST: OpportunityCost = OpportunityCost { empty: 1 << 20, most: FULL };

impl Policy for WorstFit {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let rise = |dimension| COST.of(context.used_after(dimension)) - COST.of(context.used(dimension));
        let rise: u64 = context.dimensions().into_iter().map(rise).sum();
        u32::MAX - u32::try_from(rise).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_dimension_costs_more_than_the_one_before() {
        assert_eq!((COST.of(0), COST.of(125), COST.of(1000)), (COST.empty, 2 * COST.empty, 256 * COST.empty));
        let rises: Vec<u64> = (0..1000).map(|used| COST.of(used + 1) - COST.of(used)).collect();
        // Rounding moves a rise by one at most.
        assert!(rises.iter().zip(rises.iter().skip(1)).all(|(one, next)| *next + 1 >= *one));
        assert!(rises[0] * 100 < rises[999]);
    }
}
