//! One transaction over the client's own, whose methods take and return it by value.

use std::ops::Range;
use std::sync::Arc;

use borough_kv::contract::check::{
    atomic_check, clear_check, conflict_check, range_check, watch_check, write_check,
};
use borough_kv::contract::limits::KEY_BYTES_MAX;
use borough_kv::contract::{Committed, ConflictKind};
use borough_kv::{
    AtomicOp, EngineTransaction, ErrorCode, Isolation, KeySelector, KvError, KvResult, RangeBatch,
    RangeRequest, TransactionOption, Version, Versionstamp, Watch,
};
use bytes::Bytes;
use foundationdb::options::ConflictRangeType;
use foundationdb::{Database, FdbError, Transaction, TransactionCancelled, TransactionCommitError};
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::watch as over;

use crate::convert::{bytes_of, error_from, is_snapshot, mutation_type, option, range_option, selector};
use crate::status::incompatible_server;

/// The client's code for a promise whose owner is gone.
const BROKEN_PROMISE: i32 = 1100;

/// The state of the client's transaction.
enum Slot {
    Open(Transaction),
    /// A commit or the pause after an error has it; gone for good if that future was dropped.
    Busy,
    Failed(TransactionCommitError),
    /// Committed. Kept because its watches belong to it until it is reset.
    Committed(foundationdb::TransactionCommitted),
    Cancelled(TransactionCancelled),
    /// The client could not make one.
    Broken(KvError),
}

/// What one try has done so far, for errors that the client would return only with the next operation.
#[derive(Default)]
struct NativeTry {
    /// Whether a failed commit fetches the conflicting ranges.
    report: bool,
    /// Whether anything was read or has a version. After that, no read version can be set.
    read: bool,
    /// Whether anything was read or written. After that, own writes cannot be turned off.
    touched: bool,
    own_writes_disabled: bool,
    conflicting: Vec<Range<Bytes>>,
    /// The error that every later operation repeats, until a reset.
    poison: Option<KvError>,
    /// Ends the watches of a try that was given up without a commit: the client would leave them waiting.
    over: over::Sender<Option<Over>>,
}

/// How a try was given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// Before a commit: its watches are ended, whatever the client does with them. The client arms them with the next
    /// commit of the same transaction.
    Open,
    /// After a failed commit, which may have ended them already.
    Failed,
}

impl NativeTry {
    /// Ends what waits for a commit that will not come.
    fn give_up(&self, slot: &Slot) {
        let over = match slot {
            Slot::Committed(_) => return,
            Slot::Failed(_) => Over::Failed,
            _ => Over::Open,
        };
        // Nobody may be watching.
        let _ = self.over.send(Some(over));
    }
}

struct NativeState {
    slot: Slot,
    attempt: NativeTry,
}

/// A transaction of FoundationDB.
pub(crate) struct FdbTransaction {
    database: Arc<Database>,
    state: Mutex<NativeState>,
}

impl FdbTransaction {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let slot = slot_open(&database);
        Self { database, state: Mutex::new(NativeState { slot, attempt: NativeTry::default() }) }
    }

    /// Calls `action` with the client's transaction, if it accepts operations.
    fn with<T>(&self, action: impl FnOnce(&Transaction) -> T) -> KvResult<T> {
        self.with_attempt(|transaction, _| action(transaction))
    }

    fn with_attempt<T>(&self, action: impl FnOnce(&Transaction, &mut NativeTry) -> T) -> KvResult<T> {
        let mut state = self.state.lock();
        let NativeState { slot, attempt } = &mut *state;
        match slot {
            Slot::Open(transaction) => match &attempt.poison {
                Some(error) => Err(error.clone()),
                None => Ok(action(transaction, attempt)),
            },
            Slot::Busy | Slot::Failed(_) | Slot::Committed(_) => Err(ErrorCode::UsedDuringCommit.into()),
            Slot::Cancelled(_) => Err(ErrorCode::TransactionCancelled.into()),
            Slot::Broken(error) => Err(error.clone()),
        }
    }

    /// Starts a read.
    fn reading<T>(&self, action: impl FnOnce(&Transaction) -> T) -> KvResult<T> {
        self.with_attempt(|transaction, attempt| {
            (attempt.read, attempt.touched) = (true, true);
            action(transaction)
        })
    }

    /// Buffers a write that passes `check`. The client would refuse an illegal one only at the commit.
    fn writing(&self, check: KvResult<()>, action: impl FnOnce(&Transaction)) -> KvResult<()> {
        self.with_attempt(|transaction, attempt| {
            check?;
            attempt.touched = true;
            action(transaction);
            Ok(())
        })?
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
                let report =
                    self.state.lock().attempt.report && error.code() == ErrorCode::NotCommitted.code();
                if report {
                    // The contract asks for a lower bound; after an error while fetching it is empty.
                    let keys = failed.conflicting_keys().await.unwrap_or_default();
                    let ranges = keys.iter().map(|range| bytes_of(range.begin())..bytes_of(range.end()));
                    self.state.lock().attempt.conflicting = ranges.collect();
                }
                self.put(Slot::Failed(failed));
                let error = error_from(error);
                // Whether it was sent is unknown: the error stays the same, with the reason.
                let other = unanswered(&self.database, error.clone()).await;
                Err(if other.code == error.code {
                    error
                } else {
                    KvError::with(error.code, other.to_string())
                })
            }
        }
    }

    async fn error_handle(&self, error: &KvError) -> KvResult<()> {
        let slot = self.take();
        let attempt = std::mem::take(&mut self.state.lock().attempt);
        if matches!(slot, Slot::Open(_) | Slot::Failed(_)) {
            attempt.give_up(&slot);
        }
        let asked = asked_of_client(error.code);
        let result = match slot {
            Slot::Open(transaction) => transaction.on_error(FdbError::from_code(asked)).await,
            Slot::Failed(failed) if failed.code() == asked => failed.on_error().await,
            // Not the commit's own error, but the caller's, about a transaction that starts again.
            Slot::Failed(failed) => failed.reset().on_error(FdbError::from_code(asked)).await,
            Slot::Committed(done) => done.reset().on_error(FdbError::from_code(asked)).await,
            other => {
                let refused = match &other {
                    Slot::Cancelled(_) => ErrorCode::TransactionCancelled.into(),
                    Slot::Broken(broken) => broken.clone(),
                    _ => ErrorCode::UsedDuringCommit.into(),
                };
                *self.state.lock() = NativeState { slot: other, attempt };
                return Err(refused);
            }
        };
        let mut state = self.state.lock();
        match result {
            Ok(transaction) => {
                state.slot = Slot::Open(transaction);
                Ok(())
            }
            Err(refused) => {
                // The client would only repeat that the time is up.
                let ours = error.code == ErrorCode::IncompatibleClient || refused.code() == asked;
                let refused = if ours { error.clone() } else { error_from(refused) };
                state.slot = Slot::Broken(refused.clone());
                Err(refused)
            }
        }
    }
}

/// The code that the client gets instead of an error that it does not know to be retryable: of 7.3, those of later
/// servers, and of its multi-version layer.
fn asked_of_client(code: ErrorCode) -> i32 {
    let known = match code {
        ErrorCode::ClusterVersionChanged => ErrorCode::CommitUnknownResult,
        ErrorCode::TransactionThrottledHotShard | ErrorCode::TransactionRejectedRangeLocked => {
            ErrorCode::ProcessBehind
        }
        known => known,
    };
    known.code()
}

fn slot_open(database: &Database) -> Slot {
    database.create_trx().map_or_else(|error| Slot::Broken(error_from(error)), Slot::Open)
}

/// Converts a future of the client to one of the contract, or to the error that came instead.
fn answer<'a, T, U, F>(
    database: &'a Database,
    started: KvResult<F>,
    convert: impl FnOnce(T) -> U + Send + 'a,
) -> BoxFuture<'a, KvResult<U>>
where
    T: 'a,
    U: Send + 'a,
    F: Future<Output = Result<T, FdbError>> + Send + 'a,
{
    match started {
        Ok(future) => Box::pin(async move {
            let error = match future.await.map(convert) {
                Ok(value) => return Ok(value),
                Err(error) => error_from(error),
            };
            Err(unanswered(database, error).await)
        }),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

/// The error of a read that timed out. If a server of another version is the cause, the error says so.
async fn unanswered(database: &Database, error: KvError) -> KvError {
    match error.code {
        ErrorCode::TransactionTimedOut => match incompatible_server(database).await {
            Some(server) => KvError::with(ErrorCode::IncompatibleClient, server),
            None => error,
        },
        _ => error,
    }
}

/// Waits for a watch of the client, or for the end of a try that never committed.
async fn watch_wait(
    watch: impl Future<Output = Result<(), FdbError>>,
    mut over: over::Receiver<Option<Over>>,
) -> KvResult<()> {
    let cancelled = || Err(ErrorCode::TransactionCancelled.into());
    if *over.borrow() == Some(Over::Open) {
        return cancelled();
    }
    tokio::pin!(watch);
    let given_up = async move { over.wait_for(Option::is_some).await.is_ok_and(|over| over.is_some()) };
    tokio::select! {
        biased;
        fired = &mut watch => fired.map_err(error_from),
        given_up = given_up => if given_up {
            cancelled()
        } else {
            // The try ended with a commit.
            watch.await.map_err(error_from)
        },
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl EngineTransaction for FdbTransaction {
    fn get<'a>(&'a self, key: &'a [u8], isolation: Isolation) -> BoxFuture<'a, KvResult<Option<Bytes>>> {
        if key.len() > KEY_BYTES_MAX && clear_check(key).is_ok() {
            // No such key exists. The client would search for one that is a few bytes longer.
            return Box::pin(ready(self.reading(|_| None)));
        }
        answer(
            &self.database,
            self.reading(|transaction| transaction.get(key, is_snapshot(isolation))),
            |value| value.map(|slice| bytes_of(&slice)),
        )
    }

    fn get_key<'a>(&'a self, key: &'a KeySelector, isolation: Isolation) -> BoxFuture<'a, KvResult<Bytes>> {
        answer(
            &self.database,
            self.reading(|transaction| transaction.get_key(&selector(key), is_snapshot(isolation))),
            |slice| bytes_of(&slice),
        )
    }

    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>> {
        let range = range_option(request);
        let started = self.reading(|transaction| {
            transaction.get_range(&range, request.iteration, is_snapshot(request.isolation))
        });
        answer(&self.database, started, |values| {
            let rows = values.iter().map(|row| (bytes_of(row.key()), bytes_of(row.value()))).collect();
            RangeBatch { rows, more: values.more() }
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        self.writing(write_check(key, value), |transaction| transaction.set(key, value))
    }

    fn clear(&self, key: &[u8]) -> KvResult<()> {
        if key.len() > KEY_BYTES_MAX {
            // No such key exists. The client's own limit is a few bytes higher.
            return self.with(|_| clear_check(key))?;
        }
        self.writing(clear_check(key), |transaction| transaction.clear(key))
    }

    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        self.writing(range_check(begin, end), |transaction| transaction.clear_range(begin, end))
    }

    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        self.writing(atomic_check(operation, key, operand), |transaction| {
            transaction.atomic_op(key, operand, mutation_type(operation));
        })
    }

    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()> {
        let client_kind = match kind {
            ConflictKind::Read => ConflictRangeType::Read,
            ConflictKind::Write => ConflictRangeType::Write,
        };
        self.with_attempt(|transaction, attempt| {
            conflict_check(kind, range.start, range.end)?;
            // The client would forget a read conflict when own writes are turned off after it.
            attempt.touched |= range.start < range.end;
            transaction.add_conflict_range(range.start, range.end, client_kind).map_err(error_from)
        })?
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>> {
        let started = self.with_attempt(|transaction, attempt| {
            if attempt.own_writes_disabled {
                return Err(ErrorCode::WatchesDisabled.into());
            }
            watch_check(key)?;
            (attempt.read, attempt.touched) = (true, true);
            Ok((transaction.watch(key), attempt.over.subscribe()))
        });
        let started = started.and_then(|started| started);
        Box::pin(ready(started.map(|(watch, over)| Box::pin(watch_wait(watch, over)) as Watch)))
    }

    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>> {
        let started = self.with_attempt(|transaction, attempt| {
            attempt.read = true;
            transaction.get_read_version()
        });
        answer(&self.database, started, |version| version)
    }

    fn set_read_version(&self, version: Version) -> KvResult<()> {
        self.with_attempt(|transaction, attempt| {
            if version <= 0 {
                return Err(ErrorCode::VersionInvalid.into());
            }
            if std::mem::replace(&mut attempt.read, true) {
                return Err(ErrorCode::ReadVersionAlreadySet.into());
            }
            transaction.set_read_version(version);
            Ok(())
        })?
    }

    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>> {
        Box::pin(self.commit_run())
    }

    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>> {
        let started = self.with(Transaction::get_versionstamp);
        Box::pin(async move {
            // The client breaks the promise of a transaction that is reset before it commits.
            let broken = |error: FdbError| match error.code() {
                BROKEN_PROMISE => ErrorCode::TransactionCancelled.into(),
                _ => error_from(error),
            };
            let slice = started?.await.map_err(broken)?;
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
        let disable = wanted == TransactionOption::ReadYourWritesDisable;
        let wanted = option(wanted)?;
        self.with_attempt(|transaction, attempt| {
            if disable && attempt.touched {
                // The client would poison the transaction silently.
                let error =
                    KvError::with(ErrorCode::ClientInvalidOperation, "read_your_writes_disable after use");
                attempt.poison = Some(error.clone());
                return Err(error);
            }
            if let Some(wanted) = wanted {
                transaction.set_option(wanted).map_err(error_from)?;
            }
            attempt.report |= report;
            attempt.own_writes_disabled |= disable;
            Ok(())
        })?
    }

    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>> {
        Box::pin(ready(Ok(self.state.lock().attempt.conflicting.clone())))
    }

    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>> {
        answer(&self.database, self.with(Transaction::get_approximate_size), |size| {
            usize::try_from(size).unwrap_or(0)
        })
    }

    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>> {
        let started =
            self.reading(|transaction| transaction.get_estimated_range_size_bytes(range.start, range.end));
        answer(&self.database, started, unsigned)
    }

    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        chunk_bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>> {
        let chunk = i64::try_from(chunk_bytes.max(1)).unwrap_or(i64::MAX);
        let started =
            self.reading(|transaction| transaction.get_range_split_points(range.start, range.end, chunk));
        answer(&self.database, started, |keys| keys.iter().map(|key| bytes_of(key.key())).collect())
    }

    fn cancel(&self) {
        let mut state = self.state.lock();
        state.attempt.give_up(&state.slot);
        state.slot = match std::mem::replace(&mut state.slot, Slot::Busy) {
            Slot::Open(transaction) => Slot::Cancelled(transaction.cancel()),
            Slot::Failed(failed) => Slot::Cancelled(failed.reset().cancel()),
            Slot::Committed(committed) => Slot::Cancelled(committed.reset().cancel()),
            Slot::Broken(_) => Slot::Broken(ErrorCode::TransactionCancelled.into()),
            other => other,
        };
    }

    fn reset(&self) {
        let slot = self.take();
        self.state.lock().attempt.give_up(&slot);
        let slot = match slot {
            Slot::Open(mut transaction) => {
                transaction.reset();
                Slot::Open(transaction)
            }
            Slot::Failed(failed) => Slot::Open(failed.reset()),
            Slot::Committed(committed) => Slot::Open(committed.reset()),
            Slot::Cancelled(cancelled) => Slot::Open(cancelled.reset()),
            Slot::Busy | Slot::Broken(_) => slot_open(&self.database),
        };
        *self.state.lock() = NativeState { slot, attempt: NativeTry::default() };
    }
}
