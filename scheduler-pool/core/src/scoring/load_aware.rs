//! Load-aware scoring: the node with the least expected use with the task, whatever is promised there.
//!
//! The expected use is the load that the node's agent measured, plus the requests of tasks that the measurement does
//! not cover. So a burst of tasks does not go to one node that looked idle. HULK avoids busy hosts by their measured
//! load, whatever is allocated on them. The estimate of what is not measured yet comes from Koordinator's load-aware
//! scheduling (its "estimated usage" of tasks without a metric). As in E-PVM, a dimension costs more, the fuller it is
//! expected to be. Not the rise of the cost counts but all of it, so that even a small task avoids a busy node.

use super::context::FULL;
use super::{Policy, ScoringContext, SearchStart};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct LoadAware;

/// The cost of a full dimension over that of an empty one: 2 to the power of this.
const DOUBLINGS: u32 = 8;
const COST_EMPTY: u64 = 1 << 10;
/// Expected use counts up to this much of a dimension. Load and promises together may exceed the capacity.
const EXPECTED_MAX: u32 = 2 * FULL;

impl Policy for LoadAware {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let costs = context.dimensions().into_iter().map(|dimension| cost(context.expected_after(dimension)));
        u32::MAX - u32::try_from(costs.sum::<u64>()).unwrap_or(u32::MAX)
    }
}

/// The cost of a dimension with so many thousandths in use. It doubles eight times from empty to full, and as often
/// again up to twice full. Between two doublings it is linear.
fn cost(expected: u32) -> u64 {
    let steps = u64::from(expected.min(EXPECTED_MAX)) * u64::from(DOUBLINGS);
    let (doublings, part) = (steps / u64::from(FULL), steps % u64::from(FULL));
    let at = COST_EMPTY << doublings;
    at + at * part / u64::from(FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuller_dimension_costs_more_up_to_twice_what_there_is() {
        assert_eq!((cost(0), cost(125), cost(1000)), (COST_EMPTY, 2 * COST_EMPTY, 256 * COST_EMPTY));
        assert_eq!(cost(u32::MAX), cost(2000));
        assert!((0..2000).all(|expected| cost(expected) < cost(expected + 1)));
        assert!(6 * cost(2000) < u64::from(u32::MAX), "six dimensions fit a score");
    }
}
