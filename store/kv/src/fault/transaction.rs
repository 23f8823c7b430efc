//! One transaction with faults.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Faults;
use crate::contract::{
    AtomicOp, Committed, ConflictKind, EngineTransaction, ErrorCode, Isolation, KeySelector, KvError,
    KvResult, RangeBatch, RangeRequest, StreamingMode, TransactionOption, Version, Versionstamp, Watch,
};

/// The result of a try's commit, for its watches and stamps.
#[derive(Clone, Debug)]
enum Fate {
    Open,
    Committed,
    Failed(KvError),
}

struct FaultState {
    inner: Arc<dyn EngineTransaction>,
    /// Whether a commit was answered here, without a commit of the inner transaction.
    ended: bool,
    /// Whether anything was written, so that a commit can fail at all.
    wrote: bool,
    /// Whether anything was read with a conflict, so that it can conflict.
    read: bool,
    /// Whether the read version was requested.
    versioned: bool,
    fate: watch::Sender<Fate>,
}

impl FaultState {
    fn restart(&mut self) {
        // A result stays, even if nobody has read it yet.
        self.fate.send_if_modified(|fate| {
            let open = matches!(fate, Fate::Open);
            if open {
                *fate = Fate::Failed(ErrorCode::TransactionCancelled.into());
            }
            open
        });
        self.fate = watch::channel(Fate::Open).0;
        (self.ended, self.wrote, self.read, self.versioned) = (false, false, false, false);
    }
}

/// One transaction with faults.
pub(super) struct FaultTransaction {
    faults: Arc<Faults>,
    state: Mutex<FaultState>,
}

/// Faults of a commit, in the order in which they are drawn.
enum CommitFault {
    None,
    Refused(ErrorCode),
    ThenUnknown,
    NotThenUnknown,
    Later,
}

impl FaultTransaction {
    pub(super) fn new(faults: Arc<Faults>, inner: Arc<dyn EngineTransaction>) -> Self {
        let fate = watch::channel(Fate::Open).0;
        let state = FaultState { inner, ended: false, wrote: false, read: false, versioned: false, fate };
        Self { faults, state: Mutex::new(state) }
    }

    /// The inner transaction for an operation, unless a commit was answered here already.
    fn inner(&self) -> KvResult<Arc<dyn EngineTransaction>> {
        let state = self.state.lock();
        if state.ended {
            return Err(ErrorCode::UsedDuringCommit.into());
        }
        Ok(Arc::clone(&state.inner))
    }

    fn writing(&self) -> KvResult<Arc<dyn EngineTransaction>> {
        let inner = self.inner()?;
        self.state.lock().wrote = true;
        Ok(inner)
    }

    /// Waits for a slow read version, once.
    async fn version_wait(&self) {
        let first = !std::mem::replace(&mut self.state.lock().versioned, true);
        let plan = &self.faults.plan;
        if first && self.faults.strikes("read_version_slow", plan.read_version_slow) {
            tokio::time::sleep(self.faults.delay(plan.read_version_delay_max)).await;
        }
    }

    /// The inner transaction for a read, after the faults of a read.
    async fn reading(&self, isolation: Isolation) -> KvResult<Arc<dyn EngineTransaction>> {
        let inner = self.inner()?;
        self.version_wait().await;
        if self.faults.strikes("read_fails", self.faults.plan.read_fails) {
            return Err(self.version_error().into());
        }
        self.state.lock().read |= isolation == Isolation::Serializable;
        Ok(inner)
    }

    fn version_error(&self) -> ErrorCode {
        match self.faults.below(3) {
            0 => ErrorCode::TransactionTooOld,
            1 => ErrorCode::FutureVersion,
            _ => ErrorCode::ProcessBehind,
        }
    }

    fn commit_fault(&self) -> CommitFault {
        let (faults, plan) = (&self.faults, &self.faults.plan);
        let read = self.state.lock().read;
        if faults.strikes("commit_refused", plan.commit_refused) {
            let conflict = read && faults.below(2) == 0;
            // 1007 can be an error of reads only: a blind write is never too old.
            let code = if conflict { ErrorCode::NotCommitted } else { self.version_error() };
            let blind = !read && code == ErrorCode::TransactionTooOld;
            return CommitFault::Refused(if blind { ErrorCode::ProcessBehind } else { code });
        }
        if faults.strikes("commit_then_unknown", plan.commit_then_unknown) {
            return CommitFault::ThenUnknown;
        }
        if faults.strikes("no_commit_then_unknown", plan.no_commit_then_unknown) {
            return CommitFault::NotThenUnknown;
        }
        let runtime = tokio::runtime::Handle::try_current().is_ok();
        if runtime && faults.strikes("timed_out_then_commit", plan.timed_out_then_commit) {
            return CommitFault::Later;
        }
        CommitFault::None
    }

    async fn commit_run(&self) -> KvResult<Committed> {
        let inner = self.inner()?;
        let wrote = self.state.lock().wrote;
        if wrote && self.faults.strikes("commit_slow", self.faults.plan.commit_slow) {
            // Its read version is that of its reads; without reads, the commit takes one when it arrives.
            tokio::time::sleep(self.faults.delay(self.faults.plan.commit_delay_max)).await;
        }
        let fault = if wrote { self.commit_fault() } else { CommitFault::None };
        let result = match fault {
            CommitFault::None => inner.commit().await,
            CommitFault::Refused(code) => Err(code.into()),
            CommitFault::NotThenUnknown => Err(ErrorCode::CommitUnknownResult.into()),
            CommitFault::ThenUnknown => {
                inner.commit().await.and_then(|_| Err(ErrorCode::CommitUnknownResult.into()))
            }
            CommitFault::Later => {
                self.commit_later(inner).await?;
                Err(ErrorCode::TransactionTimedOut.into())
            }
        };
        let mut state = self.state.lock();
        state.ended = result.is_err();
        state.fate.send_replace(
            result.as_ref().map_or_else(|error| Fate::Failed(error.clone()), |_| Fate::Committed),
        );
        result
    }

    /// Lets `inner` commit on its own some time later. This transaction continues with another one inside, so that its
    /// owner's next calls do not reach the commit in flight.
    async fn commit_later(&self, inner: Arc<dyn EngineTransaction>) -> KvResult<()> {
        // A commit in flight has its read version. Taken later, it might follow its owner's next actions.
        inner.read_version().await?;
        let delay = self.faults.delay(self.faults.plan.commit_later_max);
        #[expect(clippy::disallowed_methods, reason = "an engine around an engine")]
        let fresh: Arc<dyn EngineTransaction> = Arc::from(self.faults.engine.begin());
        self.state.lock().inner = fresh;
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // Nobody gets the result: that is the meaning of 1031.
            let _ = inner.commit().await;
        });
        Ok(())
    }

    async fn watch_open(&self, key: &[u8]) -> KvResult<Watch> {
        let inner = self.reading(Isolation::Serializable).await?;
        let watch = inner.watch(key).await?;
        let fate = self.state.lock().fate.subscribe();
        let (faults, plan) = (Arc::clone(&self.faults), &self.faults.plan);
        let spurious = faults.strikes("watch_spurious", plan.watch_spurious);
        let fails = !spurious && faults.strikes("watch_fails", plan.watch_fails);
        let late = faults.strikes("watch_late", plan.watch_late);
        let delay = faults.delay(plan.watch_delay_max);
        Ok(Box::pin(async move {
            commit_wait(fate).await?;
            if spurious || fails {
                tokio::select! {
                    ended = watch => return ended,
                    () = tokio::time::sleep(delay) => {}
                }
                return if fails { Err(ErrorCode::ProcessBehind.into()) } else { Ok(()) };
            }
            let ended = watch.await;
            if late {
                tokio::time::sleep(delay).await;
            }
            ended
        }))
    }
}

/// Waits until the commit succeeded; its error otherwise.
async fn commit_wait(mut fate: watch::Receiver<Fate>) -> KvResult<()> {
    let decided = fate.wait_for(|fate| !matches!(fate, Fate::Open)).await.map(|fate| fate.clone());
    match decided {
        Ok(Fate::Failed(error)) => Err(error),
        Ok(_) => Ok(()),
        // The transaction was dropped without a commit.
        Err(_) => Err(ErrorCode::TransactionCancelled.into()),
    }
}

impl EngineTransaction for FaultTransaction {
    fn get<'a>(&'a self, key: &'a [u8], isolation: Isolation) -> BoxFuture<'a, KvResult<Option<Bytes>>> {
        Box::pin(async move { self.reading(isolation).await?.get(key, isolation).await })
    }

    fn get_key<'a>(
        &'a self,
        selector: &'a KeySelector,
        isolation: Isolation,
    ) -> BoxFuture<'a, KvResult<Bytes>> {
        Box::pin(async move { self.reading(isolation).await?.get_key(selector, isolation).await })
    }

    fn get_range<'a>(&'a self, request: &'a RangeRequest) -> BoxFuture<'a, KvResult<RangeBatch>> {
        Box::pin(async move {
            let inner = self.reading(request.isolation).await?;
            let cuttable = request.mode != StreamingMode::Exact && request.limit != 1;
            if cuttable && self.faults.strikes("short_batch", self.faults.plan.short_batch) {
                let limit = usize::try_from(self.faults.below(3)).unwrap_or(0).saturating_add(1);
                let limit = if request.limit == 0 { limit } else { limit.min(request.limit) };
                return inner.get_range(&RangeRequest { limit, ..request.clone() }).await;
            }
            inner.get_range(request).await
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) -> KvResult<()> {
        self.writing()?.set(key, value)
    }

    fn clear(&self, key: &[u8]) -> KvResult<()> {
        self.writing()?.clear(key)
    }

    fn clear_range(&self, begin: &[u8], end: &[u8]) -> KvResult<()> {
        self.writing()?.clear_range(begin, end)
    }

    fn atomic(&self, operation: AtomicOp, key: &[u8], operand: &[u8]) -> KvResult<()> {
        self.writing()?.atomic(operation, key, operand)
    }

    fn add_conflict_range(&self, kind: ConflictKind, range: Range<&[u8]>) -> KvResult<()> {
        let inner = self.inner()?;
        {
            let mut state = self.state.lock();
            state.read |= kind == ConflictKind::Read;
            state.wrote |= kind == ConflictKind::Write;
        }
        inner.add_conflict_range(kind, range)
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, KvResult<Watch>> {
        Box::pin(self.watch_open(key))
    }

    fn read_version(&self) -> BoxFuture<'_, KvResult<Version>> {
        Box::pin(async move {
            let inner = self.inner()?;
            self.version_wait().await;
            inner.read_version().await
        })
    }

    fn set_read_version(&self, version: Version) -> KvResult<()> {
        self.inner()?.set_read_version(version)
    }

    fn commit(&self) -> BoxFuture<'_, KvResult<Committed>> {
        Box::pin(self.commit_run())
    }

    fn versionstamp(&self) -> BoxFuture<'static, KvResult<Versionstamp>> {
        let inner = match self.inner() {
            Ok(inner) => inner,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let (stamp, fate) = (inner.versionstamp(), self.state.lock().fate.subscribe());
        Box::pin(async move {
            match commit_wait(fate).await {
                Ok(()) => stamp.await,
                Err(error) if error.code == ErrorCode::TransactionCancelled => Err(error),
                Err(_) => Err(ErrorCode::TransactionInvalidVersion.into()),
            }
        })
    }

    fn on_error<'a>(&'a self, error: &'a KvError) -> BoxFuture<'a, KvResult<()>> {
        Box::pin(async move {
            let inner = Arc::clone(&self.state.lock().inner);
            inner.on_error(error).await?;
            self.state.lock().restart();
            Ok(())
        })
    }

    fn set_option(&self, option: TransactionOption) -> KvResult<()> {
        self.inner()?.set_option(option)
    }

    fn conflicting_ranges(&self) -> BoxFuture<'_, KvResult<Vec<Range<Bytes>>>> {
        let inner = Arc::clone(&self.state.lock().inner);
        Box::pin(async move { inner.conflicting_ranges().await })
    }

    fn approximate_size(&self) -> BoxFuture<'_, KvResult<usize>> {
        Box::pin(async move { self.inner()?.approximate_size().await })
    }

    fn estimated_range_size<'a>(&'a self, range: Range<&'a [u8]>) -> BoxFuture<'a, KvResult<u64>> {
        Box::pin(async move { self.reading(Isolation::Snapshot).await?.estimated_range_size(range).await })
    }

    fn range_split_points<'a>(
        &'a self,
        range: Range<&'a [u8]>,
        chunk_bytes: u64,
    ) -> BoxFuture<'a, KvResult<Vec<Bytes>>> {
        Box::pin(async move {
            self.reading(Isolation::Snapshot).await?.range_split_points(range, chunk_bytes).await
        })
    }

    fn cancel(&self) {
        let mut state = self.state.lock();
        state.inner.cancel();
        state.restart();
    }

    fn reset(&self) {
        let mut state = self.state.lock();
        state.inner.reset();
        state.restart();
    }
}
