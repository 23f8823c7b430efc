//! An explanation as data: why a task waits, and what would let it in.

use borough_model::job::{Affinity, AfterCondition, Constraint, JobOutcome};
use borough_model::node::{CardSelector, TaintEffect, Within};
use borough_model::resource::Dimension;
use borough_model::{Name, NodeId, TaskState};
use serde::{Deserialize, Serialize};

use super::{Ahead, EvictionReport};

/// Why a task has no node.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Reasons that do not lie in nodes. A gang reason and [`WaitReason::Turn`] come with the counts of nodes. With any
    /// other reason no node was checked.
    pub waits: Vec<WaitReason>,
    /// True for a task with a node: the explanation is about the other nodes.
    #[serde(default)]
    pub elsewhere: bool,
    /// True for tasks of a daemon job: the explanation is about the nodes that they are for.
    #[serde(default)]
    pub own_nodes: bool,
    /// The number of nodes.
    pub nodes: u32,
    /// How many nodes would take the task now.
    pub nodes_fit: u32,
    /// How many others would take it once tasks there, or elsewhere, have ended.
    #[serde(default)]
    pub nodes_room: u32,
    /// How many nodes are large enough for it when they are empty.
    #[serde(default)]
    pub nodes_large: u32,
    /// The requested attributes that no node has.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// The nodes that do not fit, each counted at the first filter that refuses it, in filter order.
    pub lost: Vec<FilterLoss>,
    /// Small changes that would let nodes in. The one that lets in most comes first.
    pub nearest: Vec<NearestFit>,
    /// What evictions can do for it. Only for a single task that fits nowhere.
    #[serde(default)]
    pub evictions: Option<EvictionReport>,
}

/// A reason to wait that does not lie in nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// The cell has no such job.
    JobUnknown,
    /// The job's spec in force has not been seen yet.
    SpecUnknown,
    /// It starts after another job of the same user, and that job has not ended as it must.
    After {
        /// The name of the other job.
        job: Name,
        /// How the other job must end.
        condition: AfterCondition,
        /// True if the other job exists.
        known: bool,
        /// True if the other job has ended otherwise, so that this one never starts.
        never: bool,
        /// True if the other job runs until somebody stops it.
        #[serde(default)]
        endless: bool,
    },
    /// All jobs that it starts after have ended. The controller is about to start it.
    AfterMet,
    /// The job waits for itself, by way of other jobs that wait.
    AfterCycle {
        /// From the job back to the job.
        cycle: Vec<Name>,
    },
    /// The job is being stopped.
    JobStopping,
    /// The job is over.
    JobEnded {
        /// How it ended.
        outcome: JobOutcome,
    },
    /// Its queue, or an ancestor of the queue, would exceed its limit.
    QueueLimit {
        /// The queue, by its path.
        queue: String,
        /// Its share, in thousandths of the cell, by the resource of which it has most.
        share_per_mille: u32,
        /// Its limit, in thousandths of the cell.
        limit_per_mille: u32,
    },
    /// The job has fewer tasks than that.
    IndexBeyondCount {
        /// Its desired number of tasks.
        count: u32,
    },
    /// The task failed and backs off.
    BackOff {
        /// The end of the back-off: wall time, milliseconds since 1970.
        until_ms: i64,
        /// Failures in a row.
        failures: u32,
    },
    /// The task does not want a node now.
    State {
        /// The state of its attempt.
        state: TaskState,
        /// Its node, or its last one.
        node: Option<NodeId>,
    },
    /// Its gang must be placed together, and too few members fit.
    Gang {
        /// Members that still need a node.
        needed: u32,
        /// Members that found a node before one did not.
        fitted: u32,
    },
    /// Its gang must be placed together, and too few members want a node now.
    GangMembers {
        /// Members that still need a node.
        needed: u32,
    },
    /// Its gang must be placed within a few failure domains, and no domains have enough free.
    GangTopology {
        /// The attribute that names the domain.
        attribute: String,
        /// The most domains that the members may use.
        domains_max: u32,
        /// The number of domains in the cell.
        domains: u32,
        /// Members that still need a node.
        needed: u32,
        /// The domains that could take most members.
        nearest: Vec<String>,
        /// How many members those domains could take.
        fitted: u32,
    },
    /// Other members of its gang are placed, and the domains that it may join are full.
    GangStands,
    /// Its gang needs more members than the empty cell could hold, so it never fits.
    GangNever {
        /// Members that still need a node.
        needed: u32,
        /// How many members the empty cell could hold, or those of its domains that the gang may use.
        most: u32,
        /// Whether its topology bounds it, and not the cell.
        within: bool,
    },
    /// No alloc of its set takes it now.
    InAllocs {
        /// The name of the set.
        set: Name,
        /// What it takes of an alloc.
        asked: Vec<(Dimension, u64)>,
        /// Allocs of the set with what they have left, those with most of it first.
        allocs: Vec<AllocLeft>,
        /// How many others the set has.
        others: u32,
    },
    /// It is in an alloc, and leaves a node with that.
    LeavesWithAlloc {
        /// The name of the set.
        set: Name,
        /// The index of the alloc.
        index: u32,
    },
    /// It is of a daemon job and runs on its node or nowhere. It leaves a drained node last.
    ServesNode,
    /// It fits and waits for its turn.
    Turn {
        /// The tasks that are planned before it.
        ahead: Ahead,
    },
}

/// What an alloc has left for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocLeft {
    /// Its index in the set.
    pub index: u32,
    /// Its node; absent: it takes no tasks now, since it has no node, starts or ends.
    pub node: Option<Name>,
    /// What is left of what the task asks for.
    pub left: Vec<(Dimension, u64)>,
    /// True if it comes back to this one, and waits for it.
    pub own: bool,
}

/// How many nodes a filter refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterLoss {
    /// The filter, with what the task asked of it.
    pub filter: FilterStep,
    /// Nodes that it was the first to refuse.
    pub nodes: u32,
}

/// A filter, with what the task asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FilterStep {
    /// The node is back after a loss, and first ends what it still runs.
    Recovering,
    /// The node is lost.
    Lost,
    /// An operator keeps new tasks away from the node.
    Cordoned,
    /// An operator empties the node.
    Draining,
    /// The node has a taint that the job does not tolerate.
    Taint {
        /// The key of the taint.
        key: String,
        /// Its value, often empty.
        value: String,
        /// The effect of the taint on tasks without a toleration.
        effect: TaintEffect,
    },
    /// A hard constraint is not met.
    Constraint {
        /// The rule as its spec has it.
        constraint: Constraint,
    },
    /// A hard affinity is not met: no task to be near is there, or a task to be apart from is.
    Affinity {
        /// The rule as its spec has it.
        affinity: Affinity,
    },
    /// A task there has an anti-affinity to the tasks of this job.
    Kept {
        /// The attribute that names the domain.
        attribute: String,
    },
    /// The node's domain has reached the limit of a spread, or the node is in no domain.
    Spread {
        /// The attribute that names the domain.
        attribute: String,
        /// The most tasks that it may have above the emptiest domain.
        max_skew: Option<u32>,
        /// The most tasks of the job that it may have.
        tasks_max: Option<u32>,
    },
    /// A fixed port is taken.
    PortFixed {
        /// The port number.
        number: u16,
    },
    /// A fixed port cools down: its last task has ended a moment ago.
    PortCooling {
        /// The port number.
        number: u16,
    },
    /// The node's range has too few free ports.
    PortsDynamic {
        /// How many are asked for.
        asked: u16,
    },
    /// The node has enough devices of a kind, but not of those that were asked for.
    Device {
        /// The kind of device.
        device: String,
        /// The accepted devices.
        selector: CardSelector,
    },
    /// None of the node's sockets or NUMA domains has enough free, or the node reports none.
    Within {
        /// What the task must stay within.
        within: Within,
        /// True if the task asks for exclusive cores.
        #[serde(default)]
        exclusive_cores: bool,
    },
    /// The node is too small even when empty.
    Capacity {
        /// The dimension in which the task asks for too much.
        dimension: Dimension,
        /// The requested amount, in the dimension's unit.
        asked: u64,
    },
    /// Too little is free on the node now.
    Free {
        /// The dimension in which the task asks for too much.
        dimension: Dimension,
        /// The requested amount, in the dimension's unit.
        asked: u64,
    },
}

/// A small change that would let nodes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NearestFit {
    /// Asking for less of one dimension. The smallest reduction that fits any node.
    Resource {
        /// The dimension to ask less of.
        dimension: Dimension,
        /// The most that fits, in the dimension's unit; 0: only without it.
        at_most: u64,
        /// How many nodes then fit.
        nodes: u32,
    },
    /// Asking for fewer ports.
    Ports {
        /// The most that a node has free.
        at_most: u16,
        /// How many nodes then fit.
        nodes: u32,
    },
    /// Removing one filter: dropping the constraint or the fixed port, or opening the nodes.
    Without {
        /// The filter, with what the task asked of it.
        filter: FilterStep,
        /// How many nodes then fit.
        nodes: u32,
    },
    /// Several changes at once: the fewest that let any node in, if no single change does.
    Together {
        /// The changes, all of which are needed.
        changes: Vec<NearestFit>,
        /// How many nodes then fit.
        nodes: u32,
    },
}

impl Explanation {
    pub(crate) fn of_wait(wait: WaitReason) -> Self {
        Self { waits: vec![wait], ..Self::default() }
    }
}
