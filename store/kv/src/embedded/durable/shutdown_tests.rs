//! Ends of an engine: closed under load, dropped without closing, with a checkpoint in progress.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::OpenOptions;
use crate::contract::{ErrorCode, KvError};
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};
use crate::{KvResult, RangeRequest, Transaction};

const WRITERS: u64 = 8;

fn open(directory: &Path) -> (EmbeddedEngine, Database) {
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    let options = OpenOptions { segment_bytes: 1 << 14, checkpoint_bytes: 1 << 16, ..options };
    let engine = EmbeddedEngine::open(options).expect("the directory is free");
    (engine.clone(), Database::new(Arc::new(engine)))
}

async fn put(database: &Database, key: u64) -> KvResult<()> {
    let set = |transaction: Transaction, _| async move { transaction.set(&key.to_be_bytes(), &[7; 300]) };
    database.run("put", Idempotency::Natural, set).await
}

async fn keys(database: &Database) -> BTreeSet<u64> {
    let read = |transaction: Transaction, _| async move {
        transaction.range_all(RangeRequest::between(vec![], vec![0xff])).await
    };
    let rows = database.run::<_, KvError, _, _>("keys", Idempotency::ReadOnly, read).await.unwrap();
    rows.iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())).collect()
}

/// Writes until the store is closed. Returns what was acknowledged and the error at the end.
async fn write_on(database: Database, writer: u64) -> (Vec<u64>, ErrorCode) {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let key = writer << 32 | number;
        match put(&database, key).await {
            Ok(()) => acknowledged.push(key),
            Err(error) => return (acknowledged, error.code),
        }
    }
    unreachable!("numbers do not end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_under_load_answers_everybody_and_keeps_what_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = BTreeSet::new();
    for round in 0..4 {
        let (engine, database) = open(directory.path());
        assert_eq!(keys(&database).await, expected, "round {round}");
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write_on(database.clone(), round << 40 | writer)))
            .collect();
        // Until enough is written for several checkpoints.
        while engine.stats().transactions < 400 + 100 * round {
            tokio::task::yield_now().await;
        }
        engine.close().await;
        // The directory is free even though handles are left, and those return an error.
        let (again, _) = open(directory.path());
        again.close().await;
        for writer in writers {
            let (acknowledged, code) = writer.await.unwrap();
            assert_eq!(code, ErrorCode::OperationCancelled);
            expected.extend(acknowledged);
        }
        assert_eq!(put(&database, 0).await.unwrap_err().code, ErrorCode::OperationCancelled);
        // A second time does no harm.
        engine.close().await;
    }
    let (_, database) = open(directory.path());
    assert_eq!(keys(&database).await, expected);
}

#[tokio::test]
async fn the_last_handle_to_go_frees_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = BTreeSet::new();
    for round in 0..5 {
        let (engine, database) = open(directory.path());
        for number in 0..200 {
            put(&database, round << 32 | number).await.unwrap();
            expected.insert(round << 32 | number);
        }
        drop(engine);
        assert_eq!(keys(&database).await, expected, "the other handle still works");
        drop(database);
        // Opening waits for nothing: dropping the last handle has waited.
    }
    let (_, database) = open(directory.path());
    assert_eq!(keys(&database).await, expected);
    assert!(
        directory.path().join("checkpoint").exists() && !directory.path().join("checkpoint.new").exists()
    );
}
