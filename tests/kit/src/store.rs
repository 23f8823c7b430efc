//! A store in memory, with and without faults.

use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, EmbeddedEngine, FaultEngine, FaultPlan};

/// An embedded engine without files. All handles show the same store.
pub struct MemoryStore(Arc<EmbeddedEngine>);

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        Self(Arc::new(EmbeddedEngine::ephemeral(clock, rng)))
    }

    /// A handle without faults.
    pub fn quiet(&self) -> Database {
        Database::new(Arc::<EmbeddedEngine>::clone(&self.0))
    }

    /// A handle with the faults of `plan`, drawn from `rng`.
    pub fn faulty(&self, plan: FaultPlan, rng: Arc<dyn Rng>) -> Database {
        Database::new(Arc::new(FaultEngine::new(Arc::<EmbeddedEngine>::clone(&self.0), plan, rng)))
    }
}
