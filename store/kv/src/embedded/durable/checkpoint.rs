//! The checkpoint: the store's rows at one version, in redb. The log continues after it.
//!
//! redb keeps the tree durable, but an ordinary open does not check the bytes of every page. This module does. Opening
//! runs redb's integrity check over an overlay that discards all writes, and compares the count and the sum of the rows
//! with the stored ones. A damaged checkpoint is refused without a change to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::backend::{Backend, Overlay};
use super::cold::{ColdCheckpoint, cold_failed};
use super::disk::{Disk, DiskFile};
use super::space::{Space, SpaceRow};
use crate::contract::Version;
use crate::database::key_after;
use crate::embedded::memory::{self, Memory, MemoryKey, OpenedRows, row_bytes};

/// The file of the checkpoint.
pub(super) const NAME: &str = "checkpoint";
/// The file of a whole checkpoint while it is being written.
pub(super) const NAME_NEW: &str = "checkpoint.new";

pub(super) const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const META: TableDefinition<'_, &str, SpaceRow> = TableDefinition::new("meta");
const META_KEY: &str = "checkpoint";
const SPACE_KEY: &str = "space";
/// Bytes of pages that redb keeps in memory while it writes: few rows are looked at twice.
const CACHE_BYTES: usize = 8 << 20;

/// The checkpoint's description of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) version: Version,
    pub(super) ceiling: Version,
    rows: u64,
    /// The wrapping sum of every row's hash: changes with every row, in any order.
    sum: u64,
}

/// The totals of a checkpoint's rows.
struct CheckpointTotals {
    rows: u64,
    sum: u64,
    /// Bytes of keys and values.
    payload: u64,
}

impl CheckpointTotals {
    fn enter(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(row_hash(key, value));
        self.payload = self.payload.wrapping_add(payload_bytes(key, value));
    }

    fn leave(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(row_hash(key, value));
        self.payload = self.payload.wrapping_sub(payload_bytes(key, value));
    }
}

fn payload_bytes(key: &[u8], value: &[u8]) -> u64 {
    u64::try_from(key.len().saturating_add(value.len())).unwrap_or(u64::MAX)
}

fn row_hash(key: &[u8], value: &[u8]) -> u64 {
    // The key's hash seeds the value's, so that no byte can move unnoticed from one to the other.
    xxhash_rust::xxh3::xxh3_64_with_seed(value, xxhash_rust::xxh3::xxh3_64(key))
}

/// Reads and verifies the checkpoint without touching it. Rows beyond `bytes_max` bytes of memory stay cold.
pub(super) fn checkpoint_load(disk: &dyn Disk, bytes_max: usize) -> Result<(OpenedRows, Meta), redb::Error> {
    let file = disk.open(NAME)?;
    if file.length()? == 0 {
        return Err(redb::Error::Corrupted("the checkpoint is empty".to_owned()));
    }
    let mut builder = redb::Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    let database = builder.create_with_backend(Overlay::new(file)?)?;
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?.get(META_KEY)?.map(|found| found.value());
    let (version, ceiling, rows, sum) =
        meta.ok_or_else(|| redb::Error::Corrupted("the checkpoint does not say what it is".to_owned()))?;
    let meta = Meta { version, ceiling, rows, sum };
    let mut found = Meta { rows: 0, sum: 0, ..meta };
    let (mut loaded, mut bytes, mut cold_from) = (Vec::new(), 0_usize, None);
    for row in transaction.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        let (key, value) = (key.value(), value.value());
        found.rows = found.rows.wrapping_add(1);
        found.sum = found.sum.wrapping_add(row_hash(key, value));
        bytes = bytes.saturating_add(row_bytes(key, value));
        if cold_from.is_none() && bytes > bytes_max {
            cold_from = Some(Bytes::copy_from_slice(key));
        }
        if cold_from.is_none() {
            loaded.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        }
    }
    if found != meta {
        return Err(redb::Error::Corrupted("the checkpoint's rows do not add up".to_owned()));
    }
    drop(transaction);
    let cold = match cold_from {
        Some(from) => Some((from, Arc::new(ColdCheckpoint::new(database)?) as Arc<dyn memory::ColdRows>)),
        None => None,
    };
    Ok((OpenedRows { rows: loaded, version, cold }, meta))
}

/// The input of a checkpoint.
pub(super) struct Order<'a> {
    pub(super) version: Version,
    pub(super) ceiling: Version,
    /// Keys changed since the checkpoint before.
    pub(super) dirty: &'a [MemoryKey],
    /// The rows, pinned at `version`.
    pub(super) memory: &'a Memory,
    /// Whether the present file must not be extended: a flush of it failed, or may have.
    pub(super) whole: bool,
    /// Free space in the file below which a whole rewrite is not worthwhile.
    pub(super) slack_bytes: u64,
}

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint was not written")]
pub(super) struct CheckpointError {
    #[source]
    pub(super) source: redb::Error,
    /// Whether a flush failed. The machine may then show bytes that the disk does not have, and another flush does not
    /// change that. The next checkpoint must be [`Order::whole`].
    pub(super) unsure: bool,
}

/// Brings the checkpoint to `order.version`, durably. The changed keys go into the present file. If that is mostly free
/// space, all rows go into a new file, which then takes its name.
pub(super) fn checkpoint_write(disk: &dyn Disk, order: &Order<'_>) -> Result<(), CheckpointError> {
    let sync_failed = Arc::new(AtomicBool::new(false));
    let written = checkpoint_choose(disk, order, &sync_failed);
    written.map_err(|source| CheckpointError { source, unsure: sync_failed.load(Ordering::SeqCst) })
}

fn checkpoint_choose(
    disk: &dyn Disk,
    order: &Order<'_>,
    sync_failed: &Arc<AtomicBool>,
) -> Result<(), redb::Error> {
    let there = disk.names()?.iter().any(|name| name == NAME);
    if !there || order.whole {
        return whole_replace(disk, order, sync_failed);
    }
    let file = disk.open(NAME)?;
    let file_bytes = file.length()?;
    let database = database_open(&file, sync_failed)?;
    let space = space_read(&database)?;
    if space.rewrite_due(file_bytes, order.slack_bytes)
        && disk.available_bytes()?
            > space.expected_bytes().saturating_mul(2).saturating_add(order.slack_bytes)
    {
        database.close()?;
        return whole_replace(disk, order, sync_failed);
    }
    // Cold rows are read from the pages that this transaction replaces, until those of the new checkpoint are there.
    let pages_kept = database.begin_read()?;
    rows_commit(&database, order, rows_changed)?;
    let closed = database.close();
    cold_renew(&file, order);
    drop(pages_kept);
    closed?;
    space_reserve(&file);
    Ok(())
}

/// Goes over to the cold rows of the checkpoint that was just written, if the engine needs cold rows. After a failure
/// the rows of the one before may be overwritten, so the engine stops.
fn cold_renew(file: &Arc<dyn DiskFile>, order: &Order<'_>) {
    if !order.memory.wants_cold() {
        return;
    }
    match ColdCheckpoint::open(file) {
        Ok(cold) => {
            let changed = Some(order.dirty).filter(|_| !order.whole);
            order.memory.cold_set(order.version, Arc::new(cold), changed);
        }
        Err(error) => order.memory.cold_fail(cold_failed(&error)),
    }
}

/// Reserves the space of the whole file. redb writes a change next to what it replaces, into pages of the file that may
/// never have been written. On a full disk the next checkpoint, which frees space, needs those pages.
fn space_reserve(file: &Arc<dyn DiskFile>) {
    if let Err(error) = file.length().and_then(|length| file.reserve(length)) {
        tracing::debug!(%error, "the file system has not reserved the space that the checkpoint may need");
    }
}

fn database_open(file: &Arc<dyn DiskFile>, sync_failed: &Arc<AtomicBool>) -> Result<Database, redb::Error> {
    let backend = Backend::new(Arc::clone(file), Arc::clone(sync_failed));
    Ok(redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend)?)
}

fn space_read(database: &Database) -> Result<Space, redb::Error> {
    let transaction = database.begin_read()?;
    let found = transaction.open_table(META)?.get(SPACE_KEY)?.map(|found| found.value());
    Ok(found.map(Space::from_row).unwrap_or_default())
}

/// Writes all rows to a new file, and gives it the checkpoint's name.
fn whole_replace(
    disk: &dyn Disk,
    order: &Order<'_>,
    sync_failed: &Arc<AtomicBool>,
) -> Result<(), redb::Error> {
    let file = disk.create(NAME_NEW)?;
    if let Err(error) = whole_write(&file, order, sync_failed) {
        // Its space is needed. Should this fail too, the next opening removes it.
        let _ = disk.remove(NAME_NEW);
        return Err(error);
    }
    space_reserve(&file);
    disk.rename(NAME_NEW, NAME)?;
    cold_renew(&file, order);
    Ok(disk.directory_sync().inspect_err(|_| sync_failed.store(true, Ordering::SeqCst))?)
}

fn whole_write(
    file: &Arc<dyn DiskFile>,
    order: &Order<'_>,
    sync_failed: &Arc<AtomicBool>,
) -> Result<(), redb::Error> {
    let database = database_open(file, sync_failed)?;
    rows_commit(&database, order, rows_whole)?;
    // The size of a file with these rows is only known now. Later growth is measured against it.
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    let space = space_read(&database)?;
    let space = Space { whole_payload: space.payload, whole_file: file.length()?, ..space };
    transaction.open_table(META)?.insert(SPACE_KEY, space.to_row())?;
    transaction.commit()?;
    Ok(database.close()?)
}

type CheckpointRows<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

/// One transaction: the rows that `write` puts, and the new description of the checkpoint.
fn rows_commit(
    database: &Database,
    order: &Order<'_>,
    write: fn(&mut CheckpointRows<'_>, &mut CheckpointTotals, &Order<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    // Two phases and a saved allocator: after a crash redb needs no guess and no long repair.
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(META)?;
        let (_, _, rows, sum) = table.get(META_KEY)?.map(|found| found.value()).unwrap_or_default();
        let space = table.get(SPACE_KEY)?.map(|found| Space::from_row(found.value())).unwrap_or_default();
        let mut tally = CheckpointTotals { rows, sum, payload: space.payload };
        write(&mut transaction.open_table(ROWS)?, &mut tally, order)?;
        table.insert(META_KEY, (order.version, order.ceiling, tally.rows, tally.sum))?;
        table.insert(SPACE_KEY, Space { payload: tally.payload, ..space }.to_row())?;
    }
    Ok(transaction.commit()?)
}

fn rows_changed(
    table: &mut CheckpointRows<'_>,
    tally: &mut CheckpointTotals,
    order: &Order<'_>,
) -> Result<(), redb::Error> {
    for key in order.dirty {
        let value = order.memory.read().get(key, order.version);
        let old = match &value {
            Some(value) => table.insert(key.as_ref(), value.as_ref())?,
            None => table.remove(key.as_ref())?,
        };
        if let Some(old) = old {
            tally.leave(key, old.value());
        }
        if let Some(value) = value {
            tally.enter(key, &value);
        }
    }
    Ok(())
}

fn rows_whole(
    table: &mut CheckpointRows<'_>,
    tally: &mut CheckpointTotals,
    order: &Order<'_>,
) -> Result<(), redb::Error> {
    let mut from = Vec::new();
    loop {
        let part = order.memory.part_at(&from, order.version);
        for (key, value) in &part {
            table.insert(key.as_ref(), value.as_ref())?;
            tally.enter(key, value);
        }
        let Some((last, _)) = part.last() else { return Ok(()) };
        from = key_after(last);
    }
}
