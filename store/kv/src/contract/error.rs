//! The errors of the contract: FoundationDB's codes, and which of them may be tried again.

use std::borrow::Cow;

/// The result of an operation of the contract.
pub type KvResult<T> = Result<T, KvError>;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)*) => {
        /// The kind of an error, by FoundationDB's code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
            /// A code that this build does not name. Treated as final.
            Other(i32),
        }

        impl ErrorCode {
            /// Every named code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// FoundationDB's number.
            pub fn code(self) -> i32 {
                match self { $(Self::$variant => $code,)* Self::Other(code) => code }
            }

            /// The code of a number.
            pub fn from_code(code: i32) -> Self {
                match code { $($code => Self::$variant,)* other => Self::Other(other) }
            }

            /// The meaning in a few words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* Self::Other(_) => "unnamed store error" }
            }
        }
    };
}

error_codes! {
    /// The read version fell out of the five-second window. Try again from the start.
    TransactionTooOld = 1007, "transaction is too old to perform reads or be committed";
    /// The storage has not reached the read version. Try again.
    FutureVersion = 1009, "request for future version";
    /// Another commit wrote what this transaction read. Try again from the start.
    NotCommitted = 1020, "transaction not committed due to conflict with another transaction";
    /// The commit may or may not have happened; it is no longer in flight. Check before you repeat.
    CommitUnknownResult = 1021, "transaction may or may not have committed";
    /// The transaction was cancelled by its owner.
    TransactionCancelled = 1025, "operation aborted because the transaction was cancelled";
    /// The transaction's own time-out passed; it may still commit later. Never repeat blindly.
    TransactionTimedOut = 1031, "operation aborted because the transaction timed out";
    /// Too many watches on this database handle.
    TooManyWatches = 1032, "too many watches";
    /// Watches need read-your-writes.
    WatchesDisabled = 1034, "watches cannot be set if read your writes is disabled";
    /// A key with a pending versionstamp was read.
    AccessedUnreadable = 1036, "read or wrote an unreadable key";
    /// The storage process is behind. Try again.
    ProcessBehind = 1037, "storage process does not have recent mutations";
    /// The database is locked. Try again.
    DatabaseLocked = 1038, "database is locked";
    /// The cluster changed under the commit; as 1021.
    ClusterVersionChanged = 1039, "cluster has been upgraded to a new protocol version";
    /// A commit proxy ran out of memory. Try again later.
    ProxyMemoryLimitExceeded = 1042, "commit proxy memory limit exceeded";
    /// Batch transactions are throttled. Try again later.
    BatchTransactionThrottled = 1051, "batch GRV request rate limit exceeded";
    /// A GRV proxy ran out of memory. Try again later.
    GrvProxyMemoryLimitExceeded = 1078, "GRV proxy memory limit exceeded";
    /// The operation was cancelled.
    OperationCancelled = 1101, "asynchronous operation cancelled";
    /// The tag is throttled. Try again later.
    TagThrottled = 1213, "transaction tag is being throttled";
    /// A hot shard is throttled. Try again later.
    TransactionThrottledHotShard = 1235, "transaction throttled by a hot shard";
    /// The range is locked. Try again later.
    TransactionRejectedRangeLocked = 1242, "transaction rejected because the range is locked";
    /// The disk or its bookkeeping failed; the engine has stopped.
    IoError = 1510, "disk i/o operation failed";
    /// The store's files were removed or moved under the process; the engine has stopped. Put them back.
    FileNotFound = 1511, "file not found";
    /// The call is not legal in this state or with these arguments.
    ClientInvalidOperation = 2000, "invalid API call";
    /// An operation while the commit is in flight.
    UsedDuringCommit = 2017, "operation issued while a commit was outstanding";
    /// An unknown atomic operation.
    InvalidMutationType = 2018, "unrecognized atomic mutation type";
    /// A key outside the legal range.
    KeyOutsideLegalRange = 2004, "key outside legal range";
    /// A range whose end is before its begin.
    InvertedRange = 2005, "range begin key larger than end key";
    /// An option's value is not legal.
    InvalidOptionValue = 2006, "option set with an invalid value";
    /// The option is unknown or not supported by this engine.
    InvalidOption = 2007, "option not valid in this context";
    /// Nothing was written, so the transaction has no commit version.
    NoCommitVersion = 2021, "transaction is read-only and therefore does not have a commit version";
    /// The transaction is over its size limit.
    TransactionTooLarge = 2101, "transaction exceeds byte limit";
    /// The key is over the limit.
    KeyTooLarge = 2102, "key length exceeds limit";
    /// The value is over the limit.
    ValueTooLarge = 2103, "value length exceeds limit";
    /// The cluster speaks the protocol of another version than this program's client. Use the client of its version.
    IncompatibleClient = 2125, "the cluster is of another version than this program's client";
    /// This engine does not support that part of the contract.
    NotSupported = 2108, "operation is not supported";
    /// An exact range read without a limit.
    ExactModeWithoutLimits = 2210, "exact range read without limits";
    /// The read version was already set or used.
    ReadVersionAlreadySet = 2010, "transaction already has a read version set";
    /// The stamp of a commit that failed: whether and when it happened is unknown.
    TransactionInvalidVersion = 2020, "transaction does not have a valid commit version";
    /// The version is not one a database can have.
    VersionInvalid = 2011, "version not valid";
    /// The disk is full. This commit did not happen, and the store accepts none until space is free. Reads still work.
    /// Ours: FoundationDB uses no code from 9000 on.
    NoSpace = 9001, "no space left on the store's disk";
    /// The process is short of file descriptors, memory or threads. This commit did not happen, and a later one may.
    /// Reads still work. Ours, as 9001.
    ShortOfResources = 9002, "the store's process is short of resources";
}

impl ErrorCode {
    /// Returns true if the transaction certainly did not commit and a retry makes sense.
    pub fn is_retryable_not_committed(self) -> bool {
        matches!(
            self,
            Self::TransactionTooOld
                | Self::FutureVersion
                | Self::NotCommitted
                | Self::ProcessBehind
                | Self::DatabaseLocked
                | Self::ProxyMemoryLimitExceeded
                | Self::GrvProxyMemoryLimitExceeded
                | Self::BatchTransactionThrottled
                | Self::TagThrottled
                | Self::TransactionThrottledHotShard
                | Self::TransactionRejectedRangeLocked
        )
    }

    /// Returns true if the transaction may have committed (and is no longer in flight).
    pub fn is_maybe_committed(self) -> bool {
        matches!(self, Self::CommitUnknownResult | Self::ClusterVersionChanged)
    }

    /// Returns true if [`on_error`](super::EngineTransaction::on_error) allows a retry.
    pub fn is_retryable(self) -> bool {
        self.is_retryable_not_committed() || self.is_maybe_committed()
    }
}

/// An error of the store, with FoundationDB's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} (store error {}){}{detail}", code.text(), code.code(), if detail.is_empty() { "" } else { ": " })]
pub struct KvError {
    pub code: ErrorCode,
    /// The engine's addition; empty if the code says everything.
    pub detail: Cow<'static, str>,
}

impl KvError {
    /// An error without an addition to its code.
    pub const fn new(code: ErrorCode) -> Self {
        Self { code, detail: Cow::Borrowed("") }
    }

    /// An error with its details.
    pub fn with(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into() }
    }
}

impl From<ErrorCode> for KvError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}
