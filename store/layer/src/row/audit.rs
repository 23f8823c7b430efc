//! Stored rows of the audit.

use minicbor::{Decode, Encode};

use super::Cursor;

/// How far the audit is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AuditHead {
    /// The last entry of the journal that was looked at.
    #[n(0)]
    pub position: Cursor,
    /// The number of the last chunk; 0: there is none.
    #[n(1)]
    pub number: u64,
    /// Its hash.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub hash: [u8; 32],
    /// The number of the oldest chunk that is kept.
    #[n(3)]
    pub oldest: u64,
    /// Bytes of the kept chunks.
    #[n(4)]
    pub bytes: u64,
}

/// A chunk of sealed calls.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AuditChunk {
    /// The hash of the chunk before.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub previous: [u8; 32],
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub hash: [u8; 32],
    /// Wall time of the last call, milliseconds since 1970.
    #[n(2)]
    pub last_ms: i64,
    /// One record per line, as JSON.
    #[n(3)]
    pub body: String,
}
