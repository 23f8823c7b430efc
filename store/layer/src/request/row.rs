//! What is stored of a keyed request.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The result of a keyed request.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RequestRow {
    /// A digest of what was asked, so that an id used for something else is found out.
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub digest: Vec<u8>,
    /// What was answered, in the caller's own encoding.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub result: Vec<u8>,
    /// Wall time after which it may be forgotten, milliseconds since 1970.
    #[n(2)]
    pub expires_ms: i64,
}
