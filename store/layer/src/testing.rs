//! A store in memory for the crate's own tests, and shorthands for what every test needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, ManualClock, SeededRng};
use borough_kv::{Database, EmbeddedEngine, FaultEngine, FaultPlan, Idempotency, Transaction};
use borough_model::job::{JobKind, JobSpec, LogSpec, RestartMode, RestartSpec};
use borough_model::node::NodeFacts;
use borough_model::{Name, RequestId, Resources};

use crate::cell::cell_create;
use crate::error::{StoreError, StoreResult};
use crate::gate::{GateOpen, GateRead, cell_gate_read};
use crate::journal::{Change, ChangeSet};
use crate::keys::{self, CellGateKey, CellSpace, JournalFloorKey, JournalHeadKey, JournalKey, Prefix};
use crate::node::{NodeWriter, SessionFence, node_live_renew, node_writer};
use crate::row::{CellGate, CellMeta};

/// A store with one open cell, and its clock.
pub(crate) struct TestCell {
    pub(crate) db: Database,
    pub(crate) space: CellSpace,
    pub(crate) clock: Arc<ManualClock>,
}

/// Longer than any commit that a time-out leaves in flight.
pub(crate) const LATE: Duration = Duration::from_secs(2);

/// The seeds of a test with faults: the first `count`, or the one of `BOROUGH_SEED`.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("BOROUGH_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..count).collect(),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn job_spec(user: Name, name: Name) -> JobSpec {
    let mut spec = JobSpec::defaults(user, name, JobKind::Service, vec!["true".to_owned()]);
    spec.task.resources = Resources::default();
    spec.task.grace_ms = 0;
    spec.task.log = LogSpec { file_bytes_max: 1, files_max: 1 };
    let mode = RestartMode::Never;
    spec.restart =
        RestartSpec { mode, attempts_max: None, backoff_initial_ms: 1, backoff_max_ms: 1, reset_after_ms: 1 };
    spec
}

/// A machine with a thousand ports.
pub(crate) fn node_facts(cpu_millis: u64) -> NodeFacts {
    NodeFacts {
        capacity: Resources { cpu_millis, memory_bytes: 1 << 30, ..Resources::default() },
        port_first: 20_000,
        port_last: 20_999,
        attributes: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot-1".to_owned(),
        agent_version: "0.1.0".to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    }
}

/// A store in memory, without faults and with the faults of `plan`. Each draws from a seed of its own.
pub(crate) struct TestStore {
    pub(crate) quiet: Database,
    pub(crate) faults: Arc<FaultEngine>,
}

impl TestStore {
    /// An empty store; `seed` is the engine's.
    pub(crate) fn new(clock: Arc<dyn Clock>, seed: u64, plan: FaultPlan, seed_of_faults: u64) -> Self {
        let engine = Arc::new(EmbeddedEngine::ephemeral(clock, SeededRng::shared(seed)));
        let inner = Arc::<EmbeddedEngine>::clone(&engine);
        let faults = Arc::new(FaultEngine::new(inner, plan, SeededRng::shared(seed_of_faults)));
        Self { quiet: Database::new(engine), faults }
    }

    pub(crate) fn faulty(&self) -> Database {
        Database::new(Arc::<FaultEngine>::clone(&self.faults))
    }
}

/// A change by a test.
pub(crate) fn change(request: u128, action: &'static str) -> Change {
    Change { request: RequestId(request), actor: "user/test".to_owned(), action, at_ms: 1_000 }
}

/// The proof that the gate is open at the version that `tx` reads.
pub(crate) async fn gate_open(tx: &Transaction, space: &CellSpace) -> StoreResult<GateOpen> {
    GateRead::of(tx, space, cell_gate_read(tx, space).await?).await?.open()
}

/// Ends the store epoch `expected` of an open cell, and its journal, as a replaced and imported cell shows it to its
/// readers. The cell keeps its rows. Repeating it after an unknown result changes nothing.
pub(crate) async fn store_epoch_begin(
    tx: &Transaction,
    space: &CellSpace,
    expected: u64,
) -> StoreResult<CellGate> {
    let gate = cell_gate_read(tx, space).await?;
    if gate.store_epoch != expected {
        return Ok(gate);
    }
    keys::clear_prefix(tx, space, &Prefix::<JournalKey>::all())?;
    keys::clear(tx, space, &JournalHeadKey {})?;
    keys::clear(tx, space, &JournalFloorKey {})?;
    let gate = CellGate { store_epoch: expected + 1, revision: gate.revision + 1, ..gate };
    keys::write(tx, space, &CellGateKey {}, &gate)?;
    Ok(gate)
}

impl TestCell {
    /// An open cell called `alpha` in a store of its own.
    pub(crate) async fn new() -> Self {
        Self::with_faults(7, FaultPlan::none()).await
    }

    /// The same, in a store with the faults of `plan`, drawn from `seed`.
    pub(crate) async fn with_faults(seed: u64, plan: FaultPlan) -> Self {
        let clock = ManualClock::at(1_000);
        let store = TestStore::new(Arc::<ManualClock>::clone(&clock), 7, plan, seed);
        // Created without faults, so that a test's seed applies to the test alone.
        let cell = Self { db: store.quiet.clone(), space: CellSpace::new(name("alpha")), clock };
        cell.run(async |tx| cell_create(&tx, &cell.space, &CellMeta::default(), 1_000).await).await.unwrap();
        Self { db: store.faulty(), ..cell }
    }

    pub(crate) async fn run<T>(
        &self,
        closure: impl AsyncFn(Transaction) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let closure = &closure;
        self.db.run("test", Idempotency::Natural, |tx, _| closure(tx)).await
    }

    /// Writes for a node in a session; `None` if the session is not in force.
    pub(crate) async fn change_as<T>(
        &self,
        change: Change,
        fence: SessionFence,
        closure: impl AsyncFn(&NodeWriter<'_>, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        self.change(change, async |tx, changes| match node_writer(tx, &self.space, fence).await? {
            Some(writer) => closure(&writer, changes).await.map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Renews the lease of a node in a session. Returns true if the session is in force.
    pub(crate) async fn beat(&self, fence: SessionFence, beat: u64) -> StoreResult<bool> {
        self.run(async |tx| match node_writer(&tx, &self.space, fence).await? {
            Some(writer) => node_live_renew(&writer, &self.space, beat, 0, None).await.map(|()| true),
            None => Ok(false),
        })
        .await
    }

    /// Runs a transaction that changes something, and appends its entry.
    pub(crate) async fn change<T>(
        &self,
        change: Change,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.run(async |tx| {
            let mut changes = ChangeSet::begin(&tx, &self.space, &change).await?;
            let value = closure(&tx, &mut changes).await?;
            changes.append(&tx)?;
            Ok::<T, StoreError>(value)
        })
        .await
    }
}
