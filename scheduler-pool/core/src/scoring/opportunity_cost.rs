//! The cost of a node's use after E-PVM (Amir et al., "An Opportunity Cost Approach for Job Assignment in a Scalable
//! Computing Cluster", 2000, section 3). It grows exponentially with the used part of a dimension.

use super::context::FULL;

/// The cost of a full dimension over that of an empty one: 2 to the power of this.
const DOUBLINGS: u32 = 8;

/// A scale of costs.
pub(super) struct OpportunityCost {
    /// The cost of an empty dimension.
    pub empty: u64,
    /// Use counts up to here, in thousandths of a dimension.
    pub most: u32,
}

impl OpportunityCost {
    /// The cost of a dimension with so many thousandths in use. It doubles eight times from empty to full, and as often
    /// again up to twice full. Between two doublings it is linear.
    pub(super) fn of(&self, used: u32) -> u64 {
        let steps = u64::from(used.min(self.most)) * u64::from(DOUBLINGS);
        let (doublings, part) = (steps / u64::from(FULL), steps % u64::from(FULL));
        let at = self.empty << doublings;
        at + at * part / u64::from(FULL)
    }
}
