//! Leases against a store: one holder at a time, even with slow processes, dead ones, and leases from before a restart.

use std::time::Duration;

use borough_kv::FaultPlan;
use borough_kv::env::SeededRng;
use borough_model::{NodeId, Resources};
use proptest::prelude::*;

use super::*;
use crate::error::StoreError;
use crate::keys::{self, LeaseKey, NodeReservedKey};
use crate::testing::{TestCell, seeds};

fn claim(holder: &str, generation: u64, expired: Option<LeaseState>) -> LeaseClaim {
    let (role, holder) = ("scheduler".to_owned(), holder.to_owned());
    LeaseClaim { role, shard: 0, holder, duration_ms: 10_000, generation, expired }
}

async fn acquire(cell: &TestCell, claim: LeaseClaim) -> LeaseAcquired {
    cell.run(async |tx| lease_acquire(&tx, &cell.space, &claim).await).await.unwrap()
}

async fn held(cell: &TestCell, claim: LeaseClaim) -> HeldLease {
    match acquire(cell, claim).await {
        LeaseAcquired::Held(held) => held,
        LeaseAcquired::Taken(state) => panic!("taken: {state:?}"),
    }
}

#[tokio::test]
async fn a_lease_changes_hands_only_by_release_expiry_or_generation() {
    let cell = TestCell::new().await;
    let a = held(&cell, claim("a", 1, None)).await;
    assert_eq!(held(&cell, claim("a", 1, None)).await, a, "acquiring twice is acquiring once");
    let LeaseAcquired::Taken(seen) = acquire(&cell, claim("b", 1, None)).await else { panic!("a holds it") };
    cell.run(async |tx| lease_renew(&tx, &cell.space, &a, 1).await).await.unwrap();
    let LeaseAcquired::Taken(seen) = acquire(&cell, claim("b", 1, Some(seen))).await else {
        panic!("a beat")
    };
    let b = held(&cell, claim("b", 1, Some(seen))).await;
    assert!(b.epoch > a.epoch);
    let late = cell.run(async |tx| lease_renew(&tx, &cell.space, &a, 2).await).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { epoch, .. }) if epoch == b.epoch));
    cell.run(async |tx| lease_release(&tx, &cell.space, &a).await).await.unwrap();
    assert!(
        matches!(acquire(&cell, claim("c", 1, None)).await, LeaseAcquired::Taken(_)),
        "a's release is nothing"
    );
    let c = held(&cell, claim("c", 2, None)).await;
    assert!(c.epoch > b.epoch, "a store opened again voids what was held");
    cell.run(async |tx| lease_release(&tx, &cell.space, &c).await).await.unwrap();
    assert!(held(&cell, claim("d", 2, None)).await.epoch > c.epoch);
    let state = cell.run(async |tx| lease_read(&tx, &cell.space, "scheduler", 0).await).await.unwrap();
    assert_eq!(state.row.holder, "d");
}

/// A renewal does not fail the holder's own protected commit; a takeover does. The commit guards the lease's key as
/// that of a placement does, and reads nothing.
#[tokio::test]
async fn a_takeover_fails_protected_work_and_a_renewal_does_not() {
    let cell = TestCell::new().await;
    let a = held(&cell, claim("a", 1, None)).await;
    let version = async || cell.run(async |tx| Ok(tx.read_version().await?)).await.unwrap();
    let commit = async |version| {
        let write = |tx: &borough_kv::Transaction| {
            keys::guard(tx, &cell.space, &LeaseKey { role: a.role.clone(), shard: a.shard })?;
            keys::write(tx, &cell.space, &NodeReservedKey { node: NodeId(1) }, &Default::default())
        };
        cell.db.commit_at("protected", version, write).await
    };
    let before = version().await;
    cell.run(async |tx| lease_renew(&tx, &cell.space, &a, 1).await).await.unwrap();
    commit(before).await.unwrap();
    let before = version().await;
    let state = cell.run(async |tx| lease_read(&tx, &cell.space, "scheduler", 0).await).await.unwrap();
    held(&cell, claim("b", 1, Some(state))).await;
    let failed = commit(before).await.unwrap_err();
    assert!(
        matches!(failed.error, StoreError::Kv(error) if error.code == borough_kv::ErrorCode::NotCommitted)
    );
    let checked = cell.run(async |tx| lease_check(&tx, &cell.space, &a).await).await;
    assert!(matches!(checked, Err(StoreError::LeaseLost { .. })));
}

/// A step of one process in the property test.
#[derive(Clone, Debug)]
enum Step {
    /// Reads the lease, and claims it if it has seen the lease expire.
    Observe(usize),
    /// Renews, if it believes to hold the lease.
    Renew(usize),
    /// Makes a protected write, if it believes to hold the lease.
    Work(usize),
    Release(usize),
    /// Time passes, in seconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Step::Observe),
        2 => (0..3_usize).prop_map(Step::Renew),
        4 => (0..3_usize).prop_map(Step::Work),
        1 => (0..3_usize).prop_map(Step::Release),
        3 => (1..8_u64).prop_map(Step::Wait),
    ]
}

#[derive(Default)]
struct Process {
    held: Option<HeldLease>,
    silence: Silence<LeaseState>,
    beats: u64,
}

async fn steps_run(steps: Vec<Step>) {
    let cell = TestCell::new().await;
    let mut processes: [Process; 3] = Default::default();
    let (mut now, mut newest) = (0_u64, 0_u64);
    for step in steps {
        match step {
            Step::Wait(seconds) => now += seconds,
            Step::Observe(who) => {
                let process = &mut processes[who];
                let state =
                    cell.run(async |tx| lease_read(&tx, &cell.space, "scheduler", 0).await).await.unwrap();
                let at = Duration::from_secs(now);
                let silent = process.silence.observe(at, state.clone(), Duration::from_secs(5));
                let expired = (silent >= Duration::from_secs(10)).then_some(state);
                if let LeaseAcquired::Held(held) = acquire(&cell, claim(&format!("p{who}"), 1, expired)).await
                {
                    assert!(held.epoch >= newest, "epochs only grow");
                    newest = held.epoch;
                    process.held = Some(held);
                }
            }
            Step::Renew(who) => {
                let process = &mut processes[who];
                let Some(held) = process.held.clone() else { continue };
                process.beats += 1;
                let renewed =
                    cell.run(async |tx| lease_renew(&tx, &cell.space, &held, process.beats).await).await;
                assert_eq!(renewed.is_ok(), held.epoch == newest);
            }
            Step::Work(who) => {
                let Some(held) = processes[who].held.clone() else { continue };
                let worked = cell.run(async |tx| lease_check(&tx, &cell.space, &held).await).await;
                assert_eq!(worked.is_ok(), held.epoch == newest, "only the newest holder works");
            }
            Step::Release(who) => {
                let Some(held) = processes[who].held.take() else { continue };
                cell.run(async |tx| lease_release(&tx, &cell.space, &held).await).await.unwrap();
                if held.epoch == newest {
                    newest += 1;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However processes observe, renew, work and give up, only the newest holder's protected work succeeds.
    #[test]
    fn only_the_newest_holder_works(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(steps_run(steps));
    }
}

/// A process that takes the lease when it can, works under it, and sometimes pauses. `log` holds the epoch of the last
/// work. Returns how often it worked.
async fn worker(cell: std::rc::Rc<TestCell>, who: u64, seed: u64) -> u64 {
    let rng = SeededRng::shared(seed.wrapping_mul(7).wrapping_add(who));
    let log = NodeReservedKey { node: NodeId(1) };
    let (mut held, mut silence, mut worked) = (None, Silence::<LeaseState>::default(), 0);
    for round in 0..40_u64 {
        tokio::time::sleep(Duration::from_millis(rng.next_u64() % 50)).await;
        let Some(mine) = held.clone() else {
            let reading = cell.run(async |tx| lease_read(&tx, &cell.space, "scheduler", 0).await).await;
            let Ok(state) = reading else { continue };
            let at = Duration::from_millis(round * 25);
            let silent = silence.observe(at, state.clone(), Duration::from_secs(1));
            let expired = (silent >= Duration::from_millis(75)).then_some(state);
            let claim = claim(&format!("p{who}"), 1, expired);
            let acquired = cell.run(async |tx| lease_acquire(&tx, &cell.space, &claim).await).await;
            if let Ok(LeaseAcquired::Held(lease)) = acquired {
                held = Some(lease);
            }
            continue;
        };
        let working = cell.run(async |tx| {
            lease_check(&tx, &cell.space, &mine).await?;
            let before = keys::read(&tx, &cell.space, &log).await?.unwrap_or_default();
            assert!(before.cpu_millis <= mine.epoch, "seed {seed}: work of a later epoch came before");
            let after = Resources { cpu_millis: mine.epoch, memory_bytes: before.memory_bytes + 1, ..before };
            keys::write(&tx, &cell.space, &log, &after)
        });
        match working.await {
            Ok(()) => worked += 1,
            Err(StoreError::LeaseLost { .. }) => held = None,
            Err(_) => {}
        }
        if rng.next_u64().is_multiple_of(2) {
            let _ = cell.run(async |tx| lease_renew(&tx, &cell.space, &mine, round + 1).await).await;
        }
    }
    worked
}

/// Whatever the store does and whichever process pauses, work under the lease is in the order of epochs.
#[tokio::test(start_paused = true)]
async fn protected_work_is_in_the_order_of_epochs_whatever_the_store_does() {
    for seed in seeds(20) {
        let cell = std::rc::Rc::new(TestCell::with_faults(seed, FaultPlan::heavy()).await);
        let processes = tokio::task::LocalSet::new();
        let handles: Vec<_> =
            (0..3).map(|who| processes.spawn_local(worker(std::rc::Rc::clone(&cell), who, seed))).collect();
        processes.await;
        let mut worked = 0;
        for handle in handles {
            worked += handle.await.unwrap();
        }
        assert!(worked > 10, "seed {seed}: somebody gets on");
    }
}
