//! One seed gives one history: a run of concurrent transactions repeats exactly, with versions, stamps and injected
//! faults.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use borough_kv::env::{ManualClock, SeededRng};
use borough_kv::{
    AtomicOp, Database, EmbeddedEngine, Engine, FaultEngine, FaultPlan, Idempotency, KvError, RangeRequest,
    Transaction, Version,
};

const WORKERS: u64 = 4;
const TURNS: usize = 25;
/// A commit that answered 1031 has happened by then, or never will.
const LATE_COMMIT: Duration = Duration::from_secs(1);

/// All observations of a run.
#[derive(Debug, PartialEq, Eq)]
struct History {
    /// The results of each worker's transactions, in their order.
    events: Vec<(u64, usize, Result<Option<Version>, KvError>)>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    injected: BTreeMap<&'static str, u64>,
}

/// Reads some keys, writes others and adds to a counter.
async fn turn(transaction: Transaction, picks: [u8; 3]) -> Result<(), KvError> {
    transaction.get(&[picks[0] % 8]).await?;
    tokio::task::yield_now().await;
    transaction.set(&[picks[1] % 8], &picks)?;
    transaction.atomic(AtomicOp::Add, &[b'n', picks[2] % 2], &1u64.to_le_bytes())
}

async fn history(seed: u64, plan: FaultPlan) -> History {
    let clock = ManualClock::at(0);
    let inner = EmbeddedEngine::ephemeral(clock.clone(), SeededRng::shared(seed));
    let engine = Arc::new(FaultEngine::new(Arc::new(inner), plan, SeededRng::shared(seed ^ 1)));
    let database = Database::new(Arc::clone(&engine) as Arc<dyn Engine>);
    let events = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (database, clock, events) = (database.clone(), clock.clone(), Arc::clone(&events));
            let rng = SeededRng::shared(seed.wrapping_add(worker));
            tokio::spawn(async move {
                for number in 0..TURNS {
                    let picks = rng.next_u64().to_le_bytes();
                    let picks = [picks[0], picks[1], picks[2]];
                    clock.advance(Duration::from_micros(u64::from(picks[0])));
                    let turn = |transaction: Transaction, _| turn(transaction, picks);
                    let result = database.run_committed("turn", Idempotency::Natural, turn).await;
                    events.lock().push((worker, number, result.map(|(_, committed)| committed.version)));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    tokio::time::sleep(LATE_COMMIT).await;
    let read = |transaction: Transaction, _| async move {
        transaction.range_all(RangeRequest::between(vec![], vec![0xff])).await
    };
    let rows = loop {
        if let Ok(rows) = database.run::<_, KvError, _, _>("rows", Idempotency::ReadOnly, read).await {
            break rows;
        }
    };
    let rows = rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    let events = std::mem::take(&mut *events.lock());
    History { events, rows, injected: engine.injected() }
}

#[tokio::test(start_paused = true)]
async fn one_seed_replayed_gives_the_same_history() {
    for plan in [FaultPlan::none(), FaultPlan::standard(), FaultPlan::heavy()] {
        for seed in 0..5 {
            let (once, again) = (history(seed, plan.clone()).await, history(seed, plan.clone()).await);
            assert_eq!(once, again, "seed {seed}");
        }
        assert_ne!(history(0, plan.clone()).await, history(1, plan).await, "the seed decides something");
    }
}
