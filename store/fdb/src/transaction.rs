//! One transaction over the client's own, whose methods take and give it by value.

use std::ops::Range;
use std::sync::Arc;

use borough_kv::contract::check::{atomic_check, range_check, write_check};
use borough_kv::contract::{Committed, ConflictKind};
use borough_kv::{
    AtomicOp, EngineTransaction, ErrorCode, KeySelector, KvError, KvResult, RangeBatch, RangeRequest,
    TransactionOption, Version, Versionstamp, Watch,
};
use bytes::Bytes;
use foundationdb::options::ConflictRangeType;
use foundationdb::{Database, FdbError, Transaction, TransactionCancelled, TransactionCommitError};
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;

use crate::convert::{bytes_of, error_from, mutation_type, option, range_option, selector};

/// Where the client's transaction is.
enum Slot {
    Open(Transaction),
    /// A commit or the pause after an error has it; gone for good where that future was dropped.
    Busy,
    Failed(TransactionCommitError),
    /// Committed. Kept because its watches hang on it until it is reset.
    Committed(foundationdb::TransactionCommitted),
    Cancelled(TransactionCancelled),
    /// The client could not make one.
    Broken(KvError),
}

struct State {
    slot: Slot,
    /// Whether a failed commit fetches the ranges that failed it.
    report: bool,
    version_set: bool,
    conflicting: Vec<Range<Bytes>>,
}

/// A transaction of FoundationDB.
pub(crate) struct FdbTransaction {
    database: Arc<Database>,
    state: Mutex<State>,
}

impl FdbTransaction {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let slot = slot_open(&database);
        Self {
            database,
            state: Mutex::new(State { slot, report: false, version_set: false, conflicting: Vec::new() }),
        }
    }

    /// Calls `action` with the client's transaction, where it takes operations.
    fn with<T>(&self, action: impl FnOnce(&Transaction) -> T) -> KvResult<T> {
        let state = self.state.lock();
        match &state.slot {
            Slot::Open(transaction) => Ok(action(transaction)),
            Slot::Busy | Slot::Failed(_) | Slot::Committed(_) => Err(ErrorCode::UsedDuringCommit.into()),
            Slot::Cancelled(_) => Err(ErrorCode::TransactionCancelled.into()),
            Slot::Broken(error) => Err(error.clone()),
        }
    }

    /// Takes the client's transaction out, for a call that consumes it.
    fn take(&self) -> Slot {
        std::mem::replace(&mut self.state.lock().slot, Slot::Busy)
    }

    fn put(&self, slot: Slot) {
        self.state.lock().slot = slot;
    }

    async fn commit_run(&self) -> KvResult<Committed> {
        // The stamp's future must exist before the commit; a read-only transaction has none.
        let stamp = self.with(Transaction::get_versionstamp)?;
        let Slot::Open(transaction) = self.take() else { return Err(ErrorCode::UsedDuringCommit.into()) };
        match transaction.commit().await {
            Ok(committed) => {
                let version = committed.committed_version().map_err(error_from);
                self.put(Slot::Committed(committed));
                let version = version.ok().filter(|version| *version >= 0);
                let stamp = match version {
                    Some(_) => stamp.await.ok().and_then(|slice| Versionstamp::from_slice(&slice)),
                    None => None,
                };
                Ok(Committed { version, stamp })
            }
            Err(failed) => {
                let error: FdbError = *failed;
                let report = self.state.lock().report && error.code() == ErrorCode::NotCommitted.code();
                if report {
                    // A lower bound is asked for; an error while fetching it is the lowest.
                    let keys = failed.conflicting_keys().await.unwrap_or_default();
                    let ranges = keys.iter().map(|range| bytes_of(range.begin())..bytes_of(range.end()));
                    self.state.lock().conflicting = ranges.collect();
                }
                self.put(Slot::Failed(failed));
                Err(error_from(error))
            }
        }
    }

    async fn error_handle(&self, error: &KvError) -> KvResult<()> {
        let result = match self.take() {
            Slot::Open(transaction) => transaction.on_error(FdbError::from_code(error.code.code())).await,
            Slot::Failed(failed) if failed.code() == error.code.code() => failed.on_error().await,
            // Not the commit's own error: the caller's, about a transaction that starts anew.
            Slot::Failed(failed) => failed.reset().on_error(FdbError::from_code(error.code.code())).await,
            Slot::Committed(done) => done.reset().on_error(FdbError::from_code(error.code.code())).await,
            other => {
                let refused = match &other {
                    Slot::Cancelled(_) => ErrorCode::TransactionCancelled.into(),
                    Slot::Broken(broken) => broken.clone(),
                    _ => ErrorCode::UsedDuringCommit.into(),
                };
                self.put(other);
                return Err(refused);
            }
        };
        let mut state = self.state.lock();
        (state.report, state.version_set) = (false, false);
        match result {
            Ok(transaction) => {
                state.slot = Slot::Open(transaction);
                Ok(())
            }
            Err(refused) => {
                let refused = error_from(refused);
                state.slot = Slot::Broken(refused.clone());
                Err(refused)
            }
        }
    }
}

fn slot_open(database: &Database) -> Slot {
    database.create_trx().map_or_else(|error| Slot::Broken(error_from(error)), Slot::Open)
}

/// A future of the client as one of the contract, or the refusal that came instead of it.
fn answer<'a, T, U, F>(
    started: KvResult<F>,
    convert: impl FnOnce(T) -> U + Send + 'a,
) -> BoxFuture<'a, KvResult<U>>
where
    T: 'a,
    U: Send + 'a,
    F: Future<Output = Result<T, FdbError>> + Send + 'a,
{
    match started {
        Ok(future) => Box::pin(async move { future.await.map(convert).map_err(error_from) }),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl EngineTransaction for FdbTransaction {
    fn get<'a>(&'a self, key: &'a [u8], snapshot: bool) -> BoxFuture<'a, KvResult<Option<Bytes>>> {
        answer(self.with(|transaction| transaction.get(key, snapshot)), |value| {
            value.map(|slice| bytes_of(&slice))
        })
    }

    fn get_key<'a>(&'a self, key: &'a KeySelector, snapshot: bool) -> BoxFuture<'a, KvResult<Bytes>> {
        answer(self.with(|transaction| transaction.get_key(&selector(key), snapshot)), |slice| {
            bytes_of(&slice)
        })
    }

    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>> {
        let range = range_option(request);
        let started =
            self.with(|transaction| transaction.get_range(&range, request.iteration, request.snapshot));
        answer(started, |values| {
            let rows = values.iter().map(|row| (bytes_of(row.key()), bytes_of(row.value()))).collect();
            RangeBatch { rows, more: values.more() }
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        self.with(|transaction| {
            write_check(key, value)?;
            transaction.set(key, value);
            Ok(())
        })?
    }

    fn clear(&self, key: &[u8]) -> KvResult<()> {
        self.with(|transaction| {
            // The client reports an illegal key only at the commit.
            if key >= borough_kv::contract::limits::USER_KEYS_END {
                return Err(ErrorCode::KeyOutsideLegalRange.into());
            }
            transaction.clear(key);
            Ok(())
        })?
    }

    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        self.with(|transaction| {
            range_check(begin, end)?;
            transaction.clear_range(begin, end);
            Ok(())
        })?
    }

    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        self.with(|transaction| {
            atomic_check(operation, key, operand)?;
            transaction.atomic_op(key, operand, mutation_type(operation));
            Ok(())
        })?
    }

    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()> {
        let kind = match kind {
            ConflictKind::Read => ConflictRangeType::Read,
            ConflictKind::Write => ConflictRangeType::Write,
        };
        self.with(|transaction| {
            range_check(range.start, range.end)?;
            transaction.add_conflict_range(range.start, range.end, kind).map_err(error_from)
        })?
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>> {
        let started = self.with(|transaction| transaction.watch(key));
        Box::pin(ready(
            started.map(|watch| Box::pin(async move { watch.await.map_err(error_from) }) as Watch),
        ))
    }

    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>> {
        self.state.lock().version_set = true;
        answer(self.with(Transaction::get_read_version), |version| version)
    }

    fn set_read_version(&self, version: Version) -> KvResult<()> {
        if version <= 0 {
            return Err(ErrorCode::VersionInvalid.into());
        }
        if std::mem::replace(&mut self.state.lock().version_set, true) {
            return Err(ErrorCode::ReadVersionAlreadySet.into());
        }
        self.with(|transaction| transaction.set_read_version(version))
    }

    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>> {
        Box::pin(self.commit_run())
    }

    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>> {
        let started = self.with(Transaction::get_versionstamp);
        Box::pin(async move {
            let slice = started?.await.map_err(error_from)?;
            let stamp = Versionstamp::from_slice(&slice);
            stamp.ok_or_else(|| {
                KvError::with(ErrorCode::ClientInvalidOperation, "a stamp that is not ten bytes")
            })
        })
    }

    fn on_error<'a>(&'a self, error: &'a KvError) -> BoxFuture<'a, KvResult<()>> {
        Box::pin(self.error_handle(error))
    }

    fn set_option(&self, wanted: TransactionOption) -> KvResult<()> {
        let report = wanted == TransactionOption::ReportConflictingKeys;
        let wanted = option(wanted)?;
        self.with(|transaction| transaction.set_option(wanted).map_err(error_from))??;
        self.state.lock().report |= report;
        Ok(())
    }

    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>> {
        Box::pin(ready(Ok(self.state.lock().conflicting.clone())))
    }

    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>> {
        answer(self.with(Transaction::get_approximate_size), |size| usize::try_from(size).unwrap_or(0))
    }

    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>> {
        let started =
            self.with(|transaction| transaction.get_estimated_range_size_bytes(range.start, range.end));
        answer(started, unsigned)
    }

    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        chunk_bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>> {
        let chunk = i64::try_from(chunk_bytes.max(1)).unwrap_or(i64::MAX);
        let started =
            self.with(|transaction| transaction.get_range_split_points(range.start, range.end, chunk));
        answer(started, |keys| keys.iter().map(|key| bytes_of(key.key())).collect())
    }

    fn cancel(&self) {
        let mut state = self.state.lock();
        state.slot = match std::mem::replace(&mut state.slot, Slot::Busy) {
            Slot::Open(transaction) => Slot::Cancelled(transaction.cancel()),
            Slot::Failed(failed) => Slot::Cancelled(failed.reset().cancel()),
            Slot::Committed(committed) => Slot::Cancelled(committed.reset().cancel()),
            other => other,
        };
    }

    fn reset(&self) {
        let slot = match self.take() {
            Slot::Open(mut transaction) => {
                transaction.reset();
                Slot::Open(transaction)
            }
            Slot::Failed(failed) => Slot::Open(failed.reset()),
            Slot::Committed(committed) => Slot::Open(committed.reset()),
            Slot::Cancelled(cancelled) => Slot::Open(cancelled.reset()),
            Slot::Busy | Slot::Broken(_) => slot_open(&self.database),
        };
        *self.state.lock() = State { slot, report: false, version_set: false, conflicting: Vec::new() };
    }
}
