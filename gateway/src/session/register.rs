//! Registers an agent by its identity. Decides whether it is admitted, refused, or has to wait.

use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::NodeId;
use borough_model::node::{LivenessSign, NodeSeen, RefusalCause};
use borough_store::journal::Cursor;
use borough_store::lease::Silence;
use borough_store::node::{NodeRegistration, Registered, node_live_read};
use borough_store::{StoreError, StoreResult};
use tonic::Status;

use crate::cell::CellContext;
use crate::status::{status_from_store, status_unavailable};

/// How often a lease is read while it is watched.
const LOOKS: u32 = 10;
/// A gap of more than this many intervals between two reads does not count as silence: this gateway was cut off itself.
const GAP_INTERVALS: u32 = 3;

/// The result of watching the liveness of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedLease {
    /// No sign of life in that time; `None`: the node never had a session.
    Silent(Option<NodeSeen>),
    Beats,
}

/// Registers an agent. The same agent on the same machine in another boot must wait. A reboot looks like a copied
/// machine; the difference is that after a reboot the recorded agent is silent. The gateway therefore watches the
/// node's lease for `silence`, by its own monotonic clock.
///
/// # Errors
/// If the node belongs to another agent: both agents, and what to do.
pub async fn register(
    cell: &CellContext,
    registration: NodeRegistration,
    silence: Duration,
) -> Result<(Registered, Cursor), Status> {
    let ending = || status_unavailable("GATEWAY_ENDING", "the gateway is ending");
    let error = match cell.registrations.register(registration.clone()).await.ok_or_else(ending)? {
        Ok(registered) => return Ok(registered),
        Err(error) => error,
    };
    let refused = status_from_store(&error);
    let node = cell.state(|state| state.node_by_name(&registration.name).map(|row| row.id))?;
    let Some(node) = node.filter(|_| still_beats(&error)) else { return Err(refused) };
    match lease_watch(cell, node, silence).await.map_err(|error| status_from_store(&error))? {
        WatchedLease::Silent(silent) => {
            let again = NodeRegistration { silent, ..registration };
            let registered = cell.registrations.register(again).await.ok_or_else(ending)?;
            registered.map_err(|error| status_from_store(&error))
        }
        WatchedLease::Beats => Err(refused),
    }
}

fn still_beats(error: &StoreError) -> bool {
    matches!(error, StoreError::NodeRefused(refusal) if refusal.cause == RefusalCause::StillBeats)
}

/// Watches a node until it has given no sign of life for `silence`, or gives one. Only time in which this gateway could
/// read the store counts. A gateway that withdraws its voucher meanwhile has found the node silent itself.
///
/// # Errors
/// The store does not answer, so nothing is known.
pub async fn lease_watch(cell: &CellContext, node: NodeId, silence: Duration) -> StoreResult<WatchedLease> {
    let look = silence / LOOKS;
    let mut seen = Silence::default();
    let mut last = lease_read(cell, node).await?;
    seen.observe(cell.clock.monotonic(), (), look * GAP_INTERVALS);
    loop {
        // A gateway that has withdrawn its voucher has counted so much of the silence.
        let counted = last.as_ref().map_or(0, |last| last.live.silent_ms);
        if seen.silent().saturating_add(Duration::from_millis(counted)) >= silence {
            return Ok(WatchedLease::Silent(last));
        }
        tokio::time::sleep(look).await;
        let live = lease_read(cell, node).await?;
        let sign = live.as_ref().map_or(LivenessSign::None, |live| live.sign_since(last.as_ref()));
        if sign != LivenessSign::None {
            return Ok(WatchedLease::Beats);
        }
        last = live;
        seen.observe(cell.clock.monotonic(), (), look * GAP_INTERVALS);
    }
}

async fn lease_read(cell: &CellContext, node: NodeId) -> StoreResult<Option<NodeSeen>> {
    let space = &cell.space;
    let read = cell.db.run("node_live_read", Idempotency::ReadOnly, |tx, _| async move {
        node_live_read(&tx, space, node).await
    });
    read.await
}
