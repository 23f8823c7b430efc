//! The facts of the whole cell that policies use: means and maxima over its nodes, and what its tasks ask of cards.
//! Means are rounded, so that small changes of the cell leave scores as they are.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Mix, MixCache};
use crate::tables::{CellTables, NodeTable};

/// The facts of the cell for one class. Two equal bases score every node alike.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct Basis {
    /// Numbers of the policy's own meaning, such as a weight for each requested dimension.
    pub amounts: SmallVec<[u64; 6]>,
    /// The dimensions that the cell's tasks ask for.
    pub demanded: SmallVec<[Demanded; 3]>,
    /// The card requests of the cell's tasks.
    pub mix: Option<Arc<Mix>>,
}

/// A dimension that the cell's tasks ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demanded {
    pub dimension: usize,
    /// What a task asks for in the mean, rounded as means are. Never zero.
    pub mean: u64,
    /// What the largest node has. Never zero.
    pub largest: u64,
}

/// A mean has this many significant bits: it is exact to within a sixty-fourth.
const BITS: u32 = 7;

/// The statistics of a cell. The tables keep the sums of the means up to date, and the mix is made on first use.
pub(crate) struct CellStats<'a> {
    tables: &'a CellTables,
    nodes: &'a NodeTable,
    mix: OnceCell<Option<Arc<Mix>>>,
    /// The mix of an earlier plan, and after its first use that of this one.
    mix_cache: RefCell<MixCache>,
}

impl<'a> CellStats<'a> {
    /// Statistics of these tables. `mix_cache` is what [`CellStats::into_mix_cache`] gave after an earlier plan.
    pub(crate) fn new(tables: &'a CellTables, mix_cache: MixCache) -> Self {
        Self { tables, nodes: &tables.nodes, mix: OnceCell::new(), mix_cache: RefCell::new(mix_cache) }
    }

    /// The cache for the next plan.
    pub(crate) fn into_mix_cache(self) -> MixCache {
        self.mix_cache.into_inner()
    }

    fn mean(&self, sum: u128) -> u64 {
        let nodes = u128::from(self.nodes.sums.nodes().max(1));
        rounded(u64::try_from(sum / nodes).unwrap_or(u64::MAX))
    }

    /// The mean free amount of a dimension, over the nodes that take tasks.
    pub(crate) fn free_mean(&self, dimension: usize) -> u64 {
        self.mean(self.nodes.sums.free(dimension))
    }

    /// The mean number of tasks, over the nodes that take tasks.
    pub(crate) fn tasks_mean(&self) -> u64 {
        self.mean(self.nodes.sums.tasks().into())
    }

    /// The largest capacity of any node in a dimension, whether it takes tasks or not.
    pub(crate) fn limit_most(&self, dimension: usize) -> u64 {
        self.nodes.limit_largest(dimension)
    }

    /// The dimensions that the cell's tasks ask for and that nodes have.
    pub(crate) fn demanded(&self) -> SmallVec<[Demanded; 3]> {
        let demand = self.tables.shapes.demand();
        let fixed = demand.fixed_means().into_iter().enumerate();
        let devices =
            demand.device_means().filter_map(|(kind, mean)| Some((self.nodes.kind_dimension(kind)?, mean)));
        let known = fixed.chain(devices).map(|(dimension, mean)| {
            let largest = self.nodes.limit_largest(dimension);
            Demanded { dimension, mean: rounded(mean), largest }
        });
        known.filter(|demanded| demanded.mean > 0 && demanded.largest > 0).collect()
    }

    /// The card requests of the cell's tasks.
    pub(crate) fn mix(&self) -> Option<&Arc<Mix>> {
        self.mix.get_or_init(|| self.mix_cache.borrow_mut().mix(self.tables)).as_ref()
    }
}

/// A number cut to its first bits.
fn rounded(number: u64) -> u64 {
    let length = u64::BITS - number.leading_zeros();
    let dropped = length.saturating_sub(BITS);
    number >> dropped << dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_known_to_within_a_sixty_fourth() {
        assert_eq!([0, 1, 127, 128, 129, 255, 256, 257].map(rounded), [0, 1, 127, 128, 128, 254, 256, 256]);
        for number in [1000u64, 123_456, u64::MAX] {
            assert!(number - rounded(number) <= number / 64);
        }
    }
}
