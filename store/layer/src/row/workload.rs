//! Stored rows of the keys that sign the identities of tasks. The public and the private half have rows of their own:
//! an export of the cell has the public halves only.

use std::fmt;

use minicbor::{Decode, Encode};

/// The public half of a key, which gateways publish.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WorkloadKey {
    /// As JSON (RFC 7517), with its name.
    #[n(0)]
    pub jwk: String,
    /// Wall time from which it signs, milliseconds since 1970. Before, it is only published.
    #[n(1)]
    pub signs_from_ms: i64,
}

/// The private half of a key (PKCS #8). Nothing shows it.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct WorkloadSigner {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub secret: Vec<u8>,
}

impl fmt::Debug for WorkloadSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkloadSigner(..)")
    }
}
