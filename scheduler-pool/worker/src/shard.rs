//! The shards of a cell's jobs that a worker holds: its own, and those of silent workers. Also the part of the nodes
//! that it prefers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency};
use borough_scheduler_core::OpenQueue;
use borough_store::keys::LeaseKey;
use borough_store::lease::{
    HeldLease, LeaseAcquired, LeaseClaim, LeaseState, Silence, WorkerStatus, lease_acquire, lease_release,
    lease_renew, scheduler_leases, scheduler_role, worker_status_write,
};
use borough_store::{CellSpace, StoreError, StoreResult};

use crate::read::CellRead;
use crate::worker::WorkerConfig;

/// The longest time between two reads of the leases. A dead holder's lease is found expired at most two reads late, one
/// of which is the read of its last heartbeat. That is within its lease and a second, with time left to take it.
const LEASE_POLL_MAX: Duration = Duration::from_millis(250);

/// A shard that the worker holds at a read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardHeld {
    pub queue: OpenQueue,
    /// The key of its lease, for the guard of a batch.
    pub key: LeaseKey,
}

/// The action for one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardMove {
    Renew,
    /// Try to take it.
    Claim,
    /// Keep observing it.
    Leave,
}

/// One shard, as a worker sees it.
#[derive(Clone, Copy, Debug)]
struct ShardView<'a> {
    /// True if it is the shard that this worker prefers.
    preferred: bool,
    /// True if this worker holds it.
    mine: bool,
    state: &'a LeaseState,
    /// How long its state has been the same, by the worker's own clock.
    silent: Duration,
}

/// Decides about one shard. A worker takes its preferred shard at once if it is free. It takes another shard only after
/// nothing has changed there for the length of a lease, so that its owner goes first.
fn shard_move(shard: ShardView<'_>, generation: u64, lease: Duration) -> ShardMove {
    let held = shard.state.is_held(generation);
    let duration = if held { Duration::from_millis(shard.state.row.duration_ms) } else { lease };
    if shard.mine {
        ShardMove::Renew
    } else if (shard.preferred && !held) || shard.silent >= duration {
        ShardMove::Claim
    } else {
        ShardMove::Leave
    }
}

/// The part of the nodes that a worker prefers, and the number of parts: one for each worker with a shard, in the order
/// of their first shards. The parts change when a worker comes or goes. A worker without shards prefers none.
fn part_of<'a>(held: impl Iterator<Item = (&'a LeaseKey, &'a str)>, holder: &str) -> (u32, u32) {
    let mut shards: Vec<((u32, &str), &str)> =
        held.map(|(key, holder)| ((key.shard, key.role.as_str()), holder)).collect();
    shards.sort_unstable();
    let mut seen = BTreeSet::new();
    let holders: Vec<&str> =
        shards.into_iter().map(|(_, holder)| holder).filter(|holder| seen.insert(*holder)).collect();
    let place = holders.iter().position(|known| *known == holder);
    let count = u32::try_from(holders.len()).unwrap_or(u32::MAX);
    place.and_then(|place| u32::try_from(place).ok()).map_or((0, 1), |place| (place, count))
}

/// The shards of one worker.
#[derive(Debug)]
pub(crate) struct SchedulerShards {
    space: CellSpace,
    holder: String,
    generation: u64,
    place: u32,
    lease: Duration,
    /// Every shard of the schedulers that the worker serves.
    queues: BTreeMap<LeaseKey, OpenQueue>,
    held: BTreeMap<LeaseKey, HeldLease>,
    silences: BTreeMap<LeaseKey, Silence<LeaseState>>,
    beats: AtomicU64,
    looked_at: Option<Duration>,
    renewed_at: Option<Duration>,
    part: (u32, u32),
}

impl SchedulerShards {
    /// Starts without shards.
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        let shards = config.shards.max(1);
        let of_scheduler = |scheduler| {
            let role = scheduler_role(scheduler);
            (0..shards)
                .map(move |shard| (LeaseKey { role: role.clone(), shard }, OpenQueue::of(scheduler, shard)))
        };
        Self {
            space: config.space.clone(),
            holder: config.holder.clone(),
            generation: config.generation,
            place: config.place % shards,
            lease: Duration::from_millis(config.lease_ms),
            queues: config.schedulers.iter().flat_map(of_scheduler).collect(),
            held: BTreeMap::new(),
            silences: BTreeMap::new(),
            beats: AtomicU64::new(0),
            looked_at: None,
            renewed_at: None,
            part: (0, 1),
        }
    }

    /// The time until leases need attention.
    pub(crate) fn tend_after(&self) -> Duration {
        (self.lease / 3).min(LEASE_POLL_MAX)
    }

    /// The preferred part of the nodes, and the number of parts.
    pub(crate) fn part(&self) -> (u32, u32) {
        self.part
    }

    /// How many shards are held.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// Renews held leases and takes free ones, if that is due. `status` is the worker's report about itself with its
    /// heartbeat.
    pub(crate) async fn tend(
        &mut self,
        db: &Database,
        clock: &dyn Clock,
        status: &mut (dyn FnMut(&OpenQueue) -> WorkerStatus + Send),
    ) -> StoreResult<()> {
        let now = clock.monotonic();
        let due = |at: Option<Duration>, after| at.is_none_or(|at| now.saturating_sub(at) >= after);
        if !due(self.looked_at, self.tend_after()) {
            return Ok(());
        }
        let renew = due(self.renewed_at, self.lease / 3);
        let space = &self.space;
        let states =
            db.run(
                "lease_list",
                Idempotency::ReadOnly,
                |tx, _| async move { scheduler_leases(&tx, space).await },
            );
        let states = states.await?;
        for (key, queue) in self.queues.clone() {
            let state = states.get(&key).cloned().unwrap_or_default();
            let silence = self.silences.entry(key.clone()).or_default();
            let silent = silence.observe(now, state.clone(), self.lease);
            let (preferred, mine) = (key.shard == self.place, self.held.contains_key(&key));
            let shard = ShardView { preferred, mine, state: &state, silent };
            match shard_move(shard, self.generation, self.lease) {
                ShardMove::Renew if renew => self.renew(db, &key, &status(&queue)).await?,
                ShardMove::Renew | ShardMove::Leave => {}
                ShardMove::Claim => self.claim(db, &key, state, silent).await?,
            }
        }
        self.part = self.part_now(&states);
        self.looked_at = Some(now);
        if renew {
            self.renewed_at = Some(now);
        }
        Ok(())
    }

    /// The part to prefer after a read. A free shard counts as that of a worker that is about to take it, so that
    /// workers that start together do not begin with the same nodes.
    fn part_now(&self, states: &BTreeMap<LeaseKey, LeaseState>) -> (u32, u32) {
        let live = states.iter().filter(|(_, state)| state.is_held(self.generation));
        let mut holders: BTreeMap<&LeaseKey, String> =
            self.queues.keys().map(|key| (key, format!("{}/{}", key.role, key.shard))).collect();
        holders.extend(live.map(|(key, state)| (key, state.row.holder.clone())));
        holders.extend(self.held.keys().map(|key| (key, self.holder.clone())));
        part_of(holders.iter().map(|(key, holder)| (*key, holder.as_str())), &self.holder)
    }

    async fn renew(&mut self, db: &Database, key: &LeaseKey, status: &WorkerStatus) -> StoreResult<()> {
        let Some(held) = self.held.get(key) else { return Ok(()) };
        let beat = self.beats.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let space = &self.space;
        let renewed = db.run("lease_renew", Idempotency::Natural, |tx, _| async move {
            lease_renew(&tx, space, held, beat).await?;
            worker_status_write(&tx, space, held, status).await
        });
        match renewed.await {
            Err(StoreError::LeaseLost { holder, epoch, .. }) => {
                tracing::warn!(role = key.role, shard = key.shard, holder, epoch, "a shard was taken over");
                self.held.remove(key);
                Ok(())
            }
            other => other,
        }
    }

    async fn claim(
        &mut self,
        db: &Database,
        key: &LeaseKey,
        state: LeaseState,
        silent: Duration,
    ) -> StoreResult<()> {
        let silent_enough = silent >= Duration::from_millis(state.row.duration_ms);
        let claim = LeaseClaim {
            role: key.role.clone(),
            shard: key.shard,
            holder: self.holder.clone(),
            duration_ms: u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX),
            generation: self.generation,
            expired: silent_enough.then_some(state),
        };
        let (space, claim) = (&self.space, &claim);
        let acquired = db.run("lease_acquire", Idempotency::Natural, |tx, _| async move {
            lease_acquire(&tx, space, claim).await
        });
        if let LeaseAcquired::Held(held) = acquired.await? {
            let (role, shard, epoch) = (&key.role, key.shard, held.epoch);
            tracing::info!(cell = %self.space, role, shard, epoch, holder = self.holder, "holds a shard");
            self.held.insert(key.clone(), held);
            // Its report follows with the next read.
            self.renewed_at = None;
        }
        Ok(())
    }

    /// The lease of a held shard.
    pub(crate) fn lease(&self, key: &LeaseKey) -> Option<&HeldLease> {
        self.held.get(key)
    }

    /// The leases whose rows a read must include.
    pub(crate) fn keys(&self) -> Vec<LeaseKey> {
        self.held.keys().cloned().collect()
    }

    /// The shards that the worker still holds at the version of `read`.
    pub(crate) fn held_at(&self, read: &CellRead) -> Vec<ShardHeld> {
        let held = self.held.keys().filter(|key| self.holds(key, read));
        let queue =
            |key: &LeaseKey| Some(ShardHeld { queue: self.queues.get(key)?.clone(), key: key.clone() });
        held.filter_map(queue).collect()
    }

    /// Returns true if the worker still holds the shard of `key` at the version of `read`.
    pub(crate) fn holds(&self, key: &LeaseKey, read: &CellRead) -> bool {
        let row = read.leases.get(key).and_then(Option::as_ref);
        let held = self.held.get(key);
        held.zip(row).is_some_and(|(held, row)| held.epoch == row.epoch && held.holder == row.holder)
    }

    /// Releases all shards, so that others need not wait.
    pub(crate) async fn release(&mut self, db: &Database) {
        for (key, held) in std::mem::take(&mut self.held) {
            let (space, held) = (&self.space, &held);
            let released = db.run("lease_release", Idempotency::Natural, |tx, _| async move {
                lease_release(&tx, space, held).await
            });
            if let Err(error) = released.await {
                let (role, shard) = (&key.role, key.shard);
                tracing::warn!(role, shard, %error, "a shard was not released; its lease will expire");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_store::lease::{LeaseBeat, LeaseRow};

    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn held(generation: u64) -> LeaseState {
        let row = LeaseRow { epoch: 3, holder: "other".to_owned(), generation, duration_ms: 5_000 };
        LeaseState { row, beat: LeaseBeat { epoch: 3, beat: 9 } }
    }

    fn decide(preferred: bool, mine: bool, state: &LeaseState, silent_ms: u64) -> ShardMove {
        let silent = Duration::from_millis(silent_ms);
        shard_move(ShardView { preferred, mine, state, silent }, 1, LEASE)
    }

    #[test]
    fn a_free_shard_goes_to_its_preferred_worker_first() {
        let free = LeaseState::default();
        assert_eq!(decide(true, false, &free, 0), ShardMove::Claim);
        assert_eq!(decide(false, false, &free, 4_999), ShardMove::Leave);
        assert_eq!(decide(false, false, &free, 5_000), ShardMove::Claim);
    }

    #[test]
    fn a_held_shard_is_claimed_only_after_a_lease_of_silence() {
        for own in [true, false] {
            assert_eq!(decide(own, false, &held(1), 4_999), ShardMove::Leave);
            assert_eq!(decide(own, false, &held(1), 5_000), ShardMove::Claim);
        }
        assert_eq!(decide(true, false, &held(0), 0), ShardMove::Claim, "leases of an older opening are void");
    }

    #[test]
    fn a_held_shard_is_renewed() {
        assert_eq!(decide(true, true, &held(1), 9_000), ShardMove::Renew);
    }

    #[test]
    fn each_live_worker_has_a_part_of_the_nodes() {
        let key = |role: &str, shard| LeaseKey { role: role.to_owned(), shard };
        let (zero, one, two) = (key("scheduler", 0), key("scheduler", 1), key("scheduler", 2));
        let gpu = key("scheduler/gpu", 1);
        let all = [(&two, "c"), (&gpu, "d"), (&zero, "a"), (&one, "b")];
        let part = |held: &[(&LeaseKey, &'static str)], holder| part_of(held.iter().copied(), holder);
        let parts = ["a", "b", "d", "c"].map(|holder| part(&all, holder));
        assert_eq!(parts, [(0, 4), (1, 4), (2, 4), (3, 4)]);
        // b has died, a has taken its shard.
        let left = [(&two, "c"), (&zero, "a"), (&one, "a")];
        assert_eq!((part(&left, "a"), part(&left, "c"), part(&left, "b")), ((0, 2), (1, 2), (0, 1)));
    }
}
