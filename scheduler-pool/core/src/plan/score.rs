//! How good a node is for a task: a struct that compares field by field, down to the node's id, so that there is always
//! one best node.

use std::cmp::Reverse;

use borough_model::NodeId;

use super::Work;
use crate::filter::Requirement;
use crate::seed::mixed;
use crate::settings::ScoringProfile;

/// The larger, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// Weights of the soft constraints that are met; against it count taints that would rather keep the task away and the siblings in the node's failure domains.
    pub preference: i64,
    /// What the profile says, in thousandths per dimension.
    pub fit: u32,
    /// Chance, by the job's seed: equal nodes are not filled in the same order by every worker.
    pub tie: u32,
    pub node: Reverse<NodeId>,
}

/// Processor and memory, which every node is judged by.
const DIMENSIONS_ALWAYS: [usize; 2] = [0, 1];
const FULL: f64 = 1000.0;

/// The share of a dimension that would be promised, in thousandths. Whole thousandths, so that what is compared is exact
/// and small changes change nothing.
fn share(work: &Work<'_>, dimension: usize, node: u32, amount: u64) -> u32 {
    let limit = work.nodes.limit(dimension, node);
    if limit == 0 {
        return 0;
    }
    let used = work.used(dimension, node).saturating_add(amount);
    (used as f64 / limit as f64 * FULL) as u32
}

/// What the profile says of a node, were the task placed there.
fn fit(work: &Work<'_>, requirement: &Requirement, node: u32, profile: ScoringProfile) -> u32 {
    let fullness = || {
        let asked = requirement.demand.iter().filter(|(dimension, _)| !DIMENSIONS_ALWAYS.contains(dimension));
        let asked = asked.map(|&(dimension, amount)| share(work, dimension, node, amount));
        let always = DIMENSIONS_ALWAYS.into_iter();
        let always = always.map(|dimension| share(work, dimension, node, requirement.amount(dimension)));
        asked.chain(always).fold(0u32, u32::saturating_add)
    };
    match profile {
        ScoringProfile::BestFit => fullness(),
        ScoringProfile::WorstFit => u32::MAX - fullness(),
        ScoringProfile::Spread => u32::MAX - work.tasks(node),
    }
}

/// What a taint counts against a node that it would rather keep the task away from: as much as the strongest wish.
const DISLIKE: i64 = 100;

/// The weights of the soft constraints that a node meets, less what its taints have against the task.
pub(crate) fn preference(work: &Work<'_>, requirement: &Requirement, node: u32) -> i64 {
    let met = requirement.soft.iter().filter(|(constraint, _)| constraint.met(work.nodes, node));
    let met: i64 = met.map(|&(_, weight)| i64::from(weight)).sum();
    met - DISLIKE * i64::from(requirement.taints.disliking(work.nodes, node))
}

/// The whole score, siblings in failure domains left out.
pub(crate) fn score(
    work: &Work<'_>,
    requirement: &Requirement,
    node: u32,
    profile: ScoringProfile,
    (preference, seed): (i64, u64),
) -> Score {
    let id = work.nodes.id(node);
    Score {
        preference,
        fit: fit(work, requirement, node, profile),
        tie: (mixed(seed ^ id.0) >> 32) as u32,
        node: Reverse(id),
    }
}
