//! What a worker wants to commit at one read version: placements, evictions for them, and the touched nodes as the
//! worker knew them at that version.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::node::{NodeAlloc, ShareFit, node_alloc_add, node_alloc_apply, node_alloc_promise};
use borough_model::task::{Effects, EndpointEffect, GangRow, TaskRow};
use borough_model::{JobId, Name, NodeId, RequestId, Resources, TaskId};

use crate::error::PlacementError;
use crate::keys::{ConstraintKey, EndpointKey, JobNameKey, LeaseKey};

/// The decisions of one worker at one read version. All values in it are as of that version.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementBatch {
    /// The batch's id in its journal entry: new for every commit, also for that of survivors.
    pub id: RequestId,
    /// The worker's lease, held at the read version.
    pub lease: LeaseKey,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
    /// Every node that a placement or an eviction touches.
    pub nodes: BTreeMap<NodeId, PlacementNode>,
    /// The placements, in the order in which they are charged.
    pub placements: Vec<PlacementChange>,
    pub evictions: Vec<Eviction>,
    /// Gangs whose row is new with this batch: gangs that are placed whole.
    pub gangs: Vec<GangRow>,
}

/// A node as the worker knew it at the read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementNode {
    /// The revision of its row.
    pub revision: u64,
    pub capacity: Resources,
    pub alloc: NodeAlloc,
}

/// A task that gets a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementChange {
    /// The revision of the previous row; 0 if there was none.
    pub revision_before: u64,
    /// The new row: assigned or held, with node, ports, incarnation and charge.
    pub row: TaskRow,
    /// The terms over several nodes that apply to it: guarded and written.
    pub terms: Vec<ConstraintKey>,
    /// Resident tasks that it was placed near to. They are guarded, so that the placement fails if one of them has
    /// changed.
    pub dependencies: Vec<TaskId>,
    /// Whether it was held against other tasks. Only the planner can do that again, so the placement does not survive a
    /// conflict.
    pub constrained: bool,
}

/// A task that is evicted, of a job that has not ended and so still has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub user: Name,
    pub job: Name,
    /// The revision of the previous row.
    pub revision_before: u64,
    /// The new row: stopping, or pending if it only held.
    pub row: TaskRow,
    /// The effects of the transition besides the row.
    pub effects: Effects,
    /// The task it gives way to.
    pub preemptor: TaskId,
    /// The priorities of its job and of the preemptor's job, by which the eviction was decided.
    pub priorities: (u32, u32),
}

impl Eviction {
    /// Returns true if the endpoint of the task is withdrawn with it.
    pub(super) fn withdraws(&self) -> bool {
        self.effects.endpoint == EndpointEffect::Withdraw
    }

    /// The endpoint of the task.
    pub(super) fn endpoint_key(&self) -> EndpointKey {
        EndpointKey { user: self.user.clone(), job: self.job.clone(), index: self.row.id.index }
    }

    /// The name of its job: a guard, since only the job that has the name publishes under it.
    pub(super) fn name_key(&self) -> JobNameKey {
        JobNameKey { user: self.user.clone(), name: self.job.clone() }
    }

    /// The node that it is evicted from.
    pub fn node(&self) -> Option<NodeId> {
        self.effects.capacity.share().map(|share| share.node).or(self.row.node)
    }
}

impl PlacementBatch {
    /// The values of the batch's nodes after it: victims that only held are released, then placements are charged in
    /// their order. Contains no node whose commitment does not change.
    ///
    /// A victim that has started is charged until it exits; its preemptor is promised its share.
    pub fn allocs_after(&self) -> Result<BTreeMap<NodeId, NodeAlloc>, PlacementError> {
        self.allocs_charged(Err)
    }

    /// The tasks that cannot be charged. Those before and after them are.
    pub(super) fn unfit(&self) -> BTreeSet<TaskId> {
        let mut unfit = BTreeSet::new();
        let charged = self.allocs_charged(|error| {
            unfit.insert(error.task());
            Ok(())
        });
        if let Err(error) = charged {
            unfit.insert(error.task());
        }
        unfit
    }

    /// See [`PlacementBatch::allocs_after`]. `refused` decides for each task that cannot be charged whether to continue
    /// without it.
    fn allocs_charged(
        &self,
        mut refused: impl FnMut(PlacementError) -> Result<(), PlacementError>,
    ) -> Result<BTreeMap<NodeId, NodeAlloc>, PlacementError> {
        let mut allocs: BTreeMap<NodeId, NodeAlloc> = BTreeMap::new();
        for eviction in &self.evictions {
            let Some(node) = eviction.node() else { continue };
            match self.evicted(&allocs, eviction, node) {
                Ok(after) => allocs.extend(after.map(|after| (node, after))),
                Err(error) => refused(error)?,
            }
        }
        for placement in &self.placements {
            match self.placed(&allocs, &placement.row) {
                Ok((node, after)) => drop(allocs.insert(node, after)),
                Err(error) => refused(error)?,
            }
        }
        Ok(allocs)
    }

    /// A node without a victim; `None` if the commitment does not change.
    fn evicted(
        &self,
        allocs: &BTreeMap<NodeId, NodeAlloc>,
        eviction: &Eviction,
        node: NodeId,
    ) -> Result<Option<NodeAlloc>, PlacementError> {
        let task = eviction.row.id;
        let (known, before) = self.alloc_before(allocs, task, node)?;
        node_alloc_apply(&before, &known.capacity, &eviction.effects.capacity, ShareFit::Required, self.at_ms)
            .map_err(|source| PlacementError::Unfit { task, node, source })
    }

    /// A task's node with the task.
    fn placed(
        &self,
        allocs: &BTreeMap<NodeId, NodeAlloc>,
        row: &TaskRow,
    ) -> Result<(NodeId, NodeAlloc), PlacementError> {
        let node = row.charged_node().ok_or(PlacementError::NodeUnknown { task: row.id })?;
        let (known, before) = self.alloc_before(allocs, row.id, node)?;
        let (resources, ports) = (&row.charge.resources, row.port_numbers());
        let add = if row.promised { node_alloc_promise } else { node_alloc_add };
        let after = add(&before, &known.capacity, resources, &ports, self.at_ms)
            .map_err(|source| PlacementError::Unfit { task: row.id, node, source })?;
        Ok((node, after))
    }

    /// The placement that fails with `task`: its preemptor's if it is a victim, otherwise its own.
    pub(super) fn placement_for(&self, task: TaskId) -> TaskId {
        let victim = self.evictions.iter().find(|eviction| eviction.row.id == task);
        victim.map_or(task, |eviction| eviction.preemptor)
    }

    fn alloc_before(
        &self,
        allocs: &BTreeMap<NodeId, NodeAlloc>,
        task: TaskId,
        node: NodeId,
    ) -> Result<(&PlacementNode, NodeAlloc), PlacementError> {
        let known = self.nodes.get(&node).ok_or(PlacementError::NodeUnknown { task })?;
        Ok((known, allocs.get(&node).unwrap_or(&known.alloc).clone()))
    }

    /// The jobs whose gates guard the batch: those of placed tasks, and those of victims, whose priority must not have
    /// been raised meanwhile.
    pub fn jobs(&self) -> BTreeSet<JobId> {
        let placed = self.placements.iter().map(|placement| placement.row.id.job);
        placed.chain(self.evictions.iter().map(|eviction| eviction.row.id.job)).collect()
    }

    /// The tasks whose rows guard the batch.
    pub fn tasks(&self) -> BTreeSet<TaskId> {
        let placed = self.placements.iter().map(|placement| placement.row.id);
        placed.chain(self.evictions.iter().map(|eviction| eviction.row.id)).collect()
    }

    /// The tasks that others are placed near to: their rows guard the batch too.
    pub fn dependencies(&self) -> BTreeSet<TaskId> {
        self.placements.iter().flat_map(|placement| placement.dependencies.iter().copied()).collect()
    }

    /// The terms that guard the batch.
    pub fn terms(&self) -> BTreeSet<&ConstraintKey> {
        self.placements.iter().flat_map(|placement| &placement.terms).collect()
    }
}
