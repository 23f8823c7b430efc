//! Small jobs that a client submits at a steady rate through the public API while connections break. A watcher of the
//! public API measures how many of their tasks the cell places, and how long each waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_client::{CellItem, Client};
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use futures::StreamExt as _;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fill::service;
use crate::result::{Stats, StatsSet as _, percentiles_of};

/// The user of the jobs.
const USER: &str = "offered";
/// Tasks of a job.
const TASKS: u32 = 20;
/// Jobs submitted at once.
const SUBMITTERS: usize = 64;
/// The longest measurable wait, in microseconds: ten minutes.
const WAIT_US_MAX: u64 = 600_000_000;

/// Submissions and placements since the last measurement.
#[derive(Debug)]
struct Window {
    began: Instant,
    submitted: u64,
    placed: u64,
    wait_us: Histogram<u64>,
}

impl Window {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    fn new() -> anyhow::Result<Self> {
        let wait_us = Histogram::new_with_bounds(1, WAIT_US_MAX, 3)?;
        Ok(Self { began: Instant::now(), submitted: 0, placed: 0, wait_us })
    }

    fn stats(&self) -> Stats {
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let per_s = |count: u64| {
            json!((f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds * 10.0).round() / 10.0)
        };
        let mut stats = Stats::new();
        stats.set("submitted_per_s", per_s(self.submitted));
        stats.set("placements_per_s", per_s(self.placed));
        percentiles_of(&mut stats, "submit_to_placed", &self.wait_us);
        stats
    }
}

/// State that submitter and watcher share.
struct Book {
    /// When each job was sent, by its name.
    sent: BTreeMap<String, Instant>,
    /// Placed tasks, by job id and index: a restart is no new placement.
    seen: BTreeSet<(String, u32)>,
    window: Window,
}

impl Book {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    fn task(&mut self, task: &v1::Task) {
        if task.node.is_empty() || !self.seen.insert((task.job_id.clone(), task.index)) {
            return;
        }
        self.window.placed += 1;
        if let Some(sent) = self.sent.get(&task.job) {
            let us = Instant::now().saturating_duration_since(*sent).as_micros();
            self.window.wait_us.saturating_record(u64::try_from(us).unwrap_or(u64::MAX).max(1));
        }
    }
}

/// The running load; it ends when dropped.
pub(super) struct Offered {
    book: Arc<Mutex<Book>>,
    cancelled: CancellationToken,
    work: JoinSet<anyhow::Result<()>>,
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

impl Offered {
    /// Starts to submit `per_s` tasks a second.
    pub(super) fn start(client: &Client, per_s: u32) -> anyhow::Result<Self> {
        let book = Book { sent: BTreeMap::new(), seen: BTreeSet::new(), window: Window::new()? };
        let (book, cancelled) = (Arc::new(Mutex::new(book)), CancellationToken::new());
        let mut work = JoinSet::new();
        let run = [
            tokio::spawn(watch(client.clone(), Arc::clone(&book))),
            tokio::spawn(submit(client.clone(), Arc::clone(&book), per_s)),
        ];
        for part in run {
            let cancelled = cancelled.clone();
            work.spawn(async move {
                let stop = part.abort_handle();
                tokio::select! {
                    ended = part => ended?,
                    () = cancelled.cancelled() => { stop.abort(); Ok(()) }
                }
            });
        }
        Ok(Self { book, cancelled, work })
    }

    /// Rates and waits since the last call, or the start. Begins the next window.
    ///
    /// # Errors
    /// Submitting or watching has failed since the last call.
    pub(super) fn look(&mut self) -> anyhow::Result<Stats> {
        if let Some(ended) = self.work.try_join_next() {
            ended?.context("the offered load ended")?;
        }
        let window = std::mem::replace(&mut self.book.lock().window, Window::new()?);
        Ok(window.stats())
    }
}

async fn watch(client: Client, book: Arc<Mutex<Book>>) -> anyhow::Result<()> {
    let filter = v1::WatchFilter { user: USER.to_owned(), tasks: true, ..v1::WatchFilter::default() };
    let mut items = client.watch_cell(filter, None);
    while let Some(item) = items.next().await {
        match item? {
            CellItem::Change(change) => {
                if let Some(Change::Task(task)) = &change.change {
                    book.lock().task(task);
                }
            }
            CellItem::Bookmark(_) | CellItem::Absent(_) => {}
            CellItem::Resync(why) => anyhow::bail!("the watcher fell behind: {why}"),
        }
    }
    anyhow::bail!("the watch ended")
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn submit(client: Client, book: Arc<Mutex<Book>>, per_s: u32) -> anyhow::Result<()> {
    let (began, mut number) = (Instant::now(), 0_u32);
    let mut submissions: JoinSet<anyhow::Result<()>> = JoinSet::new();
    loop {
        let due = Duration::from_secs(1) * number * TASKS / per_s.max(1);
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        while submissions.len() >= SUBMITTERS {
            submissions.join_next().await.transpose()?.transpose()?;
        }
        let name = format!("offered-{number}");
        let small = v1::Resources { cpu_millis: 1, memory_bytes: 1 << 20, ..v1::Resources::default() };
        let spec = service(USER, name.clone(), TASKS, small, 0);
        book.lock().sent.insert(name, Instant::now());
        let (client, book) = (client.clone(), Arc::clone(&book));
        submissions.spawn(async move {
            client.job_submit(spec, 0).await?;
            book.lock().window.submitted += u64::from(TASKS);
            Ok(())
        });
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(index: u32, node: &str) -> v1::Task {
        let (job_id, job) = ("j0000000000000001".to_owned(), "offered-0".to_owned());
        v1::Task { job_id, job, index, node: node.to_owned(), ..v1::Task::default() }
    }

    #[test]
    fn a_task_counts_once_and_only_with_a_node() {
        let window = Window::new().unwrap();
        let sent = BTreeMap::from([("offered-0".to_owned(), window.began)]);
        let mut book = Book { sent, seen: BTreeSet::new(), window };
        book.task(&task(0, ""));
        assert_eq!(book.window.placed, 0);
        book.task(&task(0, "n1"));
        book.task(&task(0, "n2"));
        book.task(&task(1, "n1"));
        let stats = book.window.stats();
        assert_eq!((book.window.placed, &stats["submit_to_placed_samples"]), (2, &json!(2)));
    }
}
