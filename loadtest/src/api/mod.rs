//! `api`: what one gateway answers per second, with encryption, authorization, quotas and the audit all on. Callers ask
//! one call after the other. The load runs on the machine that is measured, and takes its processors as well: what the
//! gateway itself uses per call is a figure of its own.

mod limits;
mod place;
mod watches;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use borough_client::{Client, JobRef};
use borough_proto::v1::{Cursor, JobSpec};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::task::JoinSet;

use self::place::{ApiPlace, Encryption};
use crate::hollow::usage::process_usage;
use crate::names::us;
use crate::result::{Results, Stats, StatsSet as _, percentiles, percentiles_of};
use crate::spec;
use crate::system::SystemOptions;

const USER: &str = "loadtest";
const CELL: &str = "bench";
/// Tasks of the large job.
const LARGE: u32 = 10_000;
/// Admissions of a large job that are measured.
const LARGE_JOBS: u32 = 30;

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct ApiBenchArguments {
    /// Seconds of each kind of call
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Calls under way at any time
    #[arg(long, default_value_t = 64)]
    callers: u32,
    /// Connections that they share
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// Kinds of calls to measure, one after the other
    #[arg(long, value_delimiter = ',', default_value = "submit,read,list,large,watch-start,fan-out")]
    calls: Vec<ApiCalls>,
    /// Watchers of the fan-out, each with a connection of its own
    #[arg(long, default_value_t = 1_000)]
    watchers: u32,
    /// Changes that the watchers are shown
    #[arg(long, default_value_t = 20)]
    changes: u32,
    /// Users of `limits`, in each of its cases
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    users: u32,
    /// Do not encrypt: what encryption costs is the difference
    #[arg(long)]
    plaintext: bool,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApiCalls {
    /// A new job of one task
    Submit,
    /// One job
    Read,
    /// All 10,000 tasks of a job, page after page
    List,
    /// A new job of 10,000 tasks, one call at a time
    Large,
    /// The begin of a watch of one user, up to its first answer
    WatchStart,
    /// From a submission to the last of all watchers that sees it
    FanOut,
    /// New jobs of many users: without quotas, with a quota each, and below one limited group
    Limits,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &ApiBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let encryption = if arguments.plaintext { Encryption::Plaintext } else { Encryption::Tls };
    let place = ApiPlace::start(options, encryption).await?;
    let load = ApiLoad::new(&place, arguments)?;
    load.client(0)?.job_submit(job("listed".to_owned(), LARGE), 0).await?;
    for calls in &arguments.calls {
        let name = calls.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut stats = match calls {
            ApiCalls::Submit => load.submit().await?,
            ApiCalls::Read => load.read().await?,
            ApiCalls::List => load.list().await?,
            ApiCalls::Large => load.large().await?,
            ApiCalls::WatchStart => load.watch_start(load.one_behind(&name).await?).await?,
            ApiCalls::Limits => limits::run(&place, arguments, results).await?,
            ApiCalls::FanOut => watches::fan_out(&place, arguments, load.one_behind(&name).await?).await?,
        };
        stats.set("encrypted", encryption == Encryption::Tls);
        results.line("api", &name, stats);
    }
    Ok(())
}

/// Batch work of the user.
fn job(name: String, count: u32) -> JobSpec {
    let mut spec = spec::service(USER, name, count, spec::plain_task(&["true"], 10, 8 << 20));
    spec.priority = 100;
    spec
}

/// The callers, and what they ask.
struct ApiLoad<'a> {
    place: &'a ApiPlace,
    arguments: &'a ApiBenchArguments,
    clients: Vec<Client>,
    /// Makes the names of jobs unique.
    jobs: Arc<AtomicU64>,
}

impl<'a> ApiLoad<'a> {
    fn new(place: &'a ApiPlace, arguments: &'a ApiBenchArguments) -> anyhow::Result<Self> {
        let clients = (0..arguments.connections).map(|_| place.client()).collect::<anyhow::Result<_>>()?;
        Ok(Self { place, arguments, clients, jobs: Arc::new(AtomicU64::new(0)) })
    }

    fn client(&self, caller: u32) -> anyhow::Result<Client> {
        let at = usize::try_from(caller)? % self.clients.len().max(1);
        Ok(self.clients.get(at).context("no connection")?.clone())
    }

    async fn submit(&self) -> anyhow::Result<Stats> {
        let jobs = Arc::clone(&self.jobs);
        self.calls(move |client| {
            let number = jobs.fetch_add(1, Ordering::Relaxed);
            async move {
                client.job_submit(job(format!("j{number}"), 1), 0).await?;
                Ok(())
            }
        })
        .await
    }

    async fn read(&self) -> anyhow::Result<Stats> {
        let (jobs, next) = (self.jobs.load(Ordering::Relaxed), Arc::new(AtomicU64::new(0)));
        self.calls(move |client| {
            // Another job each time, so that no caller always reads the last one.
            let number = next.fetch_add(7_919, Ordering::Relaxed).checked_rem(jobs);
            let name = number.map_or_else(|| "listed".to_owned(), |number| format!("j{number}"));
            async move {
                client.job_get(&JobRef::new(USER, name)).await?;
                Ok(())
            }
        })
        .await
    }

    async fn list(&self) -> anyhow::Result<Stats> {
        let mut stats = self
            .calls(move |client| async move {
                let (tasks, _) = client.task_list_of_job(&JobRef::new(USER, "listed")).await?;
                ensure!(u32::try_from(tasks.len())? == LARGE, "{} tasks are listed", tasks.len());
                Ok(())
            })
            .await?;
        stats.set("rows_per_call", LARGE);
        Ok(stats)
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn large(&self) -> anyhow::Result<Stats> {
        let (client, mut times) = (self.client(0)?, Vec::new());
        for number in 0..LARGE_JOBS {
            let begun = Instant::now();
            client.job_submit(job(format!("large{number}"), LARGE), 0).await?;
            times.push(us(begun.elapsed()));
        }
        let mut stats = Stats::new();
        percentiles(&mut stats, "call", &times)?;
        Ok(stats)
    }

    /// A position with one change behind it, so that a watch from there has something to show at once.
    async fn one_behind(&self, name: &str) -> anyhow::Result<Cursor> {
        let client = self.client(0)?;
        let (_, cursor) = client.task_list_of_job(&JobRef::new(USER, "listed")).await?;
        client.job_submit(job(format!("behind-{name}"), 1), 0).await?;
        cursor.context("a list without a position")
    }

    async fn watch_start(&self, from: Cursor) -> anyhow::Result<Stats> {
        self.calls(move |client| {
            let from = from.clone();
            async move { watches::begin(&client, from).await }
        })
        .await
    }

    /// Every caller makes one call after the other until the time is over.
    async fn calls<F, R>(&self, call: F) -> anyhow::Result<Stats>
    where
        F: Fn(Client) -> R + Clone + Send + 'static,
        R: Future<Output = anyhow::Result<()>> + Send,
    {
        let time = Duration::from_secs(self.arguments.seconds);
        let callers = (0..self.arguments.callers).map(|caller| {
            let (client, call) = (self.client(caller)?, call.clone());
            Ok(move || call(client.clone()))
        });
        let callers = callers.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(CallsMade::of(self.place.pid()?, time, callers).await?.stats())
    }
}

/// What callers have done, one call after the other each.
struct CallsMade {
    callers: usize,
    times: Histogram<u64>,
    elapsed: Duration,
    /// Processor time of the gateway.
    cpu: Duration,
}

impl CallsMade {
    /// Lets every caller call until the time is over.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn of<F, R>(gateway: i32, time: Duration, callers: Vec<F>) -> anyhow::Result<Self>
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = anyhow::Result<()>> + Send,
    {
        let (count, begun, mut calling) = (callers.len(), Instant::now(), JoinSet::new());
        let before = process_usage(gateway)?;
        for call in callers {
            calling.spawn(async move {
                let mut times = Histogram::<u64>::new(3)?;
                while begun.elapsed() < time {
                    let from = Instant::now();
                    call().await?;
                    times.record(us(from.elapsed()).max(1))?;
                }
                Ok::<_, anyhow::Error>(times)
            });
        }
        let mut times = Histogram::<u64>::new(3)?;
        while let Some(caller) = calling.join_next().await {
            times.add(caller??)?;
        }
        let elapsed = begun.elapsed();
        let cpu = process_usage(gateway)?.cpu.saturating_sub(before.cpu);
        Ok(Self { callers: count, times, elapsed, cpu })
    }

    fn per_s(&self) -> u64 {
        per_second(self.times.len(), self.elapsed)
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats::new();
        stats.set("callers", self.callers);
        stats.set("per_s", self.per_s());
        stats.set("gateway_cpu_us_per_call", json!(us(self.cpu).checked_div(self.times.len())));
        percentiles_of(&mut stats, "call", &self.times);
        stats
    }
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    count
        .saturating_mul(1_000)
        .checked_div(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
        .unwrap_or(0)
}
