//! Best fit: the node that is fullest with the task, summed over the dimensions.

use super::{Policy, ScoringContext};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BestFit;

impl Policy for BestFit {
    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        fullness(context)
    }
}

/// The sum over the dimensions of the used part with the task, in thousandths.
pub(super) fn fullness(context: &ScoringContext<'_, '_>) -> u32 {
    context.dimensions().into_iter().map(|dimension| context.used_after(dimension)).sum()
}
