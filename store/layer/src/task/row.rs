//! What is stored besides a task's row.

use borough_model::RequestId;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::keys::ConstraintKey;

/// The token of a constraint over several nodes: it means nothing but that it changes with every placement
/// that matches the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ConstraintToken {
    /// The incarnation-independent id of the change (a request or batch), so that no two writes are alike.
    #[n(0)]
    pub change: u64,
}

impl ConstraintKey {
    /// The token of all terms together: written by the admission of a job from whose tasks others are kept apart, and a
    /// guard of every placement, since a worker that has not seen the job cannot know of its term.
    pub fn of_all() -> Self {
        Self { term: String::new(), domain: String::new() }
    }
}

impl ConstraintToken {
    /// The token written by the request or batch `id`.
    pub fn of(id: RequestId) -> Self {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        Self { change: half(id.0) ^ half(id.0 >> 64) }
    }
}
