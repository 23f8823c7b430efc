//! The stored row of a keyed request.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The result of a keyed request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RequestRow {
    /// A digest of the request, to detect an id that is used for something else.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub digest: Vec<u8>,
    /// The answer, in the caller's own encoding.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub result: Vec<u8>,
    /// Wall time after which it may be removed, milliseconds since 1970.
    #[n(2)]
    pub expires_ms: i64,
}
