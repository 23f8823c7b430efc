//! The files of a durable store, damaged. Four bytes are an edit: the file, the position in it (two bytes), and the
//! value that is added to that byte.
//!
//! Property: a damaged store is refused, or opens with the first so many of its commits. Nothing panics.

use std::path::Path;
use std::sync::Arc;

use borough_kv::embedded::OpenOptions;
use borough_kv::env::{ManualClock, SeededRng};
use borough_kv::{Database, EmbeddedEngine, Idempotency, KvError, RangeRequest};
use tokio::runtime::Runtime;

/// Commits of the store. Each adds a key and replaces the counter.
const COMMITS: u8 = 4;

fn opened(directory: &Path) -> Option<EmbeddedEngine> {
    let (clock, rng) = (ManualClock::at(1_000_000), SeededRng::shared(1));
    let (segment_bytes, checkpoint_bytes) = (1 << 16, 1 << 18);
    let options = OpenOptions::new(directory, clock, rng);
    EmbeddedEngine::open(OpenOptions { fsync: false, segment_bytes, checkpoint_bytes, ..options }).ok()
}

async fn committed(database: &Database, number: u8) -> Result<(), KvError> {
    let step = |transaction: borough_kv::Transaction, _| async move {
        transaction.set(&[b'k', number], &[number; 40])?;
        transaction.set(b"n", &[number])
    };
    database.run("fuzz", Idempotency::Natural, step).await
}

/// One damaged store.
pub fn run(data: &[u8]) {
    let (Ok(runtime), Ok(directory)) =
        (tokio::runtime::Builder::new_current_thread().enable_time().build(), tempfile::tempdir())
    else {
        return;
    };
    let Some(engine) = opened(directory.path()) else { return };
    let written: Result<(), KvError> = runtime.block_on(async {
        let database = Database::new(Arc::new(engine.clone()));
        for number in 1..=COMMITS {
            committed(&database, number).await?;
        }
        Ok(())
    });
    assert!(written.is_ok(), "{written:?}");
    runtime.block_on(engine.close());
    drop(engine);
    damaged(directory.path(), data);
    if let Some(engine) = opened(directory.path()) {
        a_prefix(&runtime, &engine);
        runtime.block_on(engine.close());
    }
}

fn damaged(directory: &Path, data: &[u8]) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut files: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    files.sort();
    for edit in data.chunks_exact(4).take(16) {
        let &[file, high, low, by] = edit else { continue };
        let Some(path) = files.get(usize::from(file) % files.len().max(1)) else { continue };
        let Ok(mut bytes) = std::fs::read(path) else { continue };
        let position = usize::from(u16::from_be_bytes([high, low])) % bytes.len().max(1);
        let Some(byte) = bytes.get_mut(position) else { continue };
        *byte = byte.wrapping_add(by);
        let _ = std::fs::write(path, bytes);
    }
}

fn a_prefix(runtime: &Runtime, engine: &EmbeddedEngine) {
    let database = Database::new(Arc::new(engine.clone()));
    let read = |transaction: borough_kv::Transaction, _| async move {
        transaction.range_all(RangeRequest::between(&b""[..], &b"\xff"[..])).await
    };
    let rows = runtime.block_on(database.run("fuzz", Idempotency::ReadOnly, read)).unwrap_or_default();
    let last = rows
        .last()
        .filter(|(key, _)| **key == *b"n")
        .and_then(|(_, value)| value.first().copied())
        .unwrap_or(0);
    let keys = (1..=last).map(|number| (vec![b'k', number], vec![number; 40]));
    let expected: Vec<(Vec<u8>, Vec<u8>)> =
        keys.chain((last > 0).then(|| (b"n".to_vec(), vec![last]))).collect();
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(rows, expected, "not the first commits");
}

/// No damage, and one edit at the beginning of each of the first files.
pub fn corpus() -> Vec<Vec<u8>> {
    let edits = (0..8).flat_map(|file| [8, 24, 40, 60, 90, 200].map(|position| vec![file, 0, position, 1]));
    std::iter::once(Vec::new()).chain(edits).collect()
}
