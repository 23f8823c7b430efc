//! The writing end of the commit log: segments of one size, one record per batch, one flush per record.
//!
//! A record may also wait for the flush of a later one. It is written and answered, and only a power cut loses it. Such
//! records are flushed before the log goes to another segment and before a checkpoint, whose rows contain them.
//!
//! A segment's space is allocated when it is made, so a full disk shows there, before anything is written. On a file
//! system without allocation a write may still find no space. The record is then made unreadable again. Only if that
//! fails too is the state of the disk unknown, which stops the engine.
//!
//! On ext4, flushing a write over bytes that were never written takes half as long again, or more, than over written
//! ones, for which only the bytes must become durable. The log therefore writes zeros ahead of a new segment's records.
//! It also keeps segments that a checkpoint has replaced as spares for later segments.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, is_no_space, is_resource};
use super::marker::{Marker, MarkerFile, removed};
use super::record::{
    RECORD_HEADER_BYTES, RecordKind, SegmentHeader, record_bytes, record_encode, seal_encode,
};
use super::recover::LogEnd;
use super::segment::{HEADER_BYTES, Segment, segment_create, segment_resume, segment_reuse};
use crate::contract::{ErrorCode, KvError, Version};
use crate::embedded::mutation::Mutation;
use crate::embedded::sequencer::{AppendError, Flush, Load};
use crate::env::Rng;

/// A larger buffer is freed, so that one large batch does not keep its size for ever.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// How far a new segment is written with zeros ahead of its records.
const WRITTEN_AHEAD_BYTES: u64 = 256 << 10;

/// Space in a segment that is kept for records without mutations: enough for some hundred openings.
const RESERVE_BYTES: u64 = 4096;

/// Space in a segment that is also kept for the first small records of an opening: a program commits its start before
/// it serves even a read.
const START_KEPT_BYTES: u64 = 256 << 10;

/// A new segment for records needs the free space of so many segments. That of the second one stays free for the
/// checkpoint, without which the log could never shrink.
const FREE_FOR_RECORDS: u64 = 2;
/// The same for the segment that begins a checkpoint with nothing else to replace.
const FREE_FOR_CHECKPOINT: u64 = 1;

/// The name of a segment.
pub(super) fn segment_name(sequence: u64) -> String {
    format!("log-{sequence:016x}")
}

/// The name of a segment's file after a checkpoint has replaced it, until it becomes another segment.
pub(super) fn spare_name(sequence: u64) -> String {
    format!("spare-{sequence:016x}")
}

/// Returns true if a file is a spare.
pub(super) fn is_spare(name: &str) -> bool {
    name.starts_with("spare-")
}

/// The sequence in a segment's name.
pub(super) fn segment_sequence(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("log-")?, 16)
        .ok()
        .filter(|sequence| segment_name(*sequence) == name)
}

/// The writing end of the log.
pub(super) struct Log {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    segment: Segment,
    /// Earlier segments that still exist.
    sealed: Vec<u64>,
    /// Spares, by their former sequence.
    spares: Vec<u64>,
    rng: Arc<dyn Rng>,
    last_version: Version,
    marker: MarkerFile,
    /// Bytes of records since the last checkpoint began.
    bytes: u64,
    /// Bytes of records that this opening may still write into the space that segments keep for its start.
    start_bytes: u64,
    buffer: Vec<u8>,
}

/// Which segments that a checkpoint replaces are kept as spares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpareSegments {
    /// The most that are kept.
    pub(super) wanted: usize,
    /// The bytes that each must have.
    pub(super) length: u64,
}

impl Log {
    /// A log that continues at `end`, in the present segment while that has space, so that a full disk does not prevent
    /// an opening.
    pub(super) fn start(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        end: &LogEnd,
        mut marker: MarkerFile,
        rng: Arc<dyn Rng>,
    ) -> io::Result<Self> {
        let mut sealed = end.segments.clone();
        let durable = marker.noted();
        let resume = |tail| segment_resume(disk.as_ref(), tail, durable);
        let segment = match end.tail.map(resume).transpose()?.flatten() {
            Some(segment) => {
                sealed.pop();
                segment
            }
            None => {
                let sequence = sealed.last().map_or(1, |last| last.saturating_add(1));
                let header = SegmentHeader { sequence, previous: end.version, salt: rng.next_u64() };
                segment_create(disk.as_ref(), segment_bytes, header)?
            }
        };
        let (last_version, bytes) = (end.version, end.bytes);
        marker_segment(&mut marker, &segment, last_version)?;
        let (spares, buffer, start_bytes) = (Vec::new(), Vec::new(), 0);
        let mut log = Self {
            disk,
            segment_bytes,
            segment,
            sealed,
            spares,
            rng,
            last_version,
            marker,
            bytes,
            start_bytes,
            buffer,
        };
        // A sixteenth, so that the space lasts for as many openings.
        log.start_bytes = log.start_kept_bytes() / 16;
        Ok(log)
    }

    /// Bytes of records since the last [`Log::roll`] for a checkpoint.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The version of the last record.
    pub(super) fn last_version(&self) -> Version {
        self.last_version
    }

    /// Returns true if a checkpoint would make segments obsolete.
    pub(super) fn has_sealed(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Makes a batch durable: now, or with a later one.
    pub(super) fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
        flush: Flush,
    ) -> Result<(), AppendError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // Space first, since a record belongs to one segment.
        let size = record_bytes(mutations);
        let kept = self.reserve_bytes().saturating_add(self.start_kept_bytes());
        let kept = if mutations.is_empty() { 0 } else { kept };
        // A ceiling has the place of the mark that says so.
        let flushed = if ceiling.is_some() { self.flush() } else { Ok(()) };
        let result = flushed.and_then(|()| self.space_make(size, kept)).and_then(|()| {
            let kind = match flush {
                Flush::Later => RecordKind::NotFlushed,
                Flush::Now if self.segment.unflushed => RecordKind::FlushedOthers,
                Flush::Now => RecordKind::Flushed(ceiling),
            };
            record_encode(&mut buffer, self.segment.salt, self.last_version, version, kind, mutations);
            self.record_append(version, flush, &mut buffer)
        });
        if buffer.capacity() <= BUFFER_KEPT_BYTES {
            self.buffer = buffer;
        }
        result
    }

    /// Space that a segment keeps for records without mutations. Those raise the version ceiling; without them a store
    /// on a full disk could neither open nor stay open.
    fn reserve_bytes(&self) -> u64 {
        RESERVE_BYTES.min(self.segment_bytes / 8)
    }

    /// Space that a segment keeps for the start of an opening.
    fn start_kept_bytes(&self) -> u64 {
        START_KEPT_BYTES.min(self.segment_bytes / 8)
    }

    /// Returns true if the segment takes a record of `size` and has `kept` left after it.
    fn fits(&self, size: u64, kept: u64) -> bool {
        self.segment.offset.saturating_add(size).saturating_add(kept) <= self.segment.reserved
    }

    /// Makes space for a record of `size` with `kept` bytes left after it: in this segment, in a new one, or in the
    /// space kept for a start.
    fn space_make(&mut self, size: u64, kept: u64) -> Result<(), AppendError> {
        let reserve = self.reserve_bytes();
        if self.fits(size, kept) {
            return Ok(());
        }
        self.flush()?;
        let next = self.segment_next(size, FREE_FOR_RECORDS);
        match next {
            Err(error) if is_no_space(&error) && size <= self.start_bytes && self.fits(size, reserve) => {
                self.start_bytes = self.start_bytes.saturating_sub(size);
                Ok(())
            }
            next => next.map_err(|error| append_error(&error)),
        }
    }

    /// Makes the records durable that were not flushed. An error means that the disk has failed.
    fn flush(&mut self) -> Result<(), AppendError> {
        if !self.segment.unflushed {
            return Ok(());
        }
        let Segment { file, .. } = &self.segment;
        file.sync_data().map_err(|error| flush_failed(&error))?;
        self.segment.unflushed = false;
        self.end_note(self.last_version)
    }

    /// Notes the end of the log after its last record is durable, and before an answer: it must be found from now on.
    fn end_note(&mut self, version: Version) -> Result<(), AppendError> {
        let noted = self.marker.note(marker_of(&self.segment, version));
        tolerated(noted).map_err(|error| append_failed(&error))
    }

    fn record_append(
        &mut self,
        version: Version,
        flush: Flush,
        record: &mut Vec<u8>,
    ) -> Result<(), AppendError> {
        let size = u64::try_from(record.len()).unwrap_or(u64::MAX);
        let (offset, end) = (self.segment.offset, self.segment.offset.saturating_add(size));
        if end > self.segment.written {
            self.segment.written =
                end.saturating_add(WRITTEN_AHEAD_BYTES).min(self.segment.reserved).max(end);
            let ahead = usize::try_from(self.segment.written.saturating_sub(end)).unwrap_or(0);
            record.resize(record.len().saturating_add(ahead), 0);
        }
        let file = &self.segment.file;
        if let Err(error) = file.write_at(offset, record) {
            if !is_no_space(&error) && !is_resource(&error) {
                return Err(append_error(&error));
            }
            // The record may be there as a whole, with some of the zeros after it. The file keeps its length: a shorter
            // one would look like a log that was cut off.
            let undone = file.write_at(offset, &[0; RECORD_HEADER_BYTES]).and_then(|()| file.sync_data());
            (self.segment.reserved, self.segment.written) = (offset, offset);
            return Err(undone.map_or_else(|undo| append_failed(&undo), |()| append_error(&error)));
        }
        if flush == Flush::Now {
            file.sync_data().map_err(|error| flush_failed(&error))?;
        }
        self.segment.offset = end;
        self.segment.unflushed = flush == Flush::Later;
        self.bytes = self.bytes.saturating_add(size);
        self.last_version = version;
        match flush {
            Flush::Now => self.end_note(version),
            Flush::Later => Ok(()),
        }
    }

    /// Returns true if the marker of the durable end must be flushed.
    pub(super) fn marker_due(&self, load: Load) -> bool {
        self.marker.is_due(load)
    }

    /// Makes the marker of the durable end durable. An error means that the disk has failed, unless it is full.
    pub(super) fn marker_flush(&mut self) -> io::Result<()> {
        if !self.segment.file.is_named(&segment_name(self.segment.sequence))? {
            return Err(removed());
        }
        tolerated(self.marker.flush())
    }

    /// Begins a new segment with space for a record of `record_bytes`, if the disk has `free` times that space.
    fn segment_next(&mut self, record_bytes: u64, free: u64) -> io::Result<()> {
        let needed = record_bytes.saturating_add(HEADER_BYTES).saturating_add(self.reserve_bytes());
        let needed = needed.saturating_add(self.start_kept_bytes());
        let bytes = self.segment_bytes.max(needed);
        self.available_check(bytes.saturating_mul(free))?;
        let sequence = self.segment.sequence.saturating_add(1);
        let header = SegmentHeader { sequence, previous: self.last_version, salt: self.rng.next_u64() };
        let spare = if bytes == self.segment_bytes { self.spares.pop() } else { None };
        let next = match spare {
            Some(spare) => segment_reuse(self.disk.as_ref(), &spare_name(spare), header)?,
            None => segment_create(self.disk.as_ref(), bytes, header)?,
        };
        // Before its first record: from now on the segment must exist. The log continues in it even if the marker
        // fails, since its header names the last record.
        let marked = marker_segment(&mut self.marker, &next, self.last_version);
        // The log works without the seal; it then only cannot detect a missing segment.
        let Segment { file, offset, .. } = &self.segment;
        if let Err(error) = file.write_at(*offset, &seal_encode(sequence)).and_then(|()| file.sync_data()) {
            tracing::debug!(%error, sequence, "the segment before it has no seal");
        }
        self.sealed.push(self.segment.sequence);
        self.segment = next;
        marked
    }

    /// Checks that the disk has `bytes` of free space. If not, spares are removed.
    fn available_check(&mut self, bytes: u64) -> io::Result<()> {
        if self.disk.available_bytes()? >= bytes {
            return Ok(());
        }
        for spare in std::mem::take(&mut self.spares) {
            self.disk.remove(&spare_name(spare))?;
        }
        if self.disk.available_bytes()? >= bytes { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    /// How many spares of which length are worth keeping after a checkpoint: as many segments as fill up until the next
    /// one after `checkpoint_bytes`.
    pub(super) fn spares_wanted(&self, checkpoint_bytes: u64) -> SpareSegments {
        let most = checkpoint_bytes.div_ceil(self.segment_bytes.max(1)).saturating_add(1);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        SpareSegments { wanted: most.saturating_sub(self.spares.len()), length: self.segment_bytes }
    }

    /// Adds spares whose names are durable.
    pub(super) fn spares_add(&mut self, spares: Vec<u64>) {
        self.spares.extend(spares);
    }

    /// Begins a checkpoint: later records go to a new segment. Returns the segments that the checkpoint replaces. If
    /// the disk has no space for a new segment, the present one is not among them; the earlier ones free space.
    pub(super) fn roll(&mut self) -> Result<Vec<u64>, AppendError> {
        self.flush()?;
        // The last free space is for the checkpoint itself, if it removes segments without a new one.
        let free = if self.has_sealed() { FREE_FOR_RECORDS } else { FREE_FOR_CHECKPOINT };
        match self.segment_next(0, free) {
            Ok(()) => self.bytes = 0,
            Err(error) if is_no_space(&error) && self.has_sealed() => self.bytes = self.segment.offset,
            Err(error) => return Err(append_error(&error)),
        }
        Ok(std::mem::take(&mut self.sealed))
    }

    /// Returns segments whose checkpoint failed.
    pub(super) fn unroll(&mut self, segments: Vec<u64>) {
        self.sealed.splice(0..0, segments);
    }
}

fn marker_of(segment: &Segment, version: Version) -> Marker {
    Marker { version, sequence: segment.sequence, end: segment.offset, length: segment.length }
}

/// Names a segment in the marker, durably.
fn marker_segment(marker: &mut MarkerFile, segment: &Segment, version: Version) -> io::Result<()> {
    tolerated(marker.segment_begin(marker_of(segment, version)))
}

/// A marker that cannot be written now stays behind, which does not make it wrong. A failing disk is reported.
fn tolerated(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if is_no_space(&error) || is_resource(&error) => {
            tracing::debug!(%error, "the marker of the log's end stays behind");
            Ok(())
        }
        written => written,
    }
}

fn append_error(error: &io::Error) -> AppendError {
    if is_no_space(error) {
        AppendError::NoSpace(format!("commit log: {error}"))
    } else if is_resource(error) {
        AppendError::Resources(format!("commit log: {error}"))
    } else {
        append_failed(error)
    }
}

/// After a failed flush the content of the disk is unknown, whatever the error is.
fn flush_failed(error: &io::Error) -> AppendError {
    AppendError::Failed(disk_failed("flush of the commit log", error))
}

fn append_failed(error: &io::Error) -> AppendError {
    AppendError::Failed(disk_failed("commit log", error))
}

/// The error with which the engine stops after `error` of its disk in `what`.
pub(super) fn disk_failed(what: &str, error: &io::Error) -> KvError {
    let code = match error.kind() {
        io::ErrorKind::NotFound => ErrorCode::FileNotFound,
        _ => ErrorCode::IoError,
    };
    KvError::with(code, format!("{what}: {error}"))
}
