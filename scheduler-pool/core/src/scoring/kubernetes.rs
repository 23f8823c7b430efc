//! The default scores of kube-scheduler with its weights, in one sum: least allocated, balanced allocation, node
//! affinity, taints, and spreading (kubernetes.io, "Scheduler Configuration", default plugins).
//!
//! Kubernetes scales each score to 0..100 over the nodes that it has looked at. Here each score has a fixed scale, so
//! that a node's score does not depend on the other candidates.

use super::context::FULL;
use super::{Policy, ScoringContext, SearchStart, Wishes};
use crate::profile::Weights;

/// See `docs/policies.md`.
#[derive(Debug)]
pub(super) struct Kubernetes;

/// A full score with weight one, in the units of the sum.
const POINTS: i64 = 100 * FULL as i64;

/// This many more siblings in a domain make half of the largest penalty.
const CROWD_HALF: i64 = 8;

impl Policy for Kubernetes {
    fn start(&self) -> SearchStart {
        SearchStart::After(512)
    }

    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32 {
        let [least, balanced, ..] = context.weights.map(u32::from);
        let used = [context.used_after(0), context.used_after(1)];
        let free = used.map(|used| FULL - used);
        // The standard deviation of two shares is half their difference.
        let spread = used[0].abs_diff(used[1]) / 2;
        least * ((free[0] + free[1]) / 2) + balanced * (FULL - spread)
    }

    fn preference(&self, weights: &Weights, wishes: Wishes) -> i64 {
        let [_, _, affinity, taint, _] = weights.map(i64::from);
        let met = if wishes.all > 0 { POINTS * wishes.met / wishes.all } else { 0 };
        let tolerated = POINTS / (1 + i64::from(wishes.disliking));
        (affinity * met + taint * tolerated) / 100
    }

    fn crowding(&self, weights: &Weights, crowding: i64) -> i64 {
        let [.., spread] = weights.map(i64::from);
        spread * POINTS * crowding / (crowding.abs() + CROWD_HALF) / 100
    }

    fn sums(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ScoringProfile;

    #[test]
    fn wishes_taints_and_crowding_count_with_their_weights() {
        let weights = "kubernetes".parse::<ScoringProfile>().unwrap().weights;
        let of = |met, all, disliking| Kubernetes.preference(&weights, Wishes { met, all, disliking });
        assert_eq!(of(0, 0, 0), 3 * POINTS);
        assert_eq!(of(100, 100, 0) - of(0, 100, 0), 2 * POINTS);
        assert_eq!(of(50, 100, 1), POINTS + POINTS * 3 / 2);
        let crowding = |crowding| Kubernetes.crowding(&weights, crowding);
        assert_eq!((crowding(0), crowding(8), crowding(-8)), (0, POINTS, -POINTS));
        assert!((0..1000).all(|siblings| crowding(siblings + 1) > crowding(siblings)));
        assert!(crowding(i64::from(u32::MAX)) <= 2 * POINTS);
    }
}
