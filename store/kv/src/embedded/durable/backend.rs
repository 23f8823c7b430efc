//! Files as redb uses them: the checkpoint's own, and one that keeps its writes in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use redb::StorageBackend;

use super::disk::DiskFile;

/// Granularity of the overlay.
const PAGE_BYTES: u64 = 4096;

/// Bytes written to a checkpoint between two flushes. One flush of everything would delay the flushes of the commit
/// log, which share the disk.
const UNFLUSHED_BYTES_MAX: u64 = 1 << 20;

/// A file as redb sees it.
#[derive(Debug)]
pub(super) struct Backend {
    file: Arc<dyn DiskFile>,
    sync_failed: Arc<AtomicBool>,
    unflushed_bytes: AtomicU64,
}

impl Backend {
    /// The file. `sync_failed` turns true when a flush of it fails.
    pub(super) fn new(file: Arc<dyn DiskFile>, sync_failed: Arc<AtomicBool>) -> Self {
        Self { file, sync_failed, unflushed_bytes: AtomicU64::new(0) }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.file.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.file.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.file.length_set(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.unflushed_bytes.store(0, Ordering::Relaxed);
        self.file.sync_data().inspect_err(|_| self.sync_failed.store(true, Ordering::SeqCst))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.file.write_at(offset, data)?;
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let unflushed = self.unflushed_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if unflushed > UNFLUSHED_BYTES_MAX { self.sync_data() } else { Ok(()) }
    }
}

/// A file that keeps its writes in memory.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Arc<dyn DiskFile>,
    file_length: u64,
    length: AtomicU64,
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Overlay {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let length = file.length()?;
        Ok(Self { file, file_length: length, length: AtomicU64::new(length), pages: Mutex::default() })
    }

    /// The page at `index` below the overlay.
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
        for (index, in_page, in_buffer) in Self::pieces(offset, out.len()) {
            let kept = self.pages.lock().get(&index).cloned();
            // Without the lock: the file may take its time.
            let page = kept.map_or_else(|| self.page_below(index), Ok)?;
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
