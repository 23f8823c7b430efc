//! Load-aware scoring: the node with the least expected use with the task, whatever is promised there.
//!
//! The expected use is the load that the node's agent measured, plus the requests of tasks that the measurement does
//! not cover. So a burst of tasks does not go to one node that looked idle. HULK avoids busy hosts by their measured
//! load, whatever is allocated on them. The estimate of what is not measured yet comes from Koordinator's load-aware
//! scheduling (its "estimated usage" of tasks without a metric). As in E-PVM, a dimension costs more, the fuller it is
//! expected to be. Not the rise of the cost counts but all of it, so that even a small task avoids a busy node.

use super::context::FULL;
use super::opportunity_cost::OpportunityCost;
use super::{Policy, ScoringContext, SearchStart};

/// Least expected cost of use: measured load, and requests that it does not cover yet (`docs/policies.md`).
#[derive(Debug)]
pub(super) struct LoadAware;

/// Expected use counts up to twice a dimension: load and promises together may exceed the capacity.
const COST: OpportunityCost = OpportunityCost { empty: 1 << 10, most: 2 * FULL };

impl Policy for LoadAware {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let costs =
            context.dimensions().into_iter().map(|dimension| COST.of(context.expected_after(dimension)));
        u32::MAX - u32::try_from(costs.sum::<u64>()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuller_dimension_costs_more_up_to_twice_what_there_is() {
        assert_eq!((COST.of(0), COST.of(125), COST.of(1000)), (COST.empty, 2 * COST.empty, 256 * COST.empty));
        assert_eq!(COST.of(u32::MAX), COST.of(2000));
        assert!((0..2000).all(|expected| COST.of(expected) < COST.of(expected + 1)));
        assert!(6 * COST.of(2000) < u64::from(u32::MAX), "six dimensions fit a score");
    }
}
