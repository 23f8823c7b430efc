//! The place of an attempt in an alloc.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{Incarnation, TaskId};
use crate::resource::Resources;

/// The place of an attempt in an alloc.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct InAlloc {
    /// The task that is the alloc, of an alloc set.
    #[n(0)]
    pub alloc: TaskId,
    /// The attempt of the alloc: with another one the alloc may be on another node.
    #[n(1)]
    pub attempt: Incarnation,
    /// What it takes of the alloc.
    #[n(2)]
    pub resources: Resources,
}
