//! The segment of the commit log that is written: how it is made, reused, and continued.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, is_resource};
use super::log::segment_name;
use super::marker::Marker;
use super::record::{RECORD_EMPTY_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::recover::SegmentTail;

/// Where the first record of a segment begins.
pub(super) const HEADER_BYTES: u64 = SEGMENT_HEADER_BYTES as u64;

/// The segment being written.
pub(super) struct Segment {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) sequence: u64,
    /// The position of the next record.
    pub(super) offset: u64,
    /// How far space is allocated.
    pub(super) reserved: u64,
    /// The length of the file.
    pub(super) length: u64,
    /// How far the file is known to be written.
    pub(super) written: u64,
    pub(super) salt: u64,
    /// Whether it has records that were not flushed.
    pub(super) unflushed: bool,
}

/// A failed flush is a failure of the disk, whatever its error is. After a full disk a retry is possible, since what
/// was to be flushed is removed.
fn flushed(flush: io::Result<()>) -> io::Result<()> {
    flush.map_err(
        |error| if is_resource(&error) { io::Error::other(format!("flush: {error}")) } else { error },
    )
}

/// The last segment after a crash or a closing, cleaned to be continued; `None` if it has no space for a small record.
pub(super) fn segment_resume(
    disk: &dyn Disk,
    tail: SegmentTail,
    durable: Marker,
) -> io::Result<Option<Segment>> {
    let file = disk.open(&segment_name(tail.sequence))?;
    // What was read counts from now on. But the last flush may have failed. The machine then shows bytes that the disk
    // does not have, and no later flush writes them unless they are written again: all since the flush before.
    let bytes = |from: u64, to: u64| vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)];
    let from = tail.unsure_from(durable);
    let mut last = bytes(from, tail.length);
    file.read_at(from, &mut last)?;
    file.write_at(from, &last)?;
    if tail.used > tail.length {
        file.write_at(tail.length, &bytes(tail.length, tail.used))?;
    }
    file.sync_data()?;
    let reserved = file.length()?;
    let has_space = reserved.saturating_sub(tail.length) >= RECORD_EMPTY_BYTES;
    let SegmentTail { sequence, length: offset, salt, .. } = tail;
    let written = tail.used.max(offset);
    Ok(has_space.then_some(Segment {
        file,
        sequence,
        offset,
        reserved,
        length: reserved,
        written,
        salt,
        unflushed: false,
    }))
}

/// Makes a segment durably: its space, its header, its name.
pub(super) fn segment_create(disk: &dyn Disk, bytes: u64, header: SegmentHeader) -> io::Result<Segment> {
    let name = segment_name(header.sequence);
    let create = || {
        let file = disk.create(&name)?;
        file.reserve(bytes)?;
        file.write_at(0, &header.encode())?;
        flushed(file.sync_data())?;
        flushed(disk.directory_sync())?;
        Ok(file)
    };
    let file = create().inspect_err(|error: &io::Error| {
        tracing::debug!(%name, %error, "no new segment of the commit log");
        // It is empty. If it stays, the next opening recognises it as unfinished.
        let _ = disk.remove(&name);
    })?;
    Ok(segment_begin(file, header, bytes, HEADER_BYTES))
}

/// Makes a segment from a spare: first its header, then its name, so that no crash leaves the name with other content.
pub(super) fn segment_reuse(disk: &dyn Disk, spare: &str, header: SegmentHeader) -> io::Result<Segment> {
    let name = segment_name(header.sequence);
    let reuse = || {
        let file = disk.open(spare)?;
        file.write_at(0, &header.encode())?;
        flushed(file.sync_data())?;
        disk.rename(spare, &name)?;
        flushed(disk.directory_sync())?;
        let bytes = file.length()?;
        Ok((file, bytes))
    };
    let (file, bytes) = reuse().inspect_err(|error: &io::Error| {
        tracing::debug!(%name, %error, "no new segment of the commit log");
        // Under either name it contains nothing that counts.
        let _ = disk.remove(spare);
        let _ = disk.remove(&name);
    })?;
    Ok(segment_begin(file, header, bytes, bytes))
}

fn segment_begin(file: Arc<dyn DiskFile>, header: SegmentHeader, reserved: u64, written: u64) -> Segment {
    let SegmentHeader { sequence, salt, .. } = header;
    Segment {
        file,
        sequence,
        offset: HEADER_BYTES,
        reserved,
        length: reserved,
        written,
        salt,
        unflushed: false,
    }
}
