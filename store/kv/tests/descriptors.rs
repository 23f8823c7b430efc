//! A process without free descriptors keeps committing, since the engine has its own in reserve. This is a test program
//! of its own, since it takes every descriptor of its process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::sync::Arc;

use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, EngineState, Idempotency, KvResult, RangeRequest, Transaction};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors of the process in this test.
const DESCRIPTORS: u64 = 64;

fn open(directory: &std::path::Path) -> (EmbeddedEngine, Database) {
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    // Small, so that segments and checkpoints are written all the time.
    let options = OpenOptions { segment_bytes: 1 << 12, checkpoint_bytes: 1 << 14, ..options };
    let engine = EmbeddedEngine::open(options).unwrap();
    (engine.clone(), Database::new(Arc::new(engine)))
}

async fn put(database: &Database, key: u32) -> KvResult<()> {
    let set = |transaction: Transaction, _| async move { transaction.set(&key.to_be_bytes(), &[7; 100]) };
    database.run("put", Idempotency::Natural, set).await
}

#[tokio::test]
async fn commits_go_on_where_the_process_has_no_descriptor_left() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path());
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(DESCRIPTORS), ..limits }).unwrap();
    let mut taken = Vec::new();
    for key in 0..2_000 {
        // Every descriptor that becomes free is taken at once.
        taken.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        put(&database, key).await.unwrap();
    }
    assert_eq!(database.engine_state(), EngineState::Serving);
    drop(taken);
    engine.close().await;
    drop((engine, database));
    let (_, database) = open(directory.path());
    let read = |transaction: Transaction, _| async move {
        transaction.range_all(RangeRequest::between(vec![], vec![0xff])).await
    };
    let rows: KvResult<Vec<_>> = database.run("read", Idempotency::ReadOnly, read).await;
    assert_eq!(rows.unwrap().len(), 2_000);
}
