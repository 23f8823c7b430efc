//! The coarse leases of the nodes whose agents speak to this gateway, renewed in batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::node::NodeLive;
use borough_store::node::node_live_renew;
use borough_store::{StoreError, error_chain};
use tokio_util::sync::CancellationToken;

use crate::cell::CellDoor;

/// Leases in one transaction.
const BEATS_MAX: usize = 1_000;

/// Renews until cancelled. A session that has not been heard of for two and a half intervals of its reports is not
/// renewed: an open connection alone is no life.
pub async fn live_renew(
    door: Arc<CellDoor>,
    gateway: String,
    beat: Duration,
    silence_max: Duration,
    cancelled: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(beat) => {}
            () = cancelled.cancelled() => return,
        }
        let now = door.clock.monotonic();
        let sessions = door.sessions.all();
        let heard = sessions.iter().filter(|session| now.saturating_sub(session.heard_at()) <= silence_max);
        let beats: Vec<_> = heard
            .map(|session| {
                let live = NodeLive {
                    beat: session.beat_next(),
                    gateway: gateway.clone(),
                    session: session.id,
                    report_revision: session.report_revision(),
                };
                (session.node, live)
            })
            .collect();
        for chunk in beats.chunks(BEATS_MAX) {
            let beats: BTreeMap<_, _> = chunk.iter().cloned().collect();
            if let Err(error) = beats_write(&door, &beats).await {
                tracing::warn!(cell = %door.name, error = %error_chain(&error), "leases of nodes were not renewed");
            }
        }
    }
}

async fn beats_write(
    door: &CellDoor,
    beats: &BTreeMap<borough_model::NodeId, NodeLive>,
) -> Result<(), StoreError> {
    let space = &door.space;
    let write = door.db.run("node_live_renew", Idempotency::Natural, |tx, _| async move {
        node_live_renew(&tx, space, beats)
    });
    write.await
}
