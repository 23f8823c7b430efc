//! Calls that no transaction of their own records: refusals, and commands in tasks. They are written together.

use borough_model::RequestId;
use borough_model::audit::{AuditedCall, RefusalBounds, RefusalCounts};
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{MutexGuard, Notify};

/// Kinds of refusals of the 5 s between two writes. A hostile caller then fills 32 MB of the audit in a day, and all of
/// them 400 MB. So a single one cannot push out 90 days of a whole audit of 4 GiB.
const BOUNDS: RefusalBounds = RefusalBounds { of_a_caller: 8, in_all: 100 };
/// Commands between two writes. A gateway has fewer streams.
const COMMANDS_MAX: usize = 4_096;

/// The calls of a cell that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct AuditQueue {
    waiting: Mutex<WaitingCalls>,
    /// A command has come.
    commanded: Notify,
    /// Only one writes at a time: what failed is written before what has come since.
    writing: tokio::sync::Mutex<AuditBatch>,
}

/// Calls that are written together.
#[derive(Debug, Default)]
pub(crate) struct AuditBatch {
    pub(crate) calls: Vec<AuditedCall>,
    /// The request that writes them, from the first try on: a try whose result is unknown may have written them.
    pub(crate) request: Option<RequestId>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    refusals: RefusalCounts,
    commands: Vec<AuditedCall>,
}

impl AuditQueue {
    /// Takes a call that was refused at this wall time.
    pub(crate) fn refused(&self, call: AuditedCall, now_ms: i64) {
        let call = AuditedCall { at_ms: Some(now_ms), ..call };
        self.waiting.lock().refusals.push(call, BOUNDS);
    }

    /// Takes a call that was done at this wall time and has changed no row.
    pub(crate) fn done(&self, call: AuditedCall, now_ms: i64) {
        let call = AuditedCall { at_ms: Some(now_ms), ..call };
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

    /// The calls to write next. Who has written them empties the batch; what is left comes first the next time, alone.
    pub(crate) async fn to_write(&self) -> MutexGuard<'_, AuditBatch> {
        let mut batch = self.writing.lock().await;
        if batch.calls.is_empty() {
            let mut waiting = self.waiting.lock();
            batch.calls.append(&mut waiting.commands);
            batch.calls.extend(waiting.refusals.take());
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use borough_model::audit::AuditRefusal;

    use super::*;

    fn refused(method: u32) -> AuditedCall {
        AuditedCall {
            method: format!("JobService/M{method}"),
            by: "user/eve".to_owned(),
            user: None,
            from: None,
            request: None,
            object: None,
            revisions: None,
            refused: Some(AuditRefusal { code: "NOT_FOUND".to_owned(), reason: String::new(), times: 1 }),
            at_ms: None,
        }
    }

    /// Otherwise a try that has written them without a word would have written them twice.
    #[tokio::test]
    async fn what_was_tried_is_tried_again_alone_and_under_the_same_request() {
        let queue = AuditQueue::default();
        queue.done(refused(1), 5);
        queue.to_write().await.request = Some(RequestId(7));
        queue.done(refused(2), 6);
        let mut batch = queue.to_write().await;
        assert_eq!((batch.calls.len(), batch.request), (1, Some(RequestId(7))));
        *batch = AuditBatch::default();
        drop(batch);
        let batch = queue.to_write().await;
        assert_eq!((batch.calls[0].method.as_str(), batch.request), ("JobService/M2", None));
    }

    /// The number is in `docs/access.md`.
    #[tokio::test]
    async fn eight_kinds_of_refusals_of_a_caller_are_told_apart() {
        let documented = include_str!("../../../docs/access.md");
        assert!(documented.contains("eight kinds of refusals of one caller apart"), "the number has changed");
        let queue = AuditQueue::default();
        (0..10).for_each(|method| queue.refused(refused(method), i64::from(method)));
        let written = &queue.to_write().await.calls;
        let others: Vec<_> = written.iter().filter(|call| call.method == "other").collect();
        assert_eq!((written.len(), others.len()), (9, 1));
        assert_eq!(others[0].refused.as_ref().map(|refused| refused.times), Some(2));
    }
}
