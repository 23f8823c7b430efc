//! `list`: what a list of many tasks costs, at the client and at the gateway. With `--selector` it measures how long
//! the first page of a list with a selector takes. Every task meets one selector, only the last tasks meet another, and
//! none meets the third.

use std::time::Instant;

use anyhow::ensure;
use borough_client::{Client, JobFilter, JobRef, TaskFilter};
use borough_proto::v1::{JobState, LabelMatch, PageRequest, TaskState};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use serde_json::json;

use crate::hollow::usage::{peak_reset, process_peak, process_usage};
use crate::result::{Results, Stats, StatsSet as _, percentiles};
use crate::spec;
use crate::system::{System, SystemOptions};
use crate::verb::{MeasuredVerb, verb_cost};

/// The lists, each with the lines before its first row.
const LISTS: [(&str, &[&str], usize); 4] = [
    ("page", &["task", "list", "--limit", "100"], 1),
    ("table", &["task", "list"], 1),
    ("json", &["task", "list", "-o", "json"], 1),
    ("selected", &["task", "list", "--state", "pending", "-l", "tier=web", "--limit", "100"], 1),
];

/// Jobs submitted at once.
const SUBMITTERS: usize = 16;
/// Rows of a page.
const PAGE_ROWS: u32 = 100;
/// First pages that are measured of each selector, behind one that is not.
const FIRST_PAGES: u32 = 100;
/// The value of the label `tier` of every job but the last, and that of the last one.
const TIERS: [&str; 2] = ["web", "last"];

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct ListBenchArguments {
    /// Tasks of the list; they fit on no node
    #[arg(long, default_value_t = 100_000)]
    tasks: u32,
    /// Processes per list; each prints a line
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Measure the time to the first page of lists with a selector instead
    #[arg(long)]
    selector: bool,
    /// Tasks of a job, with --selector
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tasks_per_job: u32,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &ListBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    let client = system.client()?;
    if arguments.selector {
        return first_pages(&system, arguments, results).await;
    }
    let task = spec::plain_task(&["true"], 999_000, 8 << 20);
    let mut spec = spec::service("loadtest", "big".to_owned(), arguments.tasks, task);
    spec.labels.insert("tier".to_owned(), "web".to_owned());
    let job = JobRef::new(spec.user.clone(), spec.name.clone());
    client.job_submit(spec, 0).await?;
    client.job_get(&job).await?;
    for (name, words, header) in LISTS {
        for _ in 0..arguments.runs {
            let verb = MeasuredVerb { words, header, lines_max: None };
            let stats = tokio::task::block_in_place(|| verb_cost(options, &system, verb))?;
            results.line("list", name, stats);
        }
    }
    Ok(())
}

/// The times to the first page over many jobs, of which the last has a label of its own.
async fn first_pages(
    system: &System,
    arguments: &ListBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let client = &system.client()?;
    jobs_submit(client, arguments).await?;
    let control = i32::try_from(system.control_pid())?;
    let meets = |value: &str, not| vec![LabelMatch { key: "tier".to_owned(), value: value.to_owned(), not }];
    for (name, states, selector) in [
        ("all", vec![], meets("none", true)),
        ("last", vec![], meets(TIERS[1], false)),
        ("none", vec![], meets("none", false)),
        // Their labels are as asked for, and no state is.
        ("state", vec![TaskState::Running], meets("none", true)),
    ] {
        let job_states = if states.is_empty() { Vec::new() } else { vec![JobState::Stopped] };
        let tasks = TaskFilter { states, selector: selector.clone(), ..TaskFilter::default() };
        let jobs = JobFilter { states: job_states, selector, ..JobFilter::default() };
        for (workload, list) in [
            (format!("selector-{name}"), ListedRows::Tasks(tasks)),
            (format!("selector-{name}-jobs"), ListedRows::Jobs(jobs)),
        ] {
            peak_reset(control)?;
            let before = process_usage(control)?;
            let mut stats = Stats::new();
            stats.set("tasks", arguments.tasks);
            stats.set("jobs", arguments.tasks.div_ceil(arguments.tasks_per_job));
            list.measure(client, &mut stats).await?;
            let grown = process_peak(control)?.saturating_sub(before.rss_bytes);
            stats.set("control_rss_mib", json!(before.rss_bytes >> 20));
            stats.set("control_rss_grew_kib", json!(grown >> 10));
            results.line("list", &workload, stats);
        }
    }
    Ok(())
}

async fn jobs_submit(client: &Client, arguments: &ListBenchArguments) -> anyhow::Result<()> {
    let (tasks, each) = (arguments.tasks, arguments.tasks_per_job);
    let jobs = tasks.div_ceil(each);
    let submit = |place: u32| {
        let count = each.min(tasks - place * each);
        let task = spec::plain_task(&["true"], 999_000, 8 << 20);
        let mut spec = spec::service("loadtest", format!("big-{place}"), count, task);
        let tier = if place + 1 == jobs { TIERS[1] } else { TIERS[0] };
        spec.labels.insert("tier".to_owned(), tier.to_owned());
        async move { client.job_submit(spec, 0).await }
    };
    let others = stream::iter(0..jobs.saturating_sub(1)).map(submit).buffer_unordered(SUBMITTERS);
    others.try_for_each(|_| async { Ok(()) }).await?;
    // Jobs have ids in the order of their submissions, and lists that order.
    submit(jobs.saturating_sub(1)).await?;
    Ok(())
}

/// What is listed.
enum ListedRows {
    Tasks(TaskFilter),
    Jobs(JobFilter),
}

/// One page of a list.
struct MeasuredPage {
    rows: usize,
    /// Of the message, before its compression.
    bytes: usize,
    next: String,
    us: u64,
}

impl ListedRows {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn page(&self, client: &Client, page: String) -> anyhow::Result<MeasuredPage> {
        let (request, begin) = (PageRequest { limit: PAGE_ROWS, page }, Instant::now());
        let (rows, bytes, next) = match self {
            Self::Tasks(filter) => {
                let answer = client.task_list_page(filter, request).await?;
                (answer.tasks.len(), answer.encoded_len(), answer.next_page)
            }
            Self::Jobs(filter) => {
                let answer = client.job_list_page(filter, request).await?;
                (answer.jobs.len(), answer.encoded_len(), answer.next_page)
            }
        };
        let us = u64::try_from(begin.elapsed().as_micros())?;
        ensure!(rows <= usize::try_from(PAGE_ROWS)?, "more rows than asked for");
        Ok(MeasuredPage { rows, bytes, next, us })
    }

    /// Adds the time to the first page, and how many pages a caller reads until the first row or the end.
    async fn measure(&self, client: &Client, stats: &mut Stats) -> anyhow::Result<()> {
        let mut samples = Vec::new();
        for _ in 0..=FIRST_PAGES {
            samples.push(self.page(client, String::new()).await?.us);
        }
        percentiles(stats, "first_page", &samples.split_off(1))?;
        let mut page = self.page(client, String::new()).await?;
        stats.set("first_page_rows", json!(page.rows));
        stats.set("first_page_bytes", json!(page.bytes));
        let (mut pages, mut us) = (1, page.us);
        while page.rows == 0 && !page.next.is_empty() {
            page = self.page(client, page.next).await?;
            (pages, us) = (pages + 1, us + page.us);
        }
        stats.set("pages_to_first_row", json!(pages));
        stats.set("first_row_ms", json!((us as f64 / 10.0).round() / 100.0));
        Ok(())
    }
}
