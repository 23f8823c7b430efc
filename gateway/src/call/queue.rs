//! Calls that no transaction of their own records: refusals, and commands in tasks. They are written together.

use borough_model::audit::{AuditedCall, RefusalBounds, RefusalCounts};
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{MutexGuard, Notify};

/// Kinds of refusals of the 5 s between two writes. A hostile caller then fills 12 MB of the audit in a day, and all of
/// them 400 MB.
const BOUNDS: RefusalBounds = RefusalBounds { of_a_caller: 3, in_all: 100 };
/// Commands between two writes. A gateway has fewer streams.
const COMMANDS_MAX: usize = 4_096;

/// The calls of a cell that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct AuditQueue {
    waiting: Mutex<WaitingCalls>,
    /// A command has come.
    commanded: Notify,
    /// Only one writes at a time: what failed is written before what has come since.
    writing: tokio::sync::Mutex<Vec<AuditedCall>>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
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

    /// Completes when a command has come.
    pub(crate) fn commanded(&self) -> Notified<'_> {
        self.commanded.notified()
    }

    /// The calls to write next. Who has written them clears them; what is left comes first the next time.
    pub(crate) async fn to_write(&self) -> MutexGuard<'_, Vec<AuditedCall>> {
        let mut calls = self.writing.lock().await;
        if calls.is_empty() {
            let mut waiting = self.waiting.lock();
            calls.append(&mut waiting.commands);
            calls.extend(waiting.refusals.take());
        }
        calls
    }
}
