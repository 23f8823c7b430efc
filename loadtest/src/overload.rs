//! `overload`: what other callers notice of one user who asks for far more than a share. A quiet user reads, changes
//! and lists, first alone and then during the storm of another user, whose calls are lists, watches, plans and
//! submissions. The load runs on the machine that is measured. The storm is a process of its own at the lowest
//! priority, since its clients stand for other machines. It takes what the gateway and the quiet user leave of the
//! processors.

pub(crate) mod storm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use borough_client::{Client, ClientToken, JobRef, LabelChange, TaskFilter};
use borough_proto::v1::{JobSpec, PageRequest};
use clap::Args;

use self::storm::StormProcess;
use crate::result::{Results, Stats, StatsSet as _, percentiles};
use crate::spec;
use crate::system::{System, SystemOptions, client_of};

const QUIET: &str = "quiet";
const STORM: &str = "storm";
/// Tasks that the storm lists, page after page.
const LISTED: u32 = 10_000;

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct OverloadArguments {
    /// Seconds of each of the two phases
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Calls that the storm has under way at any time
    #[arg(long, default_value_t = 400)]
    storm: u32,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &OverloadArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let users = Users::make(options)?;
    let system = System::start_with(options, &["--issuer".into(), users.issuer.clone().into()]).await?;
    for user in [QUIET, STORM] {
        program(options, &system, &["auth", "grant", &format!("user/{user}"), "--role", "maintainer"])?;
    }
    let quiet = users.client(&system, QUIET)?;
    quiet.job_submit(job(QUIET, "quiet", 1), 0).await?;
    quiet.job_submit(job(QUIET, "listed", LISTED), 0).await?;
    let time = Duration::from_secs(arguments.seconds);
    let alone = quiet_calls(&quiet, time).await?;
    results.line("overload", "alone", alone);

    let storm = StormProcess::start(system.directory(), &users.token(STORM), arguments.storm)?;
    let mut beside = quiet_calls(&quiet, time).await?;
    let tally = storm.end()?;
    beside.set("storm_calls", arguments.storm);
    beside.set("storm_answered_per_s", tally.answered / arguments.seconds.max(1));
    beside.set("storm_refused_per_s", tally.refused / arguments.seconds.max(1));
    results.line("overload", "beside-a-storm", beside);
    Ok(())
}

/// Tokens of the two users, and the file by which gateways accept them.
struct Users {
    directory: PathBuf,
    issuer: PathBuf,
}

impl Users {
    fn make(options: &SystemOptions) -> anyhow::Result<Self> {
        let directory = options.scratch()?.join("users");
        std::fs::create_dir_all(&directory)?;
        let (key, issuer) = (directory.join("key"), directory.join("issuer"));
        borough(options, &["auth", "issuer", "--key"], &[&key, Path::new("--to"), &issuer])?;
        let users = Self { directory, issuer };
        for user in [QUIET, STORM] {
            let to = users.token(user);
            borough(options, &["auth", "token", user, "--key"], &[&key, Path::new("--to"), &to])?;
        }
        Ok(users)
    }

    fn token(&self, user: &str) -> PathBuf {
        self.directory.join(user)
    }

    fn client(&self, system: &System, user: &str) -> anyhow::Result<Client> {
        client_once(system.directory(), user, self.token(user))
    }
}

/// A client that tries each call once: the storm does not wait, and a measurement includes no retries.
fn client_once(cell: &Path, user: &str, token: PathBuf) -> anyhow::Result<Client> {
    client_of(cell, |config| {
        user.clone_into(&mut config.user);
        config.token = Some(ClientToken::File(token));
        config.retry.attempts_max = 1;
    })
}

fn borough(options: &SystemOptions, words: &[&str], paths: &[&Path]) -> anyhow::Result<()> {
    let mut command = Command::new(&options.borough);
    let status = command.args(words).args(paths).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "borough {} has failed", words.join(" "));
    Ok(())
}

fn program(options: &SystemOptions, system: &System, words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(&options.borough);
    command.args(words).env("BOROUGH_DIR", system.directory()).env("BOROUGH_USER", "loadtest");
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "borough {} has failed", words.join(" "));
    Ok(())
}

/// Batch work that fits on no node.
fn job(user: &str, name: &str, count: u32) -> JobSpec {
    let task = spec::plain_task(&["true"], 999_000, 8 << 20);
    let mut spec = spec::service(user, name.to_owned(), count, task);
    spec.priority = 100;
    spec
}

/// The latencies of a user who makes one call after the other.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn quiet_calls(client: &Client, time: Duration) -> anyhow::Result<Stats> {
    let (job, begin) = (JobRef::new(QUIET, "quiet"), Instant::now());
    let (mut reads, mut changes, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let us = |begun: Instant| u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut round = 0_u64;
    while begin.elapsed() < time {
        round += 1;
        let begun = Instant::now();
        client.job_get(&job).await?;
        reads.push(us(begun));
        let set = [("round".to_owned(), format!("r{round}"))].into();
        let begun = Instant::now();
        client.job_label(&job, LabelChange { set, ..LabelChange::default() }).await?;
        changes.push(us(begun));
        let begun = Instant::now();
        client.task_list_page(&TaskFilter::of_job(&job), PageRequest::default()).await?;
        lists.push(us(begun));
    }
    let mut stats = Stats::new();
    percentiles(&mut stats, "read", &reads)?;
    percentiles(&mut stats, "change", &changes)?;
    percentiles(&mut stats, "list", &lists)?;
    Ok(stats)
}
