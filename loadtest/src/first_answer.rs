//! `first-answer`: how long a person waits for the program itself. It measures from the start of a process of `borough`
//! to the first byte of its answer, one process after the other.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::result::{Results, Stats, percentiles};
use crate::system::{System, SystemOptions};

/// What is asked: alone, from its own definitions, and from the gateway of the cell.
const ASKED: [(&str, &[&str]); 5] = [
    ("version", &["--version"]),
    ("help", &["job", "run", "--help"]),
    ("explain", &["explain", "task.resources"]),
    ("cell-list", &["cell", "list", "-o", "json"]),
    ("node-list", &["node", "list", "-o", "json"]),
];

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct FirstAnswerArguments {
    /// Processes per question
    #[arg(long, default_value_t = 300)]
    runs: u32,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &FirstAnswerArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    for (name, words) in ASKED {
        // The first ones read the program from the disk.
        for _ in 0..5 {
            answer_us(options, &system, words)?;
        }
        let samples: Result<Vec<u64>, _> =
            (0..arguments.runs).map(|_| answer_us(options, &system, words)).collect();
        let mut stats = Stats::new();
        percentiles(&mut stats, "start_to_answer", &samples?)?;
        results.line("first-answer", name, stats);
    }
    Ok(())
}

/// Microseconds from the start of a process to the first byte of its answer.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
fn answer_us(options: &SystemOptions, system: &System, words: &[&str]) -> anyhow::Result<u64> {
    let mut command = Command::new(&options.borough);
    command.args(words).env("BOROUGH_DIR", system.directory()).stdin(Stdio::null());
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut out = child.stdout.take().context("its output")?;
    let mut first = [0];
    out.read_exact(&mut first).context("no answer")?;
    let elapsed = begin.elapsed();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest)?;
    ensure!(child.wait()?.success(), "borough {} failed", words.join(" "));
    Ok(u64::try_from(elapsed.as_micros())?)
}
