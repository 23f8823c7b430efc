//! Workers that plan at one time and commit at another.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::{ErrorCode, Retryable};
use borough_model::job::{JobRow, JobState, PortSpec};
use borough_model::node::{NodeAlloc, NodeRow, node_alloc_add, node_alloc_promise, node_open};
use borough_model::task::{self, PortAssignment, StopReason, TaskEvent, TaskRow, TaskState, task_transition};
use borough_model::{JobId, NodeId, TaskId};

use super::super::*;
use super::world::World;
use crate::check::{CellRows, cell_rows_read};
use crate::gate::GateOpen;
use crate::keys::LeaseKey;
use crate::testing::gate_open;

impl SurvivorView for CellRows {
    fn node(&self, node: NodeId) -> Option<PlacementNode> {
        let (row, alloc) = (self.nodes.get(&node)?, self.allocs.get(&node)?);
        Some(PlacementNode { revision: row.revision, capacity: row.capacity.clone(), alloc: alloc.clone() })
    }

    fn task_revision(&self, task: TaskId) -> u64 {
        self.tasks.get(&task).map_or(0, |row| row.revision)
    }

    fn job(&self, job: JobId) -> Option<&JobRow> {
        self.jobs.get(&job)
    }
}

/// A batch, with the version that it was decided at.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    gate: GateOpen,
    batch: PlacementBatch,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Committed,
    Found,
    Survived,
    Lost,
}

/// A number for every port of a spec: fixed ones as they are, the others the lowest that are free.
fn ports_of(
    row: &NodeRow,
    alloc: &NodeAlloc,
    wanted: &[PortSpec],
    now_ms: i64,
) -> Option<Vec<PortAssignment>> {
    let cooling = |port: &u16| alloc.ports_cooling.get(port).is_some_and(|&until_ms| until_ms > now_ms);
    let free = |port: &u16| !alloc.ports.contains(port) && !cooling(port);
    let fixed: BTreeSet<u16> = wanted.iter().filter_map(|port| port.number).collect();
    let mut open = (row.port_first..=row.port_last).filter(|port| free(port) && !fixed.contains(port));
    let numbered = wanted.iter().map(|port| {
        let number =
            port.number.filter(free).or_else(|| if port.number.is_none() { open.next() } else { None })?;
        Some(PortAssignment { name: port.name.clone(), number })
    });
    numbered.collect()
}

impl World {
    async fn snapshot(&self) -> (GateOpen, CellRows) {
        let read =
            self.read(async |tx, space| Ok((gate_open(tx, space).await?, cell_rows_read(tx, space).await?)));
        read.await.unwrap()
    }

    /// Plans a few placements over a snapshot.
    pub(crate) async fn plan(&self, shard: u32) -> Option<Planned> {
        let (gate, rows) = self.snapshot().await;
        let lease = LeaseKey { role: "scheduler".to_owned(), shard };
        let mut batch = PlacementBatch {
            id: self.request(),
            lease,
            at_ms: self.now_ms,
            nodes: BTreeMap::new(),
            placements: Vec::new(),
            evictions: Vec::new(),
            gangs: Vec::new(),
        };
        let mut allocs = rows.allocs.clone();
        for job in rows.jobs.values().filter(|job| job.state == JobState::Running) {
            for index in (0..job.count).filter(|_| self.below(3) > 0) {
                let task = TaskId { job: job.id, index };
                self.place(&rows, &mut allocs, &mut batch, task);
            }
        }
        (!batch.placements.is_empty()).then_some(Planned { gate, batch })
    }

    fn place(
        &self,
        rows: &CellRows,
        allocs: &mut BTreeMap<NodeId, NodeAlloc>,
        batch: &mut PlacementBatch,
        task: TaskId,
    ) -> Option<()> {
        let before = rows.tasks.get(&task).cloned().unwrap_or_else(|| TaskRow::never_placed(task));
        let job = rows.jobs.get(&task.job)?;
        let spec = rows.specs.get(&(job.id, job.spec_version))?;
        if before.state != TaskState::Pending || before.not_before_ms > self.now_ms {
            return None;
        }
        let node = NodeId(1 + self.below(super::world::NODES));
        let row = rows.nodes.get(&node).filter(|row| node_open(row).is_ok())?;
        let alloc = allocs.get(&node)?;
        let ports = ports_of(row, alloc, &spec.task.ports, self.now_ms)?;
        let resources = spec.resources_for(task.index).into_owned();
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let fits = node_alloc_add(alloc, &row.capacity, &resources, &numbers, self.now_ms);
        let incarnation = before.incarnation.next();
        let spec_version = job.spec_version;
        let place = task::Placement {
            node,
            incarnation,
            ports,
            resources: resources.clone(),
            spec_version,
            gang: None,
            alloc: None,
        };
        let (event, after) = match fits {
            Ok(after) => (TaskEvent::Place(place), after),
            Err(_) => {
                // A task that runs there is evicted; until it exits, its share is only promised.
                let promised = node_alloc_promise(alloc, &row.capacity, &resources, &numbers, self.now_ms);
                let promised = promised.ok()?;
                batch.evictions.push(self.evict(rows, batch, node, task)?);
                (TaskEvent::HoldPromised(place), promised)
            }
        };
        let placed = task_transition(&before, &event, self.now_ms).unwrap();
        let known = PlacementNode {
            revision: row.revision,
            capacity: row.capacity.clone(),
            alloc: rows.allocs[&node].clone(),
        };
        batch.nodes.entry(node).or_insert(known);
        batch.placements.push(PlacementChange {
            revision_before: before.revision,
            row: placed.row,
            terms: Vec::new(),
            dependencies: Vec::new(),
            constrained: false,
        });
        allocs.insert(node, after);
        Some(())
    }

    /// Sometimes evicts a running task of the node.
    fn evict(
        &self,
        rows: &CellRows,
        batch: &PlacementBatch,
        node: NodeId,
        preemptor: TaskId,
    ) -> Option<Eviction> {
        let evicted = |row: &TaskRow| batch.evictions.iter().any(|eviction| eviction.row.id == row.id);
        let victim = |row: &&TaskRow| {
            row.node == Some(node) && row.state == TaskState::Running && row.id != preemptor && !evicted(row)
        };
        let victim = rows.tasks.values().find(victim).filter(|_| self.below(2) == 0)?;
        let ended = |job: &JobRow| matches!(job.state, JobState::Ended { .. });
        let job = rows.jobs.get(&victim.id.job).filter(|job| !ended(job))?;
        let stop = TaskEvent::StopRequested { reason: StopReason::Preempted };
        let stopped = task_transition(victim, &stop, self.now_ms).unwrap();
        let priorities = (job.priority, rows.jobs.get(&preemptor.job)?.priority);
        Some(Eviction {
            user: job.user.clone(),
            job: job.name.clone(),
            revision_before: victim.revision,
            row: stopped.row,
            effects: stopped.effects,
            preemptor,
            priorities,
        })
    }

    /// Commits an earlier plan, and reacts as a worker does.
    pub(crate) async fn commit(&self, planned: Planned) -> (Fate, Option<Planned>) {
        let Planned { gate, batch } = planned;
        let space = self.space.clone();
        let committed =
            self.db.commit_at("placement", gate.version(), |tx| placement_commit(tx, &gate, &batch)).await;
        let Err(failed) = committed else {
            self.placed_check(&batch).await;
            return (Fate::Committed, None);
        };
        let code = failed.error.kv_error().map(|error| error.code);
        if code.is_some_and(ErrorCode::is_maybe_committed) {
            let at = gate.version();
            let found = self.read(async |tx, space| placement_find(tx, space, 1, at, batch.id).await).await;
            let found = found.unwrap().is_some();
            self.found_check(&batch, found).await;
            return (if found { Fate::Found } else { Fate::Lost }, None);
        }
        let retryable = code.is_some_and(ErrorCode::is_retryable_not_committed);
        assert!(retryable, "seed {}: {:?}", self.seed, failed.error);
        let conflicts = placement_conflicts(&space, &failed.conflicting, &batch);
        let losers: BTreeSet<TaskId> = placement_losers(&conflicts, &batch);
        let (gate, rows) = self.snapshot().await;
        let left = placement_survivors(&batch, &losers, &rows, self.request(), self.now_ms);
        assert!(left.placements.iter().all(|placement| !losers.contains(&placement.row.id)));
        match left.placements.is_empty() {
            true => (Fate::Lost, None),
            false => (Fate::Survived, Some(Planned { gate, batch: left })),
        }
    }

    /// Nothing has happened since the commit: whatever was placed is wanted, and its node takes tasks.
    async fn placed_check(&self, batch: &PlacementBatch) {
        let rows = self.rows().await;
        for placement in &batch.placements {
            let (seed, row) = (self.seed, &placement.row);
            assert_eq!(rows.tasks.get(&row.id), Some(row), "seed {seed}");
            let job = &rows.jobs[&row.id.job];
            assert!(
                job.state == JobState::Running && row.id.index < job.count,
                "seed {seed}: {job:?} {row:?}"
            );
            let node = &rows.nodes[&row.node.unwrap()];
            assert!(node_open(node).is_ok(), "seed {seed}: {node:?} {row:?}");
        }
    }

    /// A batch is found if and only if it was committed.
    async fn found_check(&self, batch: &PlacementBatch, found: bool) {
        let rows = self.rows().await;
        for placement in &batch.placements {
            let there = rows.tasks.get(&placement.row.id) == Some(&placement.row);
            assert_eq!(there, found, "seed {}: {:?}", self.seed, placement.row);
        }
    }
}
