//! The changes of a commit, in the form of the sequencer, the log and the memory image.

use bytes::Bytes;

use crate::contract::check::stamp_offset;
use crate::contract::{AtomicOp, Versionstamp};

/// One change. A transaction's changes are applied in the order of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// `key = value`.
    Set(Bytes, Bytes),
    /// Removes one key.
    Clear(Bytes),
    /// Removes `begin..end`.
    ClearRange(Bytes, Bytes),
    /// An operation evaluated at the commit version. Never one of the two versionstamp operations.
    Atomic(AtomicOp, Bytes, Bytes),
    /// A set whose key ends in the offset of its stamp.
    StampedKey(Bytes, Bytes),
    /// A set whose value ends in the offset of its stamp.
    StampedValue(Bytes, Bytes),
}

/// The size that a mutation counts besides its bytes, as in FoundationDB.
const MUTATION_OVERHEAD_BYTES: usize = 44;

impl Mutation {
    /// Bytes this mutation counts in a transaction.
    pub(crate) fn size(&self) -> usize {
        let bytes = match self {
            Self::Clear(key) => key.len().saturating_mul(2).saturating_add(1),
            Self::Set(key, value)
            | Self::ClearRange(key, value)
            | Self::Atomic(_, key, value)
            | Self::StampedKey(key, value)
            | Self::StampedValue(key, value) => key.len().saturating_add(value.len()),
        };
        bytes.saturating_add(MUTATION_OVERHEAD_BYTES)
    }

    /// The mutation with its stamp filled in: what is logged and applied.
    pub(crate) fn stamped(self, stamp: Versionstamp) -> Self {
        match self {
            Self::StampedKey(key, value) => Self::Set(stamp_place(&key, stamp), value),
            Self::StampedValue(key, value) => Self::Set(key, stamp_place(&value, stamp)),
            other => other,
        }
    }
}

/// The template without its offset and with `stamp` in its place.
pub(crate) fn stamp_place(template: &[u8], stamp: Versionstamp) -> Bytes {
    let mut bytes = template.to_vec();
    if let Some(offset) = stamp_offset(template)
        && let Some(place) = bytes.get_mut(offset..offset.saturating_add(10))
    {
        place.copy_from_slice(&stamp.0);
    }
    bytes.truncate(template.len().saturating_sub(4));
    bytes.into()
}
