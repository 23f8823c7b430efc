//! A disk that fills up, fails a write or fails a flush: what callers see, and what is stored afterwards.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::OpenOptions;
use super::disk::{DirectoryDisk, Disk, DiskFile};
use crate::contract::{EngineState, ErrorCode, KvError};
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};
use crate::{KvResult, Transaction};

/// The present faults of the disk.
#[derive(Debug, Default)]
struct Trouble {
    /// No space for new files, and none is reported.
    full: AtomicBool,
    /// No descriptor for another file.
    no_descriptors: AtomicBool,
    /// The next write stores half of its bytes and then finds no space.
    write_half_then_full: AtomicBool,
    /// The next flush of the log fails.
    sync_fails: AtomicBool,
    /// Writing the checkpoint fails.
    checkpoint_fails: AtomicBool,
    /// The call that would undo it fails too.
    undo_fails: AtomicBool,
    syncs: AtomicUsize,
    /// While this is held for writing, nothing changes on the disk.
    gate: RwLock<()>,
}

#[derive(Debug)]
struct TroubledDisk(DirectoryDisk, Arc<Trouble>);

#[derive(Debug)]
struct TroubledFile(Arc<dyn DiskFile>, Arc<Trouble>, String);

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Trouble {
    fn descriptor(&self) -> io::Result<()> {
        match self.no_descriptors.load(Ordering::SeqCst) {
            true => Err(rustix::io::Errno::MFILE.into()),
            false => Ok(()),
        }
    }
}

impl Disk for TroubledDisk {
    fn directory_create(&self) -> io::Result<()> {
        self.0.directory_create()
    }

    fn parent_sync(&self) -> io::Result<()> {
        self.0.parent_sync()
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.0.lock()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.1.descriptor()?;
        Ok(Arc::new(TroubledFile(self.0.open(name)?, Arc::clone(&self.1), name.to_owned())))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let _gate = self.1.gate.read();
        self.1.descriptor()?;
        Ok(Arc::new(TroubledFile(self.0.create(name)?, Arc::clone(&self.1), name.to_owned())))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let _gate = self.1.gate.read();
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _gate = self.1.gate.read();
        self.0.rename(from, to)
    }

    fn directory_sync(&self) -> io::Result<()> {
        self.0.directory_sync()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        if self.1.full.load(Ordering::SeqCst) { Ok(0) } else { self.0.available_bytes() }
    }

    fn location(&self) -> String {
        self.0.location()
    }
}

impl DiskFile for TroubledFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _gate = self.1.gate.read();
        if self.2.starts_with("checkpoint") && self.1.checkpoint_fails.load(Ordering::SeqCst) {
            return Err(full());
        }
        if self.2.starts_with("log-") && self.1.write_half_then_full.swap(false, Ordering::SeqCst) {
            self.0.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(full());
        }
        if self.1.undo_fails.load(Ordering::SeqCst) && !self.1.write_half_then_full.load(Ordering::SeqCst) {
            return Err(io::Error::other("broken"));
        }
        self.0.write_at(offset, bytes)
    }

    fn length_set(&self, bytes: u64) -> io::Result<()> {
        let _gate = self.1.gate.read();
        self.0.length_set(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let _gate = self.1.gate.read();
        if self.1.full.load(Ordering::SeqCst) { Err(full()) } else { self.0.reserve(bytes) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let _gate = self.1.gate.read();
        if !self.2.starts_with("log-") {
            return self.0.sync_data();
        }
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        if self.1.sync_fails.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("broken"));
        }
        self.0.sync_data()
    }
}

fn open(directory: &Path, trouble: &Arc<Trouble>) -> (EmbeddedEngine, Database) {
    let disk = TroubledDisk(DirectoryDisk::new(directory).without_fsync(), Arc::clone(trouble));
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    let sizes = OpenOptions { segment_bytes: 1 << 12, checkpoint_bytes: 1 << 14, ..options };
    let engine = EmbeddedEngine::open(OpenOptions { disk: Some(Arc::new(disk)), ..sizes }).unwrap();
    (engine.clone(), Database::new(Arc::new(engine)))
}

async fn put(database: &Database, key: u32) -> KvResult<()> {
    let set = |transaction: Transaction, _| async move { transaction.set(&key.to_be_bytes(), &[7; 100]) };
    database.run("put", Idempotency::Natural, set).await
}

async fn keys(database: &Database) -> KvResult<Vec<u32>> {
    let read = |transaction: Transaction, _| async move {
        transaction.range_all(crate::RangeRequest::between(vec![], vec![0xff])).await
    };
    let rows = database.run::<_, KvError, _, _>("keys", Idempotency::ReadOnly, read).await?;
    Ok(rows.iter().map(|(key, _)| u32::from_be_bytes(key[..].try_into().unwrap())).collect())
}

#[tokio::test]
async fn a_full_disk_refuses_commits_keeps_reads_and_recovers() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    put(&database, 0).await.unwrap();
    trouble.full.store(true, Ordering::SeqCst);
    let mut acknowledged = vec![0];
    let refused = loop {
        let key = u32::try_from(acknowledged.len()).unwrap();
        match put(&database, key).await {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
        assert!(key < 1000, "a segment must fill up");
    };
    assert_eq!(refused.code, ErrorCode::NoSpace);
    assert_eq!(put(&database, 5000).await.unwrap_err().code, ErrorCode::NoSpace, "and still");
    assert_eq!(keys(&database).await.unwrap(), acknowledged, "reads go on and see what was acknowledged");
    trouble.full.store(false, Ordering::SeqCst);
    put(&database, 6000).await.unwrap();
    acknowledged.push(6000);
    engine.close().await;
    drop((engine, database));
    let (_, database) = open(directory.path(), &trouble);
    assert_eq!(keys(&database).await.unwrap(), acknowledged);
}

#[tokio::test]
async fn a_process_without_descriptors_refuses_commits_and_recovers() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    trouble.no_descriptors.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    let refused = loop {
        let key = u32::try_from(acknowledged.len()).unwrap();
        match put(&database, key).await {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
        assert!(key < 1000, "a segment must fill up");
    };
    assert_eq!(refused.code, ErrorCode::ShortOfResources, "{refused}");
    assert!(matches!(database.engine_state(), EngineState::Refusing(error) if error.code == refused.code));
    assert_eq!(keys(&database).await.unwrap(), acknowledged, "reads go on");
    trouble.no_descriptors.store(false, Ordering::SeqCst);
    // Past one checkpoint, whichever of the two was refused.
    for key in 6000..6300 {
        put(&database, key).await.unwrap();
        acknowledged.push(key);
    }
    assert_eq!(database.engine_state(), EngineState::Serving);
    engine.close().await;
    drop((engine, database));
    let (_, database) = open(directory.path(), &trouble);
    assert_eq!(keys(&database).await.unwrap(), acknowledged);
}

#[tokio::test]
async fn a_record_that_half_fits_is_undone() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    put(&database, 1).await.unwrap();
    trouble.write_half_then_full.store(true, Ordering::SeqCst);
    assert_eq!(put(&database, 2).await.unwrap_err().code, ErrorCode::NoSpace);
    put(&database, 3).await.unwrap();
    engine.close().await;
    drop((engine, database));
    let (_, database) = open(directory.path(), &trouble);
    assert_eq!(keys(&database).await.unwrap(), [1, 3]);
}

#[tokio::test]
async fn a_failed_flush_is_unknown_and_stops_the_engine() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    put(&database, 1).await.unwrap();
    trouble.sync_fails.store(true, Ordering::SeqCst);
    // The runner tries again after 1021, and then sees that the engine has stopped.
    assert_eq!(put(&database, 2).await.unwrap_err().code, ErrorCode::IoError);
    assert_eq!(keys(&database).await.unwrap_err().code, ErrorCode::IoError);
    // Every waiter for the end of the engine is woken, even if the engine has stopped before.
    for _ in 0..2 {
        assert_eq!(database.engine_stopped().await.code, ErrorCode::IoError);
    }
    assert!(matches!(database.engine_state(), EngineState::Stopped(_)));
    drop((engine, database));
    let (_, database) = open(directory.path(), &trouble);
    let keys = keys(&database).await.unwrap();
    assert!(keys == [1] || keys == [1, 2], "{keys:?}");
}

#[tokio::test]
async fn a_half_record_that_cannot_be_undone_stops_the_engine() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (_engine, database) = open(directory.path(), &trouble);
    put(&database, 1).await.unwrap();
    trouble.write_half_then_full.store(true, Ordering::SeqCst);
    trouble.undo_fails.store(true, Ordering::SeqCst);
    assert_eq!(put(&database, 2).await.unwrap_err().code, ErrorCode::IoError);
}

#[tokio::test]
async fn commits_that_wait_together_share_one_flush() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (_engine, database) = open(directory.path(), &trouble);
    let before = trouble.syncs.load(Ordering::SeqCst);
    let gate = trouble.gate.write();
    let puts = futures::future::join_all((0..16).map(|key| put(&database, key)));
    // The first poll queues every commit, the disk answers after it: one flush for the first batch, whatever it holds,
    // and one for all that came meanwhile.
    let (puts, ()) = futures::join!(puts, async { drop(gate) });
    assert!(puts.iter().all(Result::is_ok));
    let flushes = trouble.syncs.load(Ordering::SeqCst) - before;
    assert!(flushes <= 2, "{flushes} flushes for 16 commits");
}

#[tokio::test]
#[expect(
    clippy::await_holding_lock,
    reason = "the sequencer's thread is what it holds up, nothing awaits it here"
)]
async fn a_version_given_while_a_batch_is_being_written_is_below_it() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (_engine, database) = open(directory.path(), &trouble);
    let set = |transaction: Transaction, _| async move { transaction.set(b"k", b"1") };
    let look = |transaction: Transaction, _| async move {
        Ok::<_, KvError>((transaction.read_version().await?, transaction.get(b"k").await?))
    };
    let gate = trouble.gate.write();
    let mut commit = Box::pin(database.run_committed("set", Idempotency::Natural, set));
    assert!(futures::poll!(commit.as_mut()).is_pending());
    // The clock advances while the batch waits for the disk; versions for readers must not.
    let mut given = Vec::new();
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        given.push(database.run("look", Idempotency::ReadOnly, look).await.unwrap());
    }
    drop(gate);
    let ((), committed) = commit.await.unwrap();
    for (version, value) in given {
        assert!(
            version < committed.version.unwrap() && value.is_none(),
            "{version} {value:?}, {committed:?}"
        );
    }
    let (version, value) = database.run("look", Idempotency::ReadOnly, look).await.unwrap();
    assert!(version >= committed.version.unwrap() && value.is_some());
}

#[tokio::test]
async fn a_failed_checkpoint_loses_nothing_and_is_made_up_for() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    let mut expected = Vec::new();
    // The first one fails as a whole, a later one after a sound one. Successful ones follow each.
    for (phase, fails) in [true, false, true, false].into_iter().enumerate() {
        trouble.checkpoint_fails.store(fails, Ordering::SeqCst);
        for number in 0..400 {
            let key = u32::try_from(phase).unwrap() * 1000 + number;
            put(&database, key).await.unwrap();
            expected.push(key);
        }
        let image = image(directory.path(), &trouble);
        assert!(phase != 0 || !image.path().join("checkpoint").exists());
        let (_, recovered) = open(image.path(), &Arc::new(Trouble::default()));
        assert_eq!(keys(&recovered).await.unwrap(), expected, "phase {phase}");
    }
    engine.close().await;
    drop((engine, database));
    assert!(directory.path().join("checkpoint").exists());
    // Rows that only the failed checkpoints contained must be in those that succeeded.
    let (_, database) = open(directory.path(), &trouble);
    assert_eq!(keys(&database).await.unwrap(), expected);
}

/// The files at one moment, as a kill of the process leaves them.
fn image(directory: &Path, trouble: &Trouble) -> tempfile::TempDir {
    let _gate = trouble.gate.write();
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

#[tokio::test]
async fn everything_acknowledged_survives_a_kill_at_any_moment() {
    let (directory, trouble) = (tempfile::tempdir().unwrap(), Arc::new(Trouble::default()));
    let (engine, database) = open(directory.path(), &trouble);
    let sound = Arc::new(Trouble::default());
    // Enough for many segments and checkpoints, so that images fall into all of their phases.
    for key in 0..1500 {
        put(&database, key).await.unwrap();
        if key % 37 == 0 {
            let image = image(directory.path(), &trouble);
            let (_, recovered) = open(image.path(), &sound);
            assert_eq!(keys(&recovered).await.unwrap(), (0..=key).collect::<Vec<_>>());
        }
    }
    engine.close().await;
    drop((engine, database));
    assert!(directory.path().join("checkpoint").exists(), "this many bytes must have made a checkpoint");
    let (_, database) = open(directory.path(), &sound);
    assert_eq!(keys(&database).await.unwrap().len(), 1500);
}
