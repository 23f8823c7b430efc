//! `list`: what a list of many tasks costs, at the client and at the gateway. With `--selector` it measures how long
//! the first page of a list with a selector takes. Every task meets one selector, only the last tasks meet another, and
//! none meets the third.

use std::time::Instant;

use anyhow::ensure;
use borough_client::{Client, JobRef, TaskFilter};
use borough_proto::v1::{LabelMatch, PageRequest, TaskState};
use clap::Args;

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

/// Most tasks of a job.
const JOB_TASKS_MAX: u32 = 100_000;
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
        return first_pages(&client, arguments.tasks, results).await;
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
async fn first_pages(client: &Client, tasks: u32, results: &mut Results) -> anyhow::Result<()> {
    let jobs = tasks.div_ceil(JOB_TASKS_MAX);
    for place in 0..jobs {
        let count = JOB_TASKS_MAX.min(tasks - place * JOB_TASKS_MAX);
        let task = spec::plain_task(&["true"], 999_000, 8 << 20);
        let mut spec = spec::service("loadtest", format!("big-{place}"), count, task);
        let tier = if place + 1 == jobs { TIERS[1] } else { TIERS[0] };
        spec.labels.insert("tier".to_owned(), tier.to_owned());
        let job = JobRef::new(spec.user.clone(), spec.name.clone());
        client.job_submit(spec, 0).await?;
        client.job_get(&job).await?;
    }
    let selects = |states: &[TaskState], value: &str, not| TaskFilter {
        states: states.to_vec(),
        selector: vec![LabelMatch { key: "tier".to_owned(), value: value.to_owned(), not }],
        ..TaskFilter::default()
    };
    for (name, filter) in [
        ("selector-all", selects(&[], "none", true)),
        ("selector-last", selects(&[], TIERS[1], false)),
        ("selector-none", selects(&[], "none", false)),
        // Their labels are as asked for, and no state is.
        ("selector-state", selects(&[TaskState::Running], "none", true)),
    ] {
        let mut samples = Vec::new();
        for _ in 0..=FIRST_PAGES {
            samples.push(first_page_us(client, &filter).await?);
        }
        let mut stats = Stats::new();
        stats.set("tasks", tasks);
        percentiles(&mut stats, "first_page", &samples.split_off(1))?;
        results.line("list", name, stats);
    }
    Ok(())
}

/// Microseconds to the first page of a list.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn first_page_us(client: &Client, filter: &TaskFilter) -> anyhow::Result<u64> {
    let begin = Instant::now();
    let answer = client.task_list_page(filter, PageRequest { limit: 100, page: String::new() }).await?;
    let elapsed = begin.elapsed();
    ensure!(answer.tasks.len() <= 100, "more rows than asked for");
    Ok(u64::try_from(elapsed.as_micros())?)
}
