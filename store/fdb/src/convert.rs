//! Converts between the contract's types and the client's.

use borough_kv::contract::check::size_limit_check;
use borough_kv::{
    AtomicOp, ErrorCode, Isolation, KeySelector, KvError, KvResult, StreamingMode, TransactionOption,
};
use bytes::Bytes;
use foundationdb::{FdbError, RangeOption, options};

/// The client's error under its own code.
pub(crate) fn error_from(error: FdbError) -> KvError {
    let code = ErrorCode::from_code(error.code());
    match code {
        ErrorCode::Other(_) => KvError::with(code, error.message()),
        named => KvError::new(named),
    }
}

/// The isolation as the client's flag.
pub(crate) fn is_snapshot(isolation: Isolation) -> bool {
    isolation == Isolation::Snapshot
}

pub(crate) fn mutation_type(operation: AtomicOp) -> options::MutationType {
    use options::MutationType as To;
    match operation {
        AtomicOp::Add => To::Add,
        AtomicOp::BitAnd => To::BitAnd,
        AtomicOp::BitOr => To::BitOr,
        AtomicOp::BitXor => To::BitXor,
        AtomicOp::AppendIfFits => To::AppendIfFits,
        AtomicOp::Max => To::Max,
        AtomicOp::Min => To::Min,
        AtomicOp::SetVersionstampedKey => To::SetVersionstampedKey,
        AtomicOp::SetVersionstampedValue => To::SetVersionstampedValue,
        AtomicOp::ByteMin => To::ByteMin,
        AtomicOp::ByteMax => To::ByteMax,
        AtomicOp::CompareAndClear => To::CompareAndClear,
    }
}

pub(crate) fn selector(selector: &KeySelector) -> foundationdb::KeySelector<'_> {
    foundationdb::KeySelector::new(selector.key.as_ref().into(), selector.or_equal, selector.offset)
}

/// The largest limit that the client accepts; a larger one means no limit.
fn limit(value: usize) -> usize {
    value.min(usize::try_from(i32::MAX).unwrap_or(usize::MAX))
}

pub(crate) fn range_option(request: &borough_kv::RangeRequest) -> RangeOption<'_> {
    let mode = match request.mode {
        StreamingMode::WantAll => options::StreamingMode::WantAll,
        StreamingMode::Iterator => options::StreamingMode::Iterator,
        StreamingMode::Exact => options::StreamingMode::Exact,
        StreamingMode::Small => options::StreamingMode::Small,
        StreamingMode::Medium => options::StreamingMode::Medium,
        StreamingMode::Large => options::StreamingMode::Large,
        StreamingMode::Serial => options::StreamingMode::Serial,
    };
    RangeOption {
        limit: (request.limit > 0).then(|| limit(request.limit)),
        target_bytes: limit(request.target_bytes),
        mode,
        reverse: request.reverse,
        ..RangeOption::from((selector(&request.begin), selector(&request.end)))
    }
}

/// The client's option, or a refusal by name.
pub(crate) fn option(option: TransactionOption) -> KvResult<Option<options::TransactionOption>> {
    use TransactionOption as From;
    use options::TransactionOption as To;
    let number = |value: u64| i32::try_from(value).map_err(|_| KvError::new(ErrorCode::InvalidOptionValue));
    Ok(Some(match option {
        From::TimeoutMs(ms) => To::Timeout(number(ms)?),
        From::RetryLimit(limit) => To::RetryLimit(i32::try_from(limit.max(-1)).unwrap_or(i32::MAX)),
        From::MaxRetryDelayMs(ms) => To::MaxRetryDelay(number(ms)?),
        // The client would refuse it only at the commit.
        From::SizeLimitBytes(bytes) => To::SizeLimit(number(size_limit_check(bytes)?)?),
        From::PriorityBatch => To::PriorityBatch,
        From::PrioritySystemImmediate => To::PrioritySystemImmediate,
        From::CausalReadRisky => To::CausalReadRisky,
        From::CausalWriteRisky => To::CausalWriteRisky,
        From::NextWriteNoWriteConflictRange => To::NextWriteNoWriteConflictRange,
        From::ReadYourWritesDisable => To::ReadYourWritesDisable,
        From::SnapshotRywEnable => To::SnapshotRywEnable,
        From::SnapshotRywDisable => To::SnapshotRywDisable,
        From::ReportConflictingKeys => To::ReportConflictingKeys,
        From::BypassUnreadable => To::BypassUnreadable,
        From::Tag(tag) => To::Tag(tag),
        From::DebugTransactionIdentifier(name) => To::DebugTransactionIdentifier(name),
        From::ReadSystemKeys => To::ReadSystemKeys,
        From::AccessSystemKeys => To::AccessSystemKeys,
        From::LockAware => To::LockAware,
        // A cluster answers when its logs have flushed.
        From::FlushLater => return Ok(None),
        // The cache needs a client without its multi-version layer; idempotency does not cover 1031 and 1039.
        refused @ (From::UseGrvCache | From::AutomaticIdempotency) => {
            let detail = format!("the FoundationDB backend does not keep {}", refused.name());
            return Err(KvError::with(ErrorCode::InvalidOption, detail));
        }
    }))
}

pub(crate) fn bytes_of(slice: &[u8]) -> Bytes {
    Bytes::copy_from_slice(slice)
}
