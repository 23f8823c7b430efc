//! A cell in memory that the production core fills: the loop of a worker without its store.

use std::collections::BTreeMap;

use borough_model::job::{JobKind, JobState, job_new};
use borough_model::node::{Card, CardSelector, NodeState, cards_counted};
use borough_model::{Delta, JobId, JobSpec, Name, NodeAlloc, NodeId, NodeRow, RequestId, Resources, TaskId};
use borough_scheduler_core::{
    CellSettings, OpenQueue, PlanCache, PlanCounters, Snapshot, StartOffset, plan_from,
};

use super::openb::{OpenbNode, OpenbTask};
use crate::decide::drive::committed;
use crate::decide::workload::id_of;

/// Wall time of the run: deciding takes it as an argument.
pub(super) const NOW_MS: i64 = 1_700_000_000_000;
/// Bytes of a mebibyte.
pub(super) const MIB: u64 = 1 << 20;
/// The kind of cards.
pub(super) const GPU: &str = "gpu";

/// A cell, with the search results of its plans.
pub(super) struct ExperimentCell {
    pub snapshot: Snapshot,
    pub counters: PlanCounters,
    /// Decisions: tasks placed or refused.
    pub decisions: u64,
    cache: PlanCache,
    start_offset: StartOffset,
    user: Name,
    jobs: u64,
}

/// The row of a node of the trace.
fn node_row(number: u64, node: &OpenbNode) -> anyhow::Result<NodeRow> {
    let card = |place: u32| Card {
        kind: GPU.to_owned(),
        place,
        id: place.to_string(),
        model: node.model.clone(),
        memory_bytes: 0,
    };
    let cards: Vec<Card> = (0..node.cards).map(card).collect();
    let capacity = Resources {
        cpu_millis: node.cpu_millis,
        memory_bytes: node.memory_mib * MIB,
        ..Resources::default()
    };
    Ok(NodeRow {
        id: NodeId(id_of(number)),
        name: Name::new(&node.name)?,
        state: NodeState::Ready,
        schedulable: true,
        draining: false,
        capacity: cards_counted(&capacity, &cards),
        port_first: 20_000,
        port_last: 29_999,
        attributes: BTreeMap::new(),
        labels: BTreeMap::new(),
        host: String::new(),
        boot_id: String::new(),
        agent_version: String::new(),
        revision: 1,
        changed_ms: 0,
        taints: Vec::new(),
        cards,
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    })
}

/// The priority of every task.
const PRIORITY: u32 = 200;

/// The spec of a job of one task of the trace.
fn job_spec(user: &Name, task: &OpenbTask) -> anyhow::Result<JobSpec> {
    let kind = if task.service { JobKind::Service } else { JobKind::Batch };
    let mut spec = JobSpec::defaults(user.clone(), Name::new("task")?, kind, vec!["/bin/true".to_owned()]);
    spec.count = 1;
    // One priority for all: nobody is evicted, and a batch is decided in the order of arrival.
    spec.priority = PRIORITY;
    let resources = &mut spec.task.resources;
    (resources.cpu_millis, resources.memory_bytes) = (task.cpu_millis, task.memory_mib * MIB);
    if task.gpu_millis > 0 {
        resources.device_millis.insert(GPU.to_owned(), task.gpu_millis);
    }
    if !task.models.is_empty() {
        let selector = CardSelector { models: task.models.clone(), memory_bytes_min: 0 };
        spec.task.device_selectors.insert(GPU.to_owned(), selector);
    }
    Ok(spec)
}

impl ExperimentCell {
    /// An empty cell with these nodes. Every node that fits is a candidate of every task, whatever the size of the
    /// cell: the comparison is of policies, not of search depth.
    pub(super) fn new(settings: CellSettings, nodes: &[OpenbNode], seed: u64) -> anyhow::Result<Self> {
        let mut snapshot = Snapshot::new(settings);
        for (number, node) in (0..).zip(nodes) {
            let row = node_row(number, node)?;
            snapshot.apply(&Delta::NodeAlloc {
                node: row.id,
                alloc: NodeAlloc { epoch: 1, ..NodeAlloc::default() },
            });
            snapshot.apply(&Delta::Node { row });
        }
        Ok(Self {
            snapshot,
            counters: PlanCounters::default(),
            decisions: 0,
            cache: PlanCache::default(),
            start_offset: StartOffset { beyond: nodes.len(), ..StartOffset::undivided(seed) },
            user: Name::new("owner")?,
            jobs: 0,
        })
    }

    /// Lets tasks arrive, one after the other, and returns the node of each. Tasks without a node are dropped.
    pub(super) fn arrive(&mut self, tasks: &[&OpenbTask]) -> anyhow::Result<Vec<Option<NodeId>>> {
        let first = self.jobs;
        for task in tasks {
            let spec = job_spec(&self.user, task)?;
            let submitted_ms = i64::try_from(self.jobs)?;
            let mut row = job_new(JobId(id_of(self.jobs)), &spec, RequestId::default(), submitted_ms);
            row.state = JobState::Running;
            self.snapshot.apply(&Delta::Job { row: row.into(), spec: Some(Box::new(spec)) });
            self.jobs += 1;
        }
        self.decide()?;
        let mut placed = Vec::with_capacity(tasks.len());
        for number in first..self.jobs {
            let job = JobId(id_of(number));
            let node = self.snapshot.tables().task(TaskId { job, index: 0 }).and_then(|task| task.node);
            if node.is_none() {
                self.snapshot.apply(&Delta::JobRemoved { job, name: None });
            }
            placed.push(node);
        }
        self.decisions += tasks.len() as u64;
        Ok(placed)
    }

    fn decide(&mut self) -> anyhow::Result<()> {
        let queue = self.snapshot.pending_in(&OpenQueue::default(), NOW_MS, usize::MAX);
        let planned = plan_from(self.snapshot.tables(), &queue, NOW_MS, self.start_offset, &mut self.cache);
        self.snapshot.remember(&planned, NOW_MS);
        for delta in committed(&self.snapshot, &planned)? {
            self.snapshot.apply(&delta);
        }
        self.counters.nodes_scored += planned.counters.nodes_scored;
        self.counters.nodes_examined += planned.counters.nodes_examined;
        Ok(())
    }

    /// Thousandths of cards in the nodes' capacity.
    pub(super) fn gpu_capacity_millis(&self) -> u64 {
        self.snapshot
            .tables()
            .nodes()
            .map(|node| node.limits.device_millis.get(GPU).copied().unwrap_or(0))
            .sum()
    }

    /// Thousandths of cards in use.
    pub(super) fn gpu_used_millis(&self) -> u64 {
        self.snapshot
            .tables()
            .nodes()
            .map(|node| node.alloc.used.device_millis.get(GPU).copied().unwrap_or(0))
            .sum()
    }

    /// Processors and memory in use, in per cent of the nodes' capacity.
    pub(super) fn fixed_percent(&self) -> (f64, f64) {
        let mut sums = [0_u64; 4];
        for node in self.snapshot.tables().nodes() {
            let (used, limits) = (&node.alloc.used, &node.limits);
            let of_node = [used.cpu_millis, limits.cpu_millis, used.memory_bytes, limits.memory_bytes];
            for (sum, amount) in sums.iter_mut().zip(of_node) {
                *sum += amount;
            }
        }
        let [cpu, cpu_limit, memory, memory_limit] = sums.map(|sum| sum as f64);
        (cpu * 100.0 / cpu_limit.max(1.0), memory * 100.0 / memory_limit.max(1.0))
    }
}
