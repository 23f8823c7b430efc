//! One cell in a store: transactions over it, and its journal.

use borough_kv::{Database, Idempotency, Transaction};
use borough_model::JournalEntry;
use borough_store::cell::{CellMeta, cell_create};
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head, journal_tail};
use borough_store::{CellSpace, StoreError, StoreResult};

use crate::row::name;

/// When the cell was created, in milliseconds since 1970.
const CREATED_MS: i64 = 1_000;
/// Entries of the journal that one transaction reads.
const PAGE_ENTRIES: usize = 1_024;

/// The cell `alpha`, through one handle of its store.
#[derive(Clone)]
pub struct OpenCell {
    pub db: Database,
    pub space: CellSpace,
}

impl OpenCell {
    /// Creates the cell in a store.
    pub async fn create(db: Database, meta: &CellMeta) -> Self {
        Self::create_with(db, meta, async |_, _| Ok(())).await.0
    }

    /// Creates the cell and writes `more` in one transaction. Returns the value of `more` too.
    pub async fn create_with<T>(
        db: Database,
        meta: &CellMeta,
        more: impl AsyncFn(&Transaction, &CellSpace) -> StoreResult<T>,
    ) -> (Self, T) {
        let cell = Self { db, space: CellSpace::new(name("alpha")) };
        let created = cell.write(async |tx, space| {
            cell_create(tx, space, meta, CREATED_MS).await?;
            more(tx, space).await
        });
        let value = created.await.unwrap();
        (cell, value)
    }

    /// The same cell through another handle, for example one with faults.
    pub fn over(&self, db: Database) -> Self {
        Self { db, space: self.space.clone() }
    }

    /// Runs a transaction that only reads.
    pub async fn read<T>(
        &self,
        closure: impl AsyncFn(&Transaction, &CellSpace) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let (closure, space) = (&closure, &self.space);
        self.db.run("read", Idempotency::ReadOnly, |tx, _| async move { closure(&tx, space).await }).await
    }

    /// Runs a transaction that appends no entry, or appends it itself.
    pub async fn write<T>(
        &self,
        closure: impl AsyncFn(&Transaction, &CellSpace) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let (closure, space) = (&closure, &self.space);
        self.db.run("write", Idempotency::Natural, |tx, _| async move { closure(&tx, space).await }).await
    }

    /// Runs a transaction that changes something, and appends its entry.
    pub async fn change<T>(
        &self,
        change: Change,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.change_at(change, closure).await.map(|(value, _)| value)
    }

    /// As [`OpenCell::change`], with the position from which a mirror shows it.
    pub async fn change_at<T>(
        &self,
        change: Change,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<(T, Cursor)> {
        let (closure, space, change) = (&closure, &self.space, &change);
        let run = self.db.run_committed(change.action, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let value = closure(&tx, &mut changes).await?;
            // This stamp does not cover writes of an earlier try.
            let head = match changes.deltas().is_empty() {
                true => journal_head(&tx, space).await?,
                false => Cursor::start(changes.store_epoch()),
            };
            changes.append(&tx)?;
            Ok::<_, StoreError>((value, head))
        });
        let ((value, head), committed) = run.await?;
        let stamp = committed.stamp.map(|stamp| Cursor { stamp, ..head });
        Ok((value, stamp.unwrap_or(head)))
    }

    /// Every entry of the journal with its position, from the beginning.
    pub async fn journal(&self) -> Vec<(Cursor, JournalEntry)> {
        let (mut entries, mut after) = (Vec::new(), Cursor::start(1));
        loop {
            let page = self.read(async |tx, space| journal_tail(tx, space, after, PAGE_ENTRIES).await);
            let page = page.await.unwrap();
            entries.extend(page.entries);
            after = page.next;
            if !page.more {
                return entries;
            }
        }
    }
}
