//! The pool of a scheduler's workers: pure decisions about its leases. Leases with a number below the pool's `shards`
//! are shards. A worker without a shard holds a lease with a higher number: it stands by, and so it is known.
//!
//! Each worker observes only the shards behind each of its own, up to two live neighbours. So the cost of a pool grows
//! with the number of its workers and not with its square. The holder of the first shard, the leader, observes all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_store::lease::LeaseState;

/// The most leases of a scheduler.
pub(crate) const SEATS_MAX: u32 = 1_024;
/// Live neighbours that a worker observes. With two, a worker and its neighbour may die together.
const NEIGHBOURS: usize = 2;
/// Tasks that wait per shard from which a pool is divided further: four batches of each worker.
const SPLIT_TASKS: u64 = 4_096;
/// The pool is calm while fewer tasks wait: one batch.
const CALM_TASKS: u64 = 1_024;
/// How long a pool must be calm until its shards are merged.
const CALM: Duration = Duration::from_secs(60);

/// A lease of the pool, as a worker knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeatSeen {
    pub state: LeaseState,
    /// How long its state has been the same, by the worker's own clock; `None` if the worker does not observe it.
    pub silent: Option<Duration>,
    /// Whether its holder has beaten while the worker observed it.
    pub beaten: bool,
}

/// The action for one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeatMove {
    Renew,
    /// Try to take it.
    Claim,
    /// Leave it to others.
    Release,
}

/// The leases of one scheduler, as a worker sees them.
#[derive(Clone, Debug)]
pub(crate) struct PoolView<'a> {
    /// The number of shards.
    pub shards: u32,
    /// The shard that the worker prefers.
    pub place: u32,
    pub generation: u64,
    /// The length of the worker's own leases.
    pub lease: Duration,
    /// The leases that it holds.
    pub mine: BTreeSet<u32>,
    /// Every lease that has a row.
    pub seats: &'a BTreeMap<u32, SeatSeen>,
}

impl PoolView<'_> {
    /// The holder of a lease, if it has one.
    fn holder(&self, seat: u32) -> Option<&str> {
        let state = &self.seats.get(&seat)?.state;
        state.is_held(self.generation).then_some(state.row.holder.as_str())
    }

    fn free(&self, seat: u32) -> bool {
        !self.mine.contains(&seat) && self.holder(seat).is_none()
    }

    fn own_shards(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.mine.range(..self.shards).copied()
    }

    /// Leases of others that stand by.
    fn others_standby(&self) -> impl Iterator<Item = (u32, &SeatSeen)> {
        let beyond = self.seats.range(self.shards..).map(|(&seat, seen)| (seat, seen));
        beyond.filter(|(seat, seen)| !self.mine.contains(seat) && seen.state.is_held(self.generation))
    }

    /// Returns true if the worker holds the first shard.
    pub(crate) fn leads(&self) -> bool {
        self.mine.contains(&0)
    }

    /// The leases to observe.
    pub(crate) fn observed(&self) -> BTreeSet<u32> {
        if self.leads() {
            let known = self.seats.keys().copied().chain(0..self.shards);
            return known.filter(|seat| !self.mine.contains(seat)).collect();
        }
        let mut observed = BTreeSet::new();
        // Behind each of its shards: what lies behind a shard is observed by the worker that holds it.
        self.own_shards().for_each(|shard| self.neighbours(shard, &mut observed));
        if observed.is_empty() {
            let stands_at = self.mine.first().copied().unwrap_or(self.place);
            self.neighbours(stands_at % self.shards, &mut observed);
        }
        if self.own_shards().nth(1).is_some() {
            observed.extend(self.others_standby().map(|(seat, _)| seat));
        }
        observed
    }

    /// Adds the shards from `start` on, up to the second live neighbour.
    fn neighbours(&self, start: u32, observed: &mut BTreeSet<u32>) {
        let mut live = BTreeSet::new();
        let ring = (0..self.shards).map(|ahead| (start + ahead) % self.shards);
        for seat in ring.filter(|seat| !self.mine.contains(seat)) {
            observed.insert(seat);
            let silent = self.seats.get(&seat).and_then(|seen| seen.silent).unwrap_or_default();
            live.extend(self.holder(seat).filter(|_| silent < self.lease / 2));
            if live.len() >= NEIGHBOURS {
                return;
            }
        }
    }

    /// The actions, by lease.
    ///
    /// A worker without a shard takes a free one at once, its preferred one first. A worker that has one takes another
    /// only after nothing has changed there for the length of a lease, so that its owner goes first. If it has several
    /// and another worker stands by, it gives one up.
    pub(crate) fn moves(&self) -> BTreeMap<u32, SeatMove> {
        let mut moves: BTreeMap<u32, SeatMove> =
            self.mine.iter().map(|&seat| (seat, SeatMove::Renew)).collect();
        let mut own = self.own_shards();
        if own.next().is_some() {
            moves.extend(self.mine.range(self.shards..).map(|&seat| (seat, SeatMove::Release)));
            if let Some(seat) = own.next_back().filter(|_| self.somebody_waits()) {
                moves.insert(seat, SeatMove::Release);
            }
        } else if let Some(seat) = self.free_seat() {
            moves.insert(seat, SeatMove::Claim);
        }
        let silent = self.seats.iter().filter(|(seat, seen)| self.given_up(**seat, seen));
        moves.extend(silent.map(|(&seat, _)| (seat, SeatMove::Claim)));
        moves
    }

    /// Where a worker without a shard goes: to a free shard, otherwise to a lease beyond, unless it has one.
    fn free_seat(&self) -> Option<u32> {
        let preferred = Some(self.place).filter(|&place| place < self.shards);
        let shard = preferred.into_iter().chain(0..self.shards).find(|&seat| self.free(seat));
        let beyond =
            || (self.shards..SEATS_MAX).find(|&seat| self.free(seat)).filter(|_| self.mine.is_empty());
        shard.or_else(beyond)
    }

    /// Returns true if a lease has been silent for so long that the worker may take it. The leader also takes those of
    /// workers that stood by, and gives them up.
    fn given_up(&self, seat: u32, seen: &SeatSeen) -> bool {
        let held = seen.state.is_held(self.generation);
        let patience = if held { Duration::from_millis(seen.state.row.duration_ms) } else { self.lease };
        let wanted = seat < self.shards || (held && self.leads());
        wanted && !self.mine.contains(&seat) && seen.silent.is_some_and(|silent| silent >= patience)
    }

    /// Returns true if a live worker has no shard.
    fn somebody_waits(&self) -> bool {
        let holders: BTreeSet<&str> = (0..self.shards).filter_map(|seat| self.holder(seat)).collect();
        let live = |seen: &SeatSeen| seen.beaten && seen.silent.is_some_and(|silent| silent < self.lease / 2);
        self.others_standby().any(|(_, seen)| live(seen) && !holders.contains(seen.state.row.holder.as_str()))
    }

    /// The number of live workers, this one included. Only the leader observes all.
    pub(crate) fn live(&self) -> u32 {
        let live = |seen: &&SeatSeen| {
            seen.state.is_held(self.generation) && seen.silent.is_some_and(|silent| silent < self.lease)
        };
        let others = self.seats.iter().filter(|(seat, _)| !self.mine.contains(seat));
        let holders: BTreeSet<&str> =
            others.map(|(_, seen)| seen).filter(live).map(|seen| seen.state.row.holder.as_str()).collect();
        u32::try_from(holders.len()).unwrap_or(u32::MAX).saturating_add(1)
    }
}

/// The load of a pool, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolLoad {
    pub shards: u32,
    /// The fewest shards that the leader may have.
    pub least: u32,
    /// Live workers, with a shard or without.
    pub live: u32,
    /// Tasks of all shards that wait for a node and may be tried.
    pub waiting: u64,
    /// For how long fewer have waited than make a batch.
    pub calm: Duration,
}

impl PoolLoad {
    /// Returns true if fewer tasks wait than make a batch.
    pub(crate) fn is_calm(waiting: u64) -> bool {
        waiting < CALM_TASKS
    }

    /// The number of shards that the pool should have. It doubles, up to the number of workers, while more waits than
    /// the shards' workers place soon. It is halved after a calm minute. More shards than needed cost conflicts.
    pub(crate) fn shards_wanted(self) -> u32 {
        let least = self.least.clamp(1, SEATS_MAX);
        let busy = self.waiting > u64::from(self.shards).saturating_mul(SPLIT_TASKS);
        if busy && self.live > self.shards {
            self.live.min(self.shards.saturating_mul(2)).clamp(least, SEATS_MAX)
        } else if self.calm >= CALM {
            self.shards.div_ceil(2).max(least)
        } else {
            self.shards.clamp(least, SEATS_MAX)
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
