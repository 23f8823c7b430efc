//! Best fit: the node that is fullest with the task, in sum over the dimensions.

use super::{Policy, Scene};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BestFit;

impl Policy for BestFit {
    fn name(&self) -> &'static str {
        "best-fit"
    }

    fn about(&self) -> &'static str {
        "The fullest node: large tasks keep finding room."
    }

    fn fit(&self, scene: &Scene<'_, '_>) -> u32 {
        fullness(scene)
    }
}

/// What would be promised, in thousandths, summed over the dimensions.
pub(super) fn fullness(scene: &Scene<'_, '_>) -> u32 {
    scene.dimensions().into_iter().map(|dimension| scene.used_after(dimension)).sum()
}
