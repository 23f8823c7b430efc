//! A process that writes is killed, again and again; what it acknowledged is there, and nothing it never asked for.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use borough_kv::embedded::OpenOptions;
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, EmbeddedEngine, Idempotency, KvError, RangeRequest, Transaction};

const DIRECTORY: &str = "BOROUGH_KV_KILL_DIRECTORY";
const ROUND: &str = "BOROUGH_KV_KILL_ROUND";
const WRITERS: u32 = 4;
const ROUNDS: u32 = 6;

fn open(directory: &Path) -> (EmbeddedEngine, Database) {
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    // A killed process loses no page it has written, so this needs no flushes; small segments and checkpoints are in
    // all phases when it dies.
    let options = OpenOptions { fsync: false, segment_bytes: 1 << 14, checkpoint_bytes: 1 << 16, ..options };
    let engine = EmbeddedEngine::open(options).expect("the store opens after a kill");
    (engine.clone(), Database::new(Arc::new(engine)))
}

/// Not a test of its own: the process that is killed. Writes numbered rows and says which are acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let round: u32 = round.parse().expect("a number");
    let (_engine, database) = open(Path::new(&directory));
    let writers = (0..WRITERS).map(|writer| {
        let database = database.clone();
        async move {
            for number in 0.. {
                let key = key(round, writer, number);
                let set = |transaction: Transaction, _| {
                    let key = key.clone();
                    async move { transaction.set(key.as_bytes(), &[b'v'; 200]) }
                };
                database.run::<_, KvError, _, _>("set", Idempotency::Natural, set).await.expect("a commit");
                let mut out = std::io::stdout().lock();
                // The parent may be done with this one.
                if writeln!(out, "ack {writer} {number}").and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        }
    });
    futures::future::join_all(writers).await;
}

fn key(round: u32, writer: u32, number: u32) -> String {
    format!("{round}/{writer}/{number:08}")
}

/// Runs one child until it has acknowledged about `acknowledgements`, kills it, and gives the last one per writer.
fn child_run(directory: &Path, round: u32, acknowledgements: usize) -> BTreeMap<u32, u32> {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).env(ROUND, round.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a child");
    let mut last = BTreeMap::new();
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut seen = 0;
    for line in output.lines() {
        let Ok(line) = line else { break };
        // The test harness writes lines of its own, one of them before the first acknowledgement.
        let Some((_, numbers)) = line.split_once("ack ") else { continue };
        let Some((writer, number)) = numbers.split_once(' ') else { continue };
        let (Ok(writer), Ok(number)) = (writer.parse(), number.parse()) else { continue };
        last.insert(writer, number);
        seen += 1;
        if seen == acknowledgements {
            // What it wrote before it died is still read: those are acknowledgements too.
            child.kill().expect("a kill");
        }
    }
    child.wait().expect("its end");
    last
}

#[tokio::test]
async fn what_was_acknowledged_survives_kills() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..ROUNDS {
        let last = child_run(directory.path(), round, 150 + 177 * usize::try_from(round).expect("small"));
        assert!(!last.is_empty(), "round {round} acknowledged nothing");
        let (engine, database) = open(directory.path());
        let read = |transaction: Transaction, _| async move {
            let request = RangeRequest::between(format!("{round}/"), format!("{round}0"));
            transaction.range_all(request).await
        };
        let rows = database.run::<_, KvError, _, _>("rows", Idempotency::ReadOnly, read).await.expect("rows");
        let mut found: BTreeMap<u32, u32> = BTreeMap::new();
        for (row, _) in &rows {
            let text = String::from_utf8_lossy(row);
            let mut parts = text.split('/').skip(1).map(|part| part.parse::<u32>().expect("a number"));
            let (writer, number) = (parts.next().expect("a writer"), parts.next().expect("a number"));
            let next = found.get(&writer).map_or(0, |last| last + 1);
            assert_eq!(number, next, "round {round}: the rows of writer {writer} have a gap");
            found.insert(writer, number);
        }
        for (writer, acknowledged) in last {
            let recovered = found.get(&writer).copied();
            // One more may have been on its way.
            assert!(
                recovered.is_some_and(|recovered| recovered == acknowledged || recovered == acknowledged + 1),
                "round {round}: writer {writer} had {acknowledged} acknowledged, {recovered:?} is there"
            );
        }
        engine.close().await;
    }
}
