//! Writes the measured load of the nodes whose agents this gateway serves, in batches. If an agent reports several
//! loads during one batch, only the last is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Idempotency, TransactionOption};
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::{SessionFence, node_loads_set, node_writers};
use borough_store::{StoreError, StoreResult, error_chain};
use tokio_util::sync::CancellationToken;

use super::registry::{RegisteredSession, ReportedLoad};
use crate::cell::CellContext;

/// Most nodes in one transaction.
const LOADS_MAX: usize = 256;
/// Time between two batches: a load is a mean over 30 s, so a second more does not age it.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes until cancelled. A failed write is tried again with the next batch.
pub async fn loads_write(cell: Arc<CellContext>, cancelled: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = cancelled.cancelled() => return,
        }
        let measured = cell.sessions.loads_take();
        for chunk in measured.chunks(LOADS_MAX) {
            let report =
                |(session, measured): &(Arc<RegisteredSession>, ReportedLoad)| (session.fence(), *measured);
            let reports: BTreeMap<SessionFence, ReportedLoad> = chunk.iter().map(report).collect();
            if let Err(error) = reports_write(&cell, &reports).await {
                tracing::warn!(cell = %cell.name, error = %error_chain(&error), "the gateway cannot write the loads of nodes yet");
                chunk.iter().for_each(|(session, measured)| session.load_return(*measured));
            }
        }
    }
}

/// Writes the loads of sessions that are in force. The others end with their next renewal.
async fn reports_write(
    cell: &CellContext,
    reports: &BTreeMap<SessionFence, ReportedLoad>,
) -> StoreResult<()> {
    let change = Change {
        request: cell.request_id(),
        actor: "gateway".to_owned(),
        action: "node_loads",
        at_ms: cell.clock.wall_ms(),
    };
    let (change, space) = (&change, &cell.space);
    let written = cell.db.run("node_loads", Idempotency::Natural, |tx, _| async move {
        // The next report has the load again.
        tx.set_option(TransactionOption::FlushLater)?;
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        let writers = node_writers(&tx, space, reports.keys().copied()).await?;
        let measured = |(fence, writer)| reports.get(fence).map(|measured| (writer, *measured));
        let measured: Vec<_> = writers.iter().filter_map(measured).collect();
        node_loads_set(&mut changes, &measured).await?;
        changes.append(&tx)?;
        Ok::<_, StoreError>(())
    });
    written.await
}
