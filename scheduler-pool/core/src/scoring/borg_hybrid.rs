//! Borg's hybrid (Borg, EuroSys 2015, section 3.2: "tries to reduce the amount of stranded resources"). It takes the
//! node on which the task strands least, and prefers a full one. The paper gives no formula. This one is ours.
//!
//! The free amounts of a node are counted in mean tasks of the cell. The dimension with fewest of them is the one that
//! ends first. What the others have beyond it is stranded: no mix of the cell's tasks will use it.

use smallvec::SmallVec;

use super::basis::Basis;
use super::best_fit::left_over;
use super::{CellStats, Demanded, Policy, ScoringContext};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct BorgHybrid;

/// A mean task, in the fixed-point numbers of this score. [`left_over`] counts the largest node by as many.
const UNIT: u64 = 1 << 16;
/// What the largest node has of a dimension weighs as much as so many stranded mean tasks. With 1 less is stranded in
/// the end, but tasks for several cards find too few complete nodes. With 10 the policy packs nearly as best fit does.
const LEFT_OVER_WEIGHT: u64 = 3;
/// The score of a node on which nothing changes and nothing is left.
const MIDDLE: i64 = 1 << 31;

impl Policy for BorgHybrid {
    fn basis(&self, stats: &CellStats<'_>, _requirement: &Requirement) -> Basis {
        Basis { demanded: stats.demanded(), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let (before, after): (SmallVec<[u64; 4]>, SmallVec<[u64; 4]>) =
            context.basis.demanded.iter().filter_map(|demanded| free_tasks(context, demanded)).unzip();
        let rise = stranded(&after).saturating_sub(stranded(&before));
        let left = i64::try_from(left_over(context).saturating_mul(LEFT_OVER_WEIGHT)).unwrap_or(i64::MAX);
        let score = MIDDLE.saturating_sub(rise).saturating_sub(left).clamp(0, i64::from(u32::MAX));
        u32::try_from(score).unwrap_or(0)
    }
}

/// For how many mean tasks a dimension of the node suffices, before the task and with it. `None` if the node has none
/// of the dimension: nothing of it can be stranded there.
fn free_tasks(context: &ScoringContext<'_, '_>, demanded: &Demanded) -> Option<(u64, u64)> {
    let &Demanded { dimension, mean, .. } = demanded;
    if context.overlay.nodes.limit(dimension, context.node) == 0 {
        return None;
    }
    let free = context.free_amount(dimension);
    let after = free.saturating_sub(context.requirement.amount(dimension));
    Some((free.saturating_mul(UNIT) / mean, after.saturating_mul(UNIT) / mean))
}

/// The sum of what each dimension has beyond the scarcest one.
fn stranded(free_tasks: &[u64]) -> i64 {
    let least = free_tasks.iter().copied().min().unwrap_or(0);
    let sum = free_tasks.iter().map(|free| free - least).fold(0, u64::saturating_add);
    i64::try_from(sum).unwrap_or(i64::MAX)
}
