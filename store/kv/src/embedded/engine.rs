//! The engine as callers see it: opening, transactions, closing.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::durable::{OpenError, OpenOptions, OpenedEngine, store_open};
use super::memory::{Memory, usage_register};
use super::queue::{CommitQueue, closed_error, sequencer_run};
use super::sequencer::{CommitRequest, Sequencer, SequencerShared};
use super::stats::EngineStats;
use super::transaction::EmbeddedTransaction;
use super::versions::Versions;
use crate::contract::limits::RECOVERY_VERSION_JUMP;
use crate::contract::{Engine, EngineInfo, EngineState, EngineTransaction, KvError, Version};
use crate::env::{Clock, Rng};

/// Who drives the sequencer.
enum Driver {
    /// The committing caller, one at a time. Without a thread, so that a test has no hidden concurrency.
    Caller(Mutex<Sequencer>),
    /// A thread that owns it, since it waits for the disk.
    Thread {
        thread: Mutex<Option<JoinHandle<()>>>,
        /// Turns true when the thread has ended and the directory is free.
        finished: watch::Receiver<bool>,
    },
    /// A test, batch by batch, with a disk. Dropping the driver unlocks the directory.
    #[cfg(test)]
    Stepped(Mutex<Sequencer>, #[expect(dead_code, reason = "it is held")] Box<dyn Send + Sync>),
}

/// An engine, with the parts that its transactions need.
pub(crate) struct Inner {
    pub(crate) shared: Arc<SequencerShared>,
    queue: Arc<CommitQueue>,
    driver: Driver,
    info: EngineInfo,
}

impl Inner {
    /// Hands a request to the sequencer. The answer comes over the request's channel.
    pub(crate) fn commit_submit(&self, request: CommitRequest) {
        self.queue.push(request);
        if let Driver::Caller(sequencer) = &self.driver {
            let mut sequencer = sequencer.lock();
            let batch = self.queue.batch_now();
            if !batch.is_empty() {
                sequencer.batch_commit(batch);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
        if let Driver::Thread { thread, .. } = &self.driver
            && let Some(thread) = thread.lock().take()
        {
            // So that the directory is free after the last handle. The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

/// The embedded engine: one process, data in memory, durable through a log if it has a directory. Beyond a bound of
/// memory, rows that have not changed for a while are read from the disk.
///
/// Clones are handles of the same engine. When the last one (and the last transaction) is dropped, the engine commits
/// the waiting requests and unlocks its directory.
#[derive(Clone)]
pub struct EmbeddedEngine {
    inner: Arc<Inner>,
}

impl EmbeddedEngine {
    /// An engine that keeps its data in memory only, without a thread and a disk.
    pub fn ephemeral(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let first = RECOVERY_VERSION_JUMP;
        let versions = Versions::new(Arc::clone(&clock), Arc::clone(&rng), first, Version::MAX);
        let memory = Memory::empty(first);
        let shared = Arc::new(SequencerShared::new(clock, rng, versions, memory));
        let sequencer = Sequencer::new(Arc::clone(&shared), first, None);
        let info = EngineInfo { name: "embedded", location: "memory".to_owned() };
        let driver = Driver::Caller(Mutex::new(sequencer));
        Self { inner: Arc::new(Inner { shared, queue: Arc::default(), driver, info }) }
    }

    /// Opens the store in a directory, for this process alone. Blocks while it reads all of it.
    ///
    /// Versions continue far above every version of an earlier opening, so leases and watches from those are over.
    pub fn open(options: OpenOptions) -> Result<Self, OpenError> {
        let OpenedEngine { memory, first, ceiling, durable, lock, location } = store_open(&options)?;
        let OpenOptions { clock, rng, .. } = options;
        let versions = Versions::new(Arc::clone(&clock), Arc::clone(&rng), first, ceiling);
        let shared = Arc::new(SequencerShared::new(clock, rng, versions, memory));
        let sequencer = Sequencer::new(Arc::clone(&shared), first, Some(durable));
        let queue = Arc::<CommitQueue>::default();
        let (finish, finished) = watch::channel(false);
        let run = {
            let (queue, shared) = (Arc::clone(&queue), Arc::clone(&shared));
            move || {
                sequencer_run(&queue, &shared, sequencer);
                drop(lock);
                // Nobody may be waiting for the end.
                let _ = finish.send(true);
            }
        };
        let thread = std::thread::Builder::new().name("kv-sequencer".to_owned()).spawn(run);
        let thread =
            thread.map_err(|source: io::Error| OpenError::Io { location: location.clone(), source })?;
        let driver = Driver::Thread { thread: Mutex::new(Some(thread)), finished };
        let info = EngineInfo { name: "embedded", location };
        Ok(Self { inner: Arc::new(Inner { shared, queue, driver, info }) })
    }

    /// What the engine has done so far.
    pub fn stats(&self) -> EngineStats {
        self.inner.shared.stats.now()
    }

    /// Commits the waiting requests, stops the engine and unlocks the directory. Every later operation, on any handle,
    /// answers 1101.
    pub async fn close(&self) {
        self.inner.queue.close();
        match &self.inner.driver {
            Driver::Caller(_) => self.inner.shared.stop(closed_error()),
            #[cfg(test)]
            Driver::Stepped(..) => self.inner.shared.stop(closed_error()),
            Driver::Thread { finished, .. } => {
                // An error means that the thread has ended, which is what this waits for.
                let _ = finished.clone().wait_for(|finished| *finished).await;
            }
        }
    }
}

#[cfg(test)]
impl EmbeddedEngine {
    /// An engine whose batches a test commits one by one with [`EmbeddedEngine::step`].
    pub(in crate::embedded) fn stepped(
        opened: OpenedEngine,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        let OpenedEngine { memory, first, ceiling, durable, lock, location } = opened;
        let versions = Versions::new(Arc::clone(&clock), Arc::clone(&rng), first, ceiling);
        let shared = Arc::new(SequencerShared::new(clock, rng, versions, memory));
        let sequencer = Sequencer::new(Arc::clone(&shared), first, Some(durable));
        let driver = Driver::Stepped(Mutex::new(sequencer), lock);
        let info = EngineInfo { name: "embedded", location };
        Self { inner: Arc::new(Inner { shared, queue: Arc::default(), driver, info }) }
    }

    /// Commits the waiting requests as one batch, or does the periodic work of an idle engine.
    pub(crate) fn step(&self) {
        let Driver::Stepped(sequencer, _) = &self.inner.driver else { return };
        let batch = self.inner.queue.batch_now();
        if batch.is_empty() {
            sequencer.lock().idle();
        } else {
            sequencer.lock().batch_commit(batch);
        }
    }

    /// Values held, of all keys and versions.
    pub(crate) fn versions_kept(&self) -> usize {
        self.inner.shared.memory.read().versions_kept()
    }

    /// Keys that have watches, as far as known.
    pub(crate) fn keys_watched(&self) -> usize {
        self.inner.shared.watches.keys_watched()
    }
}

impl Engine for EmbeddedEngine {
    fn begin(&self) -> Box<dyn EngineTransaction> {
        Box::new(EmbeddedTransaction::new(Arc::clone(&self.inner)))
    }

    fn info(&self) -> EngineInfo {
        self.inner.info.clone()
    }

    fn metrics_register(&self, registry: &mut Registry) {
        self.inner.shared.stats.register(registry);
        usage_register(registry, &self.inner.shared.memory);
    }

    fn state(&self) -> EngineState {
        self.inner.shared.state().borrow().clone()
    }

    fn stopped(&self) -> BoxFuture<'static, KvError> {
        let mut state = self.inner.shared.state();
        Box::pin(async move {
            loop {
                if let EngineState::Stopped(error) = &*state.borrow_and_update() {
                    return error.clone();
                }
                if state.changed().await.is_err() {
                    // The engine was dropped with its last handle.
                    return closed_error();
                }
            }
        })
    }
}
