//! The runner over an engine that fails by a script: what is retried, remembered and counted.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::Database;
use crate::contract::{
    AtomicOp, Committed, ConflictKind, Engine, EngineInfo, EngineTransaction, ErrorCode, Isolation,
    KeySelector, KvError, KvResult, RangeBatch, RangeRequest, TransactionOption, Version, Versionstamp,
    Watch,
};
use crate::database::{Idempotency, Retryable, Transaction, TransactionTry, kv_error_in};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};

/// An embedded engine whose commits fail with the codes of a script, one per commit, before they are tried.
struct Scripted {
    inner: EmbeddedEngine,
    script: Arc<Mutex<VecDeque<ErrorCode>>>,
    cancels: Arc<AtomicU32>,
}

struct ScriptedTransaction {
    inner: Box<dyn EngineTransaction>,
    script: Arc<Mutex<VecDeque<ErrorCode>>>,
    cancels: Arc<AtomicU32>,
}

impl Scripted {
    fn database(script: &[ErrorCode]) -> (Database, Arc<AtomicU32>) {
        let inner = EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1));
        let cancels = Arc::new(AtomicU32::new(0));
        let script = Arc::new(Mutex::new(script.iter().copied().collect()));
        (Database::new(Arc::new(Self { inner, script, cancels: Arc::clone(&cancels) })), cancels)
    }
}

impl Engine for Scripted {
    #[expect(clippy::disallowed_methods, reason = "an engine around an engine")]
    fn begin(&self) -> Box<dyn EngineTransaction> {
        let (script, cancels) = (Arc::clone(&self.script), Arc::clone(&self.cancels));
        Box::new(ScriptedTransaction { inner: self.inner.begin(), script, cancels })
    }

    fn info(&self) -> EngineInfo {
        self.inner.info()
    }
}

impl EngineTransaction for ScriptedTransaction {
    fn get<'a>(&'a self, key: &'a [u8], isolation: Isolation) -> BoxFuture<'a, KvResult<Option<Bytes>>> {
        self.inner.get(key, isolation)
    }

    fn get_key<'a>(
        &'a self,
        selector: &'a KeySelector,
        isolation: Isolation,
    ) -> BoxFuture<'a, KvResult<Bytes>> {
        self.inner.get_key(selector, isolation)
    }

    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>> {
        self.inner.get_range(request)
    }

    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        self.inner.set(key, value)
    }

    fn clear(&self, key: &[u8]) -> KvResult<()> {
        self.inner.clear(key)
    }

    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        self.inner.clear_range(begin, end)
    }

    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        self.inner.atomic(operation, key, operand)
    }

    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()> {
        self.inner.add_conflict_range(kind, range)
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>> {
        self.inner.watch(key)
    }

    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>> {
        self.inner.read_version()
    }

    fn set_read_version(&self, version: Version) -> KvResult<()> {
        self.inner.set_read_version(version)
    }

    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>> {
        match self.script.lock().pop_front() {
            Some(code) => Box::pin(std::future::ready(Err(code.into()))),
            None => self.inner.commit(),
        }
    }

    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>> {
        self.inner.versionstamp()
    }

    fn on_error<'a>(&'a self, error: &'a KvError) -> BoxFuture<'a, KvResult<()>> {
        self.inner.on_error(error)
    }

    fn set_option(&self, option: TransactionOption) -> KvResult<()> {
        self.inner.set_option(option)
    }

    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>> {
        self.inner.conflicting_ranges()
    }

    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>> {
        self.inner.approximate_size()
    }

    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>> {
        self.inner.estimated_range_size(range)
    }

    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>> {
        self.inner.range_split_points(range, bytes)
    }

    fn cancel(&self) {
        self.cancels.fetch_add(1, Ordering::SeqCst);
        self.inner.cancel();
    }

    fn reset(&self) {
        self.inner.reset();
    }
}

/// An error with the store's error two levels down.
#[derive(Debug, thiserror::Error)]
#[error("layer")]
struct Layer(#[source] Middle);

#[derive(Debug, thiserror::Error)]
enum Middle {
    #[error("store")]
    Store(#[source] KvError),
    #[error("own")]
    Own,
}

impl From<KvError> for Layer {
    fn from(error: KvError) -> Self {
        Self(Middle::Store(error))
    }
}

impl Retryable for Layer {
    fn kv_error(&self) -> Option<&KvError> {
        kv_error_in(self)
    }
}

async fn attempts_of(script: &[ErrorCode]) -> (Result<(), Layer>, Vec<TransactionTry>) {
    let (database, _) = Scripted::database(script);
    let seen = Mutex::new(Vec::new());
    let closure = |transaction: Transaction, attempt| {
        seen.lock().push(attempt);
        async move { Ok::<_, Layer>(transaction.set(b"k", b"v")?) }
    };
    let result = database.run("test", Idempotency::Natural, closure).await;
    (result, seen.into_inner())
}

#[tokio::test(start_paused = true)]
async fn maybe_committed_sticks_over_every_later_error() {
    for unknown in [ErrorCode::CommitUnknownResult, ErrorCode::ClusterVersionChanged] {
        for later in ErrorCode::ALL.iter().copied().filter(|code| code.is_retryable()) {
            let (result, attempts) = attempts_of(&[later, unknown, later, later]).await;
            result.unwrap();
            let marks: Vec<bool> = attempts.iter().map(|attempt| attempt.maybe_committed).collect();
            let first = later.is_maybe_committed();
            assert_eq!(marks, [false, first, true, true, true], "{unknown:?} then {later:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_code_is_retried_or_returned_by_its_kind() {
    for code in ErrorCode::ALL.iter().copied() {
        let (result, attempts) = attempts_of(&[code]).await;
        if code.is_retryable() {
            result.unwrap();
            assert_eq!(attempts.len(), 2, "{code:?}");
            assert_eq!(attempts[1], TransactionTry { number: 2, maybe_committed: code.is_maybe_committed() });
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.kv_error().unwrap().code, code);
            assert_eq!(attempts.len(), 1, "{code:?} must not be repeated");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_code_that_a_closure_wraps_is_retried_or_returned_by_its_kind() {
    for code in ErrorCode::ALL.iter().copied() {
        let (database, _) = Scripted::database(&[]);
        let mut marks = Vec::new();
        let closure = |_: Transaction, attempt: TransactionTry| {
            marks.push(attempt.maybe_committed);
            async move { if attempt.number == 1 { Err(Layer(Middle::Store(code.into()))) } else { Ok(()) } }
        };
        let result = database.run("test", Idempotency::Natural, closure).await;
        if code.is_retryable() {
            result.unwrap();
            assert_eq!(marks, [false, code.is_maybe_committed()], "{code:?}");
        } else {
            let error = result.unwrap_err();
            assert!(matches!(&error, Layer(Middle::Store(kept)) if kept.code == code), "{error:?}");
            assert_eq!(marks, [false], "{code:?} must not be repeated");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrapped_store_error_from_the_closure_is_retried_and_its_own_is_not() {
    let (database, cancels) = Scripted::database(&[]);
    let mut calls = 0;
    let closure = |_: Transaction, attempt: TransactionTry| {
        calls += 1;
        async move {
            match attempt.number {
                1 => Err(Layer(Middle::Store(ErrorCode::NotCommitted.into()))),
                _ => Err::<(), _>(Layer(Middle::Own)),
            }
        }
    };
    let error = database.run("test", Idempotency::Natural, closure).await.unwrap_err();
    assert!(matches!(error, Layer(Middle::Own)));
    assert_eq!(calls, 2);
    assert_eq!(cancels.load(Ordering::SeqCst), 1, "an ended run leaves no open transaction");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_begins_empty_and_without_the_options_of_the_one_before() {
    let (database, _) = Scripted::database(&[ErrorCode::NotCommitted]);
    let sizes = Mutex::new(Vec::new());
    let closure = |transaction: Transaction, attempt: TransactionTry| {
        let sizes = &sizes;
        async move {
            let size = transaction.approximate_size().await?;
            sizes.lock().push(size);
            if attempt.number == 1 {
                transaction.set_option(TransactionOption::ReadYourWritesDisable)?;
            }
            transaction.set(b"k", b"v")?;
            Ok::<_, KvError>(transaction.get(b"k").await?.is_some())
        }
    };
    assert!(database.run("test", Idempotency::Natural, closure).await.unwrap(), "own writes are seen again");
    assert_eq!(*sizes.lock(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_retry_limit_counts_over_attempts_and_gives_the_last_error() {
    let (database, _) = Scripted::database(&[ErrorCode::NotCommitted; 9]);
    let mut calls = 0;
    let closure = |transaction: Transaction, _| {
        calls += 1;
        async move {
            transaction.set_option(TransactionOption::RetryLimit(3))?;
            transaction.set(b"k", b"v")
        }
    };
    let error = database.run("test", Idempotency::Natural, closure).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotCommitted);
    assert_eq!(calls, 4);
}

#[tokio::test]
async fn a_read_only_run_writes_nothing() {
    let (database, _) = Scripted::database(&[]);
    let closure = |transaction: Transaction, _| async move { transaction.set(b"k", b"v") };
    let error = database.run("test", Idempotency::ReadOnly, closure).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ClientInvalidOperation);
}

#[tokio::test]
async fn a_dropped_run_is_cancelled() {
    let (database, cancels) = Scripted::database(&[]);
    let escaped = Arc::new(Mutex::new(None));
    {
        let closure = |transaction: Transaction, _| {
            *escaped.lock() = Some(transaction);
            std::future::pending::<KvResult<()>>()
        };
        let mut run = Box::pin(database.run("test", Idempotency::Natural, closure));
        assert!(futures::poll!(run.as_mut()).is_pending());
    }
    assert_eq!(cancels.load(Ordering::SeqCst), 1);
    let escaped = escaped.lock().take().unwrap();
    assert_eq!(escaped.set(b"k", b"v").unwrap_err().code, ErrorCode::TransactionCancelled);
}

#[tokio::test]
async fn a_forced_conflict_moves_its_metric() {
    let (database, _) = Scripted::database(&[]);
    let mut registry = prometheus_client::registry::Registry::default();
    database.metrics_register(&mut registry);
    let shown = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let conflicts = "store_errors_total{name=\"loser\",code=\"1020\"} 1";
    assert!(!shown().contains(conflicts));
    let other = database.clone();
    let closure = |transaction: Transaction, attempt: TransactionTry| {
        let other = other.clone();
        async move {
            transaction.get(b"k").await?;
            if attempt.number == 1 {
                let win = |transaction: Transaction, _| async move { transaction.set(b"k", b"other") };
                other.run("winner", Idempotency::Natural, win).await?;
            }
            transaction.set(b"k", b"mine")
        }
    };
    database.run("loser", Idempotency::Natural, closure).await.unwrap();
    let text = shown();
    for line in [
        conflicts,
        "store_attempts_total{name=\"loser\"} 2",
        "store_attempts_total{name=\"winner\"} 1",
        "store_run_seconds_count{name=\"loser\",result=\"ok\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
