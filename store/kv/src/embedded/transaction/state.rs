//! The state of one transaction between its calls.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::view::View;
use super::writes::{WriteConflict, WriteMap};
use crate::contract::check::size_limit_check;
use crate::contract::limits::{TRANSACTION_BYTES_MAX, USER_KEYS_END};
use crate::contract::{ErrorCode, Isolation, KvError, KvResult, TransactionOption, Version, Versionstamp};
use crate::embedded::memory::MemoryRows;
use crate::embedded::ranges::{Span, SpanSet};
use crate::embedded::sequencer::Flush;
use crate::embedded::watch::Watcher;

/// The phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Accepts reads and writes.
    Open,
    /// A commit was started; every operation answers 2017 until a reset.
    Committing,
    /// Cancelled: every operation answers 1025 until a reset.
    Cancelled,
    /// Its last error is final: every operation answers that error until a reset.
    GivenUp,
}

/// The options as the caller has set them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Survives `on_error`.
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry_limit: Option<u64>,
    pub(crate) retry_delay_max: Duration,
    /// Until the next try.
    pub(crate) size_limit_bytes: usize,
    pub(crate) read_your_writes_disabled: bool,
    /// Snapshot reads see own writes while this is above zero.
    pub(crate) snapshot_ryw: i64,
    pub(crate) report_conflicts: bool,
    pub(crate) causal_write_risky: bool,
    pub(crate) flush: Flush,
    pub(crate) bypass_unreadable: bool,
    pub(crate) next_write_no_conflict: bool,
}

/// Longest pause between tries by default.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: None,
            retry_limit: None,
            retry_delay_max: RETRY_DELAY_MAX,
            size_limit_bytes: TRANSACTION_BYTES_MAX,
            read_your_writes_disabled: false,
            snapshot_ryw: 1,
            report_conflicts: false,
            causal_write_risky: false,
            flush: Flush::Now,
            bypass_unreadable: false,
            next_write_no_conflict: false,
        }
    }
}

/// A watch that waits for its transaction's commit.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    pub(crate) key: Bytes,
    pub(crate) watcher: Watcher,
}

/// All state of a transaction.
#[derive(Debug)]
pub(crate) struct TransactionState {
    pub(crate) phase: Phase,
    pub(crate) read_version: Option<Version>,
    pub(crate) writes: WriteMap,
    read_conflicts: SpanSet,
    /// The same with own writes off: each read separately, as FoundationDB counts and names them then.
    read_conflicts_apart: Vec<Span>,
    pub(crate) options: Options,
    /// Whether anything was read or written. After that, read-your-writes cannot be turned off.
    pub(crate) touched: bool,
    /// Whether anything was read. After that, no read version can be set.
    pub(crate) read: bool,
    /// Whether the last read needed the database, or own writes answered it alone.
    pub(crate) consulted: bool,
    /// Whether the last read's data came with the read version, so that its age does not matter.
    pub(crate) came_along: bool,
    /// Whether the read version was given by the caller.
    pub(crate) version_given: bool,
    /// The first error of a read: the commit answers it too.
    pub(crate) failed_read: Option<KvError>,
    /// The error that every later operation repeats, until a reset.
    pub(crate) poison: Option<KvError>,
    pub(crate) watches: Vec<PendingWatch>,
    pub(crate) stamps: Vec<oneshot::Sender<KvResult<Versionstamp>>>,
    pub(crate) conflicting: Vec<Range<Bytes>>,
    /// When the transaction began, on the engine's clock; its time-out counts from here.
    pub(crate) began: Duration,
    pub(crate) retries: u64,
    /// The next pause before a random factor.
    pub(crate) backoff: Duration,
    pub(crate) max_key: Bytes,
    /// Grows with every reset, so that a commit that outlives its try does not touch the next one.
    pub(crate) generation: u64,
}

/// The first pause between tries, before its random factor.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(10);

impl TransactionState {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            phase: Phase::Open,
            read_version: None,
            writes: WriteMap::default(),
            read_conflicts: SpanSet::default(),
            read_conflicts_apart: Vec::new(),
            options: Options::default(),
            touched: false,
            read: false,
            consulted: false,
            came_along: false,
            version_given: false,
            failed_read: None,
            poison: None,
            watches: Vec::new(),
            stamps: Vec::new(),
            conflicting: Vec::new(),
            began: now,
            retries: 0,
            backoff: BACKOFF_FIRST,
            max_key: Bytes::from_static(USER_KEYS_END),
            generation: 0,
        }
    }

    /// Fails if no operation may start at `now`.
    pub(crate) fn open(&self, now: Duration) -> KvResult<()> {
        if let Some(error) = &self.poison {
            return Err(error.clone());
        }
        match self.phase {
            Phase::Cancelled | Phase::GivenUp => Err(ErrorCode::TransactionCancelled.into()),
            Phase::Committing => Err(ErrorCode::UsedDuringCommit.into()),
            Phase::Open if self.time_left(now) == Some(Duration::ZERO) => {
                Err(ErrorCode::TransactionTimedOut.into())
            }
            Phase::Open => Ok(()),
        }
    }

    /// Ends the transaction for good with `error`, and returns the error.
    pub(crate) fn give_up(&mut self, error: KvError) -> KvError {
        let keep = self.options.clone();
        self.restart(keep);
        self.phase = Phase::GivenUp;
        self.poison = Some(error.clone());
        error
    }

    /// Time until the transaction's own time-out; `None` is for ever.
    pub(crate) fn time_left(&self, now: Duration) -> Option<Duration> {
        self.options.timeout.map(|timeout| timeout.saturating_sub(now.saturating_sub(self.began)))
    }

    /// Returns true if a read does not see own writes.
    pub(crate) fn hides_own_writes(&self, isolation: Isolation) -> bool {
        self.options.read_your_writes_disabled
            || (isolation == Isolation::Snapshot && self.options.snapshot_ryw <= 0)
    }

    /// What a read sees.
    pub(crate) fn view<'a>(&'a self, rows: &'a MemoryRows, isolation: Isolation) -> KvResult<View<'a>> {
        let version = self.read_version.ok_or(ErrorCode::ClientInvalidOperation)?;
        let hidden = self.hides_own_writes(isolation);
        Ok(View {
            rows,
            version,
            writes: (!hidden && !self.writes.is_invisible()).then_some(&self.writes),
            bypass_unreadable: self.options.bypass_unreadable,
            max_key: &self.max_key,
        })
    }

    pub(crate) fn read_conflict_insert(&mut self, span: Span) {
        if self.options.read_your_writes_disabled {
            self.read_conflicts_apart.push(span);
        } else {
            self.read_conflicts.insert(span);
        }
    }

    /// The ranges that the commit depends on.
    pub(crate) fn read_conflict_spans(&self) -> Vec<Span> {
        if self.options.read_your_writes_disabled {
            self.read_conflicts_apart.clone()
        } else {
            self.read_conflicts.spans()
        }
    }

    /// Whether the next write adds a write conflict. Asking uses up the option that prevents it.
    pub(crate) fn write_conflict_take(&mut self) -> WriteConflict {
        let prevented = std::mem::take(&mut self.options.next_write_no_conflict);
        if prevented { WriteConflict::Prevented } else { WriteConflict::Added }
    }

    /// Begins the next try. `keep` are the options that survive. Stamps and watches of a commit that never came are
    /// cancelled.
    pub(crate) fn restart(&mut self, keep: Options) {
        let error = KvError::new(ErrorCode::TransactionCancelled);
        self.watches.drain(..).for_each(|pending| pending.watcher.end(Err(error.clone())));
        self.stamps.drain(..).for_each(|sender| {
            let _ = sender.send(Err(error.clone()));
        });
        self.phase = Phase::Open;
        self.read_version = None;
        self.version_given = false;
        self.writes = WriteMap::default();
        self.read_conflicts.clear();
        self.read_conflicts_apart.clear();
        self.touched = false;
        self.read = false;
        self.failed_read = None;
        self.poison = None;
        self.conflicting.clear();
        self.options = keep;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Sets an option, or refuses it by name.
    pub(crate) fn option_set(&mut self, option: TransactionOption) -> KvResult<()> {
        use TransactionOption as Opt;
        let options = &mut self.options;
        match option {
            Opt::TimeoutMs(ms) => options.timeout = (ms > 0).then(|| Duration::from_millis(ms)),
            Opt::RetryLimit(limit) => options.retry_limit = u64::try_from(limit).ok(),
            Opt::MaxRetryDelayMs(ms) => options.retry_delay_max = Duration::from_millis(ms),
            Opt::SizeLimitBytes(bytes) => {
                options.size_limit_bytes = usize::try_from(size_limit_check(bytes)?).unwrap_or(usize::MAX);
            }
            Opt::NextWriteNoWriteConflictRange => options.next_write_no_conflict = true,
            Opt::ReadYourWritesDisable if self.touched => {
                // FoundationDB poisons the transaction here: a caller that continued would read something unexpected.
                let error =
                    KvError::with(ErrorCode::ClientInvalidOperation, "read_your_writes_disable after use");
                self.poison = Some(error.clone());
                return Err(error);
            }
            Opt::ReadYourWritesDisable => options.read_your_writes_disabled = true,
            Opt::SnapshotRywEnable => options.snapshot_ryw = options.snapshot_ryw.saturating_add(1),
            Opt::SnapshotRywDisable => options.snapshot_ryw = options.snapshot_ryw.saturating_sub(1),
            Opt::ReportConflictingKeys => options.report_conflicts = true,
            Opt::CausalWriteRisky => options.causal_write_risky = true,
            Opt::FlushLater => options.flush = Flush::Later,
            Opt::BypassUnreadable => options.bypass_unreadable = true,
            // One process has one sequencer: every read version is the strongest, every commit is certain, and nobody
            // queues. The identifier only shows in traces.
            Opt::PriorityBatch
            | Opt::PrioritySystemImmediate
            | Opt::CausalReadRisky
            | Opt::UseGrvCache
            | Opt::DebugTransactionIdentifier(_) => {}
            refused @ (Opt::Tag(_)
            | Opt::ReadSystemKeys
            | Opt::AccessSystemKeys
            | Opt::LockAware
            | Opt::AutomaticIdempotency) => {
                let detail = format!("the embedded engine does not keep {}", refused.name());
                return Err(KvError::with(ErrorCode::InvalidOption, detail));
            }
        }
        Ok(())
    }
}
