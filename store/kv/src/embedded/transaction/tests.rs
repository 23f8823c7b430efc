//! The engine through its public interface, at the size of single transactions; the conformance suite does the rest.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::{
    AtomicOp, Engine as _, EngineTransaction, ErrorCode, Isolation, KvError, TransactionOption,
};
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{ManualClock, SeededRng, SystemClock};

fn database() -> Database {
    Database::new(Arc::new(EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1))))
}

#[tokio::test]
async fn a_commit_is_seen_by_the_next_transaction() {
    let database = database();
    let ((), committed) = database
        .run_committed("set", Idempotency::Natural, |transaction, _| async move {
            transaction.set(b"a", b"1")?;
            transaction.atomic(AtomicOp::Add, b"n", &1u64.to_le_bytes())?;
            Ok::<_, KvError>(())
        })
        .await
        .unwrap();
    let (value, version) = database
        .run("get", Idempotency::ReadOnly, |transaction, _| async move {
            Ok::<_, KvError>((transaction.get(b"a").await?, transaction.read_version().await?))
        })
        .await
        .unwrap();
    assert_eq!(value.as_deref(), Some(b"1".as_slice()));
    assert!(version >= committed.version.unwrap());
}

#[tokio::test]
async fn a_read_that_was_overwritten_refuses_the_commit() {
    let database = database();
    let version = database.run("version", Idempotency::ReadOnly, |transaction, _| async move {
        transaction.read_version().await
    });
    let version = version.await.unwrap();
    let set = |transaction: crate::Transaction, _| async move { transaction.set(b"k", b"1") };
    database.run("set", Idempotency::Natural, set).await.unwrap();
    let refused = database
        .commit_at::<KvError, _>("guarded", version, |transaction| {
            transaction.read_conflict_key(b"k")?;
            transaction.set(b"other", b"2")
        })
        .await
        .unwrap_err();
    assert_eq!(refused.error.code, ErrorCode::NotCommitted);
    assert_eq!(refused.conflicting.len(), 1);
    assert_eq!(refused.conflicting[0].start, "k");
}

#[tokio::test]
async fn a_watch_fires_on_a_later_change_only() {
    let database = database();
    let watch = database.run("watch", Idempotency::Natural, |transaction, _| async move {
        transaction.set(b"k", b"1")?;
        transaction.watch(b"k").await
    });
    let mut watch = watch.await.unwrap();
    assert!(futures::poll!(&mut watch).is_pending());
    let set = |transaction: crate::Transaction, _| async move { transaction.set(b"k", b"2") };
    database.run("set", Idempotency::Natural, set).await.unwrap();
    watch.await.unwrap();
}

/// One transaction by hand, where the runner would retry.
#[expect(clippy::disallowed_methods, reason = "these tests look at single transactions")]
fn begin(engine: &EmbeddedEngine) -> Box<dyn EngineTransaction> {
    engine.begin()
}

#[tokio::test]
async fn a_transaction_lasts_five_seconds() {
    let clock = ManualClock::at(0);
    let engine = EmbeddedEngine::ephemeral(clock.clone(), SeededRng::shared(1));
    let [reader, writer, blind, risky, young] = std::array::from_fn(|_| begin(&engine));
    for transaction in [&reader, &writer, &blind, &risky] {
        transaction.read_version().await.unwrap();
    }
    writer.get(b"a", Isolation::Serializable).await.unwrap();
    clock.advance(Duration::from_millis(4900));
    reader.get(b"a", Isolation::Serializable).await.unwrap();
    young.get(b"a", Isolation::Serializable).await.unwrap();
    clock.advance(Duration::from_millis(200));
    let too_old = Some(ErrorCode::TransactionTooOld);
    assert_eq!(reader.get(b"a", Isolation::Serializable).await.err().map(|error| error.code), too_old);
    writer.set(b"b", b"1").unwrap();
    assert_eq!(writer.commit().await.err().map(|error| error.code), too_old);
    // Even a transaction that read nothing can be refused, unless it declares that it does not care.
    blind.set(b"b", b"2").unwrap();
    assert_eq!(blind.commit().await.err().map(|error| error.code), too_old);
    risky.set_option(TransactionOption::CausalWriteRisky).unwrap();
    risky.set(b"b", b"2").unwrap();
    risky.commit().await.unwrap();
    young.set(b"c", b"3").unwrap();
    young.commit().await.unwrap();
}

#[tokio::test]
async fn old_versions_are_forgotten_and_young_ones_kept() {
    let clock = ManualClock::at(0);
    let engine = EmbeddedEngine::ephemeral(clock.clone(), SeededRng::shared(1));
    let mut versions = Vec::new();
    for round in 0..200u32 {
        clock.advance(Duration::from_millis(100));
        let transaction = begin(&engine);
        transaction.set(b"hot", &round.to_be_bytes()).unwrap();
        transaction.set(&round.to_be_bytes(), b"once").unwrap();
        if round > 0 {
            transaction.clear(&(round - 1).to_be_bytes()).unwrap();
        }
        versions.push((round, transaction.commit().await.unwrap().version.unwrap()));
    }
    let kept = engine.versions_kept();
    assert!((50..200).contains(&kept), "{kept} versions are kept of 600 written");
    for (round, version) in versions.iter().rev().take(45) {
        let reader = begin(&engine);
        reader.set_read_version(*version).unwrap();
        assert_eq!(
            reader.get(b"hot", Isolation::Snapshot).await.unwrap().as_deref(),
            Some(round.to_be_bytes().as_slice())
        );
    }
}

#[tokio::test]
async fn dropped_watches_leave_nothing_behind() {
    let engine = EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1));
    for key in 0..30_000u32 {
        // More than may be outstanding at once: each place must be freed.
        let transaction = begin(&engine);
        drop(transaction.watch(&key.to_be_bytes()).await.unwrap());
        transaction.commit().await.unwrap();
    }
    assert!(engine.keys_watched() < 200, "{} keys are still watched", engine.keys_watched());
}

#[tokio::test]
async fn too_many_watches_are_refused() {
    let engine = EmbeddedEngine::ephemeral(SystemClock::shared(), SeededRng::shared(1));
    let transaction = begin(&engine);
    let mut watches = Vec::new();
    let refused = loop {
        match transaction.watch(b"k").await {
            Ok(watch) => watches.push(watch),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code, watches.len()), (ErrorCode::TooManyWatches, 10_000));
    watches.pop();
    drop(transaction.watch(b"k").await.unwrap());
}
