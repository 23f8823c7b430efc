//! The sequencer: the one place that decides which commits happen and in which order.
//!
//! It takes a batch of requests and checks each against the writes of the last five seconds and of the batch itself. It
//! gives the accepted ones one version and each a batch index. It makes them durable with one append, applies them,
//! publishes the version, answers, and then fires watches.
//!
//! These steps never overlap for two batches. A reader that gets a version therefore sees everything below it, and a
//! watcher that reads after its watch fired sees the change.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::memory::Memory;
use super::mutation::Mutation;
use super::ranges::{RangeSet, Span};
use super::resolver::{Resolver, ResolverRequest, ResolverVerdict};
use super::stats::EngineCounters;
use super::versions::Versions;
use super::watch::Watches;
use crate::contract::limits::TRANSACTION_LIFE_VERSIONS;
use crate::contract::{EngineState, ErrorCode, KvError, Version, Versionstamp};
use crate::env::{Clock, Rng};

/// The ceiling is raised so far ahead of use: an hour, so that an idle engine wakes for it twice an hour.
pub(crate) const CEILING_AHEAD_VERSIONS: Version = 3_600_000_000;

/// Why a commit was refused.
#[derive(Debug)]
pub(crate) struct CommitRefusal {
    pub(crate) error: KvError,
    /// After a 1020: the read ranges that were written since.
    pub(crate) conflicting: Vec<Range<Bytes>>,
}

impl From<KvError> for CommitRefusal {
    fn from(error: KvError) -> Self {
        Self { error, conflicting: Vec::new() }
    }
}

/// The result of a commit: its stamp, or why it failed.
pub(crate) type CommitAnswer = Result<Versionstamp, CommitRefusal>;

/// Whether commits wait for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Busy,
    Idle,
}

/// When a batch is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flush {
    /// With the next batch that is flushed, or when the machine does it.
    Later,
    /// Before its answers.
    Now,
}

/// One transaction that wants to commit.
#[derive(Debug)]
pub(crate) struct CommitRequest {
    pub(crate) read_version: Version,
    pub(crate) reads: Vec<Span>,
    pub(crate) writes: Vec<Span>,
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) report_conflicts: bool,
    /// If nothing was read: whether the read version may also be too old.
    pub(crate) risky: bool,
    pub(crate) flush: Flush,
    /// The size that the transaction counts against the limit.
    pub(crate) bytes: usize,
    pub(crate) reply: oneshot::Sender<CommitAnswer>,
}

/// Why an append did not happen.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The disk is full; the log is as it was before.
    NoSpace(String),
    /// The process has no descriptor, memory or thread left for it; the log is as it was before.
    Resources(String),
    /// Anything else: the content of the disk is unknown, and the engine stops with this error.
    Failed(KvError),
}

/// Makes accepted batches durable.
pub(crate) trait Durable: Send {
    /// Appends one batch, with a new ceiling if one is given. Returns after the flush, if there is one.
    fn append(
        &mut self,
        version: Version,
        ceiling: Option<Version>,
        mutations: &[Mutation],
        flush: Flush,
    ) -> Result<(), AppendError>;

    /// Work that may be done between batches, after `version` was published.
    /// An error means that the disk has failed.
    fn maintain(&mut self, version: Version, memory: &Arc<Memory>) -> Result<(), KvError>;

    /// Returns true if [`Durable::confirm`] has something left to make durable when idle.
    fn is_unconfirmed(&self) -> bool;

    /// Makes durable how far the log is durable: at intervals under load, and always when idle. An error means that
    /// the disk has failed.
    fn confirm(&mut self, load: Load) -> Result<(), KvError>;
}

/// State that the sequencer and the transactions share.
pub(crate) struct SequencerShared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) versions: Versions,
    pub(crate) memory: Arc<Memory>,
    pub(crate) watches: Watches,
    pub(crate) stats: EngineCounters,
    /// Why the engine stopped, once it has.
    stopped: OnceLock<KvError>,
    /// The state for those that wait for a change.
    state: watch::Sender<EngineState>,
}

impl SequencerShared {
    pub(crate) fn new(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>, versions: Versions, memory: Memory) -> Self {
        let (watches, stats, stopped) = (Watches::default(), EngineCounters::default(), OnceLock::new());
        let state = watch::Sender::new(EngineState::Serving);
        Self { clock, rng, versions, memory: Arc::new(memory), watches, stats, stopped, state }
    }

    /// The engine's state, and every change of it.
    pub(crate) fn state(&self) -> watch::Receiver<EngineState> {
        self.state.subscribe()
    }

    /// Records whether commits succeed. A stopped engine stays stopped.
    fn state_set(&self, next: EngineState) {
        self.state.send_if_modified(|state| {
            let changes = !matches!(state, EngineState::Stopped(_)) && *state != next;
            if changes {
                *state = next;
            }
            changes
        });
    }

    /// Fails once the engine has stopped.
    pub(crate) fn running(&self) -> Result<(), KvError> {
        self.stopped.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Stops the engine for good: every later operation and every watch ends with `error`.
    pub(crate) fn stop(&self, error: KvError) {
        let error = self.stopped.get_or_init(|| error);
        self.state_set(EngineState::Stopped(error.clone()));
        self.watches.end_all(error);
    }
}

/// An accepted commit that waits for its batch.
struct Accepted {
    stamp: Versionstamp,
    flush: Flush,
    reply: oneshot::Sender<CommitAnswer>,
}

/// The sequencer's own state. Each engine has exactly one.
pub(crate) struct Sequencer {
    shared: Arc<SequencerShared>,
    resolver: Resolver,
    durable: Option<Box<dyn Durable>>,
    trimmed: Version,
    /// Whether the disk, or a lack of resources, refused the last batch, so that this is logged once and not per batch.
    refusing: bool,
}

impl Sequencer {
    /// A sequencer without writes before `first`. Without `durable`, the data ends with the process.
    pub(crate) fn new(
        shared: Arc<SequencerShared>,
        first: Version,
        durable: Option<Box<dyn Durable>>,
    ) -> Self {
        Self { shared, resolver: Resolver::new(first), durable, trimmed: first, refusing: false }
    }

    /// Commits a batch: answers every request.
    pub(crate) fn batch_commit(&mut self, batch: Vec<CommitRequest>) {
        if let Err(error) = self.shared.running() {
            batch.into_iter().for_each(|request| answer(request.reply, Err(error.clone().into())));
            return;
        }
        let version = self.shared.versions.assign();
        self.resolver.advance(version);
        let mut accepted = Vec::with_capacity(batch.len());
        let mut mutations = Vec::new();
        for request in batch {
            self.request_resolve(request, version, &mut accepted, &mut mutations);
        }
        if accepted.is_empty() {
            self.shared.versions.abandon();
            return;
        }
        let flush = accepted.iter().map(|one| one.flush).max().unwrap_or(Flush::Now);
        match self.batch_append(version, &mutations, flush) {
            Ok(()) => self.batch_publish(version, accepted, &mutations),
            Err(error) => self.batch_fail(accepted, error),
        }
    }

    /// Checks that the durable ceiling suffices for the next while; raises it otherwise.
    fn ceiling_extend(&mut self) {
        if self.shared.running().is_err() || self.ceiling_next(self.shared.versions.read_version()).is_none()
        {
            return;
        }
        let version = self.shared.versions.assign();
        match self.batch_append(version, &[], Flush::Now) {
            Ok(()) => self.batch_publish(version, Vec::new(), &[]),
            Err(error) => self.batch_fail(Vec::new(), error),
        }
    }

    /// The periodic work of an idle engine.
    pub(crate) fn idle(&mut self) {
        self.ceiling_extend();
        self.confirm(Load::Idle);
    }

    /// Returns true if an idle engine has something to confirm.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.is_unconfirmed())
    }

    fn confirm(&mut self, load: Load) {
        let confirmed = self.durable.as_mut().map_or(Ok(()), |durable| durable.confirm(load));
        self.stop_after(confirmed);
    }

    fn maintain(&mut self, version: Version) {
        let memory = &self.shared.memory;
        let maintained = self.durable.as_mut().map_or(Ok(()), |durable| durable.maintain(version, memory));
        self.stop_after(maintained);
    }

    fn stop_after(&self, done: Result<(), KvError>) {
        if let Err(error) = done {
            tracing::error!(%error, "the store's disk failed: the engine stops");
            self.shared.stop(error);
        }
    }

    fn request_resolve(
        &mut self,
        request: CommitRequest,
        version: Version,
        accepted: &mut Vec<Accepted>,
        mutations: &mut Vec<Mutation>,
    ) {
        let CommitRequest {
            read_version,
            reads,
            mut writes,
            mutations: own,
            report_conflicts,
            risky,
            flush,
            reply,
            ..
        } = request;
        let refusal = match self.resolver.check(&ResolverRequest {
            read_version,
            reads: &reads,
            risky,
            report_all: report_conflicts,
        }) {
            ResolverVerdict::Accepted => None,
            ResolverVerdict::TooOld => Some(KvError::new(ErrorCode::TransactionTooOld).into()),
            ResolverVerdict::Conflict(indices) => {
                let conflicting = if report_conflicts { ranges_named(&reads, &indices) } else { Vec::new() };
                Some(CommitRefusal { error: KvError::new(ErrorCode::NotCommitted), conflicting })
            }
        };
        if let Some(refusal) = refusal {
            answer(reply, Err(refusal));
            return;
        }
        let index = u16::try_from(accepted.len()).unwrap_or(u16::MAX);
        let stamp = Versionstamp::new(version, index);
        for mutation in own {
            let stamps_key = matches!(mutation, Mutation::StampedKey(..));
            let mutation = mutation.stamped(stamp);
            if let (true, Mutation::Set(key, _)) = (stamps_key, &mutation) {
                writes.push(Span::Point(key.clone()));
            }
            mutations.push(mutation);
        }
        self.resolver.write(version, &writes);
        accepted.push(Accepted { stamp, flush, reply });
    }

    /// The ceiling to store with a batch of `version`, if the present one is near.
    fn ceiling_next(&self, version: Version) -> Option<Version> {
        self.durable.as_ref()?;
        let near = version.saturating_add(CEILING_AHEAD_VERSIONS / 2) > self.shared.versions.ceiling();
        near.then(|| version.saturating_add(CEILING_AHEAD_VERSIONS))
    }

    fn batch_append(
        &mut self,
        version: Version,
        mutations: &[Mutation],
        flush: Flush,
    ) -> Result<(), AppendError> {
        let ceiling = self.ceiling_next(version);
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let began = self.shared.clock.monotonic();
        // Versions up to the ceiling are given once it is raised, so it must be on the disk before.
        let flush = if ceiling.is_some() { Flush::Now } else { flush };
        durable.append(version, ceiling, mutations, flush)?;
        if std::mem::replace(&mut self.refusing, false) {
            tracing::info!("the store commits again");
            self.shared.state_set(EngineState::Serving);
        }
        self.shared.stats.flushed(self.shared.clock.monotonic().saturating_sub(began));
        if let Some(ceiling) = ceiling {
            self.shared.versions.ceiling_raise(ceiling);
        }
        Ok(())
    }

    fn batch_publish(&mut self, version: Version, accepted: Vec<Accepted>, mutations: &[Mutation]) {
        self.shared.memory.apply(version, mutations);
        let failure = self.shared.memory.read().failure();
        if let Some(error) = failure {
            // It was appended, so that the next opening has it; what was applied may rest on a row that was not read.
            self.batch_fail(accepted, AppendError::Failed(error));
            return;
        }
        self.shared.versions.publish(version);
        self.shared.stats.published(accepted.len(), mutations.len());
        for Accepted { stamp, reply, .. } in accepted {
            answer(reply, Ok(stamp));
        }
        for key in self.shared.watches.touched(mutations) {
            let value = self.shared.memory.read().get(&key, version);
            self.shared.watches.check(&key, value.as_ref());
        }
        // Trimming a sixteenth of the window at a time holds the lock for a short time and amortises the work.
        let oldest = version.saturating_sub(TRANSACTION_LIFE_VERSIONS);
        if oldest.saturating_sub(self.trimmed) > TRANSACTION_LIFE_VERSIONS / 16 {
            self.trimmed = oldest;
            self.shared.memory.trim(oldest);
        }
        self.shared.memory.balance();
        self.maintain(version);
        self.confirm(Load::Busy);
    }

    fn batch_fail(&mut self, accepted: Vec<Accepted>, error: AppendError) {
        self.shared.versions.abandon();
        self.shared.stats.failed();
        let error = match error {
            AppendError::NoSpace(detail) => KvError::with(ErrorCode::NoSpace, detail),
            AppendError::Resources(detail) => KvError::with(ErrorCode::ShortOfResources, detail),
            AppendError::Failed(error) => {
                tracing::error!(%error, "the store's disk failed: the engine stops");
                let unknown = KvError::with(ErrorCode::CommitUnknownResult, error.to_string());
                for Accepted { reply, .. } in accepted {
                    answer(reply, Err(unknown.clone().into()));
                }
                self.shared.stop(error);
                return;
            }
        };
        if !std::mem::replace(&mut self.refusing, true) {
            tracing::warn!(%error, "the store refuses commits until the shortage ends");
        }
        self.shared.state_set(EngineState::Refusing(error.clone()));
        // A checkpoint may free space; nothing else would begin or end one now.
        self.maintain(self.shared.versions.read_version());
        for Accepted { reply, .. } in accepted {
            answer(reply, Err(error.clone().into()));
        }
    }
}

/// The reads that were written since, as a refusal names them: in order, joined if they touch.
fn ranges_named(reads: &[Span], indices: &[usize]) -> Vec<Range<Bytes>> {
    let mut named = RangeSet::default();
    for range in indices.iter().filter_map(|index| reads.get(*index)).map(Span::to_range) {
        named.insert(range.start, range.end);
    }
    named.iter().map(|(begin, end)| begin.clone()..end.clone()).collect()
}

/// Sends a result. The caller may have stopped waiting; the result is valid anyway.
pub(crate) fn answer(reply: oneshot::Sender<CommitAnswer>, outcome: CommitAnswer) {
    let _ = reply.send(outcome);
}
