//! Jobs of one task that come and go at a steady rate through the public API while the sessions are held. The nodes
//! themselves say when a task runs, so no watcher takes part of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use borough_client::Client;
use borough_proto::v1;
use clap::Args;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;

use super::fill::service;
use super::fleet::{Counters, Fleet, FleetShared};
use crate::result::{Stats, StatsSet as _, percentiles_of};

/// Users that the jobs are divided among, so that no single user's quota row is the measured thing.
const USERS: u32 = 16;
/// The longest measurable time, in microseconds: ten minutes.
const US_MAX: u64 = 600_000_000;
/// Starts and submissions that wait for the other half at most. A task that starts twice leaves one behind.
const WAITING_MAX: usize = 1_000_000;

/// Jobs that come and go, and how often the run is looked at.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct TurnoverArguments {
    /// One-task jobs submitted per second while the sessions are held. `--run-ms` says how long their tasks run
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000), value_name = "JOBS")]
    turnover_per_s: u32,
    /// Clients that submit these jobs
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024), value_name = "COUNT")]
    turnover_clients: u32,
    /// Seconds between two lines about memory, disk, rates and latencies while the sessions are held; without it, none
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    sample_s: Option<u64>,
}

impl TurnoverArguments {
    /// The interval of samples.
    pub(super) fn sample(&self) -> Option<Duration> {
        self.sample_s.map(Duration::from_secs)
    }

    /// Returns true if jobs are submitted.
    pub(super) fn submits(&self) -> bool {
        self.turnover_per_s > 0
    }
}

/// Pairs each submission with the start of its task, in whichever order they are seen.
#[derive(Debug)]
pub(crate) struct StartBook {
    sent: BTreeMap<String, Duration>,
    began: BTreeMap<String, Duration>,
    start_us: Histogram<u64>,
}

impl StartBook {
    pub(super) fn new() -> anyhow::Result<Self> {
        let start_us = Histogram::new_with_bounds(1, US_MAX, 3)?;
        Ok(Self { sent: BTreeMap::new(), began: BTreeMap::new(), start_us })
    }

    /// A job was sent at `at`. Its id is known only after the answer.
    fn sent(&mut self, job: String, at: Duration) {
        match self.began.remove(&job) {
            Some(began) => self.took(began.saturating_sub(at)),
            None if self.sent.len() < WAITING_MAX => drop(self.sent.insert(job, at)),
            None => {}
        }
    }

    /// The task of a job runs since `at`.
    pub(super) fn running(&mut self, job: &str, at: Duration) {
        match self.sent.remove(job) {
            Some(sent) => self.took(at.saturating_sub(sent)),
            None if self.began.len() < WAITING_MAX => drop(self.began.insert(job.to_owned(), at)),
            None => {}
        }
    }

    fn took(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.start_us.saturating_record(us.max(1));
    }
}

/// What the clients count.
#[derive(Debug)]
struct Submissions {
    accepted: AtomicU64,
    submit_us: Mutex<Histogram<u64>>,
}

/// The running load. It ends when dropped.
pub(super) struct Turnover {
    fleet: Arc<FleetShared>,
    submissions: Arc<Submissions>,
    clients: JoinSet<anyhow::Result<()>>,
    /// Accepted, running and released at the last look.
    before: [u64; 3],
}

impl Turnover {
    /// Starts to submit. The tasks that run already are not measured.
    ///
    /// # Errors
    /// The nodes' book of starts cannot be made.
    pub(super) fn start(
        client: &Client,
        fleet: &Fleet,
        arguments: TurnoverArguments,
    ) -> anyhow::Result<Self> {
        *fleet.shared.starts.lock() = Some(StartBook::new()?);
        let submit_us = Mutex::new(Histogram::new_with_bounds(1, US_MAX, 3)?);
        let submissions = Arc::new(Submissions { accepted: AtomicU64::new(0), submit_us });
        let mut clients = JoinSet::new();
        let count = arguments.turnover_clients;
        let share_per_s = f64::from(arguments.turnover_per_s) / f64::from(count);
        for number in 0..count {
            let submitter = Submitter {
                client: client.clone(),
                fleet: Arc::clone(&fleet.shared),
                submissions: Arc::clone(&submissions),
                number,
                share_per_s,
                phase: f64::from(number) / f64::from(count),
            };
            clients.spawn(submitter.run());
        }
        let mut turnover = Self { fleet: Arc::clone(&fleet.shared), submissions, clients, before: [0; 3] };
        turnover.before = turnover.counts();
        Ok(turnover)
    }

    fn counts(&self) -> [u64; 3] {
        let counters = &self.fleet.counters;
        let accepted = self.submissions.accepted.load(Ordering::Relaxed);
        [accepted, Counters::get(&counters.running), Counters::get(&counters.released)]
    }

    /// Adds rates and latencies since the last call, or the start.
    ///
    /// # Errors
    /// A client has ended: its job was refused for good.
    pub(super) fn look(&mut self, since: Duration, stats: &mut Stats) -> anyhow::Result<()> {
        if let Some(ended) = self.clients.try_join_next() {
            ended?.context("a client of the load ended")?;
        }
        let now = self.counts();
        let seconds = since.as_secs_f64().max(0.001);
        for ((name, now), before) in
            ["submitted_per_s", "running_per_s", "released_per_s"].into_iter().zip(now).zip(self.before)
        {
            let rise = f64::from(u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX));
            stats.set(name, json!((rise / seconds).round()));
        }
        self.before = now;
        let mut submit_us = self.submissions.submit_us.lock();
        percentiles_of(stats, "submit", &submit_us);
        submit_us.reset();
        if let Some(starts) = self.fleet.starts.lock().as_mut() {
            percentiles_of(stats, "submit_to_running", &starts.start_us);
            starts.start_us.reset();
        }
        Ok(())
    }

    /// Ends the clients.
    pub(super) async fn end(mut self) {
        self.clients.shutdown().await;
    }
}

/// A client that submits its share.
struct Submitter {
    client: Client,
    fleet: Arc<FleetShared>,
    submissions: Arc<Submissions>,
    number: u32,
    share_per_s: f64,
    /// The part of its interval that it waits first, so that the clients do not submit all at once.
    phase: f64,
}

impl Submitter {
    /// Submits until it is aborted, no faster than its share. If the cell was slow, it submits without a pause until it
    /// has caught up.
    async fn run(self) -> anyhow::Result<()> {
        let clock = Arc::clone(&self.fleet.options.clock);
        let (began, user) = (clock.monotonic(), format!("turnover-{}", self.number % USERS));
        for number in 0_u32.. {
            let due = Duration::from_secs_f64((f64::from(number) + self.phase) / self.share_per_s);
            tokio::time::sleep(due.saturating_sub(clock.monotonic().saturating_sub(began))).await;
            let spec = job(&user, format!("job-{}-{number}", self.number));
            let sent = clock.monotonic();
            let answer = self.client.job_submit(spec, 0).await?;
            let us = clock.monotonic().saturating_sub(sent).as_micros();
            self.submissions.submit_us.lock().saturating_record(u64::try_from(us).unwrap_or(u64::MAX).max(1));
            self.submissions.accepted.fetch_add(1, Ordering::Relaxed);
            if let Some(starts) = self.fleet.starts.lock().as_mut() {
                starts.sent(answer.job.map(|job| job.id).unwrap_or_default(), sent);
            }
        }
        Ok(())
    }
}

/// A job of one small task that ends by itself.
pub(super) fn job(user: &str, name: String) -> v1::JobSpec {
    let small = v1::Resources { cpu_millis: 1, memory_bytes: 1 << 20, ..v1::Resources::default() };
    let service = service(user, name, 1, small, 0);
    let never =
        v1::RestartSpec { mode: v1::restart_spec::Mode::Never.into(), ..service.restart.unwrap_or_default() };
    v1::JobSpec { kind: v1::JobKind::Batch.into(), restart: Some(never), ..service }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_paired_with_its_submission_in_either_order() {
        let ms = Duration::from_millis;
        let mut book = StartBook::new().unwrap();
        book.sent("a".to_owned(), ms(10));
        book.running("a", ms(25));
        book.running("b", ms(40));
        book.sent("b".to_owned(), ms(35));
        book.running("c", ms(50));
        assert_eq!(book.start_us.len(), 2);
        assert!(book.start_us.max() >= 15_000 && book.start_us.min() <= 5_100);
        assert_eq!((book.sent.len(), book.began.len()), (0, 1));
    }
}
