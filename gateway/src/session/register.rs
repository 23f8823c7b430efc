//! Registering an agent by its identity: who is refused, and who only has to wait.

use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::NodeId;
use borough_model::node::{NodeLive, RefusalCause};
use borough_store::journal::Cursor;
use borough_store::lease::Silence;
use borough_store::node::{NodeRegistration, Registered, node_live_read};
use borough_store::{StoreError, StoreResult};
use tonic::Status;

use crate::cell::CellContext;
use crate::status::{status_from_store, status_unavailable};

/// So many looks at a lease within the time that it is watched.
const LOOKS: u32 = 10;
/// A longer time than this many intervals between two looks does not count: this gateway was cut off itself.
const GAP_INTERVALS: u32 = 3;

/// What a watched lease has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedLease {
    /// It was the same for the whole time; `None`: the node never had one.
    Silent(Option<NodeLive>),
    /// Somebody has renewed it.
    Beats,
}

/// Registers an agent. The same agent on the same machine in another boot has to wait: a reboot looks like a copied
/// machine, and differs only in that the recorded agent is silent. So its node's lease is watched for `silence`, by
/// this gateway's monotonic clock.
///
/// # Errors
/// Both agents, and what to do, where the node belongs to another one.
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

/// Watches a node's lease until it was the same for `silence`, or has changed. Only time counts in which the reads of
/// this gateway worked.
///
/// # Errors
/// The store does not answer: nothing is known then.
pub async fn lease_watch(cell: &CellContext, node: NodeId, silence: Duration) -> StoreResult<WatchedLease> {
    let look = silence / LOOKS;
    let mut seen = Silence::default();
    let first = lease_read(cell, node).await?;
    seen.observe(cell.clock.monotonic(), first.clone(), look * GAP_INTERVALS);
    while seen.silent() < silence {
        tokio::time::sleep(look).await;
        let live = lease_read(cell, node).await?;
        if live != first {
            return Ok(WatchedLease::Beats);
        }
        seen.observe(cell.clock.monotonic(), live, look * GAP_INTERVALS);
    }
    Ok(WatchedLease::Silent(first))
}

async fn lease_read(cell: &CellContext, node: NodeId) -> StoreResult<Option<NodeLive>> {
    let space = &cell.space;
    let read = cell.db.run("node_live_read", Idempotency::ReadOnly, |tx, _| async move {
        node_live_read(&tx, space, node).await
    });
    read.await
}
