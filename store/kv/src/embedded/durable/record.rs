//! The log's bytes: segment headers and records, each under a checksum, each naming its predecessor's version.
//!
//! Integers are little-endian. A segment starts with a header; records follow without gaps; a header of zeros is the
//! end of what was written.
//!
//! ```text
//! segment  magic 8 │ sequence u64 │ version of the record before u64 │ salt u64 │ checksum u32 of all that
//! seal     magic 8 │ sequence of the next segment u64 │ checksum u32 of both; after the last record of a segment
//! record   length u32 of the body │ checksum u32 of the salt and all but itself │ version before i64 │ version i64 │ body
//! body     new ceiling i64, 0 for none, or a mark (-1, -2) │ mutations
//! mutation tag u8 │ length u32 │ length u32 │ bytes │ bytes
//! ```
//!
//! A record that was not flushed before its answers has the mark -1. The next one that is flushed makes it durable too,
//! and has the mark -2. A crash may leave that one while it is in flight, and not those before it.
//!
//! The salt is drawn for each segment. Bytes that look like a record are therefore one of this segment. They are not an
//! old record of a reused file, nor a record's bytes inside a value.

use bytes::Bytes;

use crate::contract::{AtomicOp, Version};
use crate::embedded::mutation::Mutation;

/// The first bytes of every segment; the last byte is the format.
const MAGIC: [u8; 8] = *b"borolog\x02";
/// The first bytes of a segment's seal.
const SEAL_MAGIC: [u8; 8] = *b"boroseal";
/// Bytes of a segment's header.
pub(super) const SEGMENT_HEADER_BYTES: usize = 36;
/// Bytes of a record before its body.
pub(super) const RECORD_HEADER_BYTES: usize = 24;
/// Bytes of a record without mutations.
pub(super) const RECORD_EMPTY_BYTES: u64 = 32;
/// Bytes of a mutation before its strings.
const MUTATION_HEADER_BYTES: u64 = 9;
/// Longer bodies are not written, so a longer one is damage and is not read.
const BODY_BYTES_MAX: usize = 1 << 30;

/// In place of a ceiling: the record was not flushed before its answers.
const NOT_FLUSHED: Version = -1;
/// In place of a ceiling: it was flushed together with records that were not.
const FLUSHED_OTHERS: Version = -2;

const TAG_SET: u8 = 128;
const TAG_CLEAR: u8 = 129;
const TAG_CLEAR_RANGE: u8 = 130;

/// The identity of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) sequence: u64,
    /// The version of the last record before this segment; 0 for none.
    pub(super) previous: Version,
    /// Goes into the checksum of each of its records.
    pub(super) salt: u64,
}

impl SegmentHeader {
    pub(super) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.previous.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = IntegerReader(bytes.get(..SEGMENT_HEADER_BYTES)?);
        let whole = (reader.take(8)? == MAGIC) && crc32c::crc32c(bytes.get(..32)?) == checksum_at(bytes, 32)?;
        let (sequence, previous, salt) = (reader.u64()?, reader.i64()?, reader.u64()?);
        whole.then_some(Self { sequence, previous, salt })
    }
}

/// The seal after the last record of a segment. It is written once the next segment is durable: a log that ends with a
/// seal has lost a segment.
pub(super) fn seal_encode(next: u64) -> Vec<u8> {
    let mut bytes = SEAL_MAGIC.to_vec();
    bytes.extend_from_slice(&next.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Whether `bytes` start with the seal that names `next`.
pub(super) fn is_sealed(bytes: &[u8], next: u64) -> bool {
    bytes.starts_with(&seal_encode(next))
}

/// One batch as the log stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) previous: Version,
    pub(super) version: Version,
    pub(super) kind: RecordKind,
    pub(super) mutations: Vec<Mutation>,
}

/// What a record is besides its mutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// It was flushed before its answers, and may raise the ceiling. All before it was durable already.
    Flushed(Option<Version>),
    /// It was flushed before its answers, together with the records before it that were not.
    FlushedOthers,
    /// A later record makes it durable.
    NotFlushed,
}

impl RecordKind {
    fn encode(self) -> Version {
        match self {
            Self::Flushed(ceiling) => ceiling.unwrap_or(0),
            Self::FlushedOthers => FLUSHED_OTHERS,
            Self::NotFlushed => NOT_FLUSHED,
        }
    }

    fn decode(value: Version) -> Self {
        match value {
            NOT_FLUSHED => Self::NotFlushed,
            FLUSHED_OTHERS => Self::FlushedOthers,
            ceiling => Self::Flushed((ceiling > 0).then_some(ceiling)),
        }
    }

    /// The ceiling that it raises.
    pub(super) fn ceiling(self) -> Option<Version> {
        match self {
            Self::Flushed(ceiling) => ceiling,
            Self::FlushedOthers | Self::NotFlushed => None,
        }
    }
}

/// Appends one record of a segment with this `salt` to `buffer`.
pub(super) fn record_encode(
    buffer: &mut Vec<u8>,
    salt: u64,
    previous: Version,
    version: Version,
    kind: RecordKind,
    mutations: &[Mutation],
) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(&previous.to_le_bytes());
    buffer.extend_from_slice(&version.to_le_bytes());
    buffer.extend_from_slice(&kind.encode().to_le_bytes());
    for mutation in mutations {
        let (tag, key, value) = mutation_parts(mutation);
        buffer.push(tag);
        buffer.extend_from_slice(&length(key).to_le_bytes());
        buffer.extend_from_slice(&length(value).to_le_bytes());
        buffer.extend_from_slice(key);
        buffer.extend_from_slice(value);
    }
    let body = buffer.len().saturating_sub(start).saturating_sub(RECORD_HEADER_BYTES);
    let body = u32::try_from(body).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(record) = buffer.get_mut(start..)
        && let Some((header, rest)) = record.split_at_mut_checked(8)
    {
        let checksum = record_checksum(salt, &body, rest);
        header[..4].copy_from_slice(&body);
        header[4..].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The stored form of a mutation: its tag and its two byte strings.
fn mutation_parts(mutation: &Mutation) -> (u8, &[u8], &[u8]) {
    match mutation {
        Mutation::Set(key, value) | Mutation::StampedKey(key, value) | Mutation::StampedValue(key, value) => {
            (TAG_SET, key, value)
        }
        Mutation::Clear(key) => (TAG_CLEAR, key, &[]),
        Mutation::ClearRange(begin, end) => (TAG_CLEAR_RANGE, begin, end),
        Mutation::Atomic(operation, key, operand) => {
            (u8::try_from(operation.code()).unwrap_or(u8::MAX), key, operand)
        }
    }
}

/// Bytes of a record of `mutations`.
pub(super) fn record_bytes(mutations: &[Mutation]) -> u64 {
    let sizes = mutations.iter().map(|mutation| {
        let (_, key, value) = mutation_parts(mutation);
        u64::from(length(key)).saturating_add(u64::from(length(value))).saturating_add(MUTATION_HEADER_BYTES)
    });
    sizes.fold(RECORD_EMPTY_BYTES, u64::saturating_add)
}

/// Over the salt, the length of the body, and all bytes after the checksum.
fn record_checksum(salt: u64, body: &[u8], rest: &[u8]) -> u32 {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), body);
    crc32c::crc32c_append(checksum, rest)
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The record at the start of `bytes` and its length; `None` if it is incomplete, damaged, or of a segment with another
/// salt.
pub(super) fn record_decode(bytes: &[u8], salt: u64) -> Option<(Record, usize)> {
    let header = bytes.get(..RECORD_HEADER_BYTES)?;
    let mut reader = IntegerReader(header);
    let body = usize::try_from(reader.u32()?).ok().filter(|body| *body >= 8 && *body <= BODY_BYTES_MAX)?;
    let checksum = reader.u32()?;
    let (previous, version) = (reader.i64()?, reader.i64()?);
    let end = RECORD_HEADER_BYTES.checked_add(body)?;
    let rest = bytes.get(8..end)?;
    if version <= previous || record_checksum(salt, header.get(..4)?, rest) != checksum {
        return None;
    }
    let mut body = IntegerReader(bytes.get(RECORD_HEADER_BYTES..end)?);
    let kind = RecordKind::decode(body.i64()?);
    let mutations = mutations_decode(body)?;
    Some((Record { previous, version, kind, mutations }, end))
}

fn mutations_decode(mut reader: IntegerReader<'_>) -> Option<Vec<Mutation>> {
    let mut mutations = Vec::new();
    while !reader.0.is_empty() {
        let tag = reader.take(1)?.first().copied()?;
        let (first, second) = (usize::try_from(reader.u32()?).ok()?, usize::try_from(reader.u32()?).ok()?);
        let (key, value) =
            (Bytes::copy_from_slice(reader.take(first)?), Bytes::copy_from_slice(reader.take(second)?));
        mutations.push(match tag {
            TAG_SET => Mutation::Set(key, value),
            TAG_CLEAR => Mutation::Clear(key),
            TAG_CLEAR_RANGE => Mutation::ClearRange(key, value),
            code => {
                let operation =
                    AtomicOp::ALL.into_iter().find(|operation| operation.code() == i32::from(code))?;
                Mutation::Atomic(operation, key, value)
            }
        });
    }
    Some(mutations)
}

fn checksum_at(bytes: &[u8], at: usize) -> Option<u32> {
    IntegerReader(bytes.get(at..)?).u32()
}

/// Reads integers from the front of a slice.
pub(super) struct IntegerReader<'a>(pub(super) &'a [u8]);

impl<'a> IntegerReader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<Version> {
        self.array().map(Version::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
    }

    fn mutation() -> impl Strategy<Value = Mutation> {
        let atomic = prop::sample::select(AtomicOp::ALL.to_vec());
        prop_oneof![
            (bytes(), bytes()).prop_map(|(key, value)| Mutation::Set(key, value)),
            bytes().prop_map(Mutation::Clear),
            (bytes(), bytes()).prop_map(|(begin, end)| Mutation::ClearRange(begin, end)),
            (atomic, bytes(), bytes())
                .prop_map(|(operation, key, value)| Mutation::Atomic(operation, key, value)),
        ]
    }

    proptest! {
        /// A record is read as it was written. A shorter part of it, or one with a changed byte, is not read at all.
        #[test]
        fn a_record_is_read_as_it_was_written(
            mutations in prop::collection::vec(mutation(), 0..6),
            previous in 0..1_000_000i64,
            step in 1..1000i64,
            salt: u64,
            kind in prop_oneof![
                prop::option::of(1..i64::MAX).prop_map(RecordKind::Flushed),
                Just(RecordKind::FlushedOthers),
                Just(RecordKind::NotFlushed),
            ],
            cut in any::<prop::sample::Index>(),
            flip in 1..=255u8,
        ) {
            let mut buffer = Vec::new();
            record_encode(&mut buffer, salt, previous, previous + step, kind, &mutations);
            let whole = buffer.clone();
            prop_assert_eq!(record_bytes(&mutations), u64::try_from(buffer.len()).unwrap());
            let record = Record { previous, version: previous + step, kind, mutations };
            prop_assert_eq!(record_decode(&whole, salt), Some((record, buffer.len())));
            let at = cut.index(buffer.len());
            prop_assert_eq!(record_decode(&whole[..at], salt), None);
            buffer[at] ^= flip;
            prop_assert_eq!(record_decode(&buffer, salt), None);
            prop_assert_eq!(record_decode(&whole, salt ^ (1 << (salt % 64))), None);
        }

        /// Any bytes are read without a panic.
        #[test]
        fn any_bytes_are_no_record(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(record_decode(&bytes, 7), None);
            prop_assert!(!is_sealed(&bytes, 1));
            prop_assert_eq!(SegmentHeader::decode(&bytes), None);
        }
    }

    #[test]
    fn a_segment_header_is_read_as_it_was_written() {
        let header = SegmentHeader { sequence: 7, previous: 1_234_567_890_123, salt: u64::MAX - 5 };
        assert_eq!(SegmentHeader::decode(&header.encode()), Some(header));
    }
}
