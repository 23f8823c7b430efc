//! The rows of a checkpoint that are not in memory, read from its file.
//!
//! The reading is a redb database of its own, over an overlay that discards all writes. A checkpoint that fails to be
//! written, say on a full disk, leaves redb unusable; the reading goes on.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use redb::{AccessGuard, Database, ReadOnlyTable, ReadableDatabase, StorageError};

use super::backend::Overlay;
use super::checkpoint::ROWS;
use super::disk::DiskFile;
use crate::contract::{ErrorCode, KvError};
use crate::embedded::memory::{ColdRow, ColdRows, Order};

/// Bytes of pages that redb keeps in memory. The machine caches pages as well.
const CACHE_BYTES: usize = 32 << 20;

/// The rows of one checkpoint.
pub(super) struct ColdCheckpoint {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    failure: OnceLock<KvError>,
    /// The table is read through it.
    _database: Database,
}

type GuardedRow = (AccessGuard<'static, &'static [u8]>, AccessGuard<'static, &'static [u8]>);

impl ColdCheckpoint {
    /// The rows of the checkpoint in `file`, as it is now.
    pub(super) fn open(file: &Arc<dyn DiskFile>) -> Result<Self, redb::Error> {
        let mut builder = redb::Builder::new();
        let database =
            builder.set_cache_size(CACHE_BYTES).create_with_backend(Overlay::new(Arc::clone(file))?)?;
        Self::new(database)
    }

    /// The rows of a database that nobody writes to.
    pub(super) fn new(database: Database) -> Result<Self, redb::Error> {
        let table = database.begin_read()?.open_table(ROWS)?;
        Ok(Self { table, failure: OnceLock::new(), _database: database })
    }

    /// What was read; nothing if it could not be.
    fn read<T>(&self, read: Result<T, StorageError>) -> Option<T> {
        let failed = |error| drop(self.failure.set(cold_failed(&redb::Error::from(error))));
        read.map_err(failed).ok()
    }
}

/// The error of an engine whose cold rows cannot be read.
pub(super) fn cold_failed(error: &redb::Error) -> KvError {
    KvError::with(ErrorCode::IoError, format!("read of the checkpoint: {error}"))
}

fn row(guards: GuardedRow) -> ColdRow {
    let (key, value) = guards;
    (Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value()))
}

impl ColdRows for ColdCheckpoint {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        let found = self.read(self.table.get(key))?;
        found.map(|value| Bytes::copy_from_slice(value.value()))
    }

    fn range<'a>(&'a self, begin: &[u8], end: &[u8], order: Order) -> Box<dyn Iterator<Item = ColdRow> + 'a> {
        let rows = self.read(self.table.range::<&[u8]>(begin..end)).into_iter();
        let read = move |found| self.read(found).map(row);
        match order {
            Order::Forward => Box::new(rows.flatten().map_while(read)),
            Order::Reverse => Box::new(rows.flat_map(Iterator::rev).map_while(read)),
        }
    }

    fn failure(&self) -> Option<KvError> {
        self.failure.get().cloned()
    }
}
