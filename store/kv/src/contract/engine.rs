//! The two traits of the contract: an engine, and one transaction of it.

use std::ops::Range;

use bytes::Bytes;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;

use super::{
    AtomicOp, KeySelector, KvError, KvResult, RangeBatch, RangeRequest, TransactionOption, Version,
    Versionstamp,
};

/// Which set a conflict range joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// The commit fails if another transaction wrote into the range since the read version.
    Read,
    /// Other transactions that read the range fail.
    Write,
}

/// The results of a successful commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// `None` if nothing was written.
    pub version: Option<Version>,
    /// `None` if nothing was written.
    pub stamp: Option<Versionstamp>,
}

/// A future that ends when the watched key's value may have changed, or with an error. A caller must not rely on it
/// alone: pair it with a timer, then read.
pub type Watch = BoxFuture<'static, KvResult<()>>;

/// A description of an engine, for people and for result lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// `embedded` or `fdb`.
    pub name: &'static str,
    /// The place of its data.
    pub location: String,
}

/// The abilities of an engine at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// It reads and commits.
    Serving,
    /// It reads, but refused the last batch of commits with this error; a later batch may succeed.
    Refusing(KvError),
    /// It answers every operation with this error, for good. Only another process that opens the store can continue.
    Stopped(KvError),
}

/// A store that keeps the contract.
pub trait Engine: Send + Sync + 'static {
    /// A new transaction. Only the runner calls this.
    fn begin(&self) -> Box<dyn EngineTransaction>;

    /// What this engine is.
    fn info(&self) -> EngineInfo;

    /// Registers the engine's own metrics in `registry`, if it has any.
    fn metrics_register(&self, _registry: &mut Registry) {}

    /// The present abilities of the engine. An engine with a remote store is always [`EngineState::Serving`]: only a
    /// transaction shows whether that store answers.
    fn state(&self) -> EngineState {
        EngineState::Serving
    }

    /// Ends when the engine has stopped for good, with the error that every operation then answers.
    fn stopped(&self) -> BoxFuture<'static, KvError> {
        Box::pin(std::future::pending())
    }
}

/// Whether a read adds a read conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// The commit fails if another transaction has written what was read.
    #[default]
    Serializable,
    /// The read adds no conflict.
    Snapshot,
}

/// One transaction. Methods take `&self`; an implementation keeps its state behind a lock and is safe to share.
///
/// Writes are buffered; those that cannot be legal (keys too large, outside the user's range) answer at once.
pub trait EngineTransaction: Send + Sync {
    /// The value of `key` at the read version, under this transaction's own writes.
    fn get<'a>(&'a self, key: &'a [u8], isolation: Isolation) -> BoxFuture<'a, KvResult<Option<Bytes>>>;

    /// The key of a selector.
    fn get_key<'a>(
        &'a self,
        selector: &'a KeySelector,
        isolation: Isolation,
    ) -> BoxFuture<'a, KvResult<Bytes>>;

    /// One batch of a range. Callers loop while `more`.
    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>>;

    /// Sets `key` to `value`.
    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()>;

    /// Removes `key`.
    fn clear(&self, key: &[u8]) -> KvResult<()>;

    /// Removes `begin..end`.
    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()>;

    /// Applies `operation` at the commit.
    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()>;

    /// Adds `range` to a conflict set.
    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()>;

    /// Registers a watch: a real read of `key` with a read conflict, inert until the commit.
    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>>;

    /// The read version. Takes one if the transaction has none.
    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>>;

    /// Fixes the read version, before the first read (2010 after it, and after a read that was refused).
    fn set_read_version(&self, version: Version) -> KvResult<()>;

    /// Commits. Answered once durable.
    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>>;

    /// The stamp of this transaction, resolved by its commit. Ask before committing, await after. It is 2020 if the
    /// commit failed, 2021 if it wrote nothing, 1025 if it never came.
    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>>;

    /// Decides about a retry: pauses and resets after a retryable error, returns any other one. After that every
    /// operation answers the returned error, until a reset.
    fn on_error<'a>(&'a self, error: &'a KvError) -> BoxFuture<'a, KvResult<()>>;

    /// Sets an option, or refuses it by name.
    fn set_option(&self, option: TransactionOption) -> KvResult<()>;

    /// After a 1020 with [`TransactionOption::ReportConflictingKeys`]: read conflict ranges that failed. A lower bound,
    /// since the check may stop early.
    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>>;

    /// Bytes the commit would count against the size limit now.
    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>>;

    /// An estimate of the bytes in `range`.
    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>>;

    /// Keys that cut `range` into chunks of about `chunk_bytes`, both ends included.
    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        chunk_bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>>;

    /// Ends the transaction; every later operation answers 1025.
    fn cancel(&self);

    /// Back to the beginning: no reads, no writes, no options.
    fn reset(&self);
}
