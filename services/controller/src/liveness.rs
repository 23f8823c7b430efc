//! Measures the silence of nodes, by the controller's own clock.
//!
//! A node is silent since the last sign of life that an observation showed. That is work of its session, or a beat of
//! the gateway that vouches for it. Only time between two observations that lie close together counts, so nothing that
//! is alive looks dead after an outage of the store or of the controller. An observation costs what has changed: the
//! nodes of a gateway share one time, and silent nodes are found by a search in the order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_model::node::{GatewayLive, LivenessSign, NodeLive, NodeRow, NodeSeen, NodeState, Voucher};
use borough_model::{Delta, NodeId};
use borough_store::mirror::MirrorState;

use crate::decide::losses_left;

/// A gateway's row is removed after so many tolerances of silence: its nodes are lost by then.
const GATEWAY_TOLERANCES: u32 = 10;
/// At least so long, so that short tolerances of tests and trials keep what happened visible.
const GATEWAY_SILENCE_MIN: Duration = Duration::from_secs(600);
/// A gateway beats eight times within the tolerance. Two beats that are late are no accident.
const UNHEARD_PER_TOLERANCE: u32 = 4;

/// What one observation shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    /// Nodes whose rows were read; `None`: it has none.
    pub nodes: Vec<(NodeId, Option<NodeLive>)>,
    pub gateways: BTreeMap<u64, GatewayLive>,
}

/// The silence of each node.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// The time that counts: between observations that lie close together.
    counted: Duration,
    observed_at: Option<Duration>,
    nodes: BTreeMap<NodeId, NodeWatch>,
    vouchers: BTreeMap<Voucher, VoucherWatch>,
    /// The counted time of the last beat of any gateway; `None`: none was ever seen.
    heard_at: Option<Duration>,
    /// Nodes without a voucher, except lost ones, by the counted time of their last sign of life.
    alone: BTreeSet<(Duration, NodeId)>,
    /// Nodes to read again: a declaration found a sign of life that no change showed.
    stale: BTreeSet<NodeId>,
    declared: Vec<Duration>,
}

#[derive(Debug, Default)]
struct NodeWatch {
    live: Option<NodeLive>,
    /// The counted time of its own last sign of life, or of the first observation.
    alive_at: Duration,
    /// Its state by the mirror. `None`: the mirror has no such node (yet).
    state: Option<NodeState>,
}

#[derive(Debug, Default)]
struct VoucherWatch {
    beat: Option<u64>,
    /// The counted time at which the beat last changed.
    alive_at: Duration,
    /// The nodes that name it, except lost ones.
    nodes: BTreeSet<NodeId>,
}

/// A node to declare lost, as it was during its silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    pub node: NodeId,
    pub observed: Option<NodeSeen>,
}

impl Liveness {
    /// Records an observation that was made at `now` (monotonic). A longer gap than `gap_max` since the one before
    /// counts as nothing: the controller was cut off for part of it.
    pub(crate) fn observe(&mut self, now: Duration, observation: Observation, gap_max: Duration) {
        let gap = self.observed_at.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        if gap <= gap_max {
            self.counted = self.counted.saturating_add(gap);
        }
        self.observed_at = Some(now);
        let counted = self.counted;
        for (&gateway, row) in &observation.gateways {
            let voucher = Voucher { gateway, epoch: row.epoch };
            let watch = self.vouchers.entry(voucher).or_default();
            if watch.beat != Some(row.beat) {
                (watch.beat, watch.alive_at) = (Some(row.beat), counted);
                self.heard_at = Some(counted);
            }
        }
        for (node, live) in observation.nodes {
            self.stale.remove(&node);
            self.row_note(node, live);
        }
        let there = |voucher: &Voucher| {
            observation.gateways.get(&voucher.gateway).is_some_and(|row| row.epoch == voucher.epoch)
        };
        for (voucher, watch) in &mut self.vouchers {
            // A voucher whose row is gone is over for good.
            if !there(voucher) {
                watch.beat = None;
            }
        }
        self.vouchers.retain(|voucher, watch| there(voucher) || !watch.nodes.is_empty());
    }

    /// Records the row of a node, which was read now.
    fn row_note(&mut self, node: NodeId, live: Option<NodeLive>) {
        let (counted, known) = (self.counted, self.nodes.contains_key(&node));
        let last = self.alive_at(node);
        self.unlist(node);
        let watch = self.nodes.entry(node).or_default();
        let sign = live.as_ref().map_or(LivenessSign::None, |live| live.sign_since(watch.live.as_ref()));
        // The whole tolerance from the first observation on.
        let alive = !known || sign == LivenessSign::Works;
        // A gateway that withdraws has found the silence itself, by its own clock.
        let before = watch.live.as_ref().is_some_and(|before| before.voucher.is_some());
        let withdrawn = live.as_ref().filter(|live| before && live.voucher.is_none());
        let silent_ms = withdrawn.filter(|_| sign == LivenessSign::None).map_or(0, |live| live.silent_ms);
        let last = last.saturating_sub(Duration::from_millis(silent_ms));
        watch.alive_at = if alive { counted } else { last };
        watch.live = live;
        self.list(node);
    }

    /// Records a change that the mirror shows.
    pub(crate) fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Node { row } => self.node_note(row),
            Delta::NodeRemoved { node, .. } => self.node_removed(*node),
            _ => {}
        }
    }

    /// Records that the mirror shows this row of a node.
    pub(crate) fn node_note(&mut self, row: &NodeRow) {
        let (node, counted) = (row.id, self.counted);
        let last = self.alive_at(node);
        self.unlist(node);
        let watch = self.nodes.entry(node).or_default();
        // A new or returning node has its whole tolerance to do its work.
        let begins = match watch.state {
            None => watch.live.is_none(),
            Some(before) => before == NodeState::Lost && row.state != NodeState::Lost,
        };
        watch.alive_at = if begins { counted } else { last };
        watch.state = Some(row.state);
        self.list(node);
    }

    /// Records that a node is removed.
    pub(crate) fn node_removed(&mut self, node: NodeId) {
        self.unlist(node);
        self.nodes.remove(&node);
    }

    /// Records all nodes of the mirror, which began again.
    pub(crate) fn nodes_note(&mut self, state: &MirrorState) {
        let gone: Vec<NodeId> =
            self.nodes.keys().filter(|node| !state.nodes().contains_key(node)).copied().collect();
        for node in gone {
            self.node_removed(node);
        }
        state.nodes().values().for_each(|row| self.node_note(row));
    }

    /// The counted time of the node's last sign of life, its gateway's included.
    fn alive_at(&self, node: NodeId) -> Duration {
        let Some(watch) = self.nodes.get(&node) else { return self.counted };
        let voucher = watch.live.as_ref().and_then(|live| live.voucher);
        let vouched = voucher.and_then(|voucher| self.vouchers.get(&voucher)).map(|watch| watch.alive_at);
        watch.alive_at.max(vouched.unwrap_or_default())
    }

    /// Enters a node where silent ones are searched, unless it is lost or unknown.
    fn list(&mut self, node: NodeId) {
        let Some(watch) = self.nodes.get(&node) else { return };
        if watch.state.is_none_or(|state| state == NodeState::Lost) {
            return;
        }
        match watch.live.as_ref().and_then(|live| live.voucher) {
            None => drop(self.alone.insert((watch.alive_at, node))),
            Some(voucher) => drop(self.vouchers.entry(voucher).or_default().nodes.insert(node)),
        }
    }

    fn unlist(&mut self, node: NodeId) {
        let Some(watch) = self.nodes.get(&node) else { return };
        self.alone.remove(&(watch.alive_at, node));
        let voucher = watch.live.as_ref().and_then(|live| live.voucher);
        if let Some(voucher) = voucher.and_then(|voucher| self.vouchers.get_mut(&voucher)) {
            voucher.nodes.remove(&node);
        }
    }

    /// For how long a node has been silent: no session of its agent has done its work.
    pub(crate) fn silent(&self, node: NodeId) -> Duration {
        self.counted.saturating_sub(self.alive_at(node))
    }

    /// Returns true while no gateway beats: then no agent can report how its tasks are. A cell without any gateway
    /// yet is not meant.
    pub(crate) fn is_unheard(&self, tolerance: Duration) -> bool {
        let silent = self.heard_at.map(|at| self.counted.saturating_sub(at));
        silent.is_some_and(|silent| silent > tolerance / UNHEARD_PER_TOLERANCE)
    }

    /// Nodes to declare lost now: silent for the tolerance, not lost yet, at most `per_minute` in any minute.
    pub(crate) fn lost(&mut self, tolerance: Duration, now: Duration, per_minute: u32) -> Vec<Silent> {
        self.declared.retain(|at| now.saturating_sub(*at) < Duration::from_secs(60));
        let left = losses_left(&self.declared, now, per_minute);
        let Some(until) = self.counted.checked_sub(tolerance) else { return Vec::new() };
        let alone = self.alone.iter().take_while(|(alive_at, _)| *alive_at <= until).map(|(_, node)| *node);
        let dead = self.vouchers.values().filter(|watch| watch.alive_at <= until);
        // A node may have begun to work after the last beat of its gateway.
        let vouched = dead.flat_map(|watch| &watch.nodes).copied();
        let vouched = vouched.filter(|node| self.alive_at(*node) <= until);
        alone.chain(vouched).take(left).map(|node| self.seen(node)).collect()
    }

    fn seen(&self, node: NodeId) -> Silent {
        let live = self.nodes.get(&node).and_then(|watch| watch.live.clone());
        let observed = live.map(|live| {
            let voucher = live.voucher.and_then(|voucher| self.vouchers.get(&voucher));
            NodeSeen { beat: voucher.and_then(|voucher| voucher.beat), live }
        });
        Silent { node, observed }
    }

    /// Records a declaration.
    pub(crate) fn declared(&mut self, now: Duration) {
        self.declared.push(now);
    }

    /// Records that a declaration found a sign of life. Gateways of older versions renew rows without an entry in the
    /// order of changes.
    pub(crate) fn beaten(&mut self, node: NodeId) {
        self.stale.insert(node);
    }

    /// The nodes to read with the next observation, whatever the order of changes shows.
    pub(crate) fn stale(&self) -> Vec<NodeId> {
        self.stale.iter().copied().collect()
    }

    /// Gateways that have ended long ago, with their last beats.
    pub(crate) fn gateways_ended(&self, tolerance: Duration) -> Vec<(Voucher, u64)> {
        let silence = tolerance.saturating_mul(GATEWAY_TOLERANCES).max(GATEWAY_SILENCE_MIN);
        let ended = self.vouchers.iter().filter_map(|(voucher, watch)| {
            let silent = self.counted.saturating_sub(watch.alive_at);
            Some((*voucher, watch.beat.filter(|_| silent >= silence)?))
        });
        ended.collect()
    }
}

#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
