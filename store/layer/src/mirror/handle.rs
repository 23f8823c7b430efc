//! The handle of a mirror, for the rest of a process.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_model::JournalEntry;
use parking_lot::RwLock;
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use super::MirrorState;
use super::holds::{HoldCounter, MirrorLockHolds};
use super::ring::{Ring, RingPart};
use super::wait::Waiters;
use crate::error::{StoreError, StoreResult};
use crate::journal::Page;
use crate::keys::CellSpace;
use crate::row::{CellGate, Cursor};

/// Deltas of the entries that a reader gets at once when it resumes.
const RESUME_DELTAS: usize = 4_096;
/// Deltas that are applied before readers may have the lock.
const DELTAS_AT_ONCE: usize = 256;

/// An event of a subscription.
#[derive(Clone, Debug)]
pub enum MirrorEvent {
    /// An entry was applied.
    Entry { cursor: Cursor, entry: Arc<JournalEntry> },
    /// Entries are missing (the subscriber was too slow, or the mirror had to list again). This subscription is over:
    /// read the state and subscribe again.
    Resync,
}

/// Entries from one position on, in order and without a gap.
#[derive(Debug)]
pub struct MirrorSubscription {
    events: broadcast::Receiver<MirrorEvent>,
    over: bool,
}

impl MirrorSubscription {
    /// The next event; `None` after a [`MirrorEvent::Resync`], and after the end of the mirror.
    pub async fn next(&mut self) -> Option<MirrorEvent> {
        if self.over {
            return None;
        }
        let event = match self.events.recv().await {
            Ok(event) => event,
            Err(broadcast::error::RecvError::Lagged(_)) => MirrorEvent::Resync,
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        self.over = matches!(event, MirrorEvent::Resync);
        Some(event)
    }
}

/// The result of a try to resume after a position.
#[derive(Debug)]
pub enum Resume {
    /// The entries since, and a subscription for the following ones.
    Ready {
        /// Entries between the position and now.
        backlog: Vec<(Cursor, Arc<JournalEntry>)>,
        /// Entries from now on.
        subscription: MirrorSubscription,
    },
    /// The next of many entries. A reader that does not go on would keep all of them in memory.
    Part {
        /// Entries after the position. Resume again after the last one.
        backlog: Vec<(Cursor, Arc<JournalEntry>)>,
    },
    /// The mirror no longer has them: read the journal from the store up to now, or list again.
    TooOld,
    /// The position is ahead of the mirror: wait for it, and try again.
    Ahead,
    /// The position belongs to another epoch of the store: list again.
    ForeignEpoch {
        /// The epoch that the mirror shows.
        current: u64,
    },
}

/// The state that the follower and its handles share.
pub(super) struct MirrorShared {
    pub(super) space: CellSpace,
    pub(super) clock: Arc<dyn Clock>,
    inner: RwLock<HandleInner>,
    events: broadcast::Sender<MirrorEvent>,
    applied: watch::Sender<Option<Cursor>>,
    waiters: Waiters,
    read_at_us: AtomicU64,
    deltas_max: usize,
    reads: HoldCounter,
    applies: HoldCounter,
}

struct HandleInner {
    state: MirrorState,
    ring: Ring,
}

impl MirrorShared {
    pub(super) fn new(space: CellSpace, clock: Arc<dyn Clock>, events_max: usize, deltas_max: usize) -> Self {
        let now = micros(clock.monotonic());
        let inner =
            HandleInner { state: MirrorState::default(), ring: Ring::new(Cursor::default(), deltas_max) };
        Self {
            space,
            clock,
            inner: RwLock::new(inner),
            events: broadcast::Sender::new(events_max),
            applied: watch::Sender::new(None),
            waiters: Waiters::default(),
            read_at_us: AtomicU64::new(now),
            deltas_max,
            reads: HoldCounter::default(),
            applies: HoldCounter::default(),
        }
    }

    /// Records that the store was just read to the end of the journal.
    pub(super) fn read_note(&self) {
        self.read_at_us.store(micros(self.clock.monotonic()), Ordering::Relaxed);
    }

    /// Replaces the state with a listed and replayed one.
    pub(super) fn replace(&self, state: MirrorState) {
        let cursor = state.cursor();
        let mut inner = self.inner.write();
        let replaced =
            std::mem::replace(&mut *inner, HandleInner { ring: Ring::new(cursor, self.deltas_max), state });
        // Without a receiver it fails: nobody has subscribed.
        let _ = self.events.send(MirrorEvent::Resync);
        drop(inner);
        // A million rows take long to free, and nobody waits for that.
        drop(replaced);
        self.applied.send_replace(Some(cursor));
        self.waiters.reached(cursor);
    }

    /// Applies a page and sends its events under the lock. A subscription therefore has no gap and no overlap with the
    /// state that it was taken with. The lock is free for readers between any two parts of a page.
    pub(super) fn apply(&self, page: Page<Arc<JournalEntry>>) {
        self.applied(|inner| inner.state.gate_note(page.gate.row()));
        let (mut changed, mut entries) = (false, page.entries.into_iter().peekable());
        while entries.peek().is_some() {
            self.applied(|inner| {
                let mut deltas = 0;
                while deltas < DELTAS_AT_ONCE
                    && let Some((cursor, entry)) = entries.next()
                {
                    deltas += entry.deltas.len().max(1);
                    if inner.state.apply(cursor, &entry) {
                        changed = true;
                        inner.ring.push(cursor, Arc::clone(&entry));
                        let _ = self.events.send(MirrorEvent::Entry { cursor, entry });
                    }
                }
            });
        }
        if changed {
            self.applied.send_replace(Some(page.next));
            self.waiters.reached(page.next);
        }
    }
}

impl MirrorShared {
    /// Changes the state under the lock.
    fn applied(&self, change: impl FnOnce(&mut HandleInner)) {
        let mut inner = self.inner.write();
        let began = self.clock.monotonic();
        change(&mut inner);
        drop(inner);
        self.applies.note(self.clock.monotonic().saturating_sub(began), Location::caller());
    }

    /// Looks at the state under the lock.
    #[track_caller]
    fn looked<T>(&self, look: impl FnOnce(&HandleInner) -> T) -> T {
        let inner = self.inner.read();
        let began = self.clock.monotonic();
        let seen = look(&inner);
        drop(inner);
        self.reads.note(self.clock.monotonic().saturating_sub(began), Location::caller());
        seen
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Ends the follower when the last handle is dropped.
pub(super) struct FollowerGuard(pub(super) AbortHandle);

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A handle of a mirror. Cheap to clone. Dropping the last one ends the follower.
#[derive(Clone)]
pub struct MirrorHandle {
    pub(super) shared: Arc<MirrorShared>,
    pub(super) _follower: Arc<FollowerGuard>,
}

impl MirrorHandle {
    /// The clock that the mirror was made with: whoever serves the cell by this mirror stamps rows with it.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// The cell that is mirrored.
    pub fn space(&self) -> &CellSpace {
        &self.shared.space
    }

    /// Calls `look` with the state. Keep it short: the follower waits. The state is empty until
    /// [`MirrorHandle::ready`].
    #[track_caller]
    pub fn read<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> T {
        self.shared.looked(|inner| look(&inner.state))
    }

    /// How long the lock was held since the mirror began.
    pub fn lock_holds(&self) -> MirrorLockHolds {
        MirrorLockHolds { reads: self.shared.reads.holds(), entries: self.shared.applies.holds() }
    }

    /// The cell's gate, as last read.
    pub fn gate(&self) -> Option<CellGate> {
        self.read(|state| state.gate().cloned())
    }

    /// The position of the state.
    pub fn cursor(&self) -> Cursor {
        self.read(MirrorState::cursor)
    }

    /// Returns true if the cell has been listed.
    pub fn is_ready(&self) -> bool {
        self.shared.applied.borrow().is_some()
    }

    /// Waits until the cell has been listed.
    pub async fn ready(&self) {
        let mut applied = self.shared.applied.subscribe();
        // The sender lives as long as this handle, so the wait can only end with the value.
        let _ = applied.wait_for(Option::is_some).await;
    }

    /// Time since the store was last read to the end of the journal: the possible age of the state. The caller decides
    /// which age it accepts; the state stays readable.
    pub fn staleness(&self) -> Duration {
        let read_at = Duration::from_micros(self.shared.read_at_us.load(Ordering::Relaxed));
        self.shared.clock.monotonic().saturating_sub(read_at)
    }

    /// Waits until the state is at `cursor` or past it. Fails for a cursor of an older epoch of the store. Does not end
    /// while the store is away: bound it with a time-out.
    pub async fn wait_for(&self, cursor: Cursor) -> StoreResult<()> {
        match self.shared.waiters.wait(cursor).await {
            Some(at) if at.store_epoch != cursor.store_epoch => {
                Err(StoreError::ForeignEpoch { asked: cursor, current: at.store_epoch })
            }
            _ => Ok(()),
        }
    }

    /// Entries from now on.
    pub fn subscribe(&self) -> MirrorSubscription {
        self.subscribe_with(|_| ()).1
    }

    /// Calls `look` with the state, and subscribes to exactly the entries that follow it.
    #[track_caller]
    pub fn subscribe_with<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> (T, MirrorSubscription) {
        self.shared.looked(|inner| {
            let seen = look(&inner.state);
            (seen, MirrorSubscription { events: self.shared.events.subscribe(), over: false })
        })
    }

    /// Continues after `after`, from memory.
    #[track_caller]
    pub fn resume(&self, after: Cursor) -> Resume {
        self.shared.looked(|inner| self.resume_at(inner, after))
    }

    fn resume_at(&self, inner: &HandleInner, after: Cursor) -> Resume {
        let at = inner.state.cursor();
        if after.store_epoch < at.store_epoch {
            return Resume::ForeignEpoch { current: at.store_epoch };
        }
        if after > at {
            return Resume::Ahead;
        }
        match inner.ring.after(after, RESUME_DELTAS) {
            Some(RingPart { entries: backlog, is_more: true }) => Resume::Part { backlog },
            Some(RingPart { entries: backlog, is_more: false }) => {
                let subscription = MirrorSubscription { events: self.shared.events.subscribe(), over: false };
                Resume::Ready { backlog, subscription }
            }
            None => Resume::TooOld,
        }
    }
}
