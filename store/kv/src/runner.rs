//! The runner, the only way to a transaction. `run` retries what is safe to retry; `commit_at` never retries.
//!
//! "May have committed" is sticky. Once one try of a `run` ended with 1021 or 1039, every later try is marked so,
//! whatever the try before it ended with. Every try begins with an empty transaction and without options, so the
//! closure sets what it needs. Only time-out, retry limit and longest pause belong to the run and stay.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span};

use crate::contract::{
    Committed, Engine, EngineInfo, EngineState, EngineTransaction, ErrorCode, KvError, TransactionOption,
    Version,
};
use crate::database::{Access, Idempotency, Retryable, Transaction, TransactionTry};
use crate::env::{Clock, SystemClock};
use crate::metrics::{Metrics, RunEnd};

/// The error of [`Database::commit_at`].
#[derive(Debug)]
pub struct CommitAtError<E> {
    /// The closure's or the store's error.
    pub error: E,
    /// After a 1020: read conflict ranges that failed. A lower bound, since the check may stop early.
    pub conflicting: Vec<Range<Bytes>>,
}

/// A handle on a store. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    engine: Arc<dyn Engine>,
    metrics: Arc<Metrics>,
    /// Measures runs; decides nothing.
    clock: Arc<dyn Clock>,
}

/// Ends a transaction that its run left unfinished: with an error, or because its future was dropped. Clones that
/// escaped from the closure then answer 1025; otherwise their writes would go nowhere.
struct Unfinished(Option<Arc<dyn EngineTransaction>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(transaction) = &self.0 {
            transaction.cancel();
        }
    }
}

impl Database {
    /// A handle on `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, metrics: Arc::default(), clock: SystemClock::shared() }
    }

    /// The description of the engine.
    pub fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    /// The state of the engine, without a call to the store.
    pub fn engine_state(&self) -> EngineState {
        self.engine.state()
    }

    /// Ends when the engine has stopped for good, with the error that every operation then answers. A role without its
    /// store exits with a code of its own.
    pub fn engine_stopped(&self) -> BoxFuture<'static, KvError> {
        self.engine.stopped()
    }

    /// Registers the metrics of this handle and its clones in `registry`: tries, errors by code and durations, by the
    /// names of the runs. Also registers the engine's own.
    pub fn metrics_register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        self.engine.metrics_register(registry);
    }

    /// Runs `closure` in a transaction and commits it, with as many retries as the store needs, then returns its value.
    ///
    /// `name` labels metrics, spans and conflict reports. Make ids and times outside the closure, so that every try is
    /// the same transaction. An error of the closure without a store error in it ends the run, and so does 1031, which
    /// is never retried. Dropping the future cancels the transaction; a commit that was already sent may still happen.
    pub async fn run<T, E, F, Fut>(
        &self,
        name: &'static str,
        idempotency: Idempotency,
        closure: F,
    ) -> Result<T, E>
    where
        E: Retryable,
        F: FnMut(Transaction, TransactionTry) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.run_committed(name, idempotency, closure).await.map(|(value, _)| value)
    }

    /// As [`Database::run`], with the results of the commit.
    pub async fn run_committed<T, E, F, Fut>(
        &self,
        name: &'static str,
        idempotency: Idempotency,
        mut closure: F,
    ) -> Result<(T, Committed), E>
    where
        E: Retryable,
        F: FnMut(Transaction, TransactionTry) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut run = Run::begin(self, name, idempotency);
        let result = loop {
            let attempt = run.attempt_begin();
            let tried = closure(run.transaction.clone(), attempt).instrument(run.span.clone()).await;
            let error = match tried {
                Ok(value) => match run.commit().await {
                    Ok(committed) => break Ok((value, committed)),
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            // The closure failed for its own reasons: that is an answer.
            let Some(kv_error) = error.kv_error().cloned() else { break Err(error) };
            match run.failed(kv_error).await {
                AfterError::Again => {}
                AfterError::End => break Err(error),
                AfterError::EndWith(refused) => break Err(refused.into()),
            }
        };
        run.end(RunEnd::of(&result));
        result
    }

    /// Commits once at read version `version`, with conflicts reported, and never retries: a blind write replayed at
    /// another version overwrites the work of others. `closure` only adds guards and writes; it reads nothing.
    pub async fn commit_at<E, F>(
        &self,
        name: &'static str,
        version: Version,
        closure: F,
    ) -> Result<Committed, CommitAtError<E>>
    where
        E: Retryable,
        F: FnOnce(&Transaction) -> Result<(), E>,
    {
        let began = self.clock.monotonic();
        self.metrics.attempt(name);
        let transaction = self.begin(Access::Write);
        let mut unfinished = Unfinished(Some(Arc::clone(&transaction.inner)));
        let span = tracing::debug_span!("store", name, version);
        let result = commit_once(&transaction, version, closure).instrument(span).await;
        match &result {
            Ok(_) => unfinished.0 = None,
            Err(failed) => {
                if let Some(kv_error) = failed.error.kv_error() {
                    self.metrics.error(name, kv_error.code);
                    tracing::debug!(name, code = kv_error.code.code(), "commit_at failed");
                }
            }
        }
        self.observe(name, began, RunEnd::of(&result));
        result
    }

    fn observe(&self, name: &'static str, began: Duration, end: RunEnd) {
        self.metrics.finished(name, end, self.clock.monotonic().saturating_sub(began));
    }

    #[expect(clippy::disallowed_methods, reason = "the runner is the one place that opens transactions")]
    fn begin(&self, access: Access) -> Transaction {
        Transaction { inner: Arc::from(self.engine.begin()), access }
    }
}

/// A run of a closure, without the closure. Whatever does not depend on its type is here, so that the compiler builds
/// it once and not for each of a few hundred closures.
struct Run<'a> {
    database: &'a Database,
    name: &'static str,
    transaction: Transaction,
    unfinished: Unfinished,
    span: Span,
    began: Duration,
    attempt: TransactionTry,
}

/// What follows an error of the store.
enum AfterError {
    /// Another try.
    Again,
    /// The run ends with that error.
    End,
    /// The run ends with another one.
    EndWith(KvError),
}

impl<'a> Run<'a> {
    fn begin(database: &'a Database, name: &'static str, idempotency: Idempotency) -> Self {
        let access = if idempotency == Idempotency::ReadOnly { Access::Read } else { Access::Write };
        let transaction = database.begin(access);
        Self {
            database,
            name,
            unfinished: Unfinished(Some(Arc::clone(&transaction.inner))),
            transaction,
            span: tracing::debug_span!("store", name, ?idempotency, attempts = tracing::field::Empty),
            began: database.clock.monotonic(),
            attempt: TransactionTry { number: 0, maybe_committed: false },
        }
    }

    fn attempt_begin(&mut self) -> TransactionTry {
        self.attempt.number = self.attempt.number.saturating_add(1);
        self.database.metrics.attempt(self.name);
        self.span.record("attempts", self.attempt.number);
        self.attempt
    }

    fn commit(&self) -> Instrumented<BoxFuture<'_, Result<Committed, KvError>>> {
        self.transaction.inner.commit().instrument(self.span.clone())
    }

    /// Waits as the store asks, and prepares the next try, if there may be one.
    fn failed(&mut self, error: KvError) -> BoxFuture<'_, AfterError> {
        let span = self.span.clone();
        Box::pin(self.after(error).instrument(span))
    }

    async fn after(&mut self, error: KvError) -> AfterError {
        let name = self.name;
        self.database.metrics.error(name, error.code);
        self.attempt.maybe_committed |= error.code.is_maybe_committed();
        tracing::debug!(code = error.code.code(), attempt = self.attempt.number, "store error");
        if error.code == ErrorCode::TransactionTimedOut {
            return AfterError::End;
        }
        let Err(refused) = self.transaction.inner.on_error(&error).await else { return AfterError::Again };
        if self.attempt.maybe_committed {
            let code = refused.code.code();
            tracing::warn!(name, code, "gave up on a transaction that may have committed");
        }
        // The closure's error says more than the bare one.
        if refused.code == error.code { AfterError::End } else { AfterError::EndWith(refused) }
    }

    fn end(mut self, end: RunEnd) {
        if end == RunEnd::Done {
            self.unfinished.0 = None;
        }
        self.database.observe(self.name, self.began, end);
    }
}

async fn commit_once<E, F>(
    transaction: &Transaction,
    version: Version,
    closure: F,
) -> Result<Committed, CommitAtError<E>>
where
    E: Retryable,
    F: FnOnce(&Transaction) -> Result<(), E>,
{
    let fail = |error: E| CommitAtError { error, conflicting: Vec::new() };
    let set = |result: Result<(), KvError>| result.map_err(|error| fail(error.into()));
    set(transaction.inner.set_read_version(version))?;
    set(transaction.inner.set_option(TransactionOption::ReportConflictingKeys))?;
    closure(transaction).map_err(fail)?;
    match transaction.inner.commit().await {
        Ok(committed) => Ok(committed),
        Err(error) => {
            let conflicting = match error.code {
                ErrorCode::NotCommitted => transaction.inner.conflicting_ranges().await.unwrap_or_default(),
                _ => Vec::new(),
            };
            Err(CommitAtError { error: error.into(), conflicting })
        }
    }
}

#[cfg(test)]
mod tests;
