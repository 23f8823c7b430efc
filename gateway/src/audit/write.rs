//! Calls that no transaction of their own records: refusals, and commands in tasks. They are written together.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::audit::{AuditedCall, RefusalBounds, RefusalCounts};
use borough_store::StoreResult;
use borough_store::journal::{Change, ChangeSet};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cell::CellContext;

/// How often refusals are written. Commands are written at once.
const INTERVAL: Duration = Duration::from_secs(5);
/// Kinds of refusals of one interval. A hostile caller then fills 12 MB of the audit in a day, and all of them 400 MB.
const BOUNDS: RefusalBounds = RefusalBounds { of_a_caller: 3, in_all: 100 };
/// Commands of one interval. A gateway has fewer streams.
const COMMANDS_MAX: usize = 4_096;

/// The calls of a cell that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct AuditQueue {
    waiting: Mutex<Waiting>,
    /// A command has come.
    commanded: Notify,
    /// Only one writes at a time: what failed is written before what has come since.
    writing: tokio::sync::Mutex<Vec<AuditedCall>>,
}

#[derive(Debug, Default)]
struct Waiting {
    refusals: RefusalCounts,
    commands: Vec<AuditedCall>,
}

impl AuditQueue {
    /// Takes a call that was refused.
    pub(crate) fn refused(&self, call: AuditedCall) {
        self.waiting.lock().refusals.push(call, BOUNDS);
    }

    /// Takes a call that was done and has changed no row.
    pub(crate) fn done(&self, call: AuditedCall) {
        let commands = &mut self.waiting.lock().commands;
        if commands.len() < COMMANDS_MAX {
            commands.push(call);
            self.commanded.notify_one();
        }
    }

    fn take(&self) -> Vec<AuditedCall> {
        let mut waiting = self.waiting.lock();
        let mut calls = std::mem::take(&mut waiting.commands);
        calls.extend(waiting.refusals.take());
        calls
    }
}

/// Writes the waiting calls of a cell, for ever.
pub(crate) async fn audit_follow(cell: Arc<CellContext>) {
    loop {
        let flushed = audit_flush(&cell).await;
        if let Err(error) = &flushed {
            tracing::warn!(cell = %cell.name, %error, "refusals and commands cannot be recorded yet");
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = cell.audit.commanded.notified(), if flushed.is_ok() => {}
        }
    }
}

/// Writes what waits. What the store does not take waits on, in bounded memory.
pub(crate) async fn audit_flush(cell: &CellContext) -> StoreResult<()> {
    let mut calls = cell.audit.writing.lock().await;
    if calls.is_empty() {
        *calls = cell.audit.take();
    }
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
