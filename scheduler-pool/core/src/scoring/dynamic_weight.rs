//! Dynamic weights, after 58's scheduler: the node with most free of the resource that is scarce in the cell for this
//! task. The demand of a resource is the request over the mean free amount. Its weight is its demand over the mean of
//! the demands. The score is the sum of free part times ten times weight. The free part counts the tasks' requests and
//! no measured load.

use smallvec::SmallVec;

use super::basis::Basis;
use super::{CellStats, Policy, ScoringContext, SearchStart};
use crate::filter::Requirement;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct DynamicWeight;

/// A weight of one.
const ONE: u128 = 1 << 10;
/// What the published score multiplies by.
const TEN: u64 = 10;

impl Policy for DynamicWeight {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn basis(&self, stats: &CellStats<'_>, requirement: &Requirement) -> Basis {
        let demands: SmallVec<[(u64, u64); 6]> = requirement
            .demand
            .iter()
            .map(|&(dimension, amount)| (amount, stats.free_mean(dimension)))
            .collect();
        Basis { amounts: weights(&demands), ..Basis::default() }
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let dimensions = context.requirement.demand.iter().map(|&(dimension, _)| context.free(dimension));
        score(dimensions.zip(context.basis.amounts.iter().copied()))
    }
}

/// The weight of each dimension, from what is requested and the mean of what is free, both in its unit. The weights sum
/// to the number of dimensions.
fn weights(demands: &[(u64, u64)]) -> SmallVec<[u64; 6]> {
    let demand = |&(request, mean): &(u64, u64)| u128::from(request) * (ONE << 20) / u128::from(mean.max(1));
    let sum: u128 = demands.iter().map(demand).sum();
    let weight = |one: &(u64, u64)| demand(one) * ONE * demands.len() as u128 / sum.max(1);
    demands.iter().map(|one| u64::try_from(weight(one)).unwrap_or(u64::MAX)).collect()
}

/// The published score in thousandths, of free parts in thousandths and their weights.
fn score(free: impl Iterator<Item = (u32, u64)>) -> u32 {
    let sum: u64 =
        free.map(|(free, weight)| u64::from(free).saturating_mul(TEN).saturating_mul(weight)).sum();
    u32::try_from(sum / ONE as u64).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published example: free parts of the two nodes in thousandths, over processor, memory and disk.
    const NODES: [[u32; 3]; 2] = [[200, 700, 700], [600, 300, 700]];

    fn scored(weights: [f64; 3], free: [u32; 3]) -> f64 {
        let weights = weights.map(|weight| (weight * ONE as f64).round() as u64);
        f64::from(score(free.into_iter().zip(weights))) / 1000.0
    }

    #[test]
    fn the_published_weights_give_the_published_scores() {
        let (a, b) = ([2.38, 0.55, 0.07], [0.07, 2.65, 0.28]);
        for (weights, published) in [(a, [9.1, 16.42]), (b, [20.65, 10.33]), ([1.0; 3], [16.0, 16.0])] {
            for (free, published) in NODES.into_iter().zip(published) {
                let score = scored(weights, free);
                assert!((score - published).abs() < 0.015, "{weights:?} {free:?}: {score}, {published}");
            }
        }
    }

    #[test]
    fn weights_sum_to_the_number_of_resources_and_prefer_the_published_nodes() {
        for (demands, preferred) in [([210, 50, 10], 1), ([0, 60, 10], 0)] {
            let weights = weights(&demands.map(|demand| (demand, 1000)));
            let sum = weights.iter().sum::<u64>() as f64 / ONE as f64;
            assert!((sum - 3.0).abs() < 0.01, "{weights:?}");
            let scores = NODES.map(|free| score(free.into_iter().zip(weights.iter().copied())));
            assert_eq!(usize::from(scores[1] > scores[0]), preferred, "{weights:?} {scores:?}");
        }
    }
}
