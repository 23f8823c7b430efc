//! The engine as callers see it: opening, transactions, closing.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::memory::Memory;
use super::sequencer::{CommitRequest, Sequencer, Shared};
use super::transaction::EmbeddedTransaction;
use super::versions::Versions;
use crate::contract::limits::{BATCH_TRANSACTIONS_MAX, RECOVERY_VERSION_JUMP};
use crate::contract::{Engine, EngineInfo, EngineTransaction, Version};
use crate::env::{Clock, Rng};

/// What waits for the sequencer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) waiting: Mutex<Vec<CommitRequest>>,
    /// Signalled when something waits.
    pub(crate) ready: Condvar,
}

impl Queue {
    /// The next batch: everything that waits, up to the batch's limit.
    pub(crate) fn batch_take(waiting: &mut Vec<CommitRequest>) -> Vec<CommitRequest> {
        let left = waiting.split_off(waiting.len().min(BATCH_TRANSACTIONS_MAX));
        std::mem::replace(waiting, left)
    }
}

/// Who drives the sequencer.
pub(crate) enum Driver {
    /// Whoever commits, one at a time: no thread, so that a test has no hidden concurrency.
    Caller(Mutex<Sequencer>),
    /// A thread that owns it, because it waits for the disk.
    Thread,
}

/// An engine and what its transactions need of it.
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) driver: Driver,
    info: EngineInfo,
}

impl Inner {
    /// Hands a request to the sequencer. The answer comes over the request's channel.
    pub(crate) fn commit_submit(&self, request: CommitRequest) {
        self.queue.waiting.lock().push(request);
        match &self.driver {
            Driver::Caller(sequencer) => {
                let mut sequencer = sequencer.lock();
                let batch = Queue::batch_take(&mut self.queue.waiting.lock());
                if !batch.is_empty() {
                    sequencer.batch_commit(batch);
                }
            }
            Driver::Thread => {
                self.queue.ready.notify_one();
            }
        }
    }
}

/// The embedded engine: one process, all data in memory, durable through a log where it has a directory.
#[derive(Clone)]
pub struct EmbeddedEngine {
    inner: Arc<Inner>,
}

impl EmbeddedEngine {
    /// An engine that keeps nothing beyond its own life and uses no thread and no disk.
    pub fn ephemeral(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let first = RECOVERY_VERSION_JUMP;
        let versions = Versions::new(Arc::clone(&clock), Arc::clone(&rng), first, Version::MAX);
        let memory = Memory::new(std::iter::empty(), first, false);
        let shared = Arc::new(Shared::new(clock, rng, versions, memory));
        let sequencer = Sequencer::new(Arc::clone(&shared), first, None);
        let info = EngineInfo { name: "embedded", location: "memory".to_owned() };
        let driver = Driver::Caller(Mutex::new(sequencer));
        Self { inner: Arc::new(Inner { shared, queue: Arc::default(), driver, info }) }
    }
}

impl Engine for EmbeddedEngine {
    fn begin(&self) -> Box<dyn EngineTransaction> {
        Box::new(EmbeddedTransaction::new(Arc::clone(&self.inner)))
    }

    fn info(&self) -> EngineInfo {
        self.inner.info.clone()
    }
}
