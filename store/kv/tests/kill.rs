//! A writing process is killed with SIGKILL, again and again, also in the middle of a checkpoint. Everything that it
//! acknowledged over a pipe is there, and nothing that it never wrote.

#![expect(clippy::expect_used, reason = "a test says what it expected")]

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use borough_kv::embedded::OpenOptions;
use borough_kv::embedded::durable::disk::{DirectoryDisk, Disk, DiskFile};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, EmbeddedEngine, Idempotency, KvError, RangeRequest, Transaction};

const DIRECTORY: &str = "BOROUGH_KV_KILL_DIRECTORY";
const ROUND: &str = "BOROUGH_KV_KILL_ROUND";
const WRITERS: u32 = 4;
const ROUNDS: u32 = 12;

/// The machine's disk, which prints when a checkpoint is being written.
#[derive(Debug)]
struct PrintingDisk(DirectoryDisk);

#[derive(Debug)]
struct PrintingFile(Arc<dyn DiskFile>, &'static str);

fn line_print(line: &str) {
    let mut out = io::stdout().lock();
    // The parent may not read any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

impl PrintingDisk {
    fn file(file: Arc<dyn DiskFile>, name: &str) -> Arc<dyn DiskFile> {
        match name {
            "checkpoint" => Arc::new(PrintingFile(file, "into the checkpoint")),
            "checkpoint.new" => Arc::new(PrintingFile(file, "into a new checkpoint")),
            _ => file,
        }
    }
}

impl Disk for PrintingDisk {
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
        Ok(Self::file(self.0.open(name)?, name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Self::file(self.0.create(name)?, name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        line_print("removed");
        self.0.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)?;
        line_print("renamed");
        Ok(())
    }

    fn directory_sync(&self) -> io::Result<()> {
        self.0.directory_sync()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.0.available_bytes()
    }

    fn location(&self) -> String {
        self.0.location()
    }
}

impl DiskFile for PrintingFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        line_print(self.1);
        self.0.write_at(offset, bytes)
    }

    fn length_set(&self, bytes: u64) -> io::Result<()> {
        self.0.length_set(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.0.reserve(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn open(directory: &Path, printing: bool) -> (EmbeddedEngine, Database) {
    let options = OpenOptions::new(directory, SystemClock::shared(), SeededRng::shared(1));
    // A killed process loses no page that it has written, so this needs no flushes. Small segments and checkpoints are
    // in all phases when it dies.
    let options = OpenOptions { fsync: false, segment_bytes: 1 << 14, checkpoint_bytes: 1 << 16, ..options };
    let disk = || Arc::new(PrintingDisk(DirectoryDisk::new(directory).without_fsync())) as Arc<dyn Disk>;
    let options = OpenOptions { disk: printing.then(disk), ..options };
    let engine = EmbeddedEngine::open(options).expect("the store opens after a kill");
    (engine.clone(), Database::new(Arc::new(engine)))
}

/// Not a test of its own: the process that is killed. Writes numbered rows and prints which are acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let round: u32 = round.parse().expect("a number");
    let (_engine, database) = open(Path::new(&directory), true);
    let writers = (0..WRITERS).map(|writer| {
        let database = database.clone();
        async move {
            for number in 0_u32.. {
                let key = key(round, writer, number);
                let set = |transaction: Transaction, _| {
                    let key = key.clone();
                    async move {
                        // A row that stays, and one that is overwritten, so that checkpoints have both.
                        transaction.set(format!("last/{writer}").as_bytes(), &number.to_be_bytes())?;
                        transaction.set(key.as_bytes(), &[b'v'; 200])
                    }
                };
                database.run::<_, KvError, _, _>("set", Idempotency::Natural, set).await.expect("a commit");
                line_print(&format!("ack {writer} {number}"));
            }
        }
    });
    futures::future::join_all(writers).await;
}

fn key(round: u32, writer: u32, number: u32) -> String {
    format!("row/{round:04}/{writer}/{number:08}")
}

/// The line at which a child is killed: the `count`th that contains `word`.
struct Moment {
    word: &'static str,
    count: u32,
}

/// Every phase of a store: commits, and each of the steps of a checkpoint.
fn moment(round: u32) -> Moment {
    let (word, count) = match round % 6 {
        0 => ("ack ", 50 + 97 * round),
        1 => ("into a new checkpoint", 1 + round),
        2 => ("into the checkpoint", 1 + round),
        3 => ("into the checkpoint", 40 + round),
        4 => ("removed", 1 + round / 2),
        _ => ("ack ", 700),
    };
    // After the first one a checkpoint exists, and a whole one is written only if most of it is free.
    let word = if round > 5 && word == "into a new checkpoint" { "into the checkpoint" } else { word };
    Moment { word, count }
}

/// Runs one child until its moment, kills it, and gives the last acknowledged number of each writer.
fn child_run(directory: &Path, round: u32) -> BTreeMap<u32, u32> {
    let moment = moment(round);
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, directory).env(ROUND, round.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a child");
    let mut last = BTreeMap::new();
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let mut seen = 0;
    for line in output.lines() {
        let Ok(line) = line else { break };
        if line.contains(moment.word) {
            seen += 1;
            if seen == moment.count {
                // Its output before its death is still read: those are acknowledgements too.
                child.kill().expect("a kill");
            }
        }
        // The test harness prints lines of its own, one of them before the first acknowledgement.
        let Some((_, numbers)) = line.split_once("ack ") else { continue };
        let Some((writer, number)) = numbers.split_once(' ') else { continue };
        let (Ok(writer), Ok(number)) = (writer.parse(), number.parse()) else { continue };
        last.insert(writer, number);
    }
    child.wait().expect("its end");
    assert!(seen >= moment.count, "round {round}: the child ended before its moment ({})", moment.word);
    last
}

/// How many rows each writer of each round has; a gap in its numbers is an error.
async fn rows_count(database: &Database) -> BTreeMap<(u32, u32), u32> {
    let read = |transaction: Transaction, _| async move {
        transaction.range_all(RangeRequest::between("row/", "row0")).await
    };
    let rows = database.run::<_, KvError, _, _>("rows", Idempotency::ReadOnly, read).await.expect("rows");
    let mut counts = BTreeMap::new();
    for (row, _) in &rows {
        let text = String::from_utf8_lossy(row);
        let numbers: Vec<u32> = text.split('/').skip(1).map(|part| part.parse().expect("a number")).collect();
        let [round, writer, number] = numbers[..] else { panic!("a strange row {text}") };
        let count = counts.entry((round, writer)).or_insert(0);
        assert_eq!(number, *count, "round {round}: the rows of writer {writer} have a gap");
        *count += 1;
    }
    counts
}

#[tokio::test]
async fn what_was_acknowledged_survives_kills() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut before = BTreeMap::new();
    for round in 0..ROUNDS {
        let last = child_run(directory.path(), round);
        let (engine, database) = open(directory.path(), false);
        let counts = rows_count(&database).await;
        for (writer, acknowledged) in last {
            let there = counts.get(&(round, writer)).copied().unwrap_or(0);
            // One more may have been in flight.
            assert!(
                there == acknowledged + 1 || there == acknowledged + 2,
                "round {round}: writer {writer} had {acknowledged} acknowledged, {there} rows are there"
            );
        }
        // Rows of an earlier round are still there, and none was added.
        let earlier = counts.iter().filter(|((of, _), _)| *of < round).map(|(key, count)| (*key, *count));
        assert_eq!(earlier.collect::<BTreeMap<_, _>>(), before, "round {round}");
        before = counts;
        if round % 2 == 0 {
            engine.close().await;
        }
    }
}
