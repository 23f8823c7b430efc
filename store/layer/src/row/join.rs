//! The stored row of how a node joins. It has digests of secrets, and no secret.

use std::fmt;

use minicbor::{Decode, Encode};

/// The SHA-256 digest of a secret of 256 random bits: nobody finds the secret by it.
#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct SecretDigest(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub [u8; 32],
);

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}

/// How a node name joins, and what it has since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct NodeJoin {
    #[n(0)]
    pub token: Option<JoinToken>,
    #[n(1)]
    pub identity: Option<NodeIdentity>,
}

/// A token that gives an identity once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JoinToken {
    #[n(0)]
    pub digest: SecretDigest,
    /// The cell's time, milliseconds since 1970.
    #[n(1)]
    pub expires_ms: i64,
    /// For how long the identity counts after each renewal.
    #[n(2)]
    pub identity_lasts_ms: i64,
    #[n(3)]
    pub made_ms: i64,
    /// Who made it.
    #[n(4)]
    pub by: String,
    #[n(5)]
    pub used: Option<JoinTokenUse>,
}

/// What a token was exchanged for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JoinTokenUse {
    /// The identity: the same exchange again has the same result.
    #[n(0)]
    pub identity: SecretDigest,
    #[n(1)]
    pub at_ms: i64,
}

/// The secret by which a node is known.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NodeIdentity {
    #[n(0)]
    pub digest: SecretDigest,
    /// The one that it has replaced: the same renewal again has the same result.
    #[n(1)]
    pub previous: Option<SecretDigest>,
    /// The first one since a token was used. It stays over renewals.
    #[n(2)]
    pub line: SecretDigest,
    #[n(3)]
    pub lasts_ms: i64,
    /// The cell's time, milliseconds since 1970.
    #[n(4)]
    pub renewed_ms: i64,
}
