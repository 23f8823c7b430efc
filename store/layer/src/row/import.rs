//! The progress of an import.

use minicbor::{Decode, Encode};

/// The progress of a cell's present or past import: its blocks up to `blocks` are stored.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ImportRow {
    /// The export: an import continues only with the same one.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub export: [u8; 16],
    #[n(1)]
    pub blocks: u64,
    #[n(2)]
    pub rows: u64,
    /// Wall time of the beginning, milliseconds since 1970.
    #[n(3)]
    pub began_ms: i64,
}
