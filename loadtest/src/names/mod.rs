//! `names`: how fast a change of an endpoint reaches everybody who follows it, by view, and how fast the name service
//! answers DNS. Real agents run the tasks. The load runs on the machine that is measured, and takes its processors as
//! well.
//!
//! A round stops one task. The time of a withdrawal begins with the call that stops it, so it includes the commit. It
//! ends when the last watcher has seen it. Nobody outside knows when the endpoint is published again, so the time of a
//! publication begins with the first watcher that sees it.

mod clients;
mod dns;
mod watcher;

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use borough_client::{Client, JobRef, TaskRef};
use borough_proto::v1::{JobSpec, PortSpec};
use clap::{Args, ValueEnum};
use procfs::process::Process;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::clients::XdsClients;
use crate::result::{Results, Stats, StatsSet as _, percentiles};
use crate::spec;
use crate::system::{System, SystemOptions};

pub(crate) const USER: &str = "loadtest";
pub(crate) const CELL: &str = "bench";
pub(crate) const JOB: &str = "web";
/// How long a change may take to reach everybody.
const CHANGE_WAIT: Duration = Duration::from_secs(60);
/// Watchers that begin at once.
const BEGIN_AT_ONCE: u32 = 200;

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct NameBenchArguments {
    /// Views to measure, one after the other
    #[arg(long, value_delimiter = ',', default_value = "grpc,events,consul,xds,dns")]
    views: Vec<NameView>,
    /// Watchers of each view
    #[arg(long, default_value_t = 100)]
    watchers: u32,
    /// Endpoints that are withdrawn and published again, one after the other
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Endpoints of the job
    #[arg(long, default_value_t = 10)]
    endpoints: u32,
    /// Seconds of questions to DNS
    #[arg(long, default_value_t = 5)]
    dns_seconds: u64,
    /// Questions to DNS under way at any time
    #[arg(long, default_value_t = 32)]
    dns_questions: u32,
    /// Also measure the memory of so many streams of xDS; 0: not
    #[arg(long, default_value_t = 0)]
    xds_streams: u32,
    /// Also measure the memory of so many names that clients of xDS ask for; 0: not
    #[arg(long, default_value_t = 0)]
    xds_names: u32,
}

/// A way to follow endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameView {
    /// The watch of a gateway
    Grpc,
    /// Server-sent events of a gateway
    Events,
    /// Blocking queries of the catalogue
    Consul,
    /// The aggregated discovery service
    Xds,
    /// Questions, one after the other
    Dns,
}

/// Where the views are.
#[derive(Clone, Debug)]
pub(crate) struct NamePlaces {
    pub gateway_http: String,
    pub token: String,
    pub dns: String,
    pub http: String,
    pub xds: String,
}

/// What a watcher has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSeen {
    pub watcher: u32,
    /// How many endpoints are published.
    pub live: usize,
    pub at: Instant,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &NameBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    // Without the limit of questions that a client may ask: all of them come from one address.
    let ports = ["--names-port=0", "--dns-port=0", "--xds-port=0", "--dns-rate=0"].map(Into::into);
    let system = System::start_with(options, &ports).await?;
    let client = system.client()?;
    client.job_submit(job(arguments.endpoints), 0).await?;
    let places = places(&system)?;
    published(&client, arguments.endpoints).await?;
    for view in &arguments.views {
        let name = view.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let stats = if *view == NameView::Dns {
            dns::run(&client, &places, arguments, i32::try_from(system.control_pid())?).await?
        } else {
            WatchRounds { system: &system, client: &client, places: &places, arguments }.run(*view).await?
        };
        results.line("names", &name, stats);
    }
    if arguments.xds_streams > 0 {
        let clients = XdsClients::streams(arguments.xds_streams);
        results.line("names", "xds-streams", clients.run(&system, &places).await?);
    }
    if arguments.xds_names > 0 {
        let clients = XdsClients::names(arguments.xds_names);
        results.line("names", "xds-names", clients.run(&system, &places).await?);
    }
    Ok(())
}

fn job(count: u32) -> JobSpec {
    let mut task = spec::plain_task(&["sleep", "1000000"], 10, 4 << 20);
    task.ports = vec![PortSpec { name: "http".to_owned(), ..PortSpec::default() }];
    spec::service(USER, JOB.to_owned(), count, task)
}

fn places(system: &System) -> anyhow::Result<NamePlaces> {
    let text = std::fs::read_to_string(system.directory().join("dev.json"))?;
    let dev: Value = serde_json::from_str(&text)?;
    let port = |name: &str| {
        let port = dev["names"][name].as_u64().with_context(|| format!("dev.json has no port of {name}"))?;
        Ok::<String, anyhow::Error>(format!("127.0.0.1:{port}"))
    };
    let (_, token) = system.access()?;
    let gateway_http = system.http()?.trim_start_matches("http://").to_owned();
    Ok(NamePlaces { gateway_http, token, dns: port("dns")?, http: port("http")?, xds: port("xds")? })
}

/// Waits until so many endpoints are published.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn published(client: &Client, count: u32) -> anyhow::Result<()> {
    let begun = Instant::now();
    while u32::try_from(client.endpoint_list(USER, JOB).await?.0.len())? != count {
        ensure!(begun.elapsed() < CHANGE_WAIT, "{count} endpoints were not published in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Stops a task. Its endpoint is withdrawn in the same commit, and it comes back by itself.
pub(crate) async fn withdraw(client: &Client, index: u32) -> anyhow::Result<()> {
    client.task_stop(&TaskRef { job: JobRef::new(USER, JOB), index }).await?;
    Ok(())
}

pub(crate) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

struct WatchRounds<'a> {
    system: &'a System,
    client: &'a Client,
    places: &'a NamePlaces,
    arguments: &'a NameBenchArguments,
}

impl WatchRounds<'_> {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn run(&self, view: NameView) -> anyhow::Result<Stats> {
        let (endpoints, watchers) = (usize::try_from(self.arguments.endpoints)?, self.arguments.watchers);
        let before = memory(self.system)?;
        let (seen, mut received) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for number in 0..watchers {
            if number % BEGIN_AT_ONCE == 0 && number > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // Streams of one connection share it, and a gateway bounds them.
            let client = self.system.client()?;
            tasks.spawn(watcher::watch(view, client, self.places.clone(), number, seen.clone()));
        }
        let mut all = AllSeen { latest: vec![0; usize::try_from(watchers)?] };
        all.until(&mut received, &mut tasks, endpoints).await?;
        let memory = memory(self.system)?.saturating_sub(before);
        let (mut calls, mut firsts, mut lasts, mut spreads) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.arguments.rounds {
            let begun = Instant::now();
            withdraw(self.client, round % self.arguments.endpoints).await?;
            calls.push(us(begun.elapsed()));
            let times = all.until(&mut received, &mut tasks, endpoints.saturating_sub(1)).await?;
            let since = |at: Option<&Instant>| us(at.map(|at| *at - begun).unwrap_or_default());
            firsts.push(since(times.iter().min()));
            lasts.push(since(times.iter().max()));
            let times = all.until(&mut received, &mut tasks, endpoints).await?;
            let spread = times.iter().max().zip(times.iter().min()).map(|(last, first)| *last - *first);
            spreads.push(us(spread.unwrap_or_default()));
        }
        let mut stats = Stats::new();
        stats.set("watchers", watchers);
        stats.set("rounds", self.arguments.rounds);
        percentiles(&mut stats, "withdraw_call", &calls)?;
        percentiles(&mut stats, "withdrawn_first", &firsts)?;
        percentiles(&mut stats, "withdrawn_last", &lasts)?;
        percentiles(&mut stats, "published_spread", &spreads)?;
        stats.set("memory_per_watcher_bytes", memory / u64::from(watchers.max(1)));
        Ok(stats)
    }
}

/// The last that each watcher has seen.
struct AllSeen {
    latest: Vec<usize>,
}

impl AllSeen {
    /// Waits until every watcher sees so many endpoints. Returns when each has.
    async fn until(
        &mut self,
        received: &mut mpsc::UnboundedReceiver<LiveSeen>,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        live: usize,
    ) -> anyhow::Result<Vec<Instant>> {
        let mut times = Vec::new();
        let reached = async {
            while self.latest.iter().any(|latest| *latest != live) {
                let seen = tokio::select! {
                    Some(seen) = received.recv() => seen,
                    Some(ended) = tasks.join_next() => {
                        ended??;
                        bail!("a watcher has ended");
                    }
                };
                let latest =
                    self.latest.get_mut(usize::try_from(seen.watcher)?).context("no such watcher")?;
                if seen.live == live && *latest != live {
                    times.push(seen.at);
                }
                *latest = seen.live;
            }
            Ok(())
        };
        let reached: anyhow::Result<()> = tokio::time::timeout(CHANGE_WAIT, reached)
            .await
            .with_context(|| format!("not every watcher has seen {live} endpoints in time"))?;
        reached?;
        Ok(times)
    }
}

/// Resident bytes of the control process.
fn memory(system: &System) -> anyhow::Result<u64> {
    let process = Process::new(i32::try_from(system.control_pid())?)?;
    let pages = process.statm()?.resident;
    Ok(pages * procfs::page_size())
}
