//! Records how far the log is durable, in a file of its own. This distinguishes a torn end from one that was cut off.
//!
//! A record that was being written at a crash may be torn, and was never acknowledged. A log that has lost acknowledged
//! records looks the same, since nothing follows a last record. The marker therefore notes the end of each record after
//! its flush and before its acknowledgement. An opening refuses a log that ends before its marker.
//!
//! The note itself is flushed about once a second, at each new segment, when the engine is idle, and at a clean end. A
//! flush per record would cost as much as the record's own. While the machine keeps running, the marker is exact,
//! whatever ends the process. After a power cut it may lack the commits of the last second. It is never ahead, since it
//! is written after the record is durable. With each flush the engine checks that this file and the segment still have
//! their names. A store whose directory was removed stops within a second of its next commit.
//!
//! ```text
//! file  three slots of 4096 bytes: two written in turns right before a flush, one written after each record
//! slot  magic 8 │ number u64 │ version i64 │ sequence u64 │ end u64 │ length u64 │ checksum u32 of all that
//! ```
//!
//! At a power cut at most one of the first two slots is torn, and the third may be.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::log::segment_name;
use super::record::IntegerReader;
use super::recover::LogEnd;
use crate::contract::Version;
use crate::embedded::sequencer::Load;

pub(super) const NAME: &str = "DURABLE";

const MAGIC: [u8; 8] = *b"borodur\x01";
/// Bytes of a slot that mean something.
const USED_BYTES: usize = 52;
/// Far enough apart that no two are in one sector of any disk.
const SLOT_BYTES: u64 = 4096;
/// Slots that are written right before a flush.
const FLUSHED_SLOTS: u64 = 2;
const SLOTS: u64 = FLUSHED_SLOTS + 1;
/// Versions (microseconds) between two flushes while there are commits.
const FLUSH_VERSIONS: Version = 1_000_000;

/// The end of the log at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// The version of the last record.
    pub(super) version: Version,
    /// The segment that is written; 0 for none.
    pub(super) sequence: u64,
    /// The position where its last record ends.
    pub(super) end: u64,
    /// The length of its file, which never shrinks.
    pub(super) length: u64,
}

impl Marker {
    fn encode(self, number: u64) -> [u8; USED_BYTES] {
        let mut bytes = [0; USED_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.end.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.length.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..48]);
        bytes[48..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The marker of a slot and its number.
    fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let mut reader = IntegerReader(bytes.get(..USED_BYTES)?);
        let magic = reader.take(8)? == MAGIC;
        let (number, version) = (reader.u64()?, reader.i64()?);
        let (sequence, end, length) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let sound = reader.u32()? == crc32c::crc32c(bytes.get(..48)?);
        (magic && sound).then_some((number, Self { version, sequence, end, length }))
    }
}

/// The content of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkerRead {
    pub(super) marker: Marker,
    number: u64,
    /// The slot that the next flush overwrites: not the one that the last flush has confirmed.
    next_slot: u64,
}

/// Reads the file. `None` if it is missing, or contains something that no crash leaves.
pub(super) fn marker_read(disk: &dyn Disk, names: &[String]) -> io::Result<Option<MarkerRead>> {
    if !names.iter().any(|name| name == NAME) {
        return Ok(None);
    }
    let file = disk.open(NAME)?;
    if file.length()? < SLOTS * SLOT_BYTES {
        return Ok(None);
    }
    let mut slots = Vec::new();
    for slot in 0..SLOTS {
        let mut bytes = [0; USED_BYTES];
        file.read_at(slot * SLOT_BYTES, &mut bytes)?;
        slots.push(Marker::decode(&bytes));
    }
    let number = |slot: usize| slots.get(slot).copied().flatten().map(|(number, _)| number);
    // A crash leaves at least one of them.
    if number(0).is_none() && number(1).is_none() {
        return Ok(None);
    }
    let next_slot = u64::from(number(0) > number(1));
    let newest = slots.iter().flatten().copied().max_by_key(|(number, _)| *number);
    Ok(newest.map(|(number, marker)| MarkerRead { marker, number, next_slot }))
}

pub(super) struct MarkerFile {
    file: Arc<dyn DiskFile>,
    marker: Marker,
    /// The version that the last flush has made durable; `None` if a flush is due whatever the version is.
    flushed: Option<Version>,
    number: u64,
    next_slot: u64,
}

impl MarkerFile {
    /// Makes the file durable except for its name, replacing one among `names`.
    pub(super) fn create(disk: &dyn Disk, names: &[String]) -> io::Result<()> {
        if names.iter().any(|name| name == NAME) {
            // A failed flush of the directory may have lost its name: only a new one is flushed again.
            disk.remove(NAME)?;
        }
        let file = disk.create(NAME)?;
        file.write_at(0, &vec![0; usize::try_from(SLOTS * SLOT_BYTES).unwrap_or(0)])?;
        for slot in 0..FLUSHED_SLOTS {
            file.write_at(slot * SLOT_BYTES, &Marker::default().encode(slot))?;
        }
        file.sync_data()
    }

    /// Continues a file with the content `read`; by default one that was just created.
    pub(super) fn open(disk: &dyn Disk, read: Option<MarkerRead>) -> io::Result<Self> {
        let created = MarkerRead { number: FLUSHED_SLOTS, ..MarkerRead::default() };
        let MarkerRead { marker, number, next_slot } = read.unwrap_or(created);
        let file = disk.open(NAME)?;
        // A killed process may have left a slot that is not on the disk yet: never two of them at a time.
        file.sync_data()?;
        Ok(Self { file, marker, flushed: None, number, next_slot })
    }

    /// The end of the log as it was last noted.
    pub(super) fn noted(&self) -> Marker {
        self.marker
    }

    /// Notes the end of the log after its last record is durable.
    pub(super) fn note(&mut self, marker: Marker) -> io::Result<()> {
        self.marker = marker;
        self.number = self.number.saturating_add(1);
        self.file.write_at(FLUSHED_SLOTS * SLOT_BYTES, &marker.encode(self.number))
    }

    /// Returns true if the note is so far ahead of the last flush that it must be flushed. In an idle engine, any
    /// note that is ahead must be.
    pub(super) fn is_due(&self, load: Load) -> bool {
        let ahead = self.flushed.map_or(Version::MAX, |flushed| self.marker.version.saturating_sub(flushed));
        ahead >= FLUSH_VERSIONS || (load == Load::Idle && ahead > 0)
    }

    /// Makes the note durable. Also fails if the file was removed: commits acknowledged from then on would be lost at
    /// the next start.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.file.is_named(NAME)? {
            return Err(removed());
        }
        self.number = self.number.saturating_add(1);
        self.file.write_at(self.next_slot * SLOT_BYTES, &self.marker.encode(self.number))?;
        self.file.sync_data()?;
        self.next_slot = (self.next_slot + 1) % FLUSHED_SLOTS;
        self.flushed = Some(self.marker.version);
        Ok(())
    }

    /// Notes a new segment and makes the note durable, before anything is written to the segment.
    pub(super) fn segment_begin(&mut self, marker: Marker) -> io::Result<()> {
        self.marker = marker;
        self.flushed = None;
        self.flush()
    }
}

/// The error for a file in use that has lost its name.
pub(super) fn removed() -> io::Error {
    let what = "the store's directory or its files were removed or moved under the process";
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// The missing part of a log, for people: the file, its expected content, and its actual content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLoss {
    /// The file that is too short, or missing.
    pub file: String,
    /// The least end of the acknowledged records in it, in bytes; 0 if unknown.
    pub end_expected: u64,
    /// The end of the sound records in it, in bytes; 0 without the file.
    pub end_found: u64,
    /// The length that the file had, in bytes; 0 if unknown.
    pub length_expected: u64,
    /// The length that it has.
    pub length_found: u64,
    /// The least version of the last acknowledged record; 0 if unknown.
    pub version_expected: Version,
    /// The version of the last record that is left.
    pub version_found: Version,
}

impl std::fmt::Display for LogLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, end_expected, end_found, length_expected, length_found, .. } = self;
        write!(
            f,
            "{file} has {length_found} of {length_expected} bytes, with records up to byte {end_found} of \
             {end_expected}; the log ends at version {} of {}",
            self.version_found, self.version_expected
        )
    }
}

/// What a log that was read to `end` lacks by the marker, or by its own seals.
pub(super) fn loss_find(disk: &dyn Disk, marker: Marker, end: &LogEnd) -> io::Result<Option<LogLoss>> {
    let found = |sequence: u64| -> io::Result<(u64, u64)> {
        let there = end.segments.contains(&sequence) || end.unfinished == Some(sequence);
        let length = if there { disk.open(&segment_name(sequence))?.length()? } else { 0 };
        let tail = end.tail.filter(|tail| tail.sequence == sequence).map_or(0, |tail| tail.length);
        Ok((tail, length))
    };
    let loss = |sequence: u64, marker: Marker| -> io::Result<Option<LogLoss>> {
        let (end_found, length_found) = found(sequence)?;
        Ok(Some(LogLoss {
            file: segment_name(sequence),
            end_expected: marker.end,
            end_found,
            length_expected: marker.length,
            length_found,
            version_expected: marker.version,
            version_found: end.version,
        }))
    };
    let last = end.segments.last().copied().unwrap_or(0);
    if end.version < marker.version || marker.sequence > last {
        return loss(marker.sequence, marker);
    }
    if let Some(missing) = end.missing {
        return loss(missing, Marker::default());
    }
    if end.segments.contains(&marker.sequence) && found(marker.sequence)?.1 < marker.length {
        return loss(marker.sequence, marker);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_as_it_was_written_and_not_otherwise() {
        let marker = Marker { version: 77, sequence: 3, end: 4_000, length: 1 << 24 };
        let bytes = marker.encode(9);
        assert_eq!(Marker::decode(&bytes), Some((9, marker)));
        for at in 0..bytes.len() {
            let mut altered = bytes;
            altered[at] ^= 1;
            assert_eq!(Marker::decode(&altered), None, "byte {at}");
            assert_eq!(Marker::decode(&bytes[..at]), None);
        }
    }
}
