//! The simulated disk: the engine's own trait over files in memory, with faults and power cuts drawn from the seed.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::super::directory::DirectoryFlushes;
use super::super::disk::{Disk, DiskFile};
use super::inode::{Inode, Survival};
use super::names::{InodeId, Names};
use super::turns::Turns;

/// The files that are certainly on a disk, by name.
pub(super) type DiskImage = BTreeMap<String, Vec<u8>>;

/// A fault that happens once, at the first suitable call from some number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskFault {
    /// A flush of a file fails.
    FileFlush,
    /// A flush of the directory fails.
    DirectoryFlush,
    /// A write fails halfway.
    Write,
    /// The power goes off during the call.
    PowerCut,
}

/// A call that changes something, as the faults see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    FileFlush,
    DirectoryFlush,
    ParentFlush,
    Write,
    Length,
    Create,
    Remove,
    Rename,
}

struct DiskState {
    rng: ChaCha8Rng,
    inodes: Vec<Inode>,
    names: Names,
    /// Whether the directory's own name is on the disk: without it nothing in it is.
    named: bool,
    calls: u64,
    /// Of these, how many have flushed a file.
    file_flushes: u64,
    fault: Option<(u64, DiskFault)>,
    /// Faults that have happened, and to what.
    happened: Vec<(DiskFault, String)>,
    /// Capacity in bytes.
    capacity: usize,
    /// Calls of earlier openings fail; each opening has a number.
    opening: u64,
    locked: bool,
}

impl DiskState {
    fn free_bytes(&self) -> usize {
        let used = self.names.shown.values().map(|inode| self.inodes[*inode].allocated_bytes());
        self.capacity.saturating_sub(used.sum())
    }

    /// Counts a call, and applies a due fault.
    fn call(&mut self, call: Call, what: &str) -> Option<DiskFault> {
        self.calls += 1;
        self.file_flushes += u64::from(call == Call::FileFlush);
        let (at, fault) = self.fault?;
        let fits = match fault {
            DiskFault::PowerCut => true,
            DiskFault::FileFlush => call == Call::FileFlush,
            DiskFault::DirectoryFlush => matches!(call, Call::DirectoryFlush | Call::ParentFlush),
            DiskFault::Write => call == Call::Write,
        };
        if self.calls < at || !fits {
            return None;
        }
        self.fault = None;
        // Faults do not distinguish segments.
        let what = what.split('-').next().unwrap_or_default();
        self.happened.push((fault, format!("{what} {call:?}")));
        if fault == DiskFault::PowerCut {
            self.opening += 1;
        }
        Some(fault)
    }
}

fn gone() -> io::Error {
    io::Error::other("the process that had this disk is gone")
}

fn failed() -> io::Error {
    io::Error::other("the disk failed")
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

/// A disk as one opening of a store uses it.
#[derive(Clone)]
pub(super) struct SimDisk {
    state: Arc<Mutex<DiskState>>,
    turns: Arc<Turns>,
    opening: u64,
    flushes: Arc<DirectoryFlushes>,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDisk").field("opening", &self.opening).finish_non_exhaustive()
    }
}

impl SimDisk {
    /// A disk with these files. Without any, the directory does not exist yet.
    pub(super) fn new(image: DiskImage, seed: u64) -> Self {
        let named = !image.is_empty();
        let names = image.keys().cloned().enumerate().map(|(inode, name)| (name, inode)).collect();
        let state = DiskState {
            rng: ChaCha8Rng::seed_from_u64(seed),
            inodes: image.into_values().map(Inode::durable).collect(),
            names: Names::durable(names),
            named,
            calls: 0,
            file_flushes: 0,
            fault: None,
            happened: Vec::new(),
            capacity: usize::MAX / 2,
            opening: 0,
            locked: false,
        };
        Self { state: Arc::new(Mutex::new(state)), turns: Turns::new(), opening: 0, flushes: Arc::default() }
    }

    /// The same disk for the next opening: its process is killed, the machine keeps running.
    pub(super) fn kill(&self) -> Self {
        let mut state = self.state.lock();
        state.opening += 1;
        state.locked = false;
        self.turns.free();
        let (turns, flushes) = (Turns::new(), Arc::default());
        Self { state: Arc::clone(&self.state), turns, opening: state.opening, flushes }
    }

    /// Turns of the checkpoint's thread.
    pub(super) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// How often a file was flushed.
    pub(super) fn file_flushes(&self) -> u64 {
        self.state.lock().file_flushes
    }

    /// Schedules `fault` for `calls` calls from now.
    pub(super) fn fault_after(&self, calls: u64, fault: DiskFault) {
        let mut state = self.state.lock();
        state.fault = Some((state.calls + calls, fault));
    }

    pub(super) fn fault_cancel(&self) {
        self.state.lock().fault = None;
    }

    /// The faults since the last call.
    pub(super) fn happened(&self) -> Vec<(DiskFault, String)> {
        std::mem::take(&mut self.state.lock().happened)
    }

    /// Leaves `bytes` of free space.
    pub(super) fn free_set(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.capacity = usize::MAX / 2;
        state.capacity -= state.free_bytes() - bytes.min(state.free_bytes());
    }

    /// Returns true if the power is off, or the process is gone.
    pub(super) fn is_dead(&self) -> bool {
        self.state.lock().opening != self.opening
    }

    /// The files that the machine shows now.
    pub(super) fn shown(&self) -> DiskImage {
        let state = self.state.lock();
        let shown = state.names.shown.iter();
        shown.map(|(name, inode)| (name.clone(), state.inodes[*inode].shown.clone())).collect()
    }

    /// Cuts the power, if it is still on, and returns the files on the disk afterwards.
    pub(super) fn power_cut(&self) -> DiskImage {
        let mut state = self.state.lock();
        state.opening += 1;
        self.turns.free();
        let state = &mut *state;
        if !state.named && state.rng.random_bool(0.5) {
            return DiskImage::new();
        }
        let names = state.names.survive(Survival::draw(&mut state.rng), &mut state.rng);
        let mut image = DiskImage::new();
        for (name, inode) in names {
            let survival = Survival::draw(&mut state.rng);
            image.insert(name, state.inodes[inode].survive(survival, &mut state.rng));
        }
        image
    }

    /// The state for a call that only reads.
    fn look<T>(&self, look: impl FnOnce(&mut DiskState) -> io::Result<T>) -> io::Result<T> {
        self.turns.take();
        let mut state = self.state.lock();
        if state.opening != self.opening { Err(gone()) } else { look(&mut state) }
    }

    /// The state for a call that changes something. At a power cut the change is made; which part of it is kept is
    /// drawn with everything else that was not flushed.
    fn change<T>(
        &self,
        call: Call,
        what: &str,
        change: impl FnOnce(&mut DiskState, Option<DiskFault>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.look(|state| {
            let fault = state.call(call, what);
            let changed = change(state, fault);
            if fault == Some(DiskFault::PowerCut) { Err(gone()) } else { changed }
        })
    }

    fn file(&self, name: &str, inode: InodeId) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { disk: self.clone(), name: name.to_owned(), inode })
    }
}

struct Lock(SimDisk);

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.opening == self.0.opening {
            state.locked = false;
        }
    }
}

impl Disk for SimDisk {
    fn directory_create(&self) -> io::Result<()> {
        self.look(|_| Ok(()))
    }

    fn parent_sync(&self) -> io::Result<()> {
        self.change(Call::ParentFlush, "parent", |state, fault| match fault {
            Some(DiskFault::PowerCut) => Ok(()),
            Some(_) => Err(failed()),
            None => {
                state.named = true;
                Ok(())
            }
        })
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.look(|state| {
            let locked = std::mem::replace(&mut state.locked, true);
            Ok((!locked).then(|| Box::new(Lock(self.clone())) as Box<dyn Send + Sync>))
        })
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.look(|state| Ok(state.names.shown.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.look(|state| {
            state.names.shown.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
        })?;
        Ok(self.file(name, inode))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.change(Call::Create, name, |state, _| {
            if let Some(inode) = state.names.shown.get(name).copied() {
                state.inodes[inode].length_set(0);
                return Ok(inode);
            }
            state.inodes.push(Inode::default());
            let inode = state.inodes.len() - 1;
            state.names.link(name, inode);
            Ok(inode)
        })?;
        Ok(self.file(name, inode))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(Call::Remove, name, |state, _| {
            if !state.names.shown.contains_key(name) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.names.unlink(name);
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Call::Rename, from, |state, _| {
            if state.names.rename(from, to) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
        })
    }

    fn directory_sync(&self) -> io::Result<()> {
        self.change(Call::DirectoryFlush, "directory", |state, fault| {
            self.flushes.run(|| {
                match fault {
                    Some(DiskFault::PowerCut) => {}
                    Some(_) => {
                        state.names.flush_fail(&mut state.rng);
                        return Err(failed());
                    }
                    None => state.names.flush(),
                }
                Ok(())
            })
        })
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.look(|state| Ok(u64::try_from(state.free_bytes()).unwrap()))
    }

    fn location(&self) -> String {
        "simulated".to_owned()
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    name: String,
    inode: InodeId,
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

impl DiskFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.disk.look(|state| Ok(u64::try_from(state.inodes[self.inode].shown.len()).unwrap()))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.disk.look(|state| {
            let begin = index(offset);
            let shown = state.inodes[self.inode].shown.get(begin..begin + buffer.len());
            buffer.copy_from_slice(shown.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(Call::Write, &self.name, |state, fault| {
            let begin = index(offset);
            let mut length = bytes.len();
            if fault == Some(DiskFault::Write) {
                length = state.rng.random_range(0..=length);
            }
            let fits = state.inodes[self.inode].bytes_needed(begin, length) <= state.free_bytes();
            if !fits {
                length = state.rng.random_range(0..=length.min(state.free_bytes()));
            }
            state.inodes[self.inode].write(begin, &bytes[..length]);
            match fault {
                Some(DiskFault::Write) => Err(failed()),
                _ if !fits => Err(full()),
                _ => Ok(()),
            }
        })
    }

    fn length_set(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(Call::Length, &self.name, |state, _| {
            state.inodes[self.inode].length_set(index(bytes));
            Ok(())
        })
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(Call::Length, &self.name, |state, _| {
            let bytes = index(bytes);
            if state.inodes[self.inode].bytes_needed(0, bytes) > state.free_bytes() {
                return Err(full());
            }
            state.inodes[self.inode].length_set(bytes);
            state.inodes[self.inode].space_reserve(0, bytes);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(Call::FileFlush, &self.name, |state, fault| {
            let DiskState { inodes, rng, .. } = state;
            match fault {
                Some(DiskFault::PowerCut) => {}
                Some(_) => {
                    inodes[self.inode].flush_fail(rng);
                    return Err(failed());
                }
                None => inodes[self.inode].flush(),
            }
            Ok(())
        })
    }
}
