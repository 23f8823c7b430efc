//! The store as callers see it: a database, transactions, and declarations about repetition.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::contract::{
    AtomicOp, ConflictKind, EngineTransaction, ErrorCode, Isolation, KeySelector, KvError, KvResult,
    RangeBatch, RangeRequest, TransactionOption, Version, Versionstamp, Watch,
};
pub use crate::runner::{CommitAtError, Database};

/// Why running the closure twice does no harm. It has no default: the author of a transaction must decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// Nothing is written; a write answers 2000.
    ReadOnly,
    /// The closure reads the state that it changes, with a conflict, and does nothing if the change is already made.
    Natural,
    /// The closure records its result under this request id and returns the recorded one when it finds it.
    Keyed(u128),
}

/// The number of the try, and whether earlier tries may have committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionTry {
    /// 1 for the first try.
    pub number: u32,
    /// Whether any earlier try may have committed.
    pub maybe_committed: bool,
}

/// An error in which the runner can find the store's own, however deeply it is wrapped.
pub trait Retryable: std::error::Error + Send + Sync + 'static + From<KvError> {
    /// The store's error, or `None` if the closure failed for its own reasons (which ends the run).
    fn kv_error(&self) -> Option<&KvError>;
}

impl Retryable for KvError {
    fn kv_error(&self) -> Option<&KvError> {
        Some(self)
    }
}

/// Finds the store's error in a chain of sources; the usual body of [`Retryable::kv_error`].
pub fn kv_error_in<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a KvError> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<KvError>() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

/// What a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its run was declared [`Idempotency::ReadOnly`]: writes are refused.
    Read,
    Write,
}

/// A transaction as closures and layer functions see it. Cheap to clone; all clones are one transaction.
#[derive(Clone)]
pub struct Transaction {
    pub(crate) inner: Arc<dyn EngineTransaction>,
    pub(crate) access: Access,
}

impl Transaction {
    /// The transaction to write with, unless its run was declared [`Idempotency::ReadOnly`].
    fn writable(&self) -> KvResult<&dyn EngineTransaction> {
        if self.access == Access::Read {
            return Err(KvError::with(
                ErrorCode::ClientInvalidOperation,
                "a write in a run declared read-only",
            ));
        }
        Ok(self.inner.as_ref())
    }

    /// The value of `key`, with a read conflict.
    pub async fn get(&self, key: &[u8]) -> KvResult<Option<Bytes>> {
        self.inner.get(key, Isolation::Serializable).await
    }

    /// The value of `key`, without a read conflict.
    pub async fn get_snapshot(&self, key: &[u8]) -> KvResult<Option<Bytes>> {
        self.inner.get(key, Isolation::Snapshot).await
    }

    /// The key of a selector.
    pub async fn get_key(&self, selector: &KeySelector, isolation: Isolation) -> KvResult<Bytes> {
        self.inner.get_key(selector, isolation).await
    }

    /// One batch of a range; loop while `more`, or use [`Transaction::range_all`].
    pub async fn get_range(&self, request: &RangeRequest) -> KvResult<RangeBatch> {
        self.inner.get_range(request).await
    }

    /// Every row of a range, up to the request's limit, over as many batches as needed.
    pub async fn range_all(&self, request: RangeRequest) -> KvResult<Vec<(Bytes, Bytes)>> {
        let mut request = request;
        let wanted = request.limit;
        let mut rows: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            // An engine in memory never waits; a long read must still let other tasks run.
            tokio::task::coop::consume_budget().await;
            let batch = self.inner.get_range(&request).await?;
            let last = batch.rows.last().map(|(key, _)| key.clone());
            rows.extend(batch.rows);
            let Some(last) = last.filter(|_| batch.more) else { return Ok(rows) };
            if wanted > 0 {
                request.limit = wanted.saturating_sub(rows.len());
                if request.limit == 0 {
                    return Ok(rows);
                }
            }
            request.iteration = request.iteration.saturating_add(1);
            if request.reverse {
                request.end = KeySelector::first_greater_or_equal(last);
            } else {
                request.begin = KeySelector::first_greater_than(last);
            }
        }
    }

    /// Sets `key` to `value`.
    pub fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        self.writable()?.set(key, value)
    }

    /// Removes `key`.
    pub fn clear(&self, key: &[u8]) -> KvResult<()> {
        self.writable()?.clear(key)
    }

    /// Removes `begin..end`.
    pub fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        self.writable()?.clear_range(begin, end)
    }

    /// Applies `operation` at the commit.
    pub fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        self.writable()?.atomic(operation, key, operand)
    }

    /// Makes the commit fail if another transaction has written `key` since the read version.
    pub fn read_conflict_key(&self, key: &[u8]) -> KvResult<()> {
        let end = key_after(key);
        self.inner.add_conflict_range(ConflictKind::Read, key..&end)
    }

    /// Makes the commit fail if another transaction has written into `range` since the read version.
    pub fn read_conflict_range(&self, range: Range<&[u8]>) -> KvResult<()> {
        self.inner.add_conflict_range(ConflictKind::Read, range)
    }

    /// Makes others fail that read `key`, without writing a value.
    pub fn write_conflict_key(&self, key: &[u8]) -> KvResult<()> {
        let end = key_after(key);
        self.writable()?.add_conflict_range(ConflictKind::Write, key..&end)
    }

    /// A watch of `key`, inert until the commit.
    pub async fn watch(&self, key: &[u8]) -> KvResult<Watch> {
        self.inner.watch(key).await
    }

    /// The read version. Takes one if the transaction has none.
    pub async fn read_version(&self) -> KvResult<Version> {
        self.inner.read_version().await
    }

    /// Sets an option, or refuses it by name.
    pub fn set_option(&self, option: TransactionOption) -> KvResult<()> {
        self.inner.set_option(option)
    }

    /// The stamp of this transaction; ask before the closure ends, await after.
    pub fn versionstamp(&self) -> futures::future::BoxFuture<'static, KvResult<Versionstamp>> {
        self.inner.versionstamp()
    }

    /// Bytes the commit would count against the size limit now.
    pub async fn approximate_size(&self) -> KvResult<usize> {
        self.inner.approximate_size().await
    }

    /// Bytes of the keys and values in a range, without a conflict: exact on the embedded engine, which reads them all,
    /// and a sample on FoundationDB.
    pub async fn estimated_range_size(&self, range: Range<&[u8]>) -> KvResult<u64> {
        self.inner.estimated_range_size(range).await
    }

    /// Keys that cut a range into chunks of about `chunk_bytes`, both ends included.
    pub async fn range_split_points(&self, range: Range<&[u8]>, chunk_bytes: u64) -> KvResult<Vec<Bytes>> {
        self.inner.range_split_points(range, chunk_bytes).await
    }
}

/// The first key after `key`.
pub fn key_after(key: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(key.len().saturating_add(1));
    after.extend_from_slice(key);
    after.push(0);
    after
}
