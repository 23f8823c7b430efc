//! One opening of the store in a soak, and the chores that run on it.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use borough_kv::embedded::{FiguresNow, OpenOptions};
use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, EmbeddedEngine, KvResult};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::chore::Chore;
use super::{Seen, check};

/// An open store at work.
pub struct Life {
    engine: EmbeddedEngine,
    database: Database,
    stop: watch::Sender<bool>,
    chores: Vec<JoinHandle<KvResult<Chore>>>,
}

impl Life {
    /// Opens the store as a cell does.
    pub fn begin(store: &Path, clock: &Arc<dyn Clock>, rng: &Arc<dyn Rng>) -> anyhow::Result<Self> {
        let engine = EmbeddedEngine::open(OpenOptions::new(store, Arc::clone(clock), Arc::clone(rng)))?;
        let database = Database::new(Arc::new(engine.clone()));
        Ok(Self { engine, database, stop: watch::Sender::new(false), chores: Vec::new() })
    }

    /// The store.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// What the engine did in this life.
    pub fn figures(&self) -> FiguresNow {
        self.engine.figures()
    }

    /// Starts what is done all the time.
    pub fn chores_begin(&mut self, chores: Vec<Chore>) {
        let run = |chore: Chore| tokio::spawn(chore.run(self.database.clone(), self.stop.subscribe()));
        self.chores = chores.into_iter().map(run).collect();
    }

    /// Whether nothing has ended in an error. The error is told by [`Life::end`].
    pub fn works(&self) -> bool {
        !self.chores.iter().any(JoinHandle::is_finished)
    }

    /// Stops the chores, reads the last image, and closes the store.
    pub async fn end(self, seen: &mut Seen) -> anyhow::Result<(check::Image, Vec<Chore>)> {
        self.stop.send_replace(true);
        let mut back = Vec::new();
        for chore in self.chores {
            back.push(chore.await.context("a chore panicked")?.context("a chore failed")?);
        }
        let image = check::image(&self.database).await?;
        check::image_check(&image)?;
        let figures = self.engine.figures();
        seen.transactions = seen.transactions.saturating_add(figures.transactions);
        seen.mutations = seen.mutations.saturating_add(figures.mutations);
        seen.batches = seen.batches.saturating_add(figures.batches);
        self.engine.close().await;
        Ok((image, back))
    }
}
