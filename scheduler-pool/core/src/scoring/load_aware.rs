//! Load-aware placing: the node on which least is expected to be really in use with the task, whatever is promised
//! there.
//!
//! What is expected is what the node's agent has measured, and what the tasks ask for that came since: those that the
//! measurement does not cover. So tasks that are placed in one burst do not all go to the node that looked idle. (HULK
//! avoids busy hosts by their measured load, whatever is allocated on them; that what is not measured yet counts as it
//! asks is from the load-aware scheduling of Koordinator, its "estimated usage" of tasks without a metric.) A dimension
//! costs more, the fuller it is expected to be, as in E-PVM; not its rise counts but all of it, since a busy node is to
//! be avoided whether the task is busy or not.

use super::context::FULL;
use super::{Policy, ScoringContext, Start};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct LoadAware;

/// The cost of a full dimension over that of an empty one: 2 to the power of this.
const DOUBLINGS: u32 = 8;
/// The cost of an empty dimension.
const COST_EMPTY: u64 = 1 << 10;
/// What is expected counts up to so much of a dimension: load and promises together may come to more than there is.
const EXPECTED_MAX: u32 = 2 * FULL;

impl Policy for LoadAware {
    fn start(&self) -> Start {
        Start::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let costs = context.dimensions().into_iter().map(|dimension| cost(context.expected_after(dimension)));
        u32::MAX - u32::try_from(costs.sum::<u64>()).unwrap_or(u32::MAX)
    }
}

/// The cost of a dimension of which so many thousandths are expected to be in use: doubles eight times from empty to
/// full, and as often again to twice as much, straight between two doublings.
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
