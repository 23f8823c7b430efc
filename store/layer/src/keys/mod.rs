//! The only place that converts keys and values to bytes.
//!
//! A key is a tuple: cell, kind, fields. The kinds are a closed registry ([`KeyKind`]). Every kind has one key type
//! ([`table`]) and one value type. A value is `[kind][format]` and CBOR. Decoding checks the kind, so a value under the
//! wrong key is an error and not a row. Nothing outside this crate builds a key.

mod access;
mod codec;
mod field;
mod key;
mod space;
pub mod table;
#[cfg(test)]
mod tests;

pub use access::{
    RangeOptions, chunk_read, clear, clear_prefix, count_add, guard, guard_span, range, read, read_snapshot,
    touch, watch, write, write_stamped_key, write_stamped_value,
};
pub use codec::{Counter, StampValue, Value, value_decode, value_encode};
pub use field::{KeyField, NoField};
pub use key::{Key, Prefix, kind_range};
pub use space::CellSpace;
pub use table::*;

pub use crate::key_kind::KeyKind;
