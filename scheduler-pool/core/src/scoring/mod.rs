//! Which of the nodes that fit is best: named policies over the same readings of a node. A policy is one file here, one
//! line in [`policy`], and its name in [`crate::profile`], by which cells, jobs and tools select it.
//!
//! A policy is a pure function of one node as the plan has left it and of a [`Basis`], which is what it wants to know
//! of the whole cell. Everything is whole numbers, so that a score is the same on every machine and in every release.

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
mod random;
mod swarm_binpack;
mod swarm_spread;
mod worst_fit;

use std::fmt;

pub(crate) use basis::{Basis, CellStats};
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

/// How many nodes that fit are scored for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// As many as the class has tasks, and some more: relaxed randomization.
    Few,
    /// All that fit, up to so many.
    Nodes(usize),
}

/// Where the search for nodes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// For all classes at one place, and equal nodes in one order: what is begun is filled before anything else.
    One,
    /// Elsewhere after so many placements in the cell: the whole cell takes its turns.
    After(u64),
}

/// A way of telling the better of two nodes that fit.
pub(crate) trait Policy: Sync + fmt::Debug {
    /// Where its searches begin.
    fn start(&self) -> Start {
        Start::One
    }

    /// How many nodes it wants to see.
    fn breadth(&self, _basis: &Basis) -> Breadth {
        Breadth::Few
    }

    /// What it wants to know of the cell for a class.
    fn basis(&self, _stats: &CellStats<'_>, _requirement: &Requirement) -> Basis {
        Basis::default()
    }

    /// How good a node is, were the task placed there; the larger, the better.
    fn fit(&self, context: &ScoringContext<'_, '_>) -> u32;

    /// What the soft wishes that a node meets are worth, out of the weight of all of them, and how many taints would
    /// rather keep the task away. By default wishes go before everything else.
    fn preference(&self, _weights: &Weights, wishes: Wishes) -> i64 {
        wishes.met - DISLIKE * i64::from(wishes.disliking)
    }

    /// What siblings, and tasks that it would rather be near to or apart from, count against a node.
    fn crowding(&self, _weights: &Weights, crowding: i64) -> i64 {
        crowding
    }

    /// Whether wishes and fit are one sum rather than first one, then the other.
    fn sums(&self) -> bool {
        false
    }

    /// Whether one of the candidates is drawn, whatever it scores.
    fn draws(&self) -> bool {
        false
    }
}

/// What a task's soft wishes say of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Wishes {
    /// The weights of those that it meets.
    pub met: i64,
    /// The weights of all of them.
    pub all: i64,
    /// Taints that would rather keep the task away.
    pub disliking: u16,
}

/// What a taint counts against a node that it would rather keep the task away from: as much as the strongest wish.
pub(crate) const DISLIKE: i64 = 100;

/// A policy with what it knows of the cell: all that a score depends on besides the node and the task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scorer {
    pub profile: ScoringProfile,
    pub basis: Basis,
}

impl Scorer {
    /// A profile over a cell, for a class that asks for this.
    pub fn new(profile: ScoringProfile, stats: &CellStats<'_>, requirement: &Requirement) -> Self {
        Self { profile, basis: policy(profile.policy).basis(stats, requirement) }
    }

    pub fn policy(&self) -> &'static dyn Policy {
        policy(self.profile.policy)
    }

    /// How many nodes that fit it wants to see beyond the tasks; `few` where it does not say.
    pub fn beyond(&self, few: usize) -> usize {
        match self.policy().breadth(&self.basis) {
            Breadth::Few => few,
            Breadth::Nodes(nodes) => nodes.max(few),
        }
    }
}
