//! The leases that a worker holds: those of its shards, and one by which it stands by if it has none. Also the part of
//! the nodes that it prefers. [`crate::pool`] decides, this module reads and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency, TransactionOption};
use borough_model::Name;
use borough_scheduler_core::OpenQueue;
use borough_store::keys::LeaseKey;
use borough_store::lease::{
    HeldLease, LeaseAcquired, LeaseClaim, LeaseState, SchedulerPool, Silence, WorkerStatus, lease_acquire,
    lease_head, lease_read, lease_release, lease_renew, scheduler_leases, scheduler_pool, scheduler_pool_set,
    scheduler_role, worker_status_write, worker_statuses,
};
use borough_store::{CellSpace, StoreError, StoreResult};
use futures::future::try_join_all;

use crate::config::WorkerConfig;
use crate::pool::{PoolLoad, PoolView, SEATS_MAX, SeatMove, SeatSeen};
use crate::read::CellRead;

/// The longest time between two reads of the leases. A dead holder's lease is found expired at most two reads late, one
/// of which is the read of its last heartbeat. That is within its lease and a second, with time left to take it.
const LEASE_POLL_MAX: Duration = Duration::from_millis(250);
/// Leases of time between two listings of all leases, if nothing has changed the head of the role.
const LIST_LEASES: u32 = 4;

/// A shard that the worker holds at a read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardHeld {
    pub queue: OpenQueue,
    /// The key of its lease, for the guard of a batch.
    pub key: LeaseKey,
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

/// The leases of one scheduler, as far as the worker knows them.
#[derive(Debug)]
struct RolePool {
    scheduler: Name,
    role: String,
    /// The number of shards.
    shards: u32,
    /// Whether the store has that number.
    stored: bool,
    /// How often holders had changed when the leases were listed.
    head: Option<i64>,
    seats: BTreeMap<u32, SeatSeen>,
    silences: BTreeMap<u32, Silence<LeaseState>>,
    /// Since when fewer tasks wait than make a batch. Only the leader knows.
    calm_since: Option<Duration>,
}

impl RolePool {
    fn key(&self, shard: u32) -> LeaseKey {
        LeaseKey { role: self.role.clone(), shard }
    }

    /// Records the states of leases that were read at `now`, and forgets for how long others were silent.
    fn observe(&mut self, now: Duration, lease: Duration, states: BTreeMap<u32, LeaseState>) {
        self.silences.retain(|seat, _| states.contains_key(seat));
        self.seats.iter_mut().filter(|(seat, _)| !states.contains_key(seat)).for_each(|(_, seen)| {
            (seen.silent, seen.beaten) = (None, false);
        });
        for (seat, state) in states {
            let silence = self.silences.entry(seat).or_default();
            let beaten = silence.last().is_some_and(|last| *last != state);
            let silent = silence.observe(now, state.clone(), lease);
            let seen = self.seats.entry(seat).or_default();
            *seen = SeatSeen { state, silent: Some(silent), beaten: beaten || seen.beaten };
        }
    }
}

/// Whether held leases are renewed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beat {
    Due,
    Later,
}

/// What a listing of all leases found.
struct PoolListing {
    leases: BTreeMap<LeaseKey, LeaseState>,
    /// By role: how often holders had changed, and the pool.
    pools: Vec<(i64, Option<SchedulerPool>)>,
}

/// The shards of one worker.
#[derive(Debug)]
pub(crate) struct SchedulerShards {
    space: CellSpace,
    holder: String,
    generation: u64,
    place: u32,
    /// The fewest shards per scheduler.
    shards_least: u32,
    lease: Duration,
    pools: Vec<RolePool>,
    held: BTreeMap<LeaseKey, HeldLease>,
    beats: AtomicU64,
    looked_at: Option<Duration>,
    listed_at: Option<Duration>,
    renewed_at: Option<Duration>,
    part: (u32, u32),
}

impl SchedulerShards {
    /// Starts without shards.
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        let shards = config.shards.clamp(1, SEATS_MAX);
        let pool = |scheduler: &Name| RolePool {
            scheduler: scheduler.clone(),
            role: scheduler_role(scheduler),
            shards,
            stored: false,
            head: None,
            seats: BTreeMap::new(),
            silences: BTreeMap::new(),
            calm_since: None,
        };
        Self {
            space: config.space.clone(),
            holder: config.holder.clone(),
            generation: config.generation,
            place: config.place,
            shards_least: shards,
            lease: Duration::from_millis(config.lease_ms),
            pools: config.schedulers.iter().map(pool).collect(),
            held: BTreeMap::new(),
            beats: AtomicU64::new(0),
            looked_at: None,
            listed_at: None,
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

    /// How many leases are held.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// Each scheduler that the worker serves, with the number of its shards.
    pub(crate) fn divisions(&self) -> impl Iterator<Item = (&Name, u32)> {
        self.pools.iter().map(|pool| (&pool.scheduler, pool.shards))
    }

    /// The role of each scheduler, and how often holders of its leases had changed when it was listed.
    pub(crate) fn heads(&self) -> Vec<(String, Option<i64>)> {
        self.pools.iter().map(|pool| (pool.role.clone(), pool.head)).collect()
    }

    /// Reads the leases with the next call of [`Self::tend`], whenever that is.
    pub(crate) fn look_again(&mut self) {
        self.looked_at = None;
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
        let moved = self.look(db, now).await?;
        if moved || due(self.listed_at, self.lease * LIST_LEASES) {
            self.list(db, now).await?;
        }
        for number in 0..self.pools.len() {
            self.move_seats(db, number, if renew { Beat::Due } else { Beat::Later }, status).await?;
        }
        self.part = self.part_now();
        self.looked_at = Some(now);
        if renew {
            self.renewed_at = Some(now);
            for number in 0..self.pools.len() {
                self.resize(db, number, now).await?;
            }
        }
        Ok(())
    }

    /// Carries out the decisions about one scheduler's leases.
    async fn move_seats(
        &mut self,
        db: &Database,
        number: usize,
        beat: Beat,
        status: &mut (dyn FnMut(&OpenQueue) -> WorkerStatus + Send),
    ) -> StoreResult<()> {
        let Some(pool) = self.pools.get(number) else { return Ok(()) };
        let scheduler = pool.scheduler.clone();
        let moves: Vec<(LeaseKey, SeatMove)> =
            self.view(pool).moves().into_iter().map(|(seat, step)| (pool.key(seat), step)).collect();
        for (key, step) in moves {
            match step {
                SeatMove::Renew if beat == Beat::Due => {
                    let queue = OpenQueue::of(&scheduler, key.shard);
                    self.renew(db, &key, &status(&queue)).await?;
                }
                SeatMove::Renew => {}
                SeatMove::Claim => self.claim(db, number, &key).await?,
                SeatMove::Release => {
                    if let Some(held) = self.held.remove(&key) {
                        release(db, &self.space, &held).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn view<'a>(&self, pool: &'a RolePool) -> PoolView<'a> {
        let held = self.held.keys().filter(|key| key.role == pool.role);
        PoolView {
            shards: pool.shards,
            place: self.place,
            generation: self.generation,
            lease: self.lease,
            mine: held.map(|key| key.shard).collect(),
            seats: &pool.seats,
        }
    }

    /// Reads the leases that the worker observes. Returns true if holders have changed since the last listing.
    async fn look(&mut self, db: &Database, now: Duration) -> StoreResult<bool> {
        let wanted: Vec<(String, BTreeSet<u32>)> =
            self.pools.iter().map(|pool| (pool.role.clone(), self.view(pool).observed())).collect();
        let (space, wanted) = (&self.space, Arc::new(wanted));
        let read = db.run("lease_look", Idempotency::ReadOnly, |tx, _| {
            let wanted = Arc::clone(&wanted);
            async move {
                let of_role = async |(role, seats): &(String, BTreeSet<u32>)| {
                    let state =
                        async |seat: u32| StoreResult::Ok((seat, lease_read(&tx, space, role, seat).await?));
                    let states = try_join_all(seats.iter().map(|&seat| state(seat))).await?;
                    StoreResult::Ok((lease_head(&tx, space, role).await?, states))
                };
                try_join_all(wanted.iter().map(of_role)).await
            }
        });
        let mut moved = false;
        for (pool, (head, states)) in self.pools.iter_mut().zip(read.await?) {
            moved |= pool.head != Some(head);
            pool.observe(now, self.lease, states.into_iter().collect());
        }
        Ok(moved)
    }

    /// Reads all leases and the pools.
    async fn list(&mut self, db: &Database, now: Duration) -> StoreResult<()> {
        let roles: Vec<String> = self.pools.iter().map(|pool| pool.role.clone()).collect();
        let (space, roles) = (&self.space, &roles);
        let listed = db.run("lease_list", Idempotency::ReadOnly, |tx, _| async move {
            let mut pools = Vec::new();
            for role in roles {
                pools.push((lease_head(&tx, space, role).await?, scheduler_pool(&tx, space, role).await?));
            }
            Ok::<_, StoreError>(PoolListing { leases: scheduler_leases(&tx, space).await?, pools })
        });
        let PoolListing { leases, pools } = listed.await?;
        for (pool, (head, stored)) in self.pools.iter_mut().zip(pools) {
            pool.head = Some(head);
            pool.stored = stored.is_some();
            pool.shards = stored.map_or(pool.shards, |stored| stored.shards.clamp(1, SEATS_MAX));
            let of_role = leases.iter().filter(|(key, _)| key.role == pool.role && key.shard < SEATS_MAX);
            for (key, state) in of_role {
                let seen = pool.seats.entry(key.shard).or_default();
                // How long another state was silent says nothing about this one.
                if seen.state != *state {
                    *seen = SeatSeen { state: state.clone(), silent: None, beaten: seen.beaten };
                }
            }
        }
        self.listed_at = Some(now);
        Ok(())
    }

    /// The part to prefer after a read. A free shard counts as that of a worker that is about to take it, so that
    /// workers that start together do not begin with the same nodes.
    fn part_now(&self) -> (u32, u32) {
        let shards = self.pools.iter().flat_map(|pool| (0..pool.shards).map(move |shard| (pool, shard)));
        let holder = |(pool, shard): (&RolePool, u32)| {
            let key = pool.key(shard);
            let known = pool.seats.get(&shard).map(|seen| &seen.state);
            let live = known.filter(|state| state.is_held(self.generation));
            let holder = match live {
                _ if self.held.contains_key(&key) => self.holder.clone(),
                Some(state) => state.row.holder.clone(),
                None => format!("{}/{shard}", pool.role),
            };
            (key, holder)
        };
        let holders: Vec<(LeaseKey, String)> = shards.map(holder).collect();
        part_of(holders.iter().map(|(key, holder)| (key, holder.as_str())), &self.holder)
    }

    /// Divides or merges the shards of a scheduler, if the worker leads its pool.
    async fn resize(&mut self, db: &Database, number: usize, now: Duration) -> StoreResult<()> {
        let Some(pool) = self.pools.get(number) else { return Ok(()) };
        let view = self.view(pool);
        let (live, shards) = (view.live(), pool.shards);
        let Some(held) = self.held.get(&pool.key(0)).filter(|_| view.leads()).cloned() else {
            if let Some(pool) = self.pools.get_mut(number) {
                pool.calm_since = None;
            }
            return Ok(());
        };
        let (space, role) = (&self.space, &pool.role);
        let statuses = db.run("worker_statuses", Idempotency::ReadOnly, |tx, _| async move {
            worker_statuses(&tx, space, role).await
        });
        let mut statuses = statuses.await?;
        // An earlier holder's report says nothing about now.
        let epoch = |shard: &u32| pool.seats.get(shard).map(|seen| seen.state.row.epoch);
        statuses.retain(|shard, status| *shard < shards && epoch(shard) == Some(status.epoch));
        let waiting = statuses.values().map(|status| status.waiting).fold(0, u64::saturating_add);
        let stored = pool.stored;
        let Some(pool) = self.pools.get_mut(number) else { return Ok(()) };
        pool.calm_since = pool.calm_since.filter(|_| PoolLoad::is_calm(waiting));
        let calm_since = if PoolLoad::is_calm(waiting) { *pool.calm_since.get_or_insert(now) } else { now };
        let calm = now.saturating_sub(calm_since);
        let load = PoolLoad { shards, least: self.shards_least, live, waiting, calm };
        let wanted = load.shards_wanted();
        if wanted == shards && stored {
            return Ok(());
        }
        tracing::info!(cell = %self.space, role = held.role, shards, wanted, waiting, live, "divides the jobs");
        pool.calm_since = None;
        let (space, held) = (&self.space, &held);
        let set = db.run("scheduler_pool_set", Idempotency::Natural, |tx, _| async move {
            scheduler_pool_set(&tx, space, held, SchedulerPool { shards: wanted }).await
        });
        match set.await {
            // The next look finds that the lease was taken over.
            Err(StoreError::LeaseLost { .. }) => Ok(()),
            other => other,
        }
    }

    async fn renew(&mut self, db: &Database, key: &LeaseKey, status: &WorkerStatus) -> StoreResult<()> {
        let Some(held) = self.held.get(key) else { return Ok(()) };
        let beat = self.beats.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let space = &self.space;
        let renewed = db.run("lease_renew", Idempotency::Natural, |tx, _| async move {
            // A new opening of the store voids every lease, so nothing is lost with a heartbeat.
            tx.set_option(TransactionOption::FlushLater)?;
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

    async fn claim(&mut self, db: &Database, number: usize, key: &LeaseKey) -> StoreResult<()> {
        let Some(pool) = self.pools.get(number) else { return Ok(()) };
        let seen = pool.seats.get(&key.shard).cloned().unwrap_or_default();
        let silent = seen.silent.unwrap_or_default();
        let expired = silent >= Duration::from_millis(seen.state.row.duration_ms);
        let claim = LeaseClaim {
            role: key.role.clone(),
            shard: key.shard,
            holder: self.holder.clone(),
            duration_ms: u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX),
            generation: self.generation,
            expired: expired.then_some(seen.state),
        };
        let (space, claim) = (&self.space, &claim);
        let acquired = db.run("lease_acquire", Idempotency::Natural, |tx, _| async move {
            lease_acquire(&tx, space, claim).await
        });
        match acquired.await? {
            LeaseAcquired::Held(held) => {
                let (role, shard, epoch) = (&key.role, key.shard, held.epoch);
                tracing::info!(cell = %self.space, role, shard, epoch, holder = self.holder, "holds a shard");
                self.held.insert(key.clone(), held);
                // Its report follows with the next read.
                self.renewed_at = None;
            }
            // The next decision is made on what is there.
            LeaseAcquired::Taken(state) => {
                let Some(pool) = self.pools.get_mut(number) else { return Ok(()) };
                *pool.seats.entry(key.shard).or_default() = SeatSeen { state, ..SeatSeen::default() };
            }
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
        let queue = |key: &LeaseKey| {
            let pool = self.pools.iter().find(|pool| pool.role == key.role && key.shard < pool.shards)?;
            Some(ShardHeld { queue: OpenQueue::of(&pool.scheduler, key.shard), key: key.clone() })
        };
        held.filter_map(queue).collect()
    }

    /// Returns true if the worker still holds the shard of `key` at the version of `read`.
    pub(crate) fn holds(&self, key: &LeaseKey, read: &CellRead) -> bool {
        let row = read.leases.get(key).and_then(Option::as_ref);
        let held = self.held.get(key);
        held.zip(row).is_some_and(|(held, row)| held.epoch == row.epoch && held.holder == row.holder)
    }

    /// Releases all leases, so that others need not wait.
    pub(crate) async fn release(&mut self, db: &Database) {
        for (key, held) in std::mem::take(&mut self.held) {
            if let Err(error) = release(db, &self.space, &held).await {
                let (role, shard) = (&key.role, key.shard);
                tracing::warn!(role, shard, %error, "a shard was not released; its lease will expire");
            }
        }
    }
}

async fn release(db: &Database, space: &CellSpace, held: &HeldLease) -> StoreResult<()> {
    let released = db.run("lease_release", Idempotency::Natural, |tx, _| async move {
        lease_release(&tx, space, held).await
    });
    released.await
}

#[cfg(test)]
mod tests {
    use super::*;

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
