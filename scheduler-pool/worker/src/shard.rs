//! Which shards of a cell's jobs a worker holds: its own, and those of workers that have fallen silent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency};
use borough_store::keys::LeaseKey;
use borough_store::lease::{
    HeldLease, LeaseAcquired, LeaseClaim, LeaseState, Silence, lease_acquire, lease_list, lease_release,
    lease_renew,
};
use borough_store::{CellSpace, StoreError, StoreResult};

use crate::read::Read;
use crate::worker::{WorkerConfig, shard_lease};

/// The role of workers' leases.
pub const ROLE: &str = "scheduler";

/// A shard that is held at a read version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHeld {
    /// Which.
    pub shard: u32,
    /// Its lease, for the guard of a batch.
    pub key: LeaseKey,
}

/// What to do about one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// Beat.
    Renew,
    /// Try to take it.
    Claim,
    /// Go on watching it.
    Leave,
}

/// Decides over one shard. `silent` is for how long its state has been the same, by the worker's own clock.
///
/// A worker takes its own place at once where it is free. The places of others it takes only when nothing has moved
/// there for the length of a lease: their owners go first.
fn shard_move(
    own: bool,
    mine: bool,
    state: &LeaseState,
    generation: u64,
    silent: Duration,
    lease: Duration,
) -> Move {
    let held = state.is_held(generation);
    let duration = match held {
        true => Duration::from_millis(state.row.duration_ms),
        false => lease,
    };
    match (mine, held) {
        (true, _) => Move::Renew,
        (false, false) if own => Move::Claim,
        (false, _) if silent >= duration => Move::Claim,
        (false, _) => Move::Leave,
    }
}

/// The shards of one worker.
#[derive(Debug)]
pub struct SchedulerShards {
    space: CellSpace,
    holder: String,
    generation: u64,
    place: u32,
    shards: u32,
    lease: Duration,
    held: BTreeMap<u32, HeldLease>,
    silences: BTreeMap<u32, Silence<LeaseState>>,
    beats: AtomicU64,
    tended_at: Option<Duration>,
}

impl SchedulerShards {
    /// No shards yet.
    pub fn new(config: &WorkerConfig) -> Self {
        Self {
            space: config.space.clone(),
            holder: config.holder.clone(),
            generation: config.generation,
            place: config.place,
            shards: config.shards.max(1),
            lease: Duration::from_millis(config.lease_ms),
            held: BTreeMap::new(),
            silences: BTreeMap::new(),
            beats: AtomicU64::new(0),
            tended_at: None,
        }
    }

    /// How long the worker may sleep before leases want it.
    pub fn tend_after(&self) -> Duration {
        self.lease / 3
    }

    /// Renews what is held and takes what is free, where that is due.
    pub async fn tend(&mut self, db: &Database, clock: &dyn Clock) -> StoreResult<()> {
        let now = clock.monotonic();
        let due = self.tended_at.is_none_or(|at| now.saturating_sub(at) >= self.tend_after());
        if !due {
            return Ok(());
        }
        let space = &self.space;
        let states =
            db.run(
                "lease_list",
                Idempotency::ReadOnly,
                |tx, _| async move { lease_list(&tx, space, ROLE).await },
            );
        let states: BTreeMap<u32, LeaseState> = states.await?.into_iter().collect();
        for shard in 0..self.shards {
            let state = states.get(&shard).cloned().unwrap_or_default();
            let silence = self.silences.entry(shard).or_default();
            let silent = silence.observe(now, state.clone(), self.lease);
            let own = shard == self.place % self.shards;
            let mine = self.held.contains_key(&shard);
            match shard_move(own, mine, &state, self.generation, silent, self.lease) {
                Move::Renew => self.renew(db, shard).await?,
                Move::Claim => self.claim(db, shard, state, silent).await?,
                Move::Leave => {}
            }
        }
        self.tended_at = Some(now);
        Ok(())
    }

    async fn renew(&mut self, db: &Database, shard: u32) -> StoreResult<()> {
        let Some(held) = self.held.get(&shard) else { return Ok(()) };
        let beat = self.beats.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let space = &self.space;
        let renewed = db.run("lease_renew", Idempotency::Natural, |tx, _| async move {
            lease_renew(&tx, space, held, beat).await
        });
        match renewed.await {
            Err(StoreError::LeaseLost { holder, epoch, .. }) => {
                tracing::warn!(shard, holder, epoch, "a shard was taken over");
                self.held.remove(&shard);
                Ok(())
            }
            other => other,
        }
    }

    async fn claim(
        &mut self,
        db: &Database,
        shard: u32,
        state: LeaseState,
        silent: Duration,
    ) -> StoreResult<()> {
        let silent_enough = silent >= Duration::from_millis(state.row.duration_ms);
        let claim = LeaseClaim {
            role: ROLE.to_owned(),
            shard,
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
            tracing::info!(cell = %self.space, shard, epoch = held.epoch, holder = self.holder, "holds a shard");
            self.held.insert(shard, held);
        }
        Ok(())
    }

    /// The leases whose rows a read must bring.
    pub fn keys(&self) -> Vec<LeaseKey> {
        self.held.keys().map(|&shard| shard_lease(shard)).collect()
    }

    /// The shards that are still held at the version of `read`.
    pub fn held_at(&self, read: &Read) -> Vec<ShardHeld> {
        let shards = self.held.keys().map(|&shard| ShardHeld { shard, key: shard_lease(shard) });
        shards.filter(|held| self.holds(&held.key, read)).collect()
    }

    /// Whether the shard of `key` is still held at the version of `read`.
    pub fn holds(&self, key: &LeaseKey, read: &Read) -> bool {
        let row = read.leases.get(key).and_then(Option::as_ref);
        let held = self.held.get(&key.shard);
        held.zip(row).is_some_and(|(held, row)| held.epoch == row.epoch && held.holder == row.holder)
    }

    /// Gives everything back, so that others need not wait.
    pub async fn release(&mut self, db: &Database) {
        for (shard, held) in std::mem::take(&mut self.held) {
            let (space, held) = (&self.space, &held);
            let released = db.run("lease_release", Idempotency::Natural, |tx, _| async move {
                lease_release(&tx, space, held).await
            });
            if let Err(error) = released.await {
                tracing::warn!(shard, %error, "a shard was not given back; it will expire");
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

    fn decide(own: bool, mine: bool, state: &LeaseState, silent_ms: u64) -> Move {
        shard_move(own, mine, state, 1, Duration::from_millis(silent_ms), LEASE)
    }

    #[test]
    fn a_free_place_goes_to_its_owner_first() {
        let free = LeaseState::default();
        assert_eq!(decide(true, false, &free, 0), Move::Claim);
        assert_eq!(decide(false, false, &free, 4_999), Move::Leave);
        assert_eq!(decide(false, false, &free, 5_000), Move::Claim);
    }

    #[test]
    fn a_held_place_is_taken_only_after_its_whole_silence() {
        for own in [true, false] {
            assert_eq!(decide(own, false, &held(1), 4_999), Move::Leave);
            assert_eq!(decide(own, false, &held(1), 5_000), Move::Claim);
        }
        assert_eq!(decide(true, false, &held(0), 0), Move::Claim, "leases of an older opening are void");
    }

    #[test]
    fn what_is_held_is_renewed() {
        assert_eq!(decide(true, true, &held(1), 9_000), Move::Renew);
    }
}
