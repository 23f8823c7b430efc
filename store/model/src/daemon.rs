//! Which nodes a daemon job serves: pure decisions over the rows of the nodes and of its tasks.
//!
//! A task of a daemon job is for one node ([`TaskRow::daemon_node`]), and runs there or nowhere. The store keeps which
//! index is for which node, so no task is renumbered when another node comes or goes. The controller decides two
//! things: which nodes get a task, and which tasks end because the job does not serve their node any more.

use std::collections::BTreeMap;

use crate::id::{Incarnation, NodeId, TaskId};
use crate::job::{Constraint, JobSpec, Toleration, band, taint_tolerated, tolerations_in_force};
use crate::node::{NodeRow, NodeState, PRESSURE_PREFIX, SILENT_KEY, node_attribute};
use crate::resource::{Resources, fits_in};
use crate::task::{TaskRow, TaskState};

/// Nodes that one step gives a task to at most.
pub const SERVED_MAX: usize = 512;

/// What a daemon job asks of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonRules {
    constraints: Vec<Constraint>,
    tolerations: Vec<Toleration>,
    resources: Resources,
}

/// What a node is to a daemon job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFit {
    /// It has a task of the job.
    Served,
    /// It gets none before it is ready, or its agent answers, or its machine is short of nothing any more. What it has
    /// stays, also a task that waits.
    Awaited,
    /// It gets none: it is drained or lost, or has a taint that the job does not tolerate. An attempt that is there
    /// stays. The drain, the taint or the loss decides about its end.
    Kept,
    /// It gets none: it is too small. An attempt that is there stays.
    TooSmall,
    /// It does not meet the constraints: its task ends.
    Unmatched,
}

impl DaemonRules {
    /// The rules of a job with this spec, at this priority.
    pub fn of(spec: &JobSpec, priority: u32) -> Self {
        Self {
            constraints: spec.constraints_in_force().filter(|one| one.preference.is_none()).collect(),
            tolerations: tolerations_in_force(&spec.tolerations, band(priority)),
            resources: spec.with_helpers(&spec.task.resources).into_owned(),
        }
    }

    /// What a node is to the job. A cordon is for other jobs: it keeps no daemon away.
    pub fn fit(&self, node: &NodeRow) -> NodeFit {
        let met = |one: &Constraint| one.is_met_by(node_attribute(node, &one.attribute));
        if !self.constraints.iter().all(met) {
            return NodeFit::Unmatched;
        }
        let refusing = node.taints.iter().filter(|taint| taint.effect.refuses());
        let mut refusing = refusing.filter(|taint| !taint_tolerated(&self.tolerations, taint)).peekable();
        let is_passing = |key: &str| key == SILENT_KEY || key.starts_with(PRESSURE_PREFIX);
        let waits = node.state == NodeState::Recovering || refusing.peek().is_some();
        let is_closed = node.state == NodeState::Lost || node.draining;
        if is_closed || refusing.any(|taint| !is_passing(&taint.key)) {
            return NodeFit::Kept;
        }
        if !fits_in(&self.resources, &node.capacity) {
            return NodeFit::TooSmall;
        }
        if waits { NodeFit::Awaited } else { NodeFit::Served }
    }
}

/// A node that gets a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeServed {
    pub node: NodeId,
    /// A withdrawn task that serves it from now on: its own one, or that of a node that is gone. `None`: a new task.
    pub again: Option<u32>,
}

/// What a daemon job does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonStep {
    /// Nodes that get a task, at most [`SERVED_MAX`] unless the view says otherwise.
    pub serve: Vec<NodeServed>,
    /// All nodes that lack one, those of `serve` included.
    pub lacking: u32,
    /// Attempts, and tasks that wait, whose node the job does not serve any more.
    pub withdraw: Vec<(TaskId, Incarnation)>,
}

/// What a look at the tasks of a daemon job, and then at the nodes of the cell, has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonView {
    rules: DaemonRules,
    /// Nodes that a step serves at most.
    most: usize,
    /// Nodes that a task is for. `Some`: it is withdrawn, and has this index.
    known: BTreeMap<NodeId, Option<u32>>,
    /// Withdrawn tasks whose node is gone.
    vacant: Vec<u32>,
    /// Nodes that get a task, without an index for those that no task was ever for.
    lacking: Vec<NodeServed>,
    lacking_count: u32,
    withdraw: Vec<(TaskId, Incarnation)>,
}

impl DaemonView {
    /// Has seen nothing yet.
    pub fn new(rules: DaemonRules) -> Self {
        Self::with_most(rules, SERVED_MAX)
    }

    /// The same, for a step that serves at most so many nodes.
    pub fn with_most(rules: DaemonRules, most: usize) -> Self {
        Self {
            rules,
            most,
            known: BTreeMap::new(),
            vacant: Vec::new(),
            lacking: Vec::new(),
            lacking_count: 0,
            withdraw: Vec::new(),
        }
    }

    /// Takes a task of the job into account. `node` is the row of the node that it is for; `None`: the node is gone.
    pub fn visit_task(&mut self, task: &TaskRow, node: Option<&NodeRow>) {
        let Some(served) = task.node_served() else { return };
        if task.is_withdrawn() {
            if node.is_some() {
                self.known.insert(served, Some(task.id.index));
            } else if self.vacant.len() < self.most {
                self.vacant.push(task.id.index);
            }
            return;
        }
        self.known.insert(served, None);
        let fit = node.map_or(NodeFit::Unmatched, |node| self.rules.fit(node));
        let ends = match task.state {
            TaskState::Pending => matches!(fit, NodeFit::Kept | NodeFit::TooSmall | NodeFit::Unmatched),
            TaskState::Held
            | TaskState::Assigned
            | TaskState::Starting
            | TaskState::Running
            | TaskState::Lost => fit == NodeFit::Unmatched,
            TaskState::Stopping | TaskState::Releasing | TaskState::Dead => false,
        };
        if ends {
            self.withdraw.push((task.id, task.incarnation));
        }
    }

    /// Takes a node of the cell into account. Every task was visited before.
    pub fn visit_node(&mut self, node: &NodeRow) {
        let again = match self.known.get(&node.id) {
            None => None,
            Some(None) => return,
            Some(again) => *again,
        };
        if self.rules.fit(node) != NodeFit::Served {
            return;
        }
        self.lacking_count = self.lacking_count.saturating_add(1);
        if self.lacking.len() < self.most {
            self.lacking.push(NodeServed { node: node.id, again });
        }
    }

    /// What the job does next, when every task and every node was visited.
    pub fn step(self) -> DaemonStep {
        let Self { mut lacking, lacking_count, vacant, withdraw, .. } = self;
        let mut vacant = vacant.into_iter();
        for served in lacking.iter_mut().filter(|served| served.again.is_none()) {
            served.again = vacant.next();
        }
        DaemonStep { serve: lacking, lacking: lacking_count, withdraw }
    }
}
