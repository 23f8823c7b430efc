//! Worst fit after E-PVM: the node with the smallest rise in cost by the task. The cost of a dimension grows
//! exponentially with its used part (Amir et al., "An Opportunity Cost Approach for Job Assignment in a Scalable
//! Computing Cluster", 2000, section 3). Borg, EuroSys 2015, section 3.2, calls the outcome worst fit.

use super::context::FULL;
use super::{Policy, ScoringContext, SearchStart};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct WorstFit;

/// The cost of a full dimension over that of an empty one: 2 to the power of this.
const DOUBLINGS: u32 = 8;
const COST_EMPTY: u64 = 1 << 20;

impl Policy for WorstFit {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let rise = |dimension| cost(context.used_after(dimension)) - cost(context.used(dimension));
        let rise: u64 = context.dimensions().into_iter().map(rise).sum();
        u32::MAX - u32::try_from(rise).unwrap_or(u32::MAX)
    }
}

/// The cost of a dimension with so many thousandths used. It doubles eight times from empty to full. Between two
/// doublings it is linear.
fn cost(used: u32) -> u64 {
    let steps = u64::from(used.min(FULL)) * u64::from(DOUBLINGS);
    let (doublings, part) = (steps / u64::from(FULL), steps % u64::from(FULL));
    let at = COST_EMPTY << doublings;
    at + at * part / u64::from(FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_dimension_costs_more_than_the_one_before() {
        assert_eq!((cost(0), cost(125), cost(1000)), (COST_EMPTY, 2 * COST_EMPTY, 256 * COST_EMPTY));
        let rises: Vec<u64> = (0..1000).map(|used| cost(used + 1) - cost(used)).collect();
        // Rounding moves a rise by one at most.
        assert!(rises.iter().zip(rises.iter().skip(1)).all(|(one, next)| *next + 1 >= *one));
        assert!(rises[0] * 100 < rises[999]);
    }
}
