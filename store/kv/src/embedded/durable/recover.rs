//! The reading end of the commit log. It distinguishes a torn tail from damage.
//!
//! A record that is flushed makes all before it durable too. After a crash the records since the last flush may
//! therefore be torn, at the end of the last segment: none of them was acknowledged as durable. They are cut off from
//! the first bad one on. A log that ends before acknowledged records looks the same here; the [marker](super::marker)
//! shows the difference.
//!
//! Three findings cannot come from a crash. They are a bad record before a sound later one that was flushed, a segment
//! that does not continue the previous one, and a gap in the numbering. The store then refuses to start rather than
//! lose acknowledged commits.

use std::io;

use super::disk::Disk;
use super::log::{segment_name, segment_sequence};
use super::marker::Marker;
use super::record::{Record, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader, is_sealed, record_decode};
use crate::contract::Version;
use crate::contract::limits::RECOVERY_VERSION_JUMP;
use crate::embedded::sequencer::CEILING_AHEAD_VERSIONS;

/// The largest distance in versions between two records of one segment. The next record is at most a ceiling's lead and
/// an opening's jump later; several of them may be damaged.
const BEHIND_VERSIONS: Version = 64 * (CEILING_AHEAD_VERSIONS + RECOVERY_VERSION_JUMP);

/// Why a log cannot be read.
#[derive(Debug)]
pub(super) enum LogError {
    /// The content contradicts itself.
    Damaged(String),
    /// It could not be read.
    Io(io::Error),
}

impl SegmentTail {
    /// From where on the machine may show bytes that the disk does not have: after the last flush that succeeded. That
    /// is where the log ended when it was noted, and never behind the last record.
    pub(super) fn unsure_from(&self, durable: Marker) -> u64 {
        let noted = if durable.sequence == self.sequence { durable.end } else { 0 };
        noted.max(SEGMENT_HEADER_BYTES as u64).min(self.last_record)
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The end of the log, for the writing end to continue.
#[derive(Debug, Default)]
pub(super) struct LogEnd {
    /// Segments to keep, in order.
    pub(super) segments: Vec<u64>,
    /// How many of them the checkpoint has made obsolete.
    pub(super) obsolete: usize,
    /// The last segment if its creation was interrupted: it is removed.
    pub(super) unfinished: Option<u64>,
    /// A completed segment that is missing, or has no sound header.
    pub(super) missing: Option<u64>,
    /// The last segment that was read.
    pub(super) tail: Option<SegmentTail>,
    /// The version of the last record, or that of the checkpoint without records.
    pub(super) version: Version,
    /// Bytes of records.
    pub(super) bytes: u64,
}

/// The end of the last segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentTail {
    pub(super) sequence: u64,
    /// The position of its last record; 0, the position of the header, if it has none.
    pub(super) last_record: u64,
    /// The end of its last record.
    pub(super) length: u64,
    /// The end of its last non-zero byte. The bytes before it were torn, or belong to the file's former segment.
    pub(super) used: u64,
    pub(super) salt: u64,
}

/// One segment as read.
struct Segment<'a> {
    sequence: u64,
    header: SegmentHeader,
    bytes: &'a [u8],
}

/// Reads every record after `checkpoint` in order. Changes nothing.
pub(super) fn log_read(
    disk: &dyn Disk,
    names: &[String],
    checkpoint: Version,
    mut each: impl FnMut(Record),
) -> Result<LogEnd, LogError> {
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| segment_sequence(name)).collect();
    sequences.sort_unstable();
    // One for all segments: an allocator may keep several of this size for ever.
    let mut buffer = Vec::new();
    let unfinished = abandoned_find(disk, &sequences, &mut buffer)?;
    sequences.truncate(sequences.len().saturating_sub(usize::from(unfinished.is_some())));
    let obsolete = obsolete_count(disk, &sequences, checkpoint)?;
    let mut end = LogEnd { version: checkpoint, obsolete, unfinished, ..LogEnd::default() };
    end.segments.extend(sequences.drain(..obsolete));
    let (mut previous, mut sealed): (Option<Version>, bool) = (None, false);
    for (index, sequence) in sequences.iter().copied().enumerate() {
        let last = index.saturating_add(1) == sequences.len();
        let place = if last { SegmentPlace::Last } else { SegmentPlace::Earlier };
        let Some(segment) = segment_read(disk, sequence, place, &mut buffer)? else {
            // The seal of the previous segment names a segment whose creation was complete.
            end.missing = sealed.then_some(sequence);
            end.unfinished = Some(sequence);
            break;
        };
        segment_follows(&segment, &end, previous, checkpoint)?;
        let (tail, version) = records_read(&segment, place, &mut each, checkpoint)?;
        let next = sequence.saturating_add(1);
        let behind = usize::try_from(tail.length).ok().and_then(|length| segment.bytes.get(length..));
        sealed = is_sealed(behind.unwrap_or_default(), next);
        end.missing = (sealed && last).then_some(next);
        end.segments.push(sequence);
        end.tail = Some(tail);
        end.bytes = end.bytes.saturating_add(tail.length);
        end.version = end.version.max(version);
        previous = Some(version);
    }
    Ok(end)
}

/// How many segments the checkpoint has made obsolete: all before the last one that begins within it. The process was
/// removing them in no certain order when it ended, so gaps among them mean nothing.
fn obsolete_count(disk: &dyn Disk, sequences: &[u64], checkpoint: Version) -> Result<usize, LogError> {
    for (index, sequence) in sequences.iter().enumerate().skip(1).rev() {
        let file = disk.open(&segment_name(*sequence))?;
        let mut header = [0; SEGMENT_HEADER_BYTES];
        // A header that is too short or damaged is checked when its segment is read.
        let sound = file.read_at(0, &mut header).ok().and_then(|()| SegmentHeader::decode(&header));
        if sound.is_some_and(|header| header.sequence == *sequence && header.previous <= checkpoint) {
            return Ok(index);
        }
    }
    Ok(0)
}

/// Where a segment is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentPlace {
    Earlier,
    /// The one that was written last: its creation, or its last record, may be incomplete.
    Last,
}

/// A segment with a sound header; `None` for a last one whose creation was interrupted.
fn segment_read<'a>(
    disk: &dyn Disk,
    sequence: u64,
    place: SegmentPlace,
    buffer: &'a mut Vec<u8>,
) -> Result<Option<Segment<'a>>, LogError> {
    let name = segment_name(sequence);
    let file = disk.open(&name)?;
    let length =
        usize::try_from(file.length()?).map_err(|_| LogError::Damaged(format!("{name} is too long")))?;
    buffer.resize(length, 0);
    file.read_at(0, buffer)?;
    let bytes = buffer.as_slice();
    match SegmentHeader::decode(bytes) {
        Some(header) if header.sequence == sequence => Ok(Some(Segment { sequence, header, bytes })),
        // A reused file gets its name after its header is durable. A new file is empty until then.
        None if place == SegmentPlace::Last && used_length(bytes) <= SEGMENT_HEADER_BYTES => Ok(None),
        _ => Err(LogError::Damaged(format!("{name} has no sound header"))),
    }
}

/// The last segment if its creation failed, so that the log went on in the one before it. The segment was removed, but
/// a power cut may bring it back. It has no records, and continues one that is not the last of the segment before.
fn abandoned_find(disk: &dyn Disk, sequences: &[u64], buffer: &mut Vec<u8>) -> Result<Option<u64>, LogError> {
    let &[.., before, last] = sequences else { return Ok(None) };
    if before.saturating_add(1) != last {
        return Ok(None);
    }
    let Some(segment) = segment_sound(disk, last, buffer)? else { return Ok(None) };
    let previous = segment.header.previous;
    let first = segment.bytes.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
    if record_decode(first, segment.header.salt).is_some_and(|(record, _)| record.previous == previous) {
        return Ok(None);
    }
    let Some(segment) = segment_sound(disk, before, buffer)? else { return Ok(None) };
    let (_, version) = records_read(&segment, SegmentPlace::Earlier, &mut |_| {}, Version::MAX)?;
    Ok((version > previous).then_some(last))
}

/// A segment if it has a sound header. Whatever else is wrong with one is found when it is read in its turn.
fn segment_sound<'a>(
    disk: &dyn Disk,
    sequence: u64,
    buffer: &'a mut Vec<u8>,
) -> Result<Option<Segment<'a>>, LogError> {
    match segment_read(disk, sequence, SegmentPlace::Last, buffer) {
        Err(LogError::Damaged(_)) => Ok(None),
        read => read,
    }
}

fn segment_follows(
    segment: &Segment<'_>,
    end: &LogEnd,
    previous: Option<Version>,
    checkpoint: Version,
) -> Result<(), LogError> {
    let name = segment_name(segment.sequence);
    let gap = || Err(LogError::Damaged(format!("the segment of the commit log before {name} is missing")));
    match (previous, end.segments.last()) {
        (Some(_), Some(before)) if before.saturating_add(1) != segment.sequence => gap(),
        (Some(version), _) if segment.header.previous != version => {
            let detail = format!(
                "{name} continues version {}, the log before it ends at {version}",
                segment.header.previous
            );
            Err(LogError::Damaged(detail))
        }
        // The first remaining one must begin within the checkpoint.
        (None, _) if segment.header.previous > checkpoint => gap(),
        _ => Ok(()),
    }
}

/// Reads a segment's records. Returns their end and the version of the last one.
fn records_read(
    segment: &Segment<'_>,
    place: SegmentPlace,
    each: &mut impl FnMut(Record),
    checkpoint: Version,
) -> Result<(SegmentTail, Version), LogError> {
    let (mut at, mut last_record) = (SEGMENT_HEADER_BYTES, 0);
    let mut version = segment.header.previous;
    let decode = |at: usize| record_decode(segment.bytes.get(at..)?, segment.header.salt);
    while let Some((record, length)) = decode(at).filter(|(one, _)| one.previous == version) {
        version = record.version;
        last_record = at;
        at = at.saturating_add(length);
        if version > checkpoint {
            each(record);
        }
    }
    // In an earlier segment the next header decides whether anything is missing.
    if place == SegmentPlace::Last && record_behind(segment, at, version) {
        let name = segment_name(segment.sequence);
        return Err(LogError::Damaged(format!(
            "{name} is damaged at byte {at}, with sound records behind it"
        )));
    }
    let offset = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
    let tail = SegmentTail {
        sequence: segment.sequence,
        last_record: offset(last_record),
        length: offset(at),
        used: offset(used_length(segment.bytes)),
        salt: segment.header.salt,
    };
    Ok((tail, version))
}

/// Returns true if what follows `from` shows that the log was durable up to it. A sound record later than `after` shows
/// it if all before it was durable when it was flushed. One that made others durable shows it if a sound one follows.
fn record_behind(Segment { bytes, header, .. }: &Segment<'_>, from: usize, after: Version) -> bool {
    let plausible = after..after.saturating_add(BEHIND_VERSIONS);
    let mut sound = (from..used_length(bytes)).filter_map(|at| {
        let previous = bytes.get(at.saturating_add(8)..).and_then(|rest| rest.first_chunk::<8>());
        // This skips nearly all bytes of a reused file.
        previous.filter(|previous| plausible.contains(&Version::from_le_bytes(**previous)))?;
        bytes.get(at..).and_then(|rest| record_decode(rest, header.salt)).map(|(record, _)| record)
    });
    let shows = |record: &Record| !matches!(record.kind, RecordKind::NotFlushed);
    match sound.find(shows).map(|record| record.kind) {
        Some(RecordKind::Flushed(_)) => true,
        // It may have been in flight itself, unless another one was written after it.
        Some(RecordKind::FlushedOthers) => sound.next().is_some(),
        Some(RecordKind::NotFlushed) | None => false,
    }
}

/// Bytes up to the last non-zero one: allocated and never written bytes are zero.
fn used_length(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last.saturating_add(1))
}
