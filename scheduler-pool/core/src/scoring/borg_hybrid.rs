//! Borg's hybrid (Borg, EuroSys 2015, section 3.2: "tries to reduce the amount of stranded resources"). It prefers a
//! full node on which little is stranded. An amount is stranded when it is free but another dimension of the node is
//! full. The paper gives no formula. This one is ours.

use smallvec::SmallVec;

use super::context::FULL;
use super::{Policy, ScoringContext};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BorgHybrid;

/// More than the largest stranded sum, so that the difference is never negative.
const ABOVE: u32 = 1 << 20;

impl Policy for BorgHybrid {
    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let free: SmallVec<[u32; 6]> =
            context.dimensions().into_iter().map(|dimension| context.free_after(dimension)).collect();
        let least = free.iter().copied().min().unwrap_or(0);
        let stranded: u32 = free.iter().map(|free| free - least).sum();
        let fullness: u32 = free.iter().map(|free| FULL - free).sum();
        (ABOVE + fullness).saturating_sub(stranded)
    }
}
