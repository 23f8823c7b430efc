//! The engine through its public door, at the size of single transactions; the conformance suite does the rest.

use std::sync::Arc;

use crate::contract::{AtomicOp, ErrorCode, KvError};
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};

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
