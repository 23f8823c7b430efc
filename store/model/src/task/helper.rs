//! The helpers of an attempt, as its agent reports them.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::Name;
use crate::job::HelperPhase;

/// Most bytes of the message of a helper's end: a row has up to eight helpers and stays small.
pub const HELPER_MESSAGE_BYTES_MAX: usize = 256;

/// A helper of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct HelperStatus {
    #[n(0)]
    pub name: Name,
    /// When it runs.
    #[n(1)]
    pub when: HelperPhase,
    #[n(2)]
    pub state: HelperState,
    /// How often it was started again in this attempt.
    #[n(3)]
    pub restarts: u32,
    /// How it ended last; absent: it has not ended.
    #[n(4)]
    pub exit: Option<HelperExit>,
}

/// What a helper does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum HelperState {
    /// Its turn has not come, or it pauses before it starts again.
    #[n(0)]
    Waiting,
    #[n(1)]
    Running,
    /// It does not start again in this attempt.
    #[n(2)]
    Ended,
}

/// How a helper ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct HelperExit {
    /// Exit code, if it exited.
    #[n(0)]
    pub code: Option<i32>,
    /// Number of the signal that ended it, if one did.
    #[n(1)]
    pub signal: Option<i32>,
    /// For people: why it could not be started, or who ended it.
    #[n(2)]
    pub message: String,
    /// Wall time of its node, milliseconds since 1970.
    #[n(3)]
    pub at_ms: i64,
}

/// Statuses as a row keeps them: with bounded messages.
pub(super) fn helpers_bounded(helpers: &[HelperStatus]) -> Vec<HelperStatus> {
    let mut bounded = helpers.to_vec();
    bounded.truncate(crate::job::HELPERS_MAX);
    for exit in bounded.iter_mut().filter_map(|helper| helper.exit.as_mut()) {
        let end = exit.message.floor_char_boundary(HELPER_MESSAGE_BYTES_MAX);
        exit.message.truncate(end);
    }
    bounded
}
