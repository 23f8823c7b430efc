//! The queue between the transactions and the sequencer. A thread drains it in batches.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::sequencer::{CommitRequest, Sequencer, SequencerShared, answer};
use crate::contract::limits::BATCH_TRANSACTIONS_MAX;
use crate::contract::{ErrorCode, KvError};

/// Bytes of transactions in one batch: about what a disk writes in the time of a flush.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// After so much idle time, what is durable is confirmed on the disk.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

/// How often an idle sequencer checks the version ceiling: well within the hour by which it is ahead.
const CEILING_INTERVAL: Duration = Duration::from_secs(20 * 60);

#[derive(Debug, Default)]
struct WaitingCommit {
    requests: Vec<CommitRequest>,
    closing: bool,
}

impl WaitingCommit {
    /// The next batch: the waiting requests, up to the batch's limits.
    fn batch_take(&mut self) -> Vec<CommitRequest> {
        let mut bytes = 0usize;
        let fits = self.requests.iter().take(BATCH_TRANSACTIONS_MAX).take_while(|request| {
            let first = bytes == 0;
            bytes = bytes.saturating_add(request.bytes);
            first || bytes <= BATCH_BYTES_MAX
        });
        let count = fits.count();
        let left = self.requests.split_off(count);
        std::mem::replace(&mut self.requests, left)
    }
}

/// The requests that wait for the sequencer.
#[derive(Debug, Default)]
pub(crate) struct CommitQueue {
    waiting: Mutex<WaitingCommit>,
    /// Signalled when something waits, or when the queue closes.
    ready: Condvar,
}

/// The answer to an operation of a closed engine.
pub(crate) fn closed_error() -> KvError {
    KvError::with(ErrorCode::OperationCancelled, "the store is closed")
}

impl CommitQueue {
    /// Adds a request. A closed queue answers it at once.
    pub(crate) fn push(&self, request: CommitRequest) {
        let mut waiting = self.waiting.lock();
        if waiting.closing {
            answer(request.reply, Err(closed_error().into()));
            return;
        }
        waiting.requests.push(request);
        self.ready.notify_one();
    }

    /// Accepts no more requests; the waiting ones are still committed.
    pub(crate) fn close(&self) {
        self.waiting.lock().closing = true;
        self.ready.notify_one();
    }

    /// The next batch without waiting; empty if nothing waits.
    pub(crate) fn batch_now(&self) -> Vec<CommitRequest> {
        self.waiting.lock().batch_take()
    }

    /// The next batch; empty after some idle time, `None` once the queue is closed and empty.
    fn batch_next(&self, idle: Duration) -> Option<Vec<CommitRequest>> {
        let mut waiting = self.waiting.lock();
        while waiting.requests.is_empty() {
            if waiting.closing {
                return None;
            }
            if self.ready.wait_for(&mut waiting, idle).timed_out() {
                break;
            }
        }
        Some(waiting.batch_take())
    }
}

/// Ends an engine with its sequencer, however that ends, so that nobody waits for an answer for ever.
struct QueueGuard<'a> {
    queue: &'a CommitQueue,
    shared: &'a SequencerShared,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.queue.close();
        let error = if std::thread::panicking() {
            KvError::with(ErrorCode::IoError, "the sequencer failed; the engine has stopped")
        } else {
            closed_error()
        };
        self.shared.stop(error.clone());
        for request in std::mem::take(&mut self.queue.waiting.lock().requests) {
            answer(request.reply, Err(error.clone().into()));
        }
    }
}

/// The sequencer's thread: commits batches until the queue is closed, then stops the engine.
pub(crate) fn sequencer_run(queue: &CommitQueue, shared: &SequencerShared, mut sequencer: Sequencer) {
    let _ending = QueueGuard { queue, shared };
    loop {
        let idle = if sequencer.is_unconfirmed() { CONFIRM_INTERVAL } else { CEILING_INTERVAL };
        let Some(batch) = queue.batch_next(idle) else { return };
        if batch.is_empty() {
            sequencer.idle();
        } else {
            sequencer.batch_commit(batch);
        }
    }
}
