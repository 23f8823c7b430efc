//! The directory after a restart: its content, a torn tail, damage, a newer format, a second process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{OpenError, OpenOptions};
use crate::contract::{AtomicOp, ErrorCode, KvError, Version};
use crate::database::{Database, Idempotency};
use crate::embedded::EmbeddedEngine;
use crate::env::{SeededRng, SystemClock};
use crate::{KvResult, RangeRequest};

fn options(directory: &Path) -> OpenOptions {
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    OpenOptions { fsync: false, segment_bytes: 1 << 16, checkpoint_bytes: 1 << 18, ..options }
}

fn open(directory: &Path) -> Result<(EmbeddedEngine, Database), OpenError> {
    let engine = EmbeddedEngine::open(options(directory))?;
    let database = Database::new(Arc::new(engine.clone()));
    Ok((engine, database))
}

async fn put(database: &Database, key: &str, value: &[u8]) -> KvResult<Version> {
    let (key, value) = (key.to_owned(), value.to_vec());
    let put = |transaction: crate::Transaction, _| {
        let (key, value) = (key.clone(), value.clone());
        async move {
            transaction.set(key.as_bytes(), &value)?;
            transaction.atomic(AtomicOp::Add, b"count", &1u64.to_le_bytes())
        }
    };
    let ((), committed) = database.run_committed("put", Idempotency::Natural, put).await?;
    Ok(committed.version.unwrap())
}

async fn rows(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = |transaction: crate::Transaction, _| async move {
        transaction.range_all(RangeRequest::between("", "\u{7f}")).await
    };
    let rows = database.run::<_, KvError, _, _>("rows", Idempotency::ReadOnly, read).await.unwrap();
    rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

fn image(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut image: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    image.sort();
    image
}

fn last_segment(directory: &Path) -> std::path::PathBuf {
    let mut segments: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-"));
    segments.sort();
    segments.pop().unwrap()
}

fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[tokio::test]
async fn a_restart_has_everything_and_later_versions() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    let mut last = 0;
    for round in 0..100u32 {
        last = put(&database, &format!("key-{:03}", round % 50), &[b'v'; 300]).await.unwrap();
    }
    let before = rows(&database).await;
    engine.close().await;
    assert_eq!(put(&database, "late", b"").await.unwrap_err().code, ErrorCode::OperationCancelled);
    drop((engine, database));
    let (_, database) = open(directory.path()).unwrap();
    assert_eq!(rows(&database).await, before);
    let version = put(&database, "next", b"1").await.unwrap();
    assert!(version > last + 100_000_000, "versions must jump over a restart");
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_and_the_rest_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    put(&database, "a", b"1").await.unwrap();
    let before = rows(&database).await;
    // While the second record is written, no marker has noted its end.
    let marker = fs::read(directory.path().join("DURABLE")).unwrap();
    put(&database, "b", b"2").await.unwrap();
    let whole = fs::read(last_segment(directory.path())).unwrap();
    engine.close().await;
    drop((engine, database));
    let end = used(&whole);
    let record = 24 + 8 + (9 + 1 + 1) + (9 + 5 + 8);
    for cut in [1, 2, 5, 20, record - 1] {
        let image = copy(directory.path());
        let segment = last_segment(image.path());
        let mut bytes = whole.clone();
        bytes[end - cut..end].fill(0);
        fs::write(&segment, &bytes).unwrap();
        assert!(matches!(open(image.path()), Err(OpenError::Lost { .. })), "it was acknowledged");
        fs::write(image.path().join("DURABLE"), &marker).unwrap();
        let (engine, database) = open(image.path()).unwrap();
        assert_eq!(rows(&database).await, before, "{cut} bytes torn off");
        put(&database, "c", b"3").await.unwrap();
        engine.close().await;
        drop((engine, database));
        let (_, database) = open(image.path()).unwrap();
        assert_eq!(rows(&database).await.len(), before.len() + 1, "after a second restart");
    }
}

#[tokio::test]
async fn damage_refuses_to_start_and_touches_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    for round in 0..1500u32 {
        put(&database, &format!("key-{round:04}"), &[b'v'; 300]).await.unwrap();
    }
    engine.close().await;
    drop((engine, database));
    let sound = image(directory.path());
    let mut refused = 0;
    for (name, bytes) in &sound {
        let used = used(bytes);
        let last = directory.path().join(name) == last_segment(directory.path());
        for part in 1..8 {
            let at = used * part / 9;
            // The last record of the last segment may be torn by a crash; everything before it may not.
            let record = 24 + 8 + (9 + 8 + 300) + (9 + 5 + 8);
            if !(name.starts_with("log-") || name == "checkpoint") || (last && at + record >= used) {
                continue;
            }
            let image_directory = copy(directory.path());
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            fs::write(image_directory.path().join(name), &damaged).unwrap();
            let before = image(image_directory.path());
            match open(image_directory.path()) {
                Err(OpenError::Damaged { .. } | OpenError::Lost { .. }) => {
                    refused += 1;
                    assert_eq!(
                        image(image_directory.path()),
                        before,
                        "{name} at {at}: refusing must touch nothing"
                    );
                }
                Err(other) => panic!("{name} at {at}: {other:?}"),
                // Bytes without a reference (free pages, obsolete segments) may differ.
                Ok((_, database)) => assert_eq!(rows(&database).await.len(), 1501, "{name} at {at}"),
            }
        }
    }
    assert!(refused >= 8, "only {refused} damages were noticed");
}

#[tokio::test]
async fn a_missing_part_refuses_to_start() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    for round in 0..400u32 {
        put(&database, &format!("key-{round:04}"), &[b'v'; 300]).await.unwrap();
    }
    engine.close().await;
    drop((engine, database));
    for (name, _) in image(directory.path()) {
        let image_directory = copy(directory.path());
        fs::remove_file(image_directory.path().join(&name)).unwrap();
        let before = image(image_directory.path());
        if name == "OWNER" {
            continue;
        }
        let opened = open(image_directory.path());
        assert!(matches!(opened, Err(OpenError::Damaged { .. } | OpenError::Lost { .. })), "without {name}");
        assert_eq!(image(image_directory.path()), before, "without {name}");
    }
}

#[tokio::test]
async fn a_second_opening_another_format_and_a_stranger_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    match open(directory.path()) {
        Err(OpenError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{:?}", other.err()),
    }
    engine.close().await;
    drop((engine, database));
    for format in ["7", "1"] {
        fs::write(directory.path().join("FORMAT"), format!("borough-kv format {format}\n")).unwrap();
        let before = image(directory.path());
        match open(directory.path()) {
            Err(OpenError::Newer { found: 7, supported: 3, .. }) => assert_eq!(format, "7"),
            Err(OpenError::Older { found: 1, supported: 3, .. }) => assert_eq!(format, "1"),
            other => panic!("{:?}", other.err()),
        }
        assert_eq!(image(directory.path()), before);
    }
    let stranger = tempfile::tempdir().unwrap();
    fs::write(stranger.path().join("notes.txt"), "mine").unwrap();
    assert!(matches!(open(stranger.path()), Err(OpenError::Damaged { .. })));
    assert_eq!(image(stranger.path()).len(), 1);
}

/// The files of the first build, which had no marker.
#[tokio::test]
async fn a_store_of_the_format_before_is_opened_and_brought_to_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, database) = open(directory.path()).unwrap();
    put(&database, "a", b"1").await.unwrap();
    let before = rows(&database).await;
    engine.close().await;
    drop((engine, database));
    fs::remove_file(directory.path().join("DURABLE")).unwrap();
    fs::write(directory.path().join("FORMAT"), "borough-kv format 2\n").unwrap();
    for _ in 0..2 {
        let (engine, database) = open(directory.path()).unwrap();
        assert_eq!(rows(&database).await, before);
        engine.close().await;
        assert_eq!(fs::read_to_string(directory.path().join("FORMAT")).unwrap(), "borough-kv format 3\n");
        assert!(directory.path().join("DURABLE").exists());
    }
}

/// A store whose process was killed after its last commit was acknowledged.
async fn killed(commits: u32) -> (tempfile::TempDir, Vec<(Vec<u8>, Vec<u8>)>) {
    let directory = tempfile::tempdir().unwrap();
    let (_engine, database) = open(directory.path()).unwrap();
    for commit in 0..commits {
        put(&database, &format!("key-{commit:04}"), &[b'v'; 300]).await.unwrap();
    }
    (copy(directory.path()), rows(&database).await)
}

#[tokio::test]
async fn a_log_that_was_cut_short_is_refused_with_its_position() {
    let (directory, _) = killed(20).await;
    let segment = last_segment(directory.path());
    let whole = fs::read(&segment).unwrap();
    let end = used(&whole);
    let record = 24 + 8 + (9 + 8 + 300) + (9 + 5 + 8);
    // Within the last records, at their ends, after all of them, and everything.
    for cut in [0, 36, end - 3 * record, end - record, end - 1, end, whole.len() - 1] {
        fs::write(&segment, &whole[..cut]).unwrap();
        let before = image(directory.path());
        match open(directory.path()) {
            Err(OpenError::Lost { loss, .. }) => {
                assert_eq!(loss.file, segment.file_name().unwrap().to_str().unwrap());
                assert_eq!((loss.length_expected, loss.length_found), (1 << 16, u64::try_from(cut).unwrap()));
                assert_eq!(loss.end_expected, u64::try_from(end).unwrap(), "cut at {cut}");
                assert!(loss.end_found <= loss.length_found, "{loss}");
            }
            other => panic!("cut at {cut} of {end}: {:?}", other.err()),
        }
        assert_eq!(image(directory.path()), before, "refusing must touch nothing");
    }
    fs::write(&segment, &whole).unwrap();
    open(directory.path()).unwrap();
}

#[tokio::test]
async fn an_accepted_loss_opens_with_what_is_left() {
    let (directory, before) = killed(20).await;
    let segment = last_segment(directory.path());
    let whole = fs::read(&segment).unwrap();
    let end = used(&whole);
    fs::write(&segment, &whole[..end - 400]).unwrap();
    let Err(OpenError::Lost { loss, .. }) = open(directory.path()) else { panic!("it was acknowledged") };
    let engine =
        EmbeddedEngine::open(OpenOptions { accept_loss: true, ..options(directory.path()) }).unwrap();
    let database = Database::new(Arc::new(engine.clone()));
    let left = rows(&database).await;
    assert_eq!(left.len() + 2, before.len(), "two records were there in part");
    let version = put(&database, "key-next", b"1").await.unwrap();
    assert!(version > loss.version_expected, "no version is given twice");
    engine.close().await;
    drop((engine, database));
    let (_, database) = open(directory.path()).unwrap();
    assert_eq!(rows(&database).await.len(), left.len() + 1, "the loss is accepted once and for good");
}

#[tokio::test]
async fn a_first_opening_that_was_cut_short_is_done_again() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("INITIALISING"), "").unwrap();
    fs::write(directory.path().join("log-0000000000000001"), "half a hea").unwrap();
    let (_, database) = open(directory.path()).unwrap();
    put(&database, "a", b"1").await.unwrap();
}

#[tokio::test]
async fn no_version_is_ever_given_twice_over_restarts_and_long_idleness() {
    let directory = tempfile::tempdir().unwrap();
    let mut highest = 0;
    for hours in [0, 1, 5, 0] {
        let clock = crate::env::ManualClock::at(0);
        let options = OpenOptions { clock: clock.clone(), ..options(directory.path()) };
        let engine = EmbeddedEngine::open(options).unwrap();
        let database = Database::new(Arc::new(engine.clone()));
        let look = |transaction: crate::Transaction, _| async move { transaction.read_version().await };
        for minutes in [0, 1, hours * 60, 1] {
            clock.advance(std::time::Duration::from_secs(minutes * 60));
            let read = database.run::<_, KvError, _, _>("look", Idempotency::ReadOnly, look).await.unwrap();
            assert!(read >= highest, "{read} after {highest}");
            let committed = put(&database, "k", b"v").await.unwrap();
            assert!(committed > read, "{committed} after {read}");
            highest = committed;
        }
        // Given to a reader, and written nowhere.
        clock.advance(std::time::Duration::from_secs(hours * 3600));
        highest = database.run::<_, KvError, _, _>("look", Idempotency::ReadOnly, look).await.unwrap();
        engine.close().await;
    }
}

/// The permissions of group and others on the directory and each of its files.
fn open_to_others(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let all = files.chain([directory.to_owned()]);
    let open = |path: &std::path::PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o077 != 0;
    all.filter(open).map(|path| path.display().to_string()).collect()
}

#[tokio::test]
async fn a_store_is_its_owners_alone_also_one_of_an_older_version() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("below/store");
    let (engine, database) = open(&directory).unwrap();
    // Enough for a checkpoint and a second segment.
    for at in 0..40 {
        put(&database, &format!("k{at}"), &[7; 10_000]).await.unwrap();
    }
    engine.close().await;
    assert_eq!(open_to_others(&directory), [""; 0]);
    assert!(fs::read_dir(&directory).unwrap().count() > 2, "there is something to look at");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(&directory).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (engine, _) = open(&directory).unwrap();
    engine.close().await;
    assert_eq!(open_to_others(&directory), [""; 0]);
}

/// If the files of a running store are removed, the store stops; otherwise the next start would show an empty cell.
#[tokio::test]
async fn a_store_whose_files_are_removed_stops() {
    let all = |directory: &Path| fs::remove_dir_all(directory).unwrap();
    let log = |directory: &Path| fs::remove_file(last_segment(directory)).unwrap();
    let moved = |directory: &Path| fs::rename(directory, directory.with_extension("old")).unwrap();
    let replaced = |directory: &Path| {
        fs::rename(directory, directory.with_extension("old")).unwrap();
        fs::create_dir(directory).unwrap();
        let copied = copy(&directory.with_extension("old"));
        for entry in fs::read_dir(copied.path()).unwrap().flatten() {
            fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
    };
    for remove in [all as fn(&Path), log, moved, replaced] {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("store");
        let (_engine, database) = open(&directory).unwrap();
        put(&database, "a", b"1").await.unwrap();
        remove(&directory);
        let refused = async {
            loop {
                if let Err(error) = put(&database, "b", b"2").await {
                    return error;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let error = tokio::time::timeout(Duration::from_secs(60), refused).await;
        let error = error.expect("it goes on without its files");
        assert_eq!(error.code, ErrorCode::FileNotFound, "{error}");
        assert!(error.to_string().contains("were removed or moved under the process"), "{error}");
    }
}
