//! Borg's hybrid: as full as possible with as little as possible stranded, that is, left over in one dimension on a node
//! that another dimension fills (Borg, EuroSys 2015, section 3.2: "tries to reduce the amount of stranded resources").
//! The paper gives no formula; this one is ours.

use super::best_fit::fullness;
use super::{Policy, Scene, Start};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BorgHybrid;

/// More than anything that could be stranded, so that the difference never goes below zero.
const ABOVE: u32 = 1 << 20;

impl Policy for BorgHybrid {
    fn name(&self) -> &'static str {
        "borg-hybrid"
    }

    fn about(&self) -> &'static str {
        "The fullest node on which least is stranded beside a dimension that is nearly full."
    }

    fn start(&self) -> Start {
        Start::One
    }

    fn fit(&self, scene: &Scene<'_, '_>) -> u32 {
        let dimensions = scene.dimensions();
        let free = || dimensions.iter().map(|&dimension| scene.free_after(dimension));
        let least = free().min().unwrap_or(0);
        let stranded: u32 = free().map(|free| free - least).sum();
        (ABOVE + fullness(scene)).saturating_sub(stranded)
    }
}
