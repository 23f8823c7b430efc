//! Each fault alone, with probability 1: what the caller sees and what the store has.

use std::sync::Arc;
use std::time::Duration;

use super::{FaultEngine, FaultPlan};
use crate::contract::{ErrorCode, KvError};
use crate::database::{Database, Idempotency, TransactionTry};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};
use crate::{Engine, RangeRequest, Transaction};

/// A database with faults, and the same one without.
fn databases(plan: FaultPlan) -> (Database, Database, Arc<FaultEngine>) {
    let plain: Arc<dyn Engine> =
        Arc::new(EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1)));
    let faulty = Arc::new(FaultEngine::new(Arc::clone(&plain), plan, SeededRng::shared(2)));
    (Database::new(faulty.clone()), Database::new(plain), faulty)
}

async fn value(database: &Database, key: &'static [u8]) -> Option<Vec<u8>> {
    let get = |transaction: Transaction, _| async move { transaction.get(key).await };
    let value = database.run::<_, KvError, _, _>("value", Idempotency::ReadOnly, get).await.unwrap();
    value.map(|value| value.to_vec())
}

/// One try to set a key, and its error.
async fn set_once(database: &Database) -> ErrorCode {
    let set = |transaction: Transaction, attempt: TransactionTry| async move {
        if attempt.number > 1 {
            // The second try only returns the first one's error.
            return Err(KvError::new(ErrorCode::ClientInvalidOperation));
        }
        transaction.set_option(crate::TransactionOption::RetryLimit(0))?;
        transaction.set(b"k", b"v")
    };
    database.run("set", Idempotency::Natural, set).await.unwrap_err().code
}

#[tokio::test]
async fn unknown_after_a_commit_has_committed() {
    let (database, plain, engine) = databases(FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() });
    assert_eq!(set_once(&database).await, ErrorCode::CommitUnknownResult);
    assert_eq!(value(&plain, b"k").await.as_deref(), Some(b"v".as_slice()));
    assert_eq!(engine.injected()["commit_then_unknown"], 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_without_a_commit_never_commits() {
    let (database, plain, _) = databases(FaultPlan { no_commit_then_unknown: 1.0, ..FaultPlan::none() });
    assert_eq!(set_once(&database).await, ErrorCode::CommitUnknownResult);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(value(&plain, b"k").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_commit_happens_later() {
    let (database, plain, _) = databases(FaultPlan { timed_out_then_commit: 1.0, ..FaultPlan::none() });
    assert_eq!(set_once(&database).await, ErrorCode::TransactionTimedOut);
    assert_eq!(value(&plain, b"k").await, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(value(&plain, b"k").await.as_deref(), Some(b"v".as_slice()));
}

#[tokio::test(start_paused = true)]
async fn a_blind_write_is_never_refused_for_a_conflict_or_its_age() {
    let (database, plain, _) = databases(FaultPlan { commit_refused: 1.0, ..FaultPlan::none() });
    for _ in 0..50 {
        let code = set_once(&database).await;
        assert!(matches!(code, ErrorCode::FutureVersion | ErrorCode::ProcessBehind), "{code:?}");
    }
    assert_eq!(value(&plain, b"k").await, None);
}

#[tokio::test]
async fn a_read_only_commit_never_fails() {
    let plan = FaultPlan { commit_refused: 1.0, commit_then_unknown: 1.0, ..FaultPlan::none() };
    let (database, _, _) = databases(plan);
    assert_eq!(value(&database, b"k").await, None);
}

#[tokio::test]
async fn short_batches_lose_no_row() {
    let (database, plain, engine) = databases(FaultPlan { short_batch: 1.0, ..FaultPlan::none() });
    let fill = |transaction: Transaction, _| async move {
        (0..50u8).try_for_each(|key| transaction.set(&[key], b"v"))
    };
    plain.run("fill", Idempotency::Natural, fill).await.unwrap();
    for (reverse, limit) in [(false, 0), (true, 0), (false, 7), (true, 7)] {
        let read = |transaction: Transaction, _| async move {
            let request = RangeRequest { reverse, ..RangeRequest::between(vec![], vec![0xff]).limit(limit) };
            transaction.range_all(request).await
        };
        let faulty = database.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, read).await.unwrap();
        let sound = plain.run::<_, KvError, _, _>("read", Idempotency::ReadOnly, read).await.unwrap();
        assert_eq!(faulty, sound, "reverse {reverse} limit {limit}");
    }
    assert!(engine.injected()["short_batch"] > 10);
}

#[tokio::test(start_paused = true)]
async fn watches_lie_only_after_the_commit() {
    for (plan, expected) in [
        (FaultPlan { watch_spurious: 1.0, ..FaultPlan::none() }, Ok(())),
        (FaultPlan { watch_fails: 1.0, ..FaultPlan::none() }, Err(KvError::new(ErrorCode::ProcessBehind))),
    ] {
        let (database, _, _) = databases(plan);
        let open = |transaction: Transaction, _| async move {
            let watch = transaction.watch(b"k").await?;
            let mut watch = Box::pin(watch);
            let early = tokio::time::timeout(Duration::from_secs(1), &mut watch).await;
            assert!(early.is_err(), "inert until the commit");
            Ok::<_, KvError>(watch)
        };
        let watch = database.run("watch", Idempotency::Natural, open).await.unwrap();
        assert_eq!(watch.await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_fails_its_watches_and_stamps() {
    for plan in [
        FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() },
        FaultPlan { no_commit_then_unknown: 1.0, ..FaultPlan::none() },
    ] {
        let (database, _, _) = databases(plan);
        let kept = parking_lot::Mutex::new(None);
        let set = |transaction: Transaction, _| {
            let kept = &kept;
            async move {
                transaction.set_option(crate::TransactionOption::RetryLimit(0))?;
                transaction.set(b"k", b"v")?;
                let watch = transaction.watch(b"k").await?;
                *kept.lock() = Some((watch, transaction.versionstamp()));
                Ok::<_, KvError>(())
            }
        };
        database.run("set", Idempotency::Natural, set).await.unwrap_err();
        let (watch, stamp) = kept.lock().take().unwrap();
        assert_eq!(watch.await.unwrap_err().code, ErrorCode::CommitUnknownResult);
        assert_eq!(stamp.await.unwrap_err().code, ErrorCode::TransactionInvalidVersion);
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_looks_before_it_repeats_is_exact_under_heavy_faults() {
    let (database, plain, engine) = databases(FaultPlan::heavy());
    let mut certain = 0u32;
    for id in 0..200u32 {
        let add = |transaction: Transaction, _| async move {
            // Natural: the mark shows whether this very addition was made.
            if transaction.get(&id.to_be_bytes()).await?.is_none() {
                transaction.set(&id.to_be_bytes(), b"")?;
                transaction.atomic(crate::AtomicOp::Add, b"total", &1u64.to_le_bytes())?;
            }
            Ok::<_, KvError>(())
        };
        match database.run("add", Idempotency::Natural, add).await {
            Ok(()) => certain += 1,
            Err(error) => assert_eq!(error.code, ErrorCode::TransactionTimedOut),
        }
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let marks = |transaction: Transaction, _| async move {
        transaction.range_all(RangeRequest::between(vec![0], vec![1])).await
    };
    let marks = plain.run::<_, KvError, _, _>("marks", Idempotency::ReadOnly, marks).await.unwrap().len();
    let total = value(&plain, b"total").await.unwrap();
    assert_eq!(u64::from_le_bytes(total.try_into().unwrap()), marks as u64);
    assert!(marks >= certain as usize);
    let injected = engine.injected();
    for fault in
        ["commit_refused", "commit_then_unknown", "no_commit_then_unknown", "commit_slow", "read_fails"]
    {
        assert!(injected.get(fault).is_some_and(|count| *count > 5), "{fault}: {injected:?}");
    }
}
