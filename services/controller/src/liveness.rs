//! Measures the silence of nodes, by the controller's own clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_kv::{Database, Idempotency};
use borough_model::NodeId;
use borough_model::node::{NodeLive, NodeState, REGISTERED};
use borough_store::lease::Silence;
use borough_store::mirror::MirrorState;
use borough_store::node::node_live_list;
use borough_store::{CellSpace, StoreResult};

use crate::decide::losses_left;

/// The silence of each node.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    silences: BTreeMap<NodeId, Silence<Option<NodeLive>>>,
    /// Nodes that were lost when they were last observed.
    lost: BTreeSet<NodeId>,
    declared: Vec<Duration>,
}

/// A node to declare lost, with its unchanged lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    pub node: NodeId,
    /// The lease during all of its silence.
    pub observed: Option<NodeLive>,
}

impl Liveness {
    /// Reads the leases and records them. A failed read records nothing, so that time does not count.
    pub(crate) async fn observe(
        &mut self,
        db: &Database,
        space: &CellSpace,
        nodes: impl Iterator<Item = (NodeId, NodeState)>,
        now: impl Fn() -> Duration,
        gap_max: Duration,
    ) -> StoreResult<()> {
        let leases = db.run("node_live_list", Idempotency::ReadOnly, |tx, _| async move {
            node_live_list(&tx, space).await
        });
        let leases = leases.await?;
        let now = now();
        let mut silences = BTreeMap::new();
        let mut lost = BTreeSet::new();
        for (node, state) in nodes {
            // A returning node has its whole tolerance to do its work.
            let returned = self.lost.contains(&node) && state != NodeState::Lost;
            let silence = self.silences.remove(&node).filter(|_| !returned);
            let mut silence = silence.unwrap_or_default();
            if state == NodeState::Lost {
                lost.insert(node);
            }
            silence.observe(now, seen(silence.last(), leases.get(&node)), gap_max);
            silences.insert(node, silence);
        }
        (self.silences, self.lost) = (silences, lost);
        Ok(())
    }

    /// For how long a node has been silent: no session of its agent has done its work.
    pub(crate) fn silent(&self, node: NodeId) -> Duration {
        self.silences.get(&node).map_or(Duration::ZERO, Silence::silent)
    }

    /// Nodes to declare lost now: silent for the tolerance, not lost yet, at most `per_minute` in any minute.
    pub(crate) fn lost(
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

    /// Records a declaration.
    pub(crate) fn declared(&mut self, now: Duration) {
        self.declared.push(now);
    }
}

/// The part of a lease that counts. A registration alone does not: an agent that keeps coming back without working is
/// as silent as before.
fn seen(before: Option<&Option<NodeLive>>, lease: Option<&NodeLive>) -> Option<NodeLive> {
    match lease {
        Some(lease) if lease.beat == REGISTERED => before.cloned().flatten(),
        lease => lease.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_ends_no_silence_and_work_does() {
        let lease = |session, beat| NodeLive { session, beat, ..NodeLive::default() };
        let mut silence = Silence::default();
        let mut silent = |at_s: u64, lease: NodeLive| {
            let seen = seen(silence.last(), Some(&lease));
            silence.observe(Duration::from_secs(at_s), seen, Duration::from_secs(10)).as_secs()
        };
        assert_eq!((silent(0, lease(1, 7)), silent(5, lease(1, 7))), (0, 5));
        // It reconnects again and again.
        assert_eq!((silent(8, lease(2, REGISTERED)), silent(10, lease(3, REGISTERED))), (8, 10));
        assert_eq!((silent(12, lease(4, 2)), silent(13, lease(4, 2))), (0, 1));
        // The silence of a new node counts from its first observation.
        let mut fresh = Silence::default();
        let found = seen(fresh.last(), Some(&lease(1, REGISTERED)));
        assert_eq!(fresh.observe(Duration::from_secs(1), found, Duration::from_secs(10)), Duration::ZERO);
    }
}
