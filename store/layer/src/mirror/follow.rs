//! The follower: lists a cell once, then tails its journal, and lists again when it must.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Watch};
use borough_model::JournalEntry;

use super::MirrorState;
use super::handle::{FollowerGuard, MirrorHandle, MirrorShared};
use crate::error::{StoreError, StoreResult};
use crate::journal::{CHUNK_ROWS, JournalShare, Page, cell_list_chunked, journal_tail_by, journal_watch};
use crate::keys::CellSpace;
use crate::row::Cursor;

/// The settings of a mirror.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// The journal is read at least this often (with a quarter of jitter), even if the watch is silent.
    pub poll: Duration,
    /// Longest pause after a failed read.
    pub pause_max: Duration,
    /// Rows read in one transaction of a listing.
    pub chunk_rows: usize,
    /// Entries read in one transaction of a tail.
    pub page_entries: usize,
    /// Entries that a subscriber may be behind before it must list again.
    pub events_max: usize,
    /// Deltas kept for subscribers that resume.
    pub deltas_max: usize,
    /// The decoded entries of the workers of this process, if it has any. Rows are then shared with them.
    pub share: Option<JournalShare>,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            pause_max: Duration::from_secs(5),
            chunk_rows: CHUNK_ROWS,
            page_entries: 500,
            events_max: 8_192,
            deltas_max: 65_536,
            share: None,
        }
    }
}

/// Keeps a mirror up to date.
pub struct MirrorFollower {
    db: Database,
    shared: Arc<MirrorShared>,
    rng: Arc<dyn Rng>,
    options: MirrorOptions,
}

/// The result of one round of following.
enum FollowRound {
    /// There may be more: continue at once.
    More,
    /// The end of the journal: wait for the watch or the timer.
    End(Watch),
}

impl MirrorFollower {
    /// Starts to mirror the cell of `space` with the usual options. Runs in the background until the last handle is
    /// dropped. The state is empty before [`MirrorHandle::ready`].
    pub fn spawn(db: Database, space: CellSpace, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> MirrorHandle {
        Self::spawn_with(db, space, clock, rng, MirrorOptions::default())
    }

    /// As [`MirrorFollower::spawn`], with options.
    pub fn spawn_with(
        db: Database,
        space: CellSpace,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        options: MirrorOptions,
    ) -> MirrorHandle {
        let shared = Arc::new(MirrorShared::new(space, clock, options.events_max, options.deltas_max));
        let follower = Self { db, shared: Arc::clone(&shared), rng, options };
        let task = tokio::spawn(follower.follow());
        MirrorHandle { shared, _follower: Arc::new(FollowerGuard(task.abort_handle())) }
    }

    async fn follow(self) {
        let mut at: Option<Cursor> = None;
        let mut failures = 0_u32;
        loop {
            let error = match self.round(&mut at).await {
                Ok(FollowRound::More) => continue,
                Ok(FollowRound::End(watch)) => {
                    failures = 0;
                    self.wait(watch).await;
                    continue;
                }
                Err(error) => error,
            };
            let cell = &self.shared.space;
            if matches!(error, StoreError::JournalTrimmed { .. } | StoreError::ForeignEpoch { .. }) {
                tracing::info!(%cell, %error, "mirror lists again");
                at = None;
                continue;
            }
            failures = failures.saturating_add(1);
            failure_log(cell, failures, &error);
            tokio::time::sleep(self.pause(failures)).await;
        }
    }

    async fn round(&self, at: &mut Option<Cursor>) -> StoreResult<FollowRound> {
        let Some(after) = *at else {
            let state = self.list().await?;
            *at = Some(state.cursor());
            self.shared.replace(state);
            return Ok(FollowRound::More);
        };
        let (page, watch) = self.tail(after).await?;
        *at = Some(page.next);
        self.shared.apply(page);
        match watch {
            Some(watch) => {
                self.shared.read_note();
                Ok(FollowRound::End(watch))
            }
            None => Ok(FollowRound::More),
        }
    }

    /// The store's state at some version: listed, and replayed to the end of the journal.
    async fn list(&self) -> StoreResult<MirrorState> {
        let mut state = MirrorState::default();
        let from = cell_list_chunked(&self.db, &self.shared.space, self.options.chunk_rows, |listed| {
            state.list(listed);
        });
        let mut after = from.await?;
        state.replay_from(after);
        loop {
            let (page, _) = self.tail(after).await?;
            after = page.next;
            state.gate_note(page.gate.row());
            for (cursor, entry) in &page.entries {
                state.apply(*cursor, entry);
            }
            if !page.more {
                state.facts_follow();
                return Ok(state);
            }
        }
    }

    /// A page. The last page comes with a watch taken at the same version, so that no entry is missed in between.
    async fn tail(&self, after: Cursor) -> StoreResult<(Page<Arc<JournalEntry>>, Option<Watch>)> {
        let (space, limit) = (&self.shared.space, self.options.page_entries);
        let share = self.options.share.as_ref();
        let tail = self.db.run("journal_tail", Idempotency::ReadOnly, |tx, _| async move {
            let page = journal_tail_by(&tx, space, after, limit, share).await?;
            let watch = if page.more { None } else { Some(journal_watch(&tx, space).await?) };
            Ok::<_, StoreError>((page, watch))
        });
        tail.await
    }

    /// Waits until the watch ends, in any way, or the timer does.
    async fn wait(&self, watch: Watch) {
        let poll = self.options.poll;
        let timer = tokio::time::sleep(poll.mul_f64(0.75 + 0.5 * self.fraction()));
        tokio::select! {
            ended = watch => {
                if let Err(error) = ended {
                    // The watch is only a hint. If it fails at once, it must not cause a busy loop.
                    tracing::debug!(%error, "journal watch failed");
                    tokio::time::sleep(poll.mul_f64(0.1 * self.fraction())).await;
                }
            }
            () = timer => {}
        }
    }

    fn pause(&self, failures: u32) -> Duration {
        let doubled = Duration::from_millis(50).saturating_mul(1 << failures.min(10));
        doubled.min(self.options.pause_max).mul_f64(0.5 + 0.5 * self.fraction())
    }

    /// A number from 0 to 1.
    fn fraction(&self) -> f64 {
        f64::from(u32::try_from(self.rng.next_u64() >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }
}

fn failure_log(cell: &CellSpace, failures: u32, error: &StoreError) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%cell, failures, %error, cause, "the mirror cannot read the store; it serves its last state");
}
