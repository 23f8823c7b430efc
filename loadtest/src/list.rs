//! `list`: what a list of many tasks costs, at the client and at the gateway.

use borough_client::JobRef;
use clap::Args;

use crate::result::Results;
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

/// Arguments of the benchmark.
#[derive(Debug, Args)]
pub(crate) struct ListBenchArguments {
    /// Tasks of the list; they fit on no node
    #[arg(long, default_value_t = 100_000)]
    tasks: u32,
    /// Processes per list; each prints a line
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Runs the benchmark.
pub(crate) async fn run(
    options: &SystemOptions,
    arguments: &ListBenchArguments,
    results: &mut Results,
) -> anyhow::Result<()> {
    let system = System::start(options).await?;
    let client = system.client()?;
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
