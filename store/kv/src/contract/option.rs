//! Transaction options, by FoundationDB's names. An engine refuses those that it does not support.

/// An option of one transaction, set before the operation it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOption {
    /// Ends the transaction with 1031 after so many milliseconds; 0 is never.
    TimeoutMs(u64),
    /// How often [`on_error`](super::EngineTransaction::on_error) may allow a retry; negative is no limit.
    RetryLimit(i64),
    /// Longest pause between tries, in milliseconds.
    MaxRetryDelayMs(u64),
    /// Smaller transaction limit, in bytes; at least 32.
    SizeLimitBytes(u64),
    /// Yields to transactions of default priority.
    PriorityBatch,
    /// Takes precedence over rate limits; for the system itself.
    PrioritySystemImmediate,
    /// The read version may be slightly stale after a failure of the cluster's controller.
    CausalReadRisky,
    /// The commit may be answered before a fault of the transaction system is ruled out.
    CausalWriteRisky,
    /// The commit may be answered before it is on a disk. Only the loss of the whole machine can undo it, and with it
    /// all that came after it and was not flushed either. For what means nothing after such a loss, such as the renewal
    /// of a lease. It is no option of FoundationDB, whose backend takes it and flushes as always.
    FlushLater,
    /// The next write of any kind adds no write conflict.
    NextWriteNoWriteConflictRange,
    /// Reads see none of the transaction's own writes. Only before the first operation.
    ReadYourWritesDisable,
    /// Snapshot reads see own writes (counted: undoes one disable).
    SnapshotRywEnable,
    /// Snapshot reads do not see own writes (counted).
    SnapshotRywDisable,
    /// A failed commit reports which read conflicts failed.
    ReportConflictingKeys,
    /// Reads of single keys with a pending versionstamp return the placeholder instead of failing with 1036. Reads of
    /// ranges and selectors still fail.
    BypassUnreadable,
    /// A cached read version, at most 100 ms old.
    UseGrvCache,
    /// A label counted by the cluster; at most 16 characters, at most five of them.
    Tag(String),
    /// A name for traces.
    DebugTransactionIdentifier(String),
    /// Reads of system keys.
    ReadSystemKeys,
    /// Reads and writes of system keys.
    AccessSystemKeys,
    /// Runs although the database is locked.
    LockAware,
    /// The client's experimental idempotency; refused, because it does not cover 1031 and 1039.
    AutomaticIdempotency,
}

impl TransactionOption {
    /// The name of the option in a refusal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TimeoutMs(_) => "timeout",
            Self::RetryLimit(_) => "retry_limit",
            Self::MaxRetryDelayMs(_) => "max_retry_delay",
            Self::SizeLimitBytes(_) => "size_limit",
            Self::PriorityBatch => "priority_batch",
            Self::PrioritySystemImmediate => "priority_system_immediate",
            Self::CausalReadRisky => "causal_read_risky",
            Self::CausalWriteRisky => "causal_write_risky",
            Self::FlushLater => "flush_later",
            Self::NextWriteNoWriteConflictRange => "next_write_no_write_conflict_range",
            Self::ReadYourWritesDisable => "read_your_writes_disable",
            Self::SnapshotRywEnable => "snapshot_ryw_enable",
            Self::SnapshotRywDisable => "snapshot_ryw_disable",
            Self::ReportConflictingKeys => "report_conflicting_keys",
            Self::BypassUnreadable => "bypass_unreadable",
            Self::UseGrvCache => "use_grv_cache",
            Self::Tag(_) => "tag",
            Self::DebugTransactionIdentifier(_) => "debug_transaction_identifier",
            Self::ReadSystemKeys => "read_system_keys",
            Self::AccessSystemKeys => "access_system_keys",
            Self::LockAware => "lock_aware",
            Self::AutomaticIdempotency => "automatic_idempotency",
        }
    }
}
