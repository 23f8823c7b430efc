//! One file of the simulated disk: what the machine shows, what the disk has, and what a power cut may leave.
//!
//! A write changes what the machine shows at once. The disk gets it at a flush, or any part of it before: each sector
//! for itself, in any order, even torn within. So a sector that was written several times since the last flush may be
//! found in any of its states, whatever the others are found in.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;
/// In what room is given out.
pub(super) const PAGE_BYTES: usize = 4096;

type Sector = [u8; SECTOR_BYTES];

/// How much of what was not flushed a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    /// Nothing.
    Nothing,
    /// Everything.
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

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What the machine shows.
    pub(super) shown: Vec<u8>,
    /// What the disk has for certain.
    durable: Vec<u8>,
    /// By sector, every state since the last flush.
    dirty: BTreeMap<usize, Vec<Sector>>,
    /// Every length since the last flush.
    lengths: Vec<usize>,
    /// Sectors of the last write.
    last: Vec<usize>,
    /// Pages that have room on the disk.
    pages: BTreeSet<usize>,
}

impl Inode {
    /// A file that is on the disk.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        let pages = (0..bytes.len().div_ceil(PAGE_BYTES)).collect();
        Self { shown: bytes.clone(), durable: bytes, pages, ..Self::default() }
    }

    /// Bytes of room it takes.
    pub(super) fn room(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// Pages that a write there would need room for.
    pub(super) fn room_needed(&self, offset: usize, length: usize) -> usize {
        let pages = offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES);
        pages.filter(|page| !self.pages.contains(page)).count() * PAGE_BYTES
    }

    pub(super) fn room_take(&mut self, offset: usize, length: usize) {
        self.pages.extend(offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES));
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.room_take(offset, bytes.len());
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
        // What was cut off reads as zeros should the file grow again, and may still be there after a power cut. Pages
        // without room hold nothing.
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

    /// A flush that fails: any part of it is on the disk, and the machine takes all of it for written, so that the next
    /// flush will not try again.
    pub(super) fn flush_fail(&mut self, rng: &mut ChaCha8Rng) {
        self.durable = self.survive(Survival::Any, rng);
        self.dirty.clear();
        self.lengths.clear();
        self.last.clear();
    }

    /// What a power cut leaves.
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

    /// Any state of a sector, or one up to some byte and the one before it from there on.
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

/// As [`Vec::resize`] with zeros, which takes its time byte by byte where nothing is optimised.
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
