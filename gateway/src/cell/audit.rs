//! Writes the calls that no transaction of their own records.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::StoreResult;
use borough_store::journal::{Change, ChangeSet};

use super::context::CellContext;

/// How often refusals are written. Commands are written at once.
const INTERVAL: Duration = Duration::from_secs(5);

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
    let mut calls = cell.audit.to_write().await;
    if calls.is_empty() {
        return Ok(());
    }
    let (request, at_ms, space, calls_ref) = (cell.request_id(), cell.clock.wall_ms(), &cell.space, &*calls);
    let change = &Change { request, actor: "gateway".to_owned(), action: "audit", at_ms };
    let written = cell.db.run("audit", Idempotency::Natural, |tx, _| async move {
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        calls_ref.iter().for_each(|call| changes.call_push(call.clone()));
        changes.append(&tx)
    });
    written.await?;
    calls.clear();
    Ok(())
}
