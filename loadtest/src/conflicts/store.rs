//! The store of the simulation: commits in the order of virtual time, each checked by its guards.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use borough_model::{Delta, JournalEntry, NodeId, TaskId};
use borough_store::placement::{PlacementBatch, PlacementConflicts};

use super::Latencies;
use crate::decide::drive::timed;

/// An entry of the journal.
pub(super) struct ModelEntry {
    pub entry: JournalEntry,
    /// Seconds that each reader needs to decode it.
    pub decode_s: f64,
}

/// The journal, and the last write of each guard. A version is the number of entries before it.
pub(super) struct ModelStore<'l> {
    /// The virtual time in seconds.
    pub now_s: f64,
    /// For how long it has worked.
    pub busy_s: f64,
    pub journal: Vec<ModelEntry>,
    latencies: &'l Latencies,
    free_at_s: f64,
    nodes: BTreeMap<NodeId, usize>,
    tasks: BTreeMap<TaskId, usize>,
    draws: u64,
}

impl<'l> ModelStore<'l> {
    /// An empty store whose commits take the measured time.
    pub(super) fn new(latencies: &'l Latencies, seed: u64) -> Self {
        Self {
            now_s: 0.0,
            busy_s: 0.0,
            journal: Vec::new(),
            latencies,
            free_at_s: 0.0,
            nodes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            draws: seed,
        }
    }

    /// The version that a read gets now.
    pub(super) fn version(&self) -> usize {
        self.journal.len()
    }

    /// The time at which a commit sent at `sent_s` is decided.
    pub(super) fn decided_at(&mut self, sent_s: f64, placements: usize) -> f64 {
        self.draws =
            self.draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let work_s = self.latencies.placement_s * placements as f64;
        self.free_at_s = self.free_at_s.max(sent_s) + work_s;
        self.busy_s += work_s;
        self.free_at_s + self.latencies.fixed(self.draws >> 33)
    }

    /// Commits a batch that was decided at `version`, or returns the overwritten guards.
    pub(super) fn commit(
        &mut self,
        batch: &PlacementBatch,
        version: usize,
    ) -> anyhow::Result<Option<PlacementConflicts>> {
        let overtaken = |at: Option<&usize>| at.is_some_and(|&at| at > version);
        let nodes: BTreeSet<NodeId> =
            batch.nodes.keys().copied().filter(|node| overtaken(self.nodes.get(node))).collect();
        let tasks: BTreeSet<TaskId> =
            batch.tasks().into_iter().filter(|task| overtaken(self.tasks.get(task))).collect();
        if !nodes.is_empty() || !tasks.is_empty() {
            return Ok(Some(PlacementConflicts { nodes, tasks, ..PlacementConflicts::default() }));
        }
        let mut deltas = Vec::with_capacity(2 * batch.placements.len());
        for (node, alloc) in batch.allocs_after()? {
            deltas.push(Delta::NodeAlloc { node, alloc });
        }
        deltas.extend(batch.placements.iter().map(|placement| Delta::Task { row: placement.row.clone() }));
        let (actor, action) = ("scheduler/0".to_owned(), "placement_commit".to_owned());
        let entry = JournalEntry {
            request: batch.id,
            actor,
            action,
            at_ms: batch.at_ms,
            deltas,
            values: None,
            calls: None,
        };
        let bytes = minicbor::to_vec(&entry)?;
        let mut decode_s = 0.0;
        timed(&mut decode_s, || minicbor::decode::<JournalEntry>(&bytes).is_ok());
        self.journal.push(ModelEntry { entry, decode_s });
        let at = self.version();
        self.nodes.extend(batch.nodes.keys().map(|&node| (node, at)));
        self.tasks.extend(batch.tasks().into_iter().map(|task| (task, at)));
        Ok(None)
    }
}
