//! Writes the calls that no transaction of their own records.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::journal::{Change, ChangeSet};
use borough_store::request::{RequestBegun, request_begin, request_finish};
use borough_store::{StoreError, StoreResult};

use super::context::CellContext;
use crate::call::AuditBatch;

/// How often refusals are written. Commands are written at once.
const INTERVAL: Duration = Duration::from_secs(5);
/// Stands for the content of the request that writes them: no other request has its id.
const DIGEST: &[u8] = b"audit";

/// Writes the waiting calls of a cell, for ever.
pub(crate) async fn audit_follow(cell: Arc<CellContext>) {
    loop {
        let flushed = audit_flush(&cell).await;
        if let Err(error) = &flushed {
            tracing::warn!(cell = %cell.name, %error, "refusals and commands cannot be recorded yet");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = cell.audit.commanded(), if flushed.is_ok() => {}
        }
    }
}

/// Writes what waits. What the store does not take waits on, in bounded memory.
pub(crate) async fn audit_flush(cell: &CellContext) -> StoreResult<()> {
    let mut batch = cell.audit.to_write().await;
    if batch.calls.is_empty() {
        return Ok(());
    }
    let request = *batch.request.get_or_insert_with(|| cell.request_id());
    let (at_ms, space, calls) = (cell.clock.wall_ms(), &cell.space, &batch.calls);
    let change = &Change { request, actor: "gateway".to_owned(), action: "audit", at_ms };
    let expires_ms = cell.requests_expire_ms(at_ms, 1);
    let written = cell.db.run("audit", Idempotency::Keyed(request.0), |tx, _| async move {
        // What a try has written whose result is unknown must not come twice.
        if let RequestBegun::Done(_) = request_begin(&tx, space, request, DIGEST).await? {
            return Ok(());
        }
        request_finish(&tx, space, request, DIGEST, &[], expires_ms)?;
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        calls.iter().for_each(|call| changes.call_push(call.clone()));
        changes.append(&tx)
    });
    match written.await {
        // It has moved, or its import is under way: nothing of it may change here, and nothing of it was done.
        Ok(()) | Err(StoreError::CellClosed { .. }) => *batch = AuditBatch::default(),
        Err(error) => return Err(error),
    }
    Ok(())
}
