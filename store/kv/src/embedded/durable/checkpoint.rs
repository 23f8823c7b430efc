//! The checkpoint: the store's rows at one version, in redb, behind the log.
//!
//! redb keeps the tree durable; what it does not check on an ordinary open (the bytes of every page) is checked here:
//! opening runs its integrity check over an overlay that swallows all writes, and the rows must have the count and the
//! sum that were written with them. So a damaged checkpoint is refused, and refusing touches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use redb::{ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::disk::{Disk, DiskFile};
use crate::contract::Version;
use crate::embedded::memory::Memory;

/// The checkpoint's name.
pub(super) const NAME: &str = "checkpoint";
/// The first checkpoint while it is being written.
pub(super) const NAME_NEW: &str = "checkpoint.new";

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const META: TableDefinition<'_, &str, (i64, i64, u64, u64)> = TableDefinition::new("meta");
const META_KEY: &str = "checkpoint";
/// Pages redb keeps in memory: the rows themselves are resident already.
const CACHE_BYTES: usize = 8 << 20;
/// Granularity of the overlay.
const PAGE_BYTES: u64 = 4096;

/// What a checkpoint says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) version: Version,
    pub(super) ceiling: Version,
    rows: u64,
    /// The wrapping sum of every row's hash: changes with every row, in any order.
    sum: u64,
}

/// A file as redb sees it.
#[derive(Debug)]
struct Backend(Arc<dyn DiskFile>);

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.length_set(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_at(offset, data)
    }
}

/// A file whose writes stay in memory.
#[derive(Debug)]
struct Overlay {
    file: Arc<dyn DiskFile>,
    file_length: u64,
    length: AtomicU64,
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Overlay {
    fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let length = file.length()?;
        Ok(Self { file, file_length: length, length: AtomicU64::new(length), pages: Mutex::default() })
    }

    /// The page at `index` as it is below the overlay.
    fn page_below(&self, index: u64) -> io::Result<Vec<u8>> {
        let begin = index.saturating_mul(PAGE_BYTES);
        let there = self.file_length.saturating_sub(begin).min(PAGE_BYTES);
        let mut page = vec![0; index_of(PAGE_BYTES)];
        if let Some(part) = page.get_mut(..index_of(there)) {
            self.file.read_at(begin, part)?;
        }
        Ok(page)
    }

    /// Calls `each` with every page that `offset..offset + length` touches: its index, the part of the page, and the
    /// part of the buffer.
    fn pieces(
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
        let end = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |index| {
            let page = index.saturating_mul(PAGE_BYTES);
            let (from, to) = (offset.max(page), end.min(page.saturating_add(PAGE_BYTES)));
            (
                index,
                index_of(from - page)..index_of(to - page),
                index_of(from - offset)..index_of(to - offset),
            )
        })
    }
}

fn index_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl StorageBackend for Overlay {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.length.load(Ordering::SeqCst))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let pages = self.pages.lock();
        for (index, in_page, in_buffer) in Self::pieces(offset, out.len()) {
            let below;
            let page = match pages.get(&index) {
                Some(page) => page,
                None => {
                    below = self.page_below(index)?;
                    &below
                }
            };
            let (from, to) = (page.get(in_page), out.get_mut(in_buffer));
            let (Some(from), Some(to)) = (from, to) else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            to.copy_from_slice(from);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.length.store(len, Ordering::SeqCst);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut pages = self.pages.lock();
        for (index, in_page, in_buffer) in Self::pieces(offset, data.len()) {
            if let std::collections::btree_map::Entry::Vacant(place) = pages.entry(index) {
                place.insert(self.page_below(index)?);
            }
            let page = pages.get_mut(&index).and_then(|page| page.get_mut(in_page));
            let (Some(to), Some(from)) = (page, data.get(in_buffer)) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            to.copy_from_slice(from);
        }
        Ok(())
    }
}

fn row_hash(key: &[u8], value: &[u8]) -> u64 {
    // The key's own hash seeds the value's, so that no byte can move from one to the other unseen.
    xxhash_rust::xxh3::xxh3_64_with_seed(value, xxhash_rust::xxh3::xxh3_64(key))
}

/// Rows in key order and what the checkpoint says of itself.
pub(super) type Loaded = (Vec<(Bytes, Bytes)>, Meta);

/// Reads and verifies the checkpoint without touching it.
pub(super) fn checkpoint_load(disk: &dyn Disk) -> Result<Loaded, redb::Error> {
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
    let mut loaded = Vec::new();
    for row in transaction.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        let (key, value) = (Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value()));
        found.rows = found.rows.wrapping_add(1);
        found.sum = found.sum.wrapping_add(row_hash(&key, &value));
        loaded.push((key, value));
    }
    if found != meta {
        return Err(redb::Error::Corrupted("the checkpoint's rows do not add up".to_owned()));
    }
    Ok((loaded, meta))
}

/// Brings the checkpoint to `version`: the keys of `dirty` as `memory` has them there. Durable when it returns.
pub(super) fn checkpoint_write(
    disk: &dyn Disk,
    version: Version,
    ceiling: Version,
    dirty: &BTreeSet<Bytes>,
    memory: &Memory,
) -> Result<(), redb::Error> {
    let first = !disk.names()?.iter().any(|name| name == NAME);
    let file = if first { disk.create(NAME_NEW)? } else { disk.open(NAME)? };
    let mut builder = redb::Builder::new();
    let database = builder.set_cache_size(CACHE_BYTES).create_with_backend(Backend(file))?;
    let mut transaction = database.begin_write()?;
    // Two phases and a saved allocator: what a crash leaves needs no guess and no long repair.
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(META)?;
        let (_, _, rows, sum) = table.get(META_KEY)?.map(|found| found.value()).unwrap_or_default();
        let mut meta = Meta { version, ceiling, rows, sum };
        rows_write(&mut transaction.open_table(ROWS)?, &mut meta, dirty, memory)?;
        table.insert(META_KEY, (meta.version, meta.ceiling, meta.rows, meta.sum))?;
    }
    transaction.commit()?;
    database.close()?;
    if first {
        disk.rename(NAME_NEW, NAME)?;
        disk.directory_sync()?;
    }
    Ok(())
}

fn rows_write(
    table: &mut redb::Table<'_, &[u8], &[u8]>,
    meta: &mut Meta,
    dirty: &BTreeSet<Bytes>,
    memory: &Memory,
) -> Result<(), redb::Error> {
    for key in dirty {
        let value = memory.read().get(key, meta.version).cloned();
        let old = match &value {
            Some(value) => table.insert(key.as_ref(), value.as_ref())?,
            None => table.remove(key.as_ref())?,
        };
        if let Some(old) = old {
            meta.rows = meta.rows.wrapping_sub(1);
            meta.sum = meta.sum.wrapping_sub(row_hash(key, old.value()));
        }
        if let Some(value) = value {
            meta.rows = meta.rows.wrapping_add(1);
            meta.sum = meta.sum.wrapping_add(row_hash(key, &value));
        }
    }
    Ok(())
}
