//! One opening of the store in a soak, and the recurring tasks that run on it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use borough_kv::embedded::{EngineStats, OpenOptions};
use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, EmbeddedEngine, KvResult};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::recurring::RecurringTask;
use super::{SoakTotals, check};

/// An open store with its recurring tasks.
pub(super) struct StoreRun {
    engine: EmbeddedEngine,
    database: Database,
    stop: watch::Sender<bool>,
    recurring_tasks: Vec<JoinHandle<KvResult<RecurringTask>>>,
}

impl StoreRun {
    /// Opens the store as a cell does.
    pub(super) fn begin(store: &Path, clock: &Arc<dyn Clock>, rng: &Arc<dyn Rng>) -> anyhow::Result<Self> {
        let engine = EmbeddedEngine::open(OpenOptions::new(store, Arc::clone(clock), Arc::clone(rng)))?;
        let database = Database::new(Arc::new(engine.clone()));
        Ok(Self { engine, database, stop: watch::Sender::new(false), recurring_tasks: Vec::new() })
    }

    /// The store.
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// The counters of the engine since it was opened.
    pub(super) fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    /// Starts the recurring tasks.
    pub(super) fn recurring_tasks_begin(&mut self, recurring_tasks: Vec<RecurringTask>) {
        let run = |recurring: RecurringTask| {
            tokio::spawn(recurring.run(self.database.clone(), self.stop.subscribe()))
        };
        self.recurring_tasks = recurring_tasks.into_iter().map(run).collect();
    }

    /// Returns true if nothing has ended in an error. [`StoreRun::end`] returns the error.
    pub(super) fn works(&self) -> bool {
        !self.recurring_tasks.iter().any(JoinHandle::is_finished)
    }

    /// Stops the recurring tasks, reads the last image, and closes the store.
    pub(super) async fn end(
        self,
        seen: &mut SoakTotals,
    ) -> anyhow::Result<(check::StoreImage, Vec<RecurringTask>)> {
        self.stop.send_replace(true);
        let mut back = Vec::new();
        for recurring in self.recurring_tasks {
            back.push(
                recurring.await.context("a recurring task panicked")?.context("a recurring task failed")?,
            );
        }
        let image = check::image(&self.database).await?;
        check::image_check(&image)?;
        let stats = self.engine.stats();
        seen.transactions = seen.transactions.saturating_add(stats.transactions);
        seen.mutations = seen.mutations.saturating_add(stats.mutations);
        seen.batches = seen.batches.saturating_add(stats.batches);
        self.engine.close().await;
        Ok((image, back))
    }
}
