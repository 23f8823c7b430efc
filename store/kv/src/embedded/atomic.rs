//! The result of each atomic operation: one pure function per operation, after FoundationDB's `Atomic.h`.

use bytes::Bytes;

use crate::contract::AtomicOp;
use crate::contract::limits::VALUE_BYTES_MAX;

/// The value after `operation` with `operand` on `existing`; `None` is an absent key.
///
/// The sequencer resolves the two versionstamp operations before this, so they behave as a set here.
pub(crate) fn atomic_apply(operation: AtomicOp, existing: Option<&Bytes>, operand: &Bytes) -> Option<Bytes> {
    let Some(existing) = existing else {
        return (operation != AtomicOp::CompareAndClear).then(|| operand.clone());
    };
    Some(match operation {
        AtomicOp::Add => add(existing, operand),
        AtomicOp::BitAnd => bytewise(existing, operand, |old, new| old & new, |_| 0),
        AtomicOp::BitOr => bytewise(existing, operand, |old, new| old | new, |new| new),
        AtomicOp::BitXor => bytewise(existing, operand, |old, new| old ^ new, |new| new),
        AtomicOp::AppendIfFits => append(existing, operand),
        AtomicOp::Max if little_endian_less(operand, existing, operand.len()) => {
            fitted(existing, operand.len())
        }
        AtomicOp::Min if little_endian_less(existing, operand, operand.len()) => {
            fitted(existing, operand.len())
        }
        AtomicOp::ByteMin => existing.min(operand).clone(),
        AtomicOp::ByteMax => existing.max(operand).clone(),
        AtomicOp::CompareAndClear => return (existing != operand).then(|| existing.clone()),
        AtomicOp::Max | AtomicOp::Min | AtomicOp::SetVersionstampedKey | AtomicOp::SetVersionstampedValue => {
            operand.clone()
        }
    })
}

fn add(existing: &Bytes, operand: &Bytes) -> Bytes {
    let mut carry = 0u16;
    let existing = existing.iter().copied().chain(std::iter::repeat(0));
    let sum = operand.iter().zip(existing).map(|(&new, old)| {
        let sum = u16::from(new).wrapping_add(u16::from(old)).wrapping_add(carry);
        carry = sum >> 8;
        sum.to_le_bytes()[0]
    });
    sum.collect::<Vec<u8>>().into()
}

fn bytewise(existing: &Bytes, operand: &Bytes, both: fn(u8, u8) -> u8, alone: fn(u8) -> u8) -> Bytes {
    let bytes = operand.iter().enumerate().map(|(at, &new)| match existing.get(at) {
        Some(&old) => both(old, new),
        None => alone(new),
    });
    bytes.collect::<Vec<u8>>().into()
}

fn append(existing: &Bytes, operand: &Bytes) -> Bytes {
    if existing.len().saturating_add(operand.len()) > VALUE_BYTES_MAX {
        return existing.clone();
    }
    [existing.as_ref(), operand.as_ref()].concat().into()
}

/// The value cut or extended with zeros to `length`.
fn fitted(value: &Bytes, length: usize) -> Bytes {
    if value.len() >= length {
        return value.slice(..length);
    }
    let mut bytes = value.to_vec();
    bytes.resize(length, 0);
    bytes.into()
}

/// Returns true if `left` is less than `right`, as unsigned little-endian numbers of `length` bytes (the operand's;
/// further bytes of the existing value do not count).
fn little_endian_less(left: &Bytes, right: &Bytes, length: usize) -> bool {
    let digit = |value: &Bytes, at: usize| value.get(at).copied().unwrap_or(0);
    (0..length)
        .rev()
        .map(|at| (digit(left, at), digit(right, at)))
        .find(|(l, r)| l != r)
        .is_some_and(|(l, r)| l < r)
}
