//! Borg's hybrid: as full as possible with as little as possible stranded, that is, left over in one dimension on a
//! node that another dimension fills (Borg, EuroSys 2015, section 3.2: "tries to reduce the amount of stranded
//! resources"). The paper gives no formula; this one is ours.

use smallvec::SmallVec;

use super::context::FULL;
use super::{Policy, ScoringContext};

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BorgHybrid;

/// More than anything that could be stranded, so that the difference never goes below zero.
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
