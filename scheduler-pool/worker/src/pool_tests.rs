//! Decisions about leases, by example and over random pools.

use borough_store::lease::{LeaseBeat, LeaseRow};
use proptest::prelude::*;

use super::*;

const LEASE: Duration = Duration::from_secs(5);

fn seat(holder: &str, silent_ms: Option<u64>) -> SeatSeen {
    let row = LeaseRow { epoch: 3, holder: holder.to_owned(), generation: 1, duration_ms: 5_000 };
    let state = LeaseState { row, beat: LeaseBeat { epoch: 3, beat: 9 } };
    SeatSeen { state, silent: silent_ms.map(Duration::from_millis), beaten: true }
}

fn seats(holders: &[&str]) -> BTreeMap<u32, SeatSeen> {
    (0..)
        .zip(holders)
        .filter(|(_, holder)| !holder.is_empty())
        .map(|(at, holder)| (at, seat(holder, Some(0))))
        .collect()
}

fn view<'a>(seats: &'a BTreeMap<u32, SeatSeen>, holder: &str, shards: u32) -> PoolView<'a> {
    let held = seats.iter().filter(|(_, seen)| seen.state.row.holder == holder);
    let mine: BTreeSet<u32> = held.map(|(&seat, _)| seat).collect();
    let place = mine.first().copied().unwrap_or(0);
    PoolView { shards, place, generation: 1, lease: LEASE, mine, seats }
}

fn claims(view: &PoolView<'_>) -> Vec<u32> {
    let claims = view.moves().into_iter().filter(|(_, step)| *step == SeatMove::Claim);
    claims.map(|(seat, _)| seat).collect()
}

#[test]
fn a_worker_without_a_shard_takes_a_free_one_at_once_its_preferred_one_first() {
    let seats = seats(&["a", "", "", "d"]);
    assert_eq!(claims(&PoolView { place: 2, ..view(&seats, "new", 4) }), [2]);
    assert_eq!(claims(&PoolView { place: 0, ..view(&seats, "new", 4) }), [1], "its own is held");
    assert_eq!(claims(&PoolView { place: 9, ..view(&seats, "new", 4) }), [1]);
    assert_eq!(claims(&view(&seats, "a", 4)), [] as [u32; 0], "one that has a shard waits for the owner");
}

#[test]
fn a_worker_that_finds_no_free_shard_stands_by_on_one_lease() {
    let all = seats(&["a", "b", "c"]);
    assert_eq!(claims(&view(&all, "new", 2)), [3], "the first lease that is free");
    assert_eq!(claims(&view(&all, "c", 2)), [] as [u32; 0], "it stands by already");
    let free = seats(&["a", "", "c"]);
    assert_eq!(claims(&view(&free, "c", 2)), [1]);
    let both = seats(&["a", "c", "c"]);
    assert_eq!(view(&both, "c", 2).moves(), [(1, SeatMove::Renew), (2, SeatMove::Release)].into());
}

#[test]
fn a_shard_is_taken_over_after_a_lease_of_silence_and_not_before() {
    for (silent_ms, expected) in [(4_999, vec![]), (5_000, vec![1])] {
        let held = BTreeMap::from([(0, seat("a", None)), (1, seat("b", Some(silent_ms)))]);
        assert_eq!(claims(&view(&held, "a", 2)), expected);
        let free = BTreeMap::from([(0, seat("a", None)), (1, seat("", Some(silent_ms)))]);
        assert_eq!(claims(&view(&free, "a", 2)), expected, "a free one waits for its owner");
    }
    let void = BTreeMap::from([(0, seat("a", None)), (1, seat("b", Some(0)))]);
    assert_eq!(
        claims(&PoolView { generation: 2, mine: BTreeSet::new(), place: 1, ..view(&void, "new", 2) }),
        [1]
    );
}

#[test]
fn a_worker_with_several_shards_gives_one_to_a_live_worker_that_stands_by() {
    let waits = seats(&["a", "b", "b", "c"]);
    let released =
        |view: &PoolView<'_>| view.moves().into_iter().find(|(_, step)| *step == SeatMove::Release);
    assert_eq!(released(&view(&waits, "b", 3)), Some((2, SeatMove::Release)));
    assert_eq!(released(&view(&waits, "a", 3)), None, "it has one");
    let mut dead = waits;
    dead.get_mut(&3).unwrap().beaten = false;
    assert_eq!(released(&view(&dead, "b", 3)), None, "nobody has seen it alive");
    let busy = seats(&["a", "b", "b", "a"]);
    assert_eq!(released(&view(&busy, "b", 3)), None, "it has a shard, and gives the lease up itself");
}

#[test]
fn the_leader_clears_away_workers_that_stood_by_and_died() {
    let seats = BTreeMap::from([(0, seat("a", None)), (1, seat("b", Some(0))), (7, seat("c", Some(5_000)))]);
    assert_eq!(claims(&view(&seats, "a", 2)), [7]);
    assert_eq!(claims(&view(&seats, "b", 2)), [] as [u32; 0]);
    assert_eq!(view(&seats, "a", 2).live(), 2);
}

#[test]
fn a_worker_observes_two_live_neighbours_and_the_silent_ones_before_them() {
    let mut all: BTreeMap<u32, SeatSeen> =
        (0..100).map(|at| (at, seat(&format!("w{at}"), Some(0)))).collect();
    assert_eq!(view(&all, "w7", 100).observed(), BTreeSet::from([8, 9]));
    assert_eq!(view(&all, "w99", 100).observed(), BTreeSet::from([0, 1]));
    assert_eq!(view(&all, "w0", 100).observed().len(), 99, "the leader");
    all.get_mut(&8).unwrap().silent = Some(LEASE / 2);
    all.insert(9, seat("", Some(0)));
    assert_eq!(view(&all, "w7", 100).observed(), BTreeSet::from([8, 9, 10, 11]));
    let standby = PoolView { place: 4, ..view(&all, "new", 100) };
    assert_eq!(standby.observed(), BTreeSet::from([4, 5]));
}

/// The worker that holds the last shard before a gap has others before it too. It still observes the gap.
#[test]
fn what_lies_behind_each_shard_of_a_worker_is_observed() {
    let all = seats(&["dead", "b", "a", "c", "dead", "b"]);
    let observed = view(&all, "b", 7).observed();
    assert!(observed.contains(&6) && observed.contains(&0), "{observed:?}");
}

#[test]
fn shards_are_divided_under_load_and_merged_in_the_calm() {
    let load = PoolLoad { shards: 2, least: 1, live: 8, waiting: 8_193, calm: Duration::ZERO };
    assert_eq!(load.shards_wanted(), 4);
    assert_eq!(PoolLoad { live: 3, ..load }.shards_wanted(), 3, "no more than workers");
    assert_eq!(PoolLoad { waiting: 8_192, ..load }.shards_wanted(), 2, "the two place that soon");
    assert_eq!(PoolLoad { live: 2, ..load }.shards_wanted(), 2);
    let calm = PoolLoad { shards: 5, waiting: 0, calm: CALM, ..load };
    assert_eq!(calm.shards_wanted(), 3);
    assert_eq!(PoolLoad { least: 4, ..calm }.shards_wanted(), 4);
    assert_eq!(PoolLoad { calm: CALM / 2, ..calm }.shards_wanted(), 5);
    assert_eq!(PoolLoad { shards: 1, ..calm }.shards_wanted(), 1);
    assert_eq!(PoolLoad { least: 6, ..load }.shards_wanted(), 6, "at once");
}

proptest! {
    /// Some workers are dead, and each live one sees who is silent. In the end every shard has a live holder, and
    /// nothing moves any more. No live worker stands by while another has two shards.
    #[test]
    fn every_shard_finds_a_live_holder_and_the_pool_comes_to_rest(
        shards in 1..9_u32,
        holders in prop::collection::vec(0..6_usize, 0..12),
        live in prop::collection::btree_set(0..6_usize, 1..6),
    ) {
        let name = |worker: usize| format!("w{worker}");
        let mut held: BTreeMap<u32, String> = (0..).zip(&holders).map(|(seat, &worker)| (seat, name(worker))).collect();
        let mut rested = false;
        for _ in 0..64 {
            let before = held.clone();
            for &worker in &live {
                let own = name(worker);
                let dead = |holder: &str| !live.iter().any(|&live| name(live) == holder);
                let silent = |holder: &str| if holder.is_empty() || dead(holder) { LEASE } else { Duration::ZERO };
                let empty = (0..shards).map(|seat| (seat, String::new()));
                let all: BTreeMap<u32, String> = empty.chain(held.clone()).collect();
                let known = all.iter().map(|(&at, holder)| {
                    let mut seen = seat(holder, Some(silent(holder).as_millis().try_into().unwrap()));
                    seen.beaten = !dead(holder);
                    (at, seen)
                });
                let mut known: BTreeMap<u32, SeatSeen> = known.collect();
                let observed = view(&known, &own, shards).observed();
                known.iter_mut().filter(|(seat, _)| !observed.contains(seat)).for_each(|(_, seen)| seen.silent = None);
                for (seat, step) in view(&known, &own, shards).moves() {
                    match step {
                        SeatMove::Renew => {}
                        SeatMove::Claim => drop(held.insert(seat, own.clone())),
                        SeatMove::Release => drop(held.remove(&seat)),
                    }
                }
            }
            rested = held == before;
            if rested {
                break;
            }
        }
        prop_assert!(rested, "{held:?}");
        let of_shards: Vec<&String> = (0..shards).filter_map(|seat| held.get(&seat)).collect();
        prop_assert_eq!(of_shards.len(), shards as usize, "{:?}", held);
        let mut counts: BTreeMap<String, usize> = live.iter().map(|&worker| (name(worker), 0)).collect();
        for holder in of_shards {
            let count = counts.get_mut(holder);
            prop_assert!(count.is_some(), "{holder} is dead: {held:?}");
            *count.unwrap() += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        prop_assert!(most <= 1 || counts.values().all(|&count| count > 0), "{held:?}");
    }
}
