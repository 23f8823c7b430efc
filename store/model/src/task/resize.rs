//! The resize of a running attempt: what it is to have, what it has, and what its node has said.
//!
//! Four amounts are kept apart. The spec of the job has the desired one. The row has what is granted and what is in
//! force. The agent knows what it is applying. The node is charged for the most of what is granted and what is in
//! force, until its agent has confirmed one of them.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::{TaskRow, TaskState};
use crate::resource::{Resources, bytes_display, resources_most};

/// How long a resize may take, in milliseconds. An agent applies one at once. One that has not answered by then, such
/// as one whose gateway does not know the order, gets no further time: a rollout replaces the attempt.
pub const RESIZE_DUE_MS: i64 = 60_000;

/// After how many milliseconds a rollout orders a resize again that the use of memory has prevented: the use may have
/// fallen.
pub const RESIZE_RETRY_MS: i64 = 30_000;

/// The last resize of an attempt that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Resize {
    /// Names the order: the revision of the row that it made. Orders of an attempt only grow.
    #[n(0)]
    pub order: u64,
    /// The version of the spec that asks for what is granted.
    #[n(1)]
    pub version: u32,
    /// What the attempt is to have.
    #[n(2)]
    pub granted: Resources,
    /// What it has until its agent confirms the other.
    #[n(3)]
    pub in_force: Resources,
    /// When it was ordered, or refused: time of the cell, milliseconds since 1970.
    #[n(4)]
    pub at_ms: i64,
    /// Why nothing was resized. Absent while the order is on its way.
    #[n(5)]
    pub refused: Option<ResizeRefused>,
    /// Whether an order for the same version was refused before: this one is no progress of a rollout.
    #[n(6)]
    #[cbor(default)]
    #[serde(default)]
    pub again: bool,
}

/// Why an attempt was not resized. It runs as before.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResizeRefused {
    /// Its node has no room for what it asks for beyond what it has.
    #[n(0)]
    NoRoom {
        /// What is missing, for people.
        #[n(0)]
        missing: String,
    },
    /// It uses more memory than it is to have.
    #[n(1)]
    MemoryInUse {
        #[n(0)]
        used_bytes: u64,
        #[n(1)]
        asked_bytes: u64,
    },
    /// The node could not apply it.
    #[n(2)]
    Failed {
        /// For people.
        #[n(0)]
        message: String,
    },
}

impl std::fmt::Display for ResizeRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRoom { missing } => write!(f, "its node has no room: {missing}"),
            Self::MemoryInUse { used_bytes, asked_bytes } => {
                let (used, asked) = (used_text(*used_bytes), bytes_display(*asked_bytes));
                write!(f, "it uses {used} of memory, which is more than the {asked} that it is to have")
            }
            Self::Failed { message } => write!(f, "its node could not apply it: {message}"),
        }
    }
}

/// A measured amount, which is no round number: up to the next tenth of a MiB, so that it is never shown as less.
fn used_text(bytes: u64) -> String {
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(1 << 20);
    match tenths % 10 {
        0 => format!("{}MiB", tenths / 10),
        tenth => format!("{}.{tenth}MiB", tenths / 10),
    }
}

impl Resize {
    /// What the node is charged for the attempt. What was refused is charged no more.
    pub fn charge(&self) -> Resources {
        match self.refused {
            Some(_) => self.in_force.clone(),
            None => resources_most(&self.in_force, &self.granted),
        }
    }
}

impl TaskRow {
    /// The resize of this attempt that its agent has yet to confirm or to refuse.
    pub fn resize_ordered(&self) -> Option<&Resize> {
        self.resize.as_deref().filter(|resize| resize.refused.is_none())
    }

    /// The resources that are in force in this attempt.
    pub fn in_force(&self) -> &Resources {
        self.resize.as_deref().map_or(&self.charge.resources, |resize| &resize.in_force)
    }
}

/// Whether the version in force asks for a resize of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeWish {
    /// It would run the task otherwise, and only in amounts that its node changes in place.
    Wanted,
    /// It would run it as it does, or otherwise in more than that.
    None,
}

/// What a rollout does about an attempt that could be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeNext {
    /// Order it.
    Order,
    /// Wait for its agent, or for less use of memory, at most until this time of the cell (milliseconds since 1970).
    Wait { due_ms: i64 },
    /// Replace the attempt: nothing can be resized in place.
    Replace,
}

/// What a rollout to `version` does about a running attempt; `None`: there is nothing to resize.
pub fn resize_next(task: &TaskRow, wish: ResizeWish, version: u32, now_ms: i64) -> Option<ResizeNext> {
    let is_wanted = wish == ResizeWish::Wanted;
    if task.state != TaskState::Running {
        return None;
    }
    let Some(resize) = task.resize.as_deref() else { return is_wanted.then_some(ResizeNext::Order) };
    let wait_until = |due_ms: i64, then| {
        if now_ms < due_ms { ResizeNext::Wait { due_ms } } else { then }
    };
    match &resize.refused {
        // Nobody knows what is in force before its agent has answered. So nothing else is ordered.
        None => Some(wait_until(resize.at_ms.saturating_add(RESIZE_DUE_MS), ResizeNext::Replace)),
        Some(_) if !is_wanted => None,
        Some(_) if resize.version < version => Some(ResizeNext::Order),
        Some(ResizeRefused::NoRoom { .. } | ResizeRefused::Failed { .. }) => Some(ResizeNext::Replace),
        Some(ResizeRefused::MemoryInUse { .. }) => {
            Some(wait_until(resize.at_ms.saturating_add(RESIZE_RETRY_MS), ResizeNext::Order))
        }
    }
}
