//! How good a node is for a task: a struct that compares field by field, down to the node's id, so that there is always
//! one best node.

use std::cmp::Reverse;

use borough_model::NodeId;

use crate::filter::Requirement;
use crate::overlay::PlanOverlay;
use crate::scoring::{Scorer, ScoringContext, Wishes};
use crate::seed::mixed;

/// The larger, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// Weights of the soft constraints that are met, and packages that are there; against it count taints that would
    /// rather keep the task away and the siblings in the node's failure domains.
    pub preference: i64,
    /// What the profile says.
    pub fit: u32,
    /// Chance, by the job's seed: equal nodes are not filled in the same order by every worker.
    pub tie: u32,
    pub node: Reverse<NodeId>,
}

/// What the soft constraints, the packages and the taints of a node say of it.
pub(crate) fn preference(
    work: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    scorer: &Scorer,
) -> i64 {
    let weight = |(_, weight): &(_, u32)| i64::from(*weight);
    let met = requirement.soft.iter().filter(|(constraint, _)| constraint.met(work.nodes, node));
    let wishes = Wishes {
        met: met.map(weight).sum::<i64>() + requirement.packages.present(work.nodes, node),
        all: requirement.soft.iter().map(weight).sum::<i64>() + requirement.packages.wish(),
        disliking: requirement.taints.disliking(work.nodes, node),
    };
    scorer.policy().preference(&scorer.profile.weights, wishes)
}

/// The whole score, siblings in failure domains left out.
pub(crate) fn score(
    work: &PlanOverlay<'_>,
    requirement: &Requirement,
    node: u32,
    scorer: &Scorer,
    (preference, seed): (i64, u64),
) -> Score {
    let id = work.nodes.id(node);
    let policy = scorer.policy();
    let context =
        ScoringContext { work, requirement, basis: &scorer.basis, weights: &scorer.profile.weights, node };
    let fit = policy.fit(&context);
    let (preference, fit) = if policy.sums() { (preference + i64::from(fit), 0) } else { (preference, fit) };
    Score { preference, fit, tie: (mixed(seed ^ id.0) >> 32) as u32, node: Reverse(id) }
}
