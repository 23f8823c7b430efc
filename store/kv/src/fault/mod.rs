//! A wrapper around an engine that does what the contract allows and a quiet machine never shows. It refuses commits,
//! leaves their result unknown or delays them. It shortens batches, fires watches spuriously and delays read versions.
//!
//! All randomness comes from one seeded source. The injected faults never break the contract. A commit reported as 1021
//! without having happened is not in flight and never will be. An error of a commit is also the error of its watches
//! and stamps. A blind write never fails for a conflict, and a read-only commit never fails.

mod plan;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::contract::{Engine, EngineInfo, EngineState, EngineTransaction, KvError};
use crate::env::Rng;
pub use plan::FaultPlan;
use transaction::FaultTransaction;

/// State that transactions share: the inner engine, the plan, the generator and the counters.
pub(crate) struct Faults {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) plan: FaultPlan,
    rng: Arc<dyn Rng>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Faults {
    /// Returns true if a fault of this probability happens now, and counts it under `name`.
    pub(crate) fn strikes(&self, name: &'static str, probability: f64) -> bool {
        // An impossible fault draws nothing, so that two plans with the same faults draw the same numbers.
        let struck = probability > 0.0 && crate::env::fraction(self.rng.next_u64()) < probability;
        if struck {
            let mut counts = self.counts.lock();
            let count = counts.entry(name).or_default();
            *count = count.saturating_add(1);
        }
        struck
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    /// A time up to `most`.
    pub(crate) fn delay(&self, most: Duration) -> Duration {
        most.mul_f64(crate::env::fraction(self.rng.next_u64()))
    }
}

/// The wrapper.
pub struct FaultEngine {
    faults: Arc<Faults>,
}

impl FaultEngine {
    /// `inner` with the faults of `plan`, drawn from `rng`.
    pub fn new(inner: Arc<dyn Engine>, plan: FaultPlan, rng: Arc<dyn Rng>) -> Self {
        Self { faults: Arc::new(Faults { engine: inner, plan, rng, counts: Mutex::default() }) }
    }

    /// How often each fault was injected so far, by name: a test that needs faults can check that it had them.
    pub fn injected(&self) -> BTreeMap<&'static str, u64> {
        self.faults.counts.lock().clone()
    }
}

impl Engine for FaultEngine {
    #[expect(clippy::disallowed_methods, reason = "an engine around an engine")]
    fn begin(&self) -> Box<dyn EngineTransaction> {
        Box::new(FaultTransaction::new(Arc::clone(&self.faults), Arc::from(self.faults.engine.begin())))
    }

    fn info(&self) -> EngineInfo {
        self.faults.engine.info()
    }

    fn metrics_register(&self, registry: &mut Registry) {
        self.faults.engine.metrics_register(registry);
    }

    fn state(&self) -> EngineState {
        self.faults.engine.state()
    }

    fn stopped(&self) -> BoxFuture<'static, KvError> {
        self.faults.engine.stopped()
    }
}
