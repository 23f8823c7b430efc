//! An explanation as data: what keeps a task waiting, and what would let it in.

use borough_model::job::{Affinity, AfterCondition, Constraint, JobOutcome};
use borough_model::node::{CardSelector, TaintEffect, Within};
use borough_model::resource::Dimension;
use borough_model::{Name, NodeId, TaskState};
use serde::{Deserialize, Serialize};

use super::{Ahead, EvictionReport};

/// Why a task has no node.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Reasons that lie in no node. Those that say that a gang does not fit and [`WaitReason::Turn`] are besides what
    /// nodes say; with any other nodes were not asked.
    pub waits: Vec<WaitReason>,
    /// How many nodes were asked.
    pub nodes: u32,
    /// How many of them would take the task now.
    pub nodes_fit: u32,
    /// How many of the others would take it once tasks there, or elsewhere, have ended.
    #[serde(default)]
    pub nodes_room: u32,
    /// How many nodes are large enough for it when they are empty.
    #[serde(default)]
    pub nodes_large: u32,
    /// Attributes that it asks for and that no node has.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// The others, each counted at the first filter that refuses it, in filter order.
    pub lost: Vec<FilterLoss>,
    /// Small changes that would let nodes in, the one that lets in most first.
    pub nearest: Vec<NearestFit>,
    /// What evictions can do for it, where it fits nowhere and is no gang.
    #[serde(default)]
    pub evictions: Option<EvictionReport>,
}

/// A reason to wait that lies in no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// There is no such job here.
    JobUnknown,
    /// The job's spec in force has not been seen yet.
    SpecUnknown,
    /// It starts after another job of the same user, which has not ended as it must.
    After {
        /// That job.
        job: Name,
        /// How it must have ended.
        condition: AfterCondition,
        /// Whether that job exists.
        known: bool,
        /// Whether it has ended otherwise, so that this one never starts.
        never: bool,
    },
    /// All jobs it starts after have ended; it is about to be let go.
    AfterMet,
    /// The job is being stopped.
    JobStopping,
    /// The job is over.
    JobEnded {
        /// How.
        outcome: JobOutcome,
    },
    /// Its queue, or one that it is in, would have more than its limit.
    QueueLimit {
        /// The queue, by its path.
        queue: String,
        /// What it has, in thousandths of the cell, by the resource of which it has most.
        share_per_mille: u32,
        /// What it may have.
        limit_per_mille: u32,
    },
    /// The job has fewer tasks than that.
    IndexBeyondCount {
        /// Its desired number of tasks.
        count: u32,
    },
    /// The task failed and is not started again before a moment.
    BackOff {
        /// Wall time, milliseconds since 1970.
        until_ms: i64,
        /// Failures in a row.
        failures: u32,
    },
    /// The task does not want a node now.
    State {
        /// Where it is in its attempt.
        state: TaskState,
        /// The node it is or was on.
        node: Option<NodeId>,
    },
    /// So many members must be placed together.
    Gang {
        /// Members that still need a node.
        needed: u32,
        /// Members that found one before the first that did not.
        fitted: u32,
    },
    /// So many members must be placed together, and not as many want a node now.
    GangMembers {
        /// Members that still need a node.
        needed: u32,
    },
    /// So many members must be placed together within so many failure domains, and none have room for them.
    GangTopology {
        /// The attribute that names the domain.
        attribute: String,
        /// Over how many domains they may stand.
        domains_max: u32,
        /// How many domains there are.
        domains: u32,
        /// Members that still need a node.
        needed: u32,
        /// The domains that have room for most of them.
        nearest: Vec<String>,
        /// For how many.
        fitted: u32,
    },
    /// Other members of its gang stand already, and the domains that it may join have no room.
    GangStands,
    /// So many members must be placed together, and the cell could hold fewer, were it empty: that never fits.
    GangNever {
        /// Members that still need a node.
        needed: u32,
        /// How many there is room for in all.
        most: u32,
    },
    /// It fits and waits for its turn.
    Turn {
        /// What has its turn before.
        ahead: Ahead,
    },
}

/// How many nodes a filter lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterLoss {
    /// The filter.
    pub filter: FilterStep,
    /// Nodes that it was the first to refuse.
    pub nodes: u32,
}

/// A filter, with what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FilterStep {
    /// The node is back after a loss and first ends what it still runs.
    Recovering,
    /// The node is lost.
    Lost,
    /// An operator keeps new tasks away from the node.
    Cordoned,
    /// An operator empties the node.
    Draining,
    /// The node has a taint that the job does not tolerate.
    Taint {
        /// Its key.
        key: String,
        /// Its value, often empty.
        value: String,
        /// What it does.
        effect: TaintEffect,
    },
    /// A hard constraint is not met.
    Constraint {
        /// It.
        constraint: Constraint,
    },
    /// A hard affinity is not met: none of the tasks to be near is there, or one to be apart from is.
    Affinity {
        /// It.
        affinity: Affinity,
    },
    /// A task that keeps apart from the tasks of this job is there.
    Kept {
        /// The attribute that names the domain.
        attribute: String,
    },
    /// The limit of a spread is reached in the node's domain, or the node is in none.
    Spread {
        /// The attribute that names the domain.
        attribute: String,
        /// How many tasks more than the emptiest domain it may have.
        max_skew: Option<u32>,
        /// How many tasks of the job it may have.
        tasks_max: Option<u32>,
    },
    /// A fixed port is taken or cools down.
    PortFixed {
        /// Its number.
        number: u16,
    },
    /// The node's range has too few free ports.
    PortsDynamic {
        /// How many are asked for.
        asked: u16,
    },
    /// The node has enough devices of a kind, but not of those that were asked for.
    Device {
        /// The kind.
        device: String,
        /// Which of them will do.
        selector: CardSelector,
    },
    /// None of the node's sockets, or NUMA domains, has room, or they are not known.
    Within {
        /// Within what it would have to stay.
        within: Within,
        /// Whether it asks for cores of its own there.
        #[serde(default)]
        exclusive_cores: bool,
    },
    /// The node is too small even when empty.
    Capacity {
        /// In this dimension.
        dimension: Dimension,
        /// How much is asked for, in the dimension's gang.
        asked: u64,
    },
    /// Too little is free on the node now.
    Free {
        /// In this dimension.
        dimension: Dimension,
        /// How much is asked for, in the dimension's gang.
        asked: u64,
    },
}

/// A small change that would let nodes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NearestFit {
    /// Asking for less of one dimension: the smallest reduction that fits anywhere.
    Resource {
        /// The dimension.
        dimension: Dimension,
        /// The most that fits, in the dimension's gang; 0: only without it.
        at_most: u64,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Asking for fewer ports.
    Ports {
        /// The most that a node has free.
        at_most: u16,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Doing without one filter: dropping the constraint or the fixed port, opening the nodes.
    Without {
        /// The filter.
        filter: FilterStep,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Several changes at once, where none alone lets any node in: the fewest that do.
    Together {
        /// The changes.
        changes: Vec<NearestFit>,
        /// How many nodes it then fits.
        nodes: u32,
    },
}

impl Explanation {
    pub(super) fn of_wait(wait: WaitReason) -> Self {
        Self { waits: vec![wait], ..Self::default() }
    }
}
