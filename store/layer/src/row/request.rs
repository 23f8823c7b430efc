//! The stored row of a keyed request.

use borough_model::RequestId;
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
    /// The entry of the index by time that lists it; `None`: one of its own id.
    #[n(3)]
    pub entry: Option<RequestId>,
}

/// The value of an entry of the index by time.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct RequestExpiry {
    /// The requests that expire; `None`: the one whose id the entry has.
    #[n(0)]
    pub requests: Option<Vec<RequestId>>,
}

impl RequestExpiry {
    /// The requests of an entry with the id `entry`.
    pub fn requests(&self, entry: RequestId) -> Vec<RequestId> {
        self.requests.clone().unwrap_or_else(|| vec![entry])
    }
}

impl RequestRow {
    /// The id of the entry that lists request `id`, of which this is the row.
    pub fn entry_of(&self, id: RequestId) -> RequestId {
        self.entry.unwrap_or(id)
    }
}
