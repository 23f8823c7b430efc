//! What the views share: the table behind its lock, those who follow it, and how old it may be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_model::Name;
use borough_store::mirror::MirrorHandle;
use parking_lot::RwLock;

use crate::hub::Hub;
use crate::metrics::NamesMetrics;
use crate::table::{CellTable, NamesChanges, NamesTable};

/// A mirror reads the journal at least every second. One that has not for this long has lost the store.
const OUTAGE_AFTER: Duration = Duration::from_secs(5);

/// The state that the views share.
pub struct NamesShared {
    table: RwLock<NamesTable>,
    mirrors: BTreeMap<Name, MirrorHandle>,
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
    pub(crate) fn new(
        mirrors: BTreeMap<Name, MirrorHandle>,
        metrics: NamesMetrics,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        let table = RwLock::new(NamesTable::new(mirrors.keys().cloned()));
        Self { table, mirrors, clock, rng, hub: Hub::default(), metrics }
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

    /// The cells of the table.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Name> {
        self.mirrors.keys()
    }

    /// The cells, with the possible age of what is known of each.
    pub fn ages(&self) -> impl Iterator<Item = (&Name, TableAge)> {
        self.mirrors.iter().map(|(cell, mirror)| {
            let age = mirror.staleness();
            let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let since = (age > OUTAGE_AFTER).then(|| self.clock.wall_ms().saturating_sub(age_ms));
            (cell, TableAge { age, outage_since_ms: since })
        })
    }

    /// The greatest age of any cell.
    pub fn age(&self) -> TableAge {
        let oldest = self.ages().map(|(_, age)| age).max_by_key(|age| age.age);
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

    /// A random number.
    pub(crate) fn random(&self) -> u64 {
        self.rng.next_u64()
    }
}
