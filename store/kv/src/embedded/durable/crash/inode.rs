//! One file of the simulated disk: what the machine shows, what the disk has, and what a power cut may leave.
//!
//! A write changes at once what the machine shows. The disk gets it at a flush, or any part of it before: each sector
//! alone, in any order, even torn within. A sector that was written several times since the last flush may therefore be
//! found in any of its states, independently of the others.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// The unit that a disk writes at once.
const SECTOR_BYTES: usize = 512;
/// The unit of allocation.
pub(super) const PAGE_BYTES: usize = 4096;

type Sector = [u8; SECTOR_BYTES];

/// Which of the unflushed writes a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    Nothing,
    Everything,
    /// Everything but parts of the last write.
    LastTorn,
    /// Any part of it.
    Any,
}

impl Survival {
    pub(super) fn draw(rng: &mut ChaCha8Rng) -> Self {
        match rng.random_range(0..6) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 | 3 => Self::LastTorn,
            _ => Self::Any,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) shown: Vec<u8>,
    durable: Vec<u8>,
    /// By sector, every state since the last flush.
    dirty: BTreeMap<usize, Vec<Sector>>,
    /// Every length since the last flush.
    lengths: Vec<usize>,
    last: Vec<usize>,
    /// Pages that are allocated on the disk.
    pages: BTreeSet<usize>,
}

impl Inode {
    /// A file that is on the disk.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        let pages = (0..bytes.len().div_ceil(PAGE_BYTES)).collect();
        Self { shown: bytes.clone(), durable: bytes, pages, ..Self::default() }
    }

    /// Bytes that it occupies.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// Unallocated pages that a write there would need.
    pub(super) fn bytes_needed(&self, offset: usize, length: usize) -> usize {
        let pages = offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES);
        pages.filter(|page| !self.pages.contains(page)).count() * PAGE_BYTES
    }

    pub(super) fn space_reserve(&mut self, offset: usize, length: usize) {
        self.pages.extend(offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES));
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.space_reserve(offset, bytes.len());
        let end = offset + bytes.len();
        if end > self.shown.len() {
            resize(&mut self.shown, end);
            self.lengths.push(end);
        }
        self.shown[offset..end].copy_from_slice(bytes);
        self.touched(offset, end);
    }

    pub(super) fn length_set(&mut self, length: usize) {
        let before = self.shown.len();
        resize(&mut self.shown, length);
        self.lengths.push(length);
        // A part that is cut off reads as zeros if the file grows again, and may reappear after a power cut.
        // Unallocated pages contain nothing.
        let cut: Vec<usize> = self.pages.range(length / PAGE_BYTES..).copied().collect();
        for page in cut {
            let begin = (page * PAGE_BYTES).max(length);
            self.touched(begin, ((page + 1) * PAGE_BYTES).min(before));
        }
        self.pages.retain(|page| page * PAGE_BYTES < length);
    }

    fn touched(&mut self, begin: usize, end: usize) {
        if begin >= end {
            return;
        }
        self.last = (begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)).collect();
        for sector in &self.last {
            self.dirty.entry(*sector).or_default().push(sector_of(&self.shown, *sector));
        }
    }

    /// A flush that succeeds.
    pub(super) fn flush(&mut self) {
        resize(&mut self.durable, self.shown.len());
        for (sector, states) in std::mem::take(&mut self.dirty) {
            if let Some(state) = states.last() {
                sector_put(&mut self.durable, sector, state);
            }
        }
        self.lengths.clear();
        self.last.clear();
    }

    /// A failing flush: any part of it is on the disk, and the machine takes all of it for written. The next flush will
    /// not write it again.
    pub(super) fn flush_fail(&mut self, rng: &mut ChaCha8Rng) {
        self.durable = self.survive(Survival::Any, rng);
        self.dirty.clear();
        self.lengths.clear();
        self.last.clear();
    }

    /// The content after a power cut.
    pub(super) fn survive(&self, survival: Survival, rng: &mut ChaCha8Rng) -> Vec<u8> {
        let lengths = std::iter::once(self.durable.len()).chain(self.lengths.iter().copied());
        let lengths: Vec<usize> = lengths.collect();
        let length = match survival {
            Survival::Nothing => lengths[0],
            Survival::Everything | Survival::LastTorn => lengths[lengths.len() - 1],
            Survival::Any => lengths[rng.random_range(0..lengths.len())],
        };
        let mut left = self.durable.clone();
        resize(&mut left, length);
        for (sector, states) in &self.dirty {
            let torn = match survival {
                Survival::Nothing => continue,
                Survival::Everything => false,
                Survival::LastTorn => self.last.contains(sector),
                Survival::Any => true,
            };
            let state = if torn { self.sector_torn(*sector, states, rng) } else { states[states.len() - 1] };
            sector_put(&mut left, *sector, &state);
        }
        left
    }

    /// Any state of a sector, or a mix: one state up to some byte, and the previous one after it.
    fn sector_torn(&self, sector: usize, states: &[Sector], rng: &mut ChaCha8Rng) -> Sector {
        let state = |at: usize| match at {
            0 => sector_of(&self.durable, sector),
            at => states[at - 1],
        };
        let at = rng.random_range(0..=states.len());
        let mut torn = state(at);
        if at > 0 && rng.random_range(0..4) == 0 {
            let cut = rng.random_range(0..SECTOR_BYTES);
            torn[cut..].copy_from_slice(&state(at - 1)[cut..]);
        }
        torn
    }
}

/// As [`Vec::resize`] with zeros, which is slow byte by byte without optimisation.
fn resize(bytes: &mut Vec<u8>, length: usize) {
    bytes.truncate(length);
    let zeros = vec![0; length - bytes.len()];
    bytes.extend_from_slice(&zeros);
}

fn sector_of(bytes: &[u8], sector: usize) -> Sector {
    let mut copy = [0; SECTOR_BYTES];
    let begin = (sector * SECTOR_BYTES).min(bytes.len());
    let end = (begin + SECTOR_BYTES).min(bytes.len());
    copy[..end - begin].copy_from_slice(&bytes[begin..end]);
    copy
}

fn sector_put(bytes: &mut [u8], sector: usize, state: &Sector) {
    let begin = (sector * SECTOR_BYTES).min(bytes.len());
    let end = (begin + SECTOR_BYTES).min(bytes.len());
    bytes[begin..end].copy_from_slice(&state[..end - begin]);
}
