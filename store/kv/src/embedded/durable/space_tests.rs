//! Space: deleted rows leave neither files nor memory behind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::OpenOptions;
use crate::contract::KvError;
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{ManualClock, SeededRng};
use crate::{RangeRequest, Transaction};

const SEGMENT_BYTES: u64 = 1 << 15;
const CHECKPOINT_BYTES: u64 = 1 << 17;

struct Store {
    engine: EmbeddedEngine,
    database: Database,
    clock: Arc<ManualClock>,
}

fn open(directory: &Path) -> Store {
    let clock = ManualClock::at(0);
    let options = OpenOptions::new(directory, clock.clone(), SeededRng::shared(1));
    let options = OpenOptions {
        fsync: false,
        segment_bytes: SEGMENT_BYTES,
        checkpoint_bytes: CHECKPOINT_BYTES,
        ..options
    };
    let engine = EmbeddedEngine::open(options).unwrap();
    Store { database: Database::new(Arc::new(engine.clone())), engine, clock }
}

impl Store {
    /// Sets `rows` rows from `first` on, each of `bytes`, in one transaction.
    async fn set(&self, first: u32, rows: u32, bytes: usize) {
        let set = |transaction: Transaction, _| async move {
            for row in first..first + rows {
                transaction.set(&row.to_be_bytes(), &vec![7; bytes])?;
            }
            Ok::<_, KvError>(())
        };
        self.database.run("set", Idempotency::Natural, set).await.unwrap();
        self.clock.advance(Duration::from_millis(100));
    }

    async fn clear(&self, first: u32, end: u32) {
        let clear = |transaction: Transaction, _| async move {
            transaction.clear_range(&first.to_be_bytes(), &end.to_be_bytes())
        };
        self.database.run::<_, KvError, _, _>("clear", Idempotency::Natural, clear).await.unwrap();
        self.clock.advance(Duration::from_millis(100));
    }

    async fn rows(&self) -> usize {
        let read = |transaction: Transaction, _| async move {
            transaction.range_all(RangeRequest::between(vec![], vec![0xff])).await
        };
        self.database.run::<_, KvError, _, _>("rows", Idempotency::ReadOnly, read).await.unwrap().len()
    }
}

/// Does `step` again and again until `holds`.
async fn until(what: &str, holds: impl Fn() -> bool, step: impl AsyncFn()) {
    let looks = async {
        while !holds() {
            step().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(60), looks).await.is_ok(),
        "it never came to be: {what}"
    );
}

fn bytes(directory: &Path, prefix: &str) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    // A file may be removed between the listing and the read.
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[tokio::test]
async fn a_store_that_was_large_once_frees_its_space() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for part in 0..40 {
        store.set(part * 100, 100, 1000).await;
    }
    until(
        "the checkpoint is large",
        || bytes(directory.path(), "checkpoint") > 2_000_000,
        async || {
            store.set(0, 10, 1000).await;
        },
    )
    .await;
    store.clear(0, 4000).await;
    until(
        "the checkpoint is small",
        || bytes(directory.path(), "checkpoint") < 500_000,
        async || {
            store.set(0, 10, 1000).await;
        },
    )
    .await;
    store.engine.close().await;
    drop(store);
    let store = open(directory.path());
    assert_eq!(store.rows().await, 10);
}

/// Rows of all sizes are written and deleted, with as much log as several hundred checkpoints take.
#[tokio::test]
async fn churn_keeps_files_and_versions_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let (mut log_most, mut checkpoint_most, mut versions_most) = (0, 0, 0);
    for round in 0..300_u32 {
        // At most 300 rows of up to 4 kB exist at any time: 600 kB in the mean.
        let first = round * 10 % 1000;
        let size = usize::try_from(round * 7919 % 4000).unwrap();
        store.set(first, 10, size).await;
        let gone = (first + 700) % 1000;
        store.clear(gone, gone + 10).await;
        log_most = log_most.max(bytes(directory.path(), "log-"));
        checkpoint_most = checkpoint_most.max(bytes(directory.path(), "checkpoint"));
        versions_most = versions_most.max(store.engine.versions_kept());
    }
    assert!(store.rows().await <= 310);
    // The log under a checkpoint and the log since, each at most four times what starts a checkpoint, and the ends of
    // segments that the next record did not fit.
    assert!(log_most < 24 * CHECKPOINT_BYTES, "{log_most} bytes of log");
    assert!(checkpoint_most < 6_000_000, "{checkpoint_most} bytes of checkpoint");
    // 300 rows, and five seconds of changes to them: 25 rounds of ten sets and ten clears. A running checkpoint keeps
    // more.
    assert!(versions_most < 6_000, "{versions_most} versions");
    store.engine.close().await;
}

#[tokio::test]
async fn a_clear_of_everything_is_one_small_record_and_leaves_nothing_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for part in 0..50 {
        store.set(part * 400, 400, 10).await;
    }
    assert!(store.engine.versions_kept() >= 20_000);
    let before = store.engine.stats().mutations;
    store.clear(0, 20_000).await;
    assert_eq!(store.engine.stats().mutations, before + 1);
    assert_eq!(store.rows().await, 0);
    // After the window nothing is left, neither of the rows nor of their deletions. A running checkpoint may keep them
    // for a while.
    until(
        "only the last row is left",
        || store.engine.versions_kept() <= 2,
        async || {
            store.clock.advance(Duration::from_secs(6));
            store.set(0, 1, 1).await;
        },
    )
    .await;
}
