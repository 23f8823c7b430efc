//! Identities of a task: signed tokens by which programs elsewhere know who the task is.

use std::ops::RangeInclusive;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::validate::variable_part;
use crate::id::Name;

/// Most identities of a task.
pub const IDENTITIES_MAX: usize = 4;
/// Most bytes of an audience.
pub const AUDIENCE_BYTES_MAX: usize = 256;
/// How long a token is valid by default: an hour.
pub const IDENTITY_TTL_MS: u64 = 3_600_000;
/// Milliseconds that a token may be valid.
pub const IDENTITY_TTLS_MS: RangeInclusive<u64> = 30_000..=86_400_000;

/// An identity that a task asks for: a token for one audience.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct IdentitySpec {
    /// Its name, unique within the task.
    #[n(0)]
    pub name: Name,
    /// Who is to accept its tokens: their claim `aud`.
    #[n(1)]
    pub audience: String,
    /// How long each token is valid.
    #[n(2)]
    pub ttl_ms: u64,
}

/// The variable with the path of the file of an identity.
pub fn identity_variable(name: &Name) -> String {
    format!("BOROUGH_IDENTITY_{}", variable_part(name))
}

/// The name of the file of an identity, in the task's own directory.
pub fn identity_file_name(name: &Name) -> String {
    format!("identity-{name}.jwt")
}
