//! How far an import is.

use minicbor::{Decode, Encode};

/// Of a cell that is being imported, or was: its blocks up to `blocks` are stored.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ImportRow {
    /// Which export: goes on only with the same one.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub export: [u8; 16],
    /// Blocks of rows that are stored.
    #[n(1)]
    pub blocks: u64,
    /// Rows that are stored.
    #[n(2)]
    pub rows: u64,
    /// Wall time of the beginning, milliseconds since 1970.
    #[n(3)]
    pub began_ms: i64,
}
