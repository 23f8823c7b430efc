//! What can go wrong in the layer, by what the caller should do about it.

use borough_kv::database::kv_error_in;
use borough_kv::{KvError, Retryable};
use borough_model::RequestId;

use crate::journal::Cursor;
use crate::keys::KeyKind;

/// An error of the layer. Everything but [`StoreError::Kv`] ends a run without another attempt.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store's own. The runner has retried what can be; what arrives here is to be shown, or the work repeated
    /// from the start where its code says that nothing was committed.
    #[error("the store refused")]
    Kv(#[from] KvError),
    /// A stored value is not what its key says. Stop and have the store looked at; nothing is overwritten.
    #[error("damaged value of kind {kind} under key {}: expected {kind}, found {found}", hex_text(key))]
    DamagedValue {
        /// The kind its key has.
        kind: KeyKind,
        /// The key's bytes.
        key: Vec<u8>,
        /// What was found instead.
        found: String,
    },
    /// A stored key is not one of its kind. Stop and have the store looked at.
    #[error("damaged key {} among those of kind {kind}: {found}", hex_text(key))]
    DamagedKey {
        /// The kind of the range it was read from.
        kind: KeyKind,
        /// The key's bytes.
        key: Vec<u8>,
        /// What was found.
        found: String,
    },
    /// A stored key is of no kind this build knows: the store was written by a newer one, or is damaged. Use the newer
    /// one, or have the store looked at.
    #[error("key {} is of no kind that this build knows", hex_text(key))]
    UnknownKey {
        /// The key's bytes.
        key: Vec<u8>,
    },
    /// A value has no encoding. A defect of this program.
    #[error("a value of kind {kind} cannot be encoded: {detail}")]
    Unencodable {
        /// The kind.
        kind: KeyKind,
        /// What the encoder says.
        detail: String,
    },
    /// The journal is over its bound, and nobody trims it: no new work is admitted. Repeat it later.
    #[error("the cell's journal has {bytes} bytes; new work is admitted below {bytes_max}")]
    JournalFull {
        /// Bytes that are kept.
        bytes: u64,
        /// Bytes that may be kept.
        bytes_max: u64,
    },
    /// A value is larger than the store keeps. Make it smaller.
    #[error("a value of kind {kind} has {bytes} bytes; accepted: at most {bytes_max}")]
    TooLarge {
        /// The kind.
        kind: KeyKind,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// There is no such thing. Tell whoever asked.
    #[error("there is no {what}")]
    NotFound {
        /// What was asked for, such as `node "n1"`.
        what: String,
    },
    /// There is one already. Tell whoever asked.
    #[error("there is already a {what}")]
    AlreadyExists {
        /// What is there, such as `cell "alpha"`.
        what: String,
    },
    /// The state of the thing forbids it. Tell whoever asked why, and what would work.
    #[error("{reason}")]
    Refused {
        /// Why, and what would work.
        reason: String,
    },
    /// The cell does not take this now (it is being drained, or has moved). Ask the federation directory again.
    #[error("cell {cell} is closed: {state}")]
    CellClosed {
        /// The cell.
        cell: String,
        /// What it is instead of open.
        state: &'static str,
    },
    /// There is no cell of that name in this store.
    #[error("there is no cell {cell} in this store")]
    CellUnknown {
        /// The cell.
        cell: String,
    },
    /// Entries after the cursor were trimmed. List again, then tail from the listing's cursor.
    #[error("the journal is kept from {floor} on, {asked} is older; list again")]
    JournalTrimmed {
        /// Where the reader was.
        asked: Cursor,
        /// The oldest position that can be resumed from.
        floor: Cursor,
    },
    /// The cursor belongs to another epoch of the store (it was restored, or the cell has moved). List again.
    #[error("{asked} belongs to another store epoch than {current}; list again")]
    ForeignEpoch {
        /// Where the reader was.
        asked: Cursor,
        /// The epoch of this store.
        current: u64,
    },
    /// Another holder has the lease. Stop what it protects.
    #[error("the lease {role}/{shard} is held by another ({holder}, epoch {epoch})")]
    LeaseLost {
        /// What for.
        role: String,
        /// Which share.
        shard: u32,
        /// Who holds it; empty where nobody does.
        holder: String,
        /// The epoch in force.
        epoch: u64,
    },
    /// The request id was used before for something else. Choose a new one.
    #[error("request {request} was used before with different content")]
    RequestReused {
        /// The id.
        request: RequestId,
    },
    /// A spec, or what is said of a node, breaks rules. Show each of them; nothing was changed.
    #[error("it cannot be accepted: {}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    InvalidSpec {
        /// Every rule that is broken.
        errors: Vec<borough_model::job::FieldError>,
    },
    /// A job of that name runs and differs in more than count and priority. Show the difference; stop the job first.
    #[error("job {job} runs and differs in {} fields", changes.len())]
    NeedsUpdate {
        /// The job that runs.
        job: borough_model::JobId,
        /// What differs.
        changes: Vec<borough_model::job::FieldChange>,
    },
    /// A placement batch contradicts itself. A defect of the planner: drop the batch and plan again.
    #[error("the placement batch contradicts itself")]
    Placement(#[from] crate::placement::PlacementError),
    /// The gang does not allow it: each cause says what to do.
    #[error("the gang refuses")]
    Gang(#[from] borough_model::task::machine::GangRefused),
    /// The node belongs to another agent, or to another process of it. Show both and what to do; nothing was changed.
    #[error(transparent)]
    NodeRefused(Box<borough_model::node::NodeRefusal>),
    /// What is given back was never taken: the store's books are wrong. Nothing is committed; have the store looked at.
    #[error("the books of node {node} are wrong")]
    NodeBooks {
        /// The node.
        node: borough_model::NodeId,
        /// What does not hold.
        #[source]
        source: borough_model::node::NodeAllocError,
    },
}

impl StoreError {
    /// A [`StoreError::NotFound`] of something.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// A [`StoreError::Refused`] with its reason.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }
}

impl Retryable for StoreError {
    fn kv_error(&self) -> Option<&KvError> {
        kv_error_in(self)
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
