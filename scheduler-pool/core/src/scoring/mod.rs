//! Scores of the nodes that fit. A policy is one file here, one line in [`policy`], and a name in [`crate::profile`].
//! Cells, jobs and tools select it by that name (Kubernetes: score plugins).
//!
//! A policy is a pure function of one node, as the plan has left it, and of a [`Basis`]: the facts of the whole cell
//! that it uses. Scores are integers, so they are the same on every machine and in every release.

mod basis;
mod best_fit;
mod borg_hybrid;
mod context;
mod dot_product;
mod dynamic_weight;
mod fahp;
mod fgd;
mod kubernetes;
mod load_aware;
mod mix;
mod opportunity_cost;
mod random;
mod swarm_binpack;
mod swarm_spread;
mod worst_fit;

use std::fmt;

pub(crate) use basis::{Basis, CellStats, Demanded};
pub(crate) use context::ScoringContext;
pub(crate) use mix::{Mix, MixCache};

use crate::filter::Requirement;
use crate::profile::{PolicyName, ScoringProfile, Weights};

/// The policy of a name.
fn policy(name: PolicyName) -> &'static dyn Policy {
    match name {
        PolicyName::BestFit => &best_fit::BestFit,
        PolicyName::BorgHybrid => &borg_hybrid::BorgHybrid,
        PolicyName::DotProduct => &dot_product::DotProduct,
        PolicyName::DynamicWeight => &dynamic_weight::DynamicWeight,
        PolicyName::Fahp => &fahp::Fahp,
        PolicyName::Fgd => &fgd::Fgd,
        PolicyName::Kubernetes => &kubernetes::Kubernetes,
        PolicyName::LoadAware => &load_aware::LoadAware,
        PolicyName::Random => &random::Random,
        PolicyName::SwarmBinpack => &swarm_binpack::SwarmBinpack,
        PolicyName::SwarmSpread => &swarm_spread::SwarmSpread,
        PolicyName::WorstFit => &worst_fit::WorstFit,
    }
}

/// How many of the nodes that fit a class are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// As many as the class has tasks, and some more (relaxed randomization).
    Few,
    /// All that fit, up to this number.
    Nodes(usize),
}

/// Where a search for nodes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchStart {
    /// At one place for all classes, with equal nodes in one order. So the cell fills node after node.
    One,
    /// At another place after so many placements in the cell, so that all nodes are used evenly.
    After(u64),
}

/// A scoring policy. The default methods suit policies that go by resources alone.
pub(crate) trait Policy: Sync + fmt::Debug {
    fn start(&self) -> SearchStart {
        SearchStart::One
    }

    fn breadth(&self, _basis: &Basis) -> Breadth {
        Breadth::Few
    }

    /// The facts of the cell that its score of a class depends on.
    fn basis(&self, _stats: &CellStats<'_>, _requirement: &Requirement) -> Basis {
        Basis::default()
    }

    /// The score of a node with the task on it. The larger, the better.
    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32;

    /// The score of a node's soft constraints, packages and soft taints. By default it decides before [`Self::fit`].
    fn preference(&self, _weights: &Weights, wishes: Wishes) -> i64 {
        wishes.met - DISLIKE * i64::from(wishes.disliking)
    }

    /// The penalty of a node for the siblings in its domains, and for soft affinities between tasks.
    fn crowding(&self, _weights: &Weights, crowding: i64) -> i64 {
        crowding
    }

    /// Returns true if preference and fit are one sum. Otherwise preference decides first.
    fn sums(&self) -> bool {
        false
    }

    /// Returns true if a candidate is drawn at random, whatever its score.
    fn draws(&self) -> bool {
        false
    }
}

/// How well a node meets the soft constraints of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Wishes {
    /// The sum of the weights that it meets.
    pub met: i64,
    /// The sum of all weights.
    pub all: i64,
    /// The number of soft taints without a toleration.
    pub disliking: u16,
}

/// The penalty of a soft taint: as much as the heaviest soft constraint.
pub(crate) const DISLIKE: i64 = 100;

/// A policy with the facts of the cell: everything that a score depends on besides the node and the task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scorer {
    pub profile: ScoringProfile,
    pub basis: Basis,
}

impl Scorer {
    /// The scorer of a profile for a class with this requirement.
    pub(crate) fn new(profile: ScoringProfile, stats: &CellStats<'_>, requirement: &Requirement) -> Self {
        Self { profile, basis: policy(profile.policy).basis(stats, requirement) }
    }

    pub(crate) fn policy(&self) -> &'static dyn Policy {
        policy(self.profile.policy)
    }

    /// How many candidates it wants beyond the number of tasks; `few` if the policy does not say.
    pub(crate) fn beyond(&self, few: usize) -> usize {
        match self.policy().breadth(&self.basis) {
            Breadth::Few => few,
            Breadth::Nodes(nodes) => nodes.max(few),
        }
    }
}
