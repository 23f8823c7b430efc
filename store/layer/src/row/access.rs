//! The stored row of a grant.

use borough_model::access::{AccessGrant, AccessRole, Right};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The most changes that the row of a grant keeps.
pub const GRANT_CHANGES_MAX: usize = 10;

/// What a subject is given and denied, set by an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct AccessGrantRow {
    #[n(0)]
    pub roles: Vec<AccessRole>,
    /// Rights beside those of the roles.
    #[n(1)]
    pub allow: Vec<Right>,
    /// Rights that the subject never has.
    #[n(2)]
    pub deny: Vec<Right>,
    /// Counts every change of this row.
    #[n(3)]
    pub revision: u64,
    /// The last [`GRANT_CHANGES_MAX`] changes, oldest first.
    #[n(4)]
    pub changes: Vec<AccessGrantChange>,
}

/// What a change made of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct AccessGrantChange {
    /// The revision that it made.
    #[n(0)]
    pub revision: u64,
    /// Wall time, milliseconds since 1970.
    #[n(1)]
    pub at_ms: i64,
    /// Who made it: `user/<name>`.
    #[n(2)]
    pub by: String,
    #[n(3)]
    pub roles: Vec<AccessRole>,
    #[n(4)]
    pub allow: Vec<Right>,
    #[n(5)]
    pub deny: Vec<Right>,
}

fn grant_of(roles: &[AccessRole], allow: &[Right], deny: &[Right]) -> AccessGrant {
    AccessGrant {
        roles: roles.iter().copied().collect(),
        allow: allow.iter().copied().collect(),
        deny: deny.iter().copied().collect(),
    }
}

impl AccessGrantRow {
    /// What it gives and denies. A removed grant keeps its row, for its changes, and gives nothing.
    pub fn grant(&self) -> AccessGrant {
        grant_of(&self.roles, &self.allow, &self.deny)
    }
}

impl AccessGrantChange {
    /// What the grant gives and denies from this change on.
    pub fn grant(&self) -> AccessGrant {
        grant_of(&self.roles, &self.allow, &self.deny)
    }
}
