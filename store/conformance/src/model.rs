//! The store as an ordered map, in program order, and the arithmetic of atomic operations on integers.

use std::collections::BTreeMap;

use borough_kv::contract::{AtomicOp, KeySelector};

pub(super) type ModelRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The value after an operation, for operands of at most sixteen bytes.
pub(super) fn atomic(operation: AtomicOp, existing: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
    if operation == AtomicOp::CompareAndClear {
        return existing.filter(|existing| *existing != operand).map(<[u8]>::to_vec);
    }
    let Some(existing) = existing else { return Some(operand.to_vec()) };
    let length = operand.len();
    let (old, new) = (number(existing, length), number(operand, length));
    let bytes = |value: u128| value.to_le_bytes().into_iter().take(length).collect::<Vec<u8>>();
    Some(match operation {
        AtomicOp::Add => bytes(old.wrapping_add(new)),
        AtomicOp::BitAnd => bytes(old & new),
        AtomicOp::BitOr => bytes(old | new),
        AtomicOp::BitXor => bytes(old ^ new),
        AtomicOp::Max => bytes(old.max(new)),
        AtomicOp::Min => bytes(old.min(new)),
        AtomicOp::ByteMin => existing.min(operand).to_vec(),
        AtomicOp::ByteMax => existing.max(operand).to_vec(),
        AtomicOp::AppendIfFits if existing.len().saturating_add(length) > 100_000 => existing.to_vec(),
        AtomicOp::AppendIfFits => [existing, operand].concat(),
        AtomicOp::CompareAndClear | AtomicOp::SetVersionstampedKey | AtomicOp::SetVersionstampedValue => {
            operand.to_vec()
        }
    })
}

/// The little-endian number in the first `length` bytes of `bytes`; missing bytes are zero.
fn number(bytes: &[u8], length: usize) -> u128 {
    let mut padded = [0; 16];
    padded.iter_mut().zip(bytes.iter().take(length)).for_each(|(to, from)| *to = *from);
    u128::from_le_bytes(padded)
}

/// The result of a selector among the keys of one prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ModelPlace {
    /// Before every key of the prefix.
    Before,
    /// At this key.
    At(Vec<u8>),
    /// After every key of the prefix.
    After,
}

/// Follows a selector among `rows`.
pub(super) fn select(rows: &ModelRows, selector: &KeySelector) -> ModelPlace {
    let keys: Vec<&Vec<u8>> = rows.keys().collect();
    let key = selector.key.as_ref();
    // The number of keys before the selection point.
    let point = keys
        .iter()
        .filter(|one| one.as_slice() < key || (selector.or_equal && one.as_slice() == key))
        .count();
    let index =
        i64::try_from(point).unwrap_or(0).saturating_add(i64::from(selector.offset)).saturating_sub(1);
    match usize::try_from(index) {
        Err(_) => ModelPlace::Before,
        Ok(index) => keys.get(index).map_or(ModelPlace::After, |key| ModelPlace::At((*key).clone())),
    }
}

/// An answered key as a place among the keys of the prefix, whatever lies outside.
pub(super) fn place_of(key: &[u8], prefix: &[u8]) -> ModelPlace {
    if key.starts_with(prefix) {
        ModelPlace::At(key.to_vec())
    } else if key < prefix {
        ModelPlace::Before
    } else {
        ModelPlace::After
    }
}
