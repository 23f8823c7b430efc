//! What the views share: the table behind its lock, those who follow it, and how old it may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_model::Name;
use borough_store::mirror::MirrorHandle;
use parking_lot::RwLock;

use crate::follow::FollowedCell;
use crate::hub::Hub;
use crate::metrics::NamesMetrics;
use crate::table::{CellTable, NamesChanges, NamesTable};

/// A mirror reads the journal at least every second. One that has not for this long has lost the store.
const OUTAGE_AFTER: Duration = Duration::from_secs(5);

/// The state that the views share.
pub struct NamesShared {
    table: RwLock<NamesTable>,
    mirrors: RwLock<BTreeMap<Name, MirrorHandle>>,
    /// The cell of a request that names none.
    default_cell: OnceLock<Name>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    pub(crate) hub: Hub,
    pub(crate) metrics: NamesMetrics,
}

/// How old the table of a cell may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableAge {
    /// Time since the store was last read to the end of the journal.
    pub age: Duration,
    /// When the outage began, in milliseconds since 1970; `None` while the store answers.
    pub outage_since_ms: Option<i64>,
}

impl NamesShared {
    /// Of no cell yet.
    pub(crate) fn new(metrics: NamesMetrics, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let (table, mirrors, default_cell) = Default::default();
        Self { table, mirrors, default_cell, clock, rng, hub: Hub::default(), metrics }
    }

    /// Takes further cells. The first one ever is the default. Nothing is answered until all that came at first are
    /// listed; a later one is shown once it is.
    pub(crate) fn cells_enter(&self, cells: &[FollowedCell]) {
        let Some(first) = cells.first() else { return };
        self.default_cell.get_or_init(|| first.name.clone());
        self.mirrors.write().extend(cells.iter().map(|cell| (cell.name.clone(), cell.mirror.clone())));
        self.table.write().enter(cells.iter().map(|cell| cell.name.clone()));
    }

    /// The cell of a request that names none; `None`: no cell is known yet.
    pub(crate) fn default_cell(&self) -> Option<&Name> {
        self.default_cell.get()
    }

    /// Calls `look` with the table, if every cell was listed. Keep it short: changes wait.
    pub fn read<T>(&self, look: impl FnOnce(&NamesTable) -> T) -> Option<T> {
        let table = self.table.read();
        table.is_complete().then(|| look(&table))
    }

    /// Returns true if every cell was listed once. An outage of the store changes nothing about that.
    pub fn is_ready(&self) -> bool {
        self.table.read().is_complete()
    }

    /// Changes the table of a cell, and wakes those whom it concerns.
    pub fn change(&self, cell: &Name, change: impl FnOnce(&mut CellTable) -> NamesChanges) {
        let changes = self.table.write().change(cell, change);
        self.metrics.changes.inc_by(u64::try_from(changes.services.len()).unwrap_or(u64::MAX));
        self.hub.notify(changes);
    }

    /// The cells that are followed.
    pub(crate) fn cells(&self) -> BTreeSet<Name> {
        self.mirrors.read().keys().cloned().collect()
    }

    fn age_of(&self, mirror: &MirrorHandle) -> TableAge {
        let age = mirror.staleness();
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let since = (age > OUTAGE_AFTER).then(|| self.clock.wall_ms().saturating_sub(age_ms));
        TableAge { age, outage_since_ms: since }
    }

    /// The cells, with the possible age of what is known of each.
    pub fn ages(&self) -> Vec<(Name, TableAge)> {
        self.mirrors.read().iter().map(|(cell, mirror)| (cell.clone(), self.age_of(mirror))).collect()
    }

    /// The greatest age of any cell.
    pub fn age(&self) -> TableAge {
        let oldest = self.mirrors.read().values().map(|mirror| self.age_of(mirror)).max_by_key(|age| age.age);
        oldest.unwrap_or(TableAge { age: Duration::ZERO, outage_since_ms: None })
    }

    /// The metrics as text, as of now.
    pub(crate) fn metrics_text(&self) -> Result<String, std::fmt::Error> {
        let metrics = &self.metrics;
        metrics.ready.set(i64::from(self.is_ready()));
        metrics.wakes.set(i64::try_from(self.hub.wakes()).unwrap_or(i64::MAX));
        let sizes = self.read(|table| {
            let size = |cell: &CellTable| {
                let services = cell.services().count();
                let endpoints = cell.services().map(|(_, service)| service.endpoints().len()).sum::<usize>();
                (cell.name().clone(), services, endpoints)
            };
            table.cells().map(size).collect::<Vec<_>>()
        });
        for (cell, services, endpoints) in sizes.into_iter().flatten() {
            metrics.sizes_set(cell.as_str(), services, endpoints);
        }
        for (cell, age) in self.ages() {
            metrics.age_set(cell.as_str(), age.age, age.outage_since_ms);
        }
        metrics.encode()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(crate) fn clock_shared(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn rng_shared(&self) -> Arc<dyn Rng> {
        Arc::clone(&self.rng)
    }

    /// Sleeps for a time from three to five quarters of `interval`, so that processes do not all ask at once.
    pub(crate) async fn sleep_about(&self, interval: Duration) {
        let thousandths = u32::try_from(750 + self.random() % 500).unwrap_or(1_000);
        tokio::time::sleep(interval * thousandths / 1_000).await;
    }

    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        self.rng.next_u64()
    }
}
