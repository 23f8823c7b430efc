//! The score of a node for a task. Scores compare field by field, down to the node's id, so that one node is always the
//! best.

use std::cmp::Reverse;

use borough_model::NodeId;

use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::scoring::{Scorer, ScoringContext, Wishes};
use crate::seed::mixed;

/// The score of a node. The larger, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// The weights of the soft constraints that are met, and of present packages. Soft taints, and siblings in the
    /// node's failure domains, count against it.
    pub preference: i64,
    /// The score of the policy.
    pub fit: u32,
    /// Breaks ties by the job's seed, so that workers fill equal nodes in different orders.
    pub tie: u32,
    pub node: Reverse<NodeId>,
}

/// The score of a node's soft constraints, packages and soft taints.
pub(crate) fn preference(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    scorer: &Scorer,
) -> i64 {
    let weight = |(_, weight): &(_, u32)| i64::from(*weight);
    let met = requirement.soft.iter().filter(|(constraint, _)| constraint.met(overlay.nodes, node));
    let wishes = Wishes {
        met: met.map(weight).sum::<i64>() + requirement.packages.present(overlay.nodes, node),
        all: requirement.soft.iter().map(weight).sum::<i64>() + requirement.packages.wish(),
        disliking: requirement.taints.disliking(overlay.nodes, node),
    };
    scorer.policy().preference(&scorer.profile.weights, wishes)
}

/// The complete score, without the crowding of failure domains.
pub(crate) fn score(
    overlay: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    scorer: &Scorer,
    preference: i64,
    seed: u64,
) -> Score {
    let id = overlay.nodes.id(node);
    let policy = scorer.policy();
    let context =
        ScoringContext { overlay, requirement, basis: &scorer.basis, weights: &scorer.profile.weights, node };
    let fit = policy.fit(&context);
    let (preference, fit) = if policy.sums() { (preference + i64::from(fit), 0) } else { (preference, fit) };
    Score { preference, fit, tie: (mixed(seed ^ id.0) >> 32) as u32, node: Reverse(id) }
}
