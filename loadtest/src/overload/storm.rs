//! The storm as a process of its own.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use borough_client::{Client, TaskFilter};
use borough_proto::v1::{PageRequest, WatchFilter};
use clap::Args;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::{QUIET, STORM, client_once, job};

/// Arguments of the process.
#[derive(Debug, Args)]
pub(crate) struct StormArguments {
    /// The directory of the cell
    cell: PathBuf,
    /// The token of the user
    token: PathBuf,
    /// Calls under way at any time
    calls: u32,
}

/// What the calls of the storm came to.
#[derive(Debug)]
pub(super) struct StormTally {
    pub(super) answered: u64,
    pub(super) refused: u64,
}

/// The running storm. Dropping it kills it.
pub(super) struct StormProcess(Child);

impl StormProcess {
    pub(super) fn start(cell: &Path, token: &Path, calls: u32) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = Command::new("nice");
        command
            .args(["-n", "19"])
            .arg(program)
            .arg("overload-storm")
            .args([cell, token])
            .arg(calls.to_string());
        Ok(Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }

    /// Ends it with the end of its input.
    pub(super) fn end(mut self) -> anyhow::Result<StormTally> {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.0.stdout.take().context("it has no output")?.read_to_string(&mut text)?;
        ensure!(self.0.wait()?.success(), "the storm has failed");
        let tally: Value = serde_json::from_str(&text)?;
        let of = |name: &str| tally[name].as_u64().with_context(|| format!("the storm says no {name}"));
        Ok(StormTally { answered: of("answered")?, refused: of("refused")? })
    }
}

impl Drop for StormProcess {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Makes calls until the input ends, and writes the tally.
pub(crate) async fn run(arguments: &StormArguments) -> anyhow::Result<()> {
    let (over, answered, refused) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
    let mut callers = Vec::new();
    for place in 0..arguments.calls {
        let client = client_once(&arguments.cell, STORM, arguments.token.clone())?;
        let caller =
            StormCaller { client, place, answered: Arc::clone(&answered), refused: Arc::clone(&refused) };
        callers.push(tokio::spawn(caller.call_until(Arc::clone(&over))));
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await?;
    }
    let tally = json!({
        "answered": answered.load(Ordering::Relaxed),
        "refused": refused.load(Ordering::Relaxed),
    });
    writeln!(std::io::stdout(), "{tally}")?;
    Ok(())
}

/// One caller of the storm: a call after the other, without a pause, whatever becomes of them.
struct StormCaller {
    client: Client,
    place: u32,
    answered: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

impl StormCaller {
    async fn call_until(self, over: Arc<AtomicBool>) {
        let mut round = u64::from(self.place);
        while !over.load(Ordering::Relaxed) {
            round += 1;
            let counter = if self.is_answered(round).await { &self.answered } else { &self.refused };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn is_answered(&self, round: u64) -> bool {
        let client = &self.client;
        match round % 4 {
            0 => {
                let filter =
                    TaskFilter { user: QUIET.to_owned(), job: "listed".to_owned(), ..TaskFilter::default() };
                client.task_list_page(&filter, PageRequest::default()).await.is_ok()
            }
            1 => {
                let mut watch = client.watch_cell(WatchFilter::default(), None);
                let first = tokio::time::timeout(Duration::from_millis(100), watch.next()).await;
                !matches!(first, Ok(Some(Err(_))))
            }
            2 => client.job_plan(job(STORM, "planned", 1_000)).await.is_ok(),
            _ => client.job_submit(job(STORM, &format!("s{}", self.place), 1_000), 0).await.is_ok(),
        }
    }
}
