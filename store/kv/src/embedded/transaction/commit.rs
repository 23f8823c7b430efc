//! Commits: converts the write map to a request for the sequencer, and its answer to stamps and watches.

use bytes::Bytes;
use tokio::sync::oneshot;

use super::EmbeddedTransaction;
use super::state::{Phase, TransactionState};
use crate::contract::{Committed, ErrorCode, KvError, KvResult, Version, Versionstamp};
use crate::embedded::mutation::Mutation;
use crate::embedded::ranges::Span;
use crate::embedded::sequencer::{CommitAnswer, CommitRequest};

/// The size that a conflict range counts besides its keys, as in FoundationDB.
const SPAN_OVERHEAD_BYTES: usize = 24;

/// The next step after the request is built.
enum Prepared {
    /// Nothing is written: the transaction is over.
    ReadOnly,
    /// Wait for the sequencer.
    Sent(oneshot::Receiver<CommitAnswer>),
}

impl EmbeddedTransaction {
    pub(super) async fn commit_run(&self) -> KvResult<Committed> {
        let (prepared, generation, time_left) = {
            let mut state = self.state.lock();
            let now = self.engine.shared.clock.monotonic();
            state.open(now)?;
            // A commit waits for the earlier reads, and fails as they did. Its stamps and watches then wait for the end
            // of the transaction, since nothing was sent.
            if let Some(error) = state.failed_read.clone() {
                state.phase = Phase::Committing;
                return Err(error);
            }
            let prepared =
                self.commit_prepare(&mut state).inspect_err(|error| commit_failed(&mut state, error));
            (prepared?, state.generation, state.time_left(now))
        };
        let outcome = match prepared {
            Prepared::ReadOnly => Ok(None),
            Prepared::Sent(receiver) => {
                let answer = async move {
                    // The sequencer answers every request that it takes; without an answer the result is unknown.
                    let lost = || Err(KvError::new(ErrorCode::CommitUnknownResult).into());
                    receiver.await.unwrap_or_else(|_| lost()).map(Some)
                };
                match time_left {
                    None => answer.await,
                    Some(left) => match tokio::time::timeout(left, answer).await {
                        Ok(outcome) => outcome,
                        Err(_) => Err(KvError::new(ErrorCode::TransactionTimedOut).into()),
                    },
                }
            }
        };
        let mut state = self.state.lock();
        let current = state.generation == generation;
        match outcome {
            Ok(stamp) => {
                if current {
                    self.commit_succeeded(&mut state, stamp);
                }
                Ok(Committed { version: stamp.map(Versionstamp::version), stamp })
            }
            Err(refusal) => {
                if current {
                    state.conflicting = refusal.conflicting;
                    commit_failed(&mut state, &refusal.error);
                }
                Err(refusal.error)
            }
        }
    }

    fn commit_prepare(&self, state: &mut TransactionState) -> KvResult<Prepared> {
        state.phase = Phase::Committing;
        state.conflicting.clear();
        if state.writes.is_empty() {
            return Ok(Prepared::ReadOnly);
        }
        let version = self.version_take_for_commit(state)?;
        let (request, receiver) = request_build(state, version)?;
        self.engine.commit_submit(request);
        Ok(Prepared::Sent(receiver))
    }

    fn version_take_for_commit(&self, state: &mut TransactionState) -> KvResult<Version> {
        let version = self.version_take(state)?;
        if version > self.engine.shared.versions.read_version() {
            return Err(ErrorCode::FutureVersion.into());
        }
        Ok(version)
    }

    fn commit_succeeded(&self, state: &mut TransactionState, stamp: Option<Versionstamp>) {
        for sender in state.stamps.drain(..) {
            // The caller of the stamp may be gone.
            let _ = sender.send(stamp.ok_or(KvError::new(ErrorCode::NoCommitVersion)));
        }
        let shared = &self.engine.shared;
        let version = shared.versions.read_version();
        for pending in state.watches.drain(..) {
            shared.watches.arm(pending.key.clone(), pending.watcher);
            // A change between the commit and the arming shows here, a later one in the sequencer.
            let value: Option<Bytes> = shared.memory.read().get(&pending.key, version);
            shared.watches.check(&pending.key, value.as_ref());
        }
        if let Err(error) = shared.running() {
            shared.watches.end_all(&error);
        }
    }
}

/// Fails the stamps and watches of a commit.
fn commit_failed(state: &mut TransactionState, error: &KvError) {
    state.watches.drain(..).for_each(|pending| pending.watcher.end(Err(error.clone())));
    for sender in state.stamps.drain(..) {
        let _ = sender.send(Err(ErrorCode::TransactionInvalidVersion.into()));
    }
}

fn request_build(
    state: &TransactionState,
    read_version: Version,
) -> KvResult<(CommitRequest, oneshot::Receiver<CommitAnswer>)> {
    let (reads, writes) = (state.read_conflict_spans(), state.writes.conflict_spans());
    let mutations = state.writes.mutations();
    let mutation_bytes: usize = mutations.iter().map(Mutation::size).sum();
    let size = mutation_bytes.saturating_add(spans_size(&reads)).saturating_add(spans_size(&writes));
    if size > state.options.size_limit_bytes {
        let detail = format!("{size} bytes, the limit is {}", state.options.size_limit_bytes);
        return Err(KvError::with(ErrorCode::TransactionTooLarge, detail));
    }
    let (reply, receiver) = oneshot::channel();
    let request = CommitRequest {
        read_version,
        reads,
        writes,
        mutations,
        report_conflicts: state.options.report_conflicts,
        risky: state.options.causal_write_risky,
        flush: state.options.flush,
        bytes: size,
        reply,
    };
    Ok((request, receiver))
}

fn spans_size(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.size().saturating_add(SPAN_OVERHEAD_BYTES)).sum()
}

/// The size that a commit would count now.
pub(super) fn size(state: &TransactionState) -> usize {
    let mutations: usize = state.writes.mutations().iter().map(Mutation::size).sum();
    let reads = spans_size(&state.read_conflict_spans());
    mutations.saturating_add(reads).saturating_add(spans_size(&state.writes.conflict_spans()))
}
