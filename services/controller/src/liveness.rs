//! Silence of nodes, by the controller's own clock.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_kv::{Database, Idempotency};
use borough_model::NodeId;
use borough_model::node::{NodeLive, NodeState};
use borough_store::lease::Silence;
use borough_store::mirror::MirrorState;
use borough_store::node::node_live_list;
use borough_store::{CellSpace, StoreResult};

use crate::decide::losses_left;

/// What the controller knows of its nodes' silence.
#[derive(Debug, Default)]
pub struct Liveness {
    silences: BTreeMap<NodeId, Silence<Option<NodeLive>>>,
    declared: Vec<Duration>,
}

/// A node to be declared lost, with the lease as it was seen in all its silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The node.
    pub node: NodeId,
    /// What its lease said.
    pub observed: Option<NodeLive>,
}

impl Liveness {
    /// Reads the leases and takes note. Where the read fails nothing is noted, and so nothing counts.
    pub async fn observe(
        &mut self,
        db: &Database,
        space: &CellSpace,
        nodes: impl Iterator<Item = NodeId>,
        now: impl Fn() -> Duration,
        gap_max: Duration,
    ) -> StoreResult<()> {
        let leases = db.run("node_live_list", Idempotency::ReadOnly, |tx, _| async move {
            node_live_list(&tx, space).await
        });
        let leases = leases.await?;
        let now = now();
        let mut silences = BTreeMap::new();
        for node in nodes {
            let mut silence = self.silences.remove(&node).unwrap_or_default();
            silence.observe(now, leases.get(&node).cloned(), gap_max);
            silences.insert(node, silence);
        }
        self.silences = silences;
        Ok(())
    }

    /// For how long a node has been silent.
    pub fn silent(&self, node: NodeId) -> Duration {
        self.silences.get(&node).map_or(Duration::ZERO, Silence::silent)
    }

    /// Nodes to be declared lost now: silent for the tolerance, not lost yet, at most `per_minute` in any minute.
    pub fn lost(
        &mut self,
        state: &MirrorState,
        tolerance: Duration,
        now: Duration,
        per_minute: u32,
    ) -> Vec<Silent> {
        self.declared.retain(|at| now.saturating_sub(*at) < Duration::from_secs(60));
        let left = losses_left(&self.declared, now, per_minute);
        let silent = self.silences.iter().filter(|(node, silence)| {
            let known = state.nodes().get(node).is_some_and(|row| row.state != NodeState::Lost);
            known && silence.silent() >= tolerance
        });
        let silent =
            silent.map(|(node, silence)| Silent { node: *node, observed: silence.last().cloned().flatten() });
        silent.take(left).collect()
    }

    /// Notes a declaration.
    pub fn declared(&mut self, now: Duration) {
        self.declared.push(now);
    }
}
