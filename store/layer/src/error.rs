//! The errors of the layer, by what the caller should do about them.

use borough_kv::database::kv_error_in;
use borough_kv::{KvError, Retryable};
use borough_model::node::NodeAllocError;
use borough_model::{NodeId, RequestId, TaskId};

use crate::key_kind::KeyKind;
use crate::row::Cursor;

/// An error of the layer. Everything except [`StoreError::Kv`] ends a run without another try.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's own. The runner has already retried what it can. Show it, or repeat the work from the start if its
    /// code says that nothing was committed.
    #[error("the store refused")]
    Kv(#[from] KvError),
    /// A stored value does not match its key. Stop and have the store examined; nothing is overwritten.
    #[error("damaged value of kind {kind} under key {}: expected {kind}, found {found}", hex_text(key))]
    DamagedValue { kind: KeyKind, key: Vec<u8>, found: String },
    /// A stored key does not match its kind. Stop and have the store examined.
    #[error("damaged key {} among those of kind {kind}: {found}", hex_text(key))]
    DamagedKey { kind: KeyKind, key: Vec<u8>, found: String },
    /// A stored key has a kind that this build does not know. The store was written by a newer build, or is damaged.
    /// Use the newer build, or have the store examined.
    #[error("key {} is of no kind that this build knows", hex_text(key))]
    UnknownKey { key: Vec<u8> },
    /// A value has no encoding. A defect of this program.
    #[error("a value of kind {kind} cannot be encoded: {detail}")]
    Unencodable {
        kind: KeyKind,
        /// The encoder's message.
        detail: String,
    },
    /// The journal exceeds its bound, and nobody trims it, so no new work is admitted. Try again later.
    #[error("the cell's journal has {bytes} bytes; new work is admitted below {bytes_max}")]
    JournalFull { bytes: u64, bytes_max: u64 },
    /// The cell has too many ended jobs, since they are removed more slowly than others end. Try again later.
    #[error(
        "the cell has {kept} ended jobs that wait for their removal; new work is admitted below {kept_max}"
    )]
    EndedJobsFull { kept: u64, kept_max: u64 },
    /// A value is larger than the store accepts. Make it smaller.
    #[error("a value of kind {kind} has {bytes} bytes; accepted: at most {bytes_max}")]
    TooLarge { kind: KeyKind, bytes: usize, bytes_max: usize },
    /// The thing does not exist. Report it to the caller.
    #[error("there is no {what}")]
    NotFound {
        /// Such as `node "n1"`.
        what: String,
    },
    /// The thing exists already. Report it to the caller.
    #[error("there is already a {what}")]
    AlreadyExists {
        /// Such as `cell "alpha"`.
        what: String,
    },
    /// The state of the thing forbids it. Report to the caller why, and what would work.
    #[error("{reason}")]
    Refused {
        reason: String,
        /// What the caller does about it.
        remedy: RefusalRemedy,
    },
    /// The cell does not accept this now (it is being drained, or has moved). Ask the federation directory again.
    #[error("cell {cell} is closed: {state}")]
    CellClosed {
        cell: String,
        /// Its state instead of open.
        state: &'static str,
    },
    /// This store has no cell of that name.
    #[error("there is no cell {cell} in this store")]
    CellUnknown { cell: String },
    /// Entries after the cursor were trimmed. List again, then tail from the listing's cursor.
    #[error("the journal is kept from {floor} on, {asked} is older; list again")]
    JournalTrimmed {
        /// The reader's position.
        asked: Cursor,
        /// The oldest position that can be resumed from.
        floor: Cursor,
    },
    /// The cursor belongs to another epoch of the store (the cell was imported). List again.
    #[error("{asked} belongs to another store epoch than {current}; list again")]
    ForeignEpoch {
        /// The reader's position.
        asked: Cursor,
        /// The epoch of this store.
        current: u64,
    },
    /// Another holder has the lease. Stop the work that it protects.
    #[error("the lease {role}/{shard} is held by another ({holder}, epoch {epoch})")]
    LeaseLost {
        role: String,
        shard: u32,
        /// The present holder; empty if none.
        holder: String,
        epoch: u64,
    },
    /// The request id was used before for something else. Choose a new one.
    #[error("request {request} was used before with different content")]
    RequestReused { request: RequestId },
    /// A spec, or a report about a node, breaks rules. Show each of them; nothing was changed.
    #[error("it cannot be accepted: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    InvalidSpec { errors: Vec<borough_model::FieldError> },
    /// A job of that name has not ended, and differs in fields that it keeps until then. Show the difference; stop it
    /// first.
    #[error("job {job} has not ended and keeps {} fields that differ", changes.len())]
    NeedsUpdate { job: borough_model::JobId, changes: Vec<borough_model::job::FieldChange> },
    /// A placement batch contradicts itself. A defect of the planner: drop the batch and plan again.
    #[error("the placement batch contradicts itself")]
    Placement(#[from] PlacementError),
    /// The gang does not allow it: each cause says what to do.
    #[error("the gang refuses")]
    Gang(#[from] borough_model::task::machine::GangRefused),
    /// The node belongs to another agent, or to another process of its agent. Show both and what to do; nothing was
    /// changed.
    #[error(transparent)]
    NodeRefused(Box<borough_model::node::NodeRefusal>),
    /// A release exceeds the charge: the commitment of the node is wrong. Nothing is committed; have the store
    /// examined.
    #[error("the books of node {node} are wrong")]
    NodeBooks {
        node: NodeId,
        /// The sum that fails.
        #[source]
        source: NodeAllocError,
    },
}

/// What a caller does about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalRemedy {
    /// Change the state of the thing, or ask for something else.
    ChangeState,
    /// Read again, then decide: the request was made for a state that is over.
    ReadAgain,
    /// Wait: what forbids it passes by itself.
    Wait,
    /// Ask for less, end something, or get a larger quota.
    Quota,
    /// Grant less, or add nodes: quotas would grant more than the cell has.
    Capacity,
}

impl StoreError {
    /// A [`StoreError::NotFound`] of something.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// A [`StoreError::Refused`] with its reason. The caller changes the thing, or asks for something else.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::refused_with(RefusalRemedy::ChangeState, reason)
    }

    /// A [`StoreError::Refused`] with its reason and its remedy.
    pub fn refused_with(remedy: RefusalRemedy, reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), remedy }
    }

    /// Refuses a change that was made for the revision `expected` of something: `now` is another, which `by` has made.
    /// `look` is the command that shows it.
    pub(crate) fn overtaken(what: &str, expected: u64, now: u64, by: Option<&String>, look: &str) -> Self {
        if now == 0 {
            let reason = format!(
                "there is no {what}, and the change was made for its revision {expected}; look again: {look}"
            );
            return Self::refused_with(RefusalRemedy::ReadAgain, reason);
        }
        let by = by.map(|by| format!(", by {by}")).unwrap_or_default();
        Self::refused_with(
            RefusalRemedy::ReadAgain,
            format!(
                "the {what} is at revision {now}{by}, and the change was made for {expected}; look again: {look}"
            ),
        )
    }
}

impl Retryable for StoreError {
    fn kv_error(&self) -> Option<&KvError> {
        kv_error_in(self)
    }
}

/// Why a placement batch contradicts itself: a defect of the planner, not a conflict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A task is placed on a node that the batch does not contain.
    #[error("task {task} is placed on a node that the batch does not have")]
    NodeUnknown { task: TaskId },
    /// A task does not fit the values in the batch itself.
    #[error("task {task} cannot be charged to node {node}")]
    Unfit {
        task: TaskId,
        node: NodeId,
        #[source]
        source: NodeAllocError,
    },
}

impl PlacementError {
    /// The task that contradicts the batch.
    pub fn task(&self) -> TaskId {
        match self {
            Self::NodeUnknown { task } | Self::Unfit { task, .. } => *task,
        }
    }
}

/// Result of the layer's functions.
pub type StoreResult<T> = Result<T, StoreError>;

/// An error with its causes, on one line: for logs, and for people who see no more than that.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_at_no_revision() {
        let of =
            |now| StoreError::overtaken("quota of ann", 5, now, None, "borough quota status ann").to_string();
        assert!(of(3).starts_with("the quota of ann is at revision 3, and the change was made for 5"));
        assert!(of(0).starts_with("there is no quota of ann, and the change was made for its revision 5"));
    }
}
