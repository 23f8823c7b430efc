//! Renews the coarse leases of the nodes whose agents this gateway serves, in batches. The transaction checks each
//! session. A session that has a successor renews nothing and ends.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::node::{SessionFence, node_live_renew, node_writers};
use borough_store::{StoreResult, error_chain};
use tokio_util::sync::CancellationToken;

use super::metrics::EndKind;
use super::registry::RegisteredSession;
use super::write::NotWritten;
use crate::cell::CellContext;

/// Most leases in one transaction.
const BEATS_MAX: usize = 500;

/// Renews leases until cancelled. A lease is renewed if its session has done work within `silence_max`: it applied a
/// report, or acknowledged a chunk of the desired state. An open connection or a registration alone is no work.
pub async fn live_renew(
    cell: Arc<CellContext>,
    beat: Duration,
    silence_max: Duration,
    cancelled: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(beat) => {}
            () = cancelled.cancelled() => return,
        }
        let now = cell.machine.monotonic();
        let mut sessions = cell.sessions.all();
        sessions.retain(|session| {
            let works = session.worked_at().is_some_and(|at| now.saturating_sub(at) <= silence_max);
            session.is_current() && works
        });
        for chunk in sessions.chunks(BEATS_MAX) {
            match beats_write(&cell, chunk).await {
                Ok(renewed) => superseded_end(&cell, chunk, &renewed),
                Err(error) => {
                    tracing::warn!(cell = %cell.name, error = %error_chain(&error), "the gateway cannot renew the leases of nodes");
                }
            }
        }
    }
}

fn superseded_end(cell: &CellContext, sessions: &[Arc<RegisteredSession>], renewed: &[bool]) {
    for (session, _) in sessions.iter().zip(renewed).filter(|(_, renewed)| !**renewed) {
        cell.session_metrics.superseded("lease");
        tracing::info!(cell = %cell.name, node = %session.node, session = session.id, "another session is in force");
        session.end(EndKind::Superseded, NotWritten::Superseded.status());
    }
}

/// Renews the leases of sessions. Returns for each whether it is still in force.
async fn beats_write(cell: &CellContext, sessions: &[Arc<RegisteredSession>]) -> StoreResult<Vec<bool>> {
    let beat =
        |session: &Arc<RegisteredSession>| (session.fence(), session.beat_next(), session.report_revision());
    let beats: Vec<(SessionFence, u64, u64)> = sessions.iter().map(beat).collect();
    let (space, beats) = (&cell.space, &beats);
    let write = cell.db.run("node_live_renew", Idempotency::Natural, |tx, _| async move {
        let writers = node_writers(&tx, space, beats.iter().map(|&(fence, ..)| fence)).await?;
        let renew = |&(fence, beat, revision): &(SessionFence, u64, u64)| match writers.get(&fence) {
            Some(writer) => node_live_renew(writer, space, beat, revision).map(|()| true),
            None => Ok(false),
        };
        beats.iter().map(renew).collect()
    });
    write.await
}
