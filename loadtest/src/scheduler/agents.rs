//! The same workloads through a real control process (gateway, workers, controllers), with simulated agents as nodes. A
//! watcher of the public API measures how many tasks per second begin to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use borough_client::{CellItem, Client};
use borough_kv::Database;
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_model::job::JobSpec;
use borough_model::node::NodeFacts;
use borough_model::{Name, TaskId};
use borough_proto::convert::{job_id_from_text, job_spec_to_message, resources_to_message};
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use borough_store::CellSpace;
use futures::StreamExt as _;
use serde_json::json;
use tokio::task::JoinHandle;

use super::background_load::{BackgroundCell, JobsBefore};
use super::seen::SeenTasks;
use super::workload::{Workload, gate_spec, node_of, vast_facts};
use super::world::cell_stats;
use super::{PATIENCE, SchedulerBenchArguments, jobs_of, jobs_submit, mean, sampled, shape_stats};
use crate::hollow::fleet::Fleet;
use crate::hollow::usage::process_usage;
use crate::hollow::{fleet_options, fleet_stats};
use crate::result::{Stats, StatsSet as _};
use crate::system::{System, SystemOptions};

/// The cell of a control process that the benchmark starts.
pub(crate) const CELL: &str = "bench";

/// What the watcher has seen.
#[derive(Clone, Default)]
struct WatchedTasks {
    placed: Arc<SeenTasks>,
    running: Arc<SeenTasks>,
}

/// Runs a workload until its tasks run.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn workload_run(
    options: &SystemOptions,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
) -> anyhow::Result<Stats> {
    let mut system = System::start(options).await?;
    let pid = i32::try_from(system.control_pid())?;
    let client = system.client()?;
    let fleet = fleet_start(&system, arguments, workload).await?;
    let registered = fleet.all_connected(PATIENCE).await?;
    nodes_ready(&client, fleet.shared.options.hellos.len()).await?;
    let background = Arc::new(BackgroundCell::new(&system, &client, arguments, workload)?);
    background.nodes_taint().await?;
    let (watched, watcher) = watch(&client);
    let (before, jobs_before) = before_run(&client, arguments, workload, &watched).await?;

    let over = Arc::new(AtomicBool::new(false));
    let running_seen = Arc::clone(&watched.running);
    let running_counted = move || running_seen.count();
    let background_run = tokio::spawn(Arc::clone(&background).run(jobs_before, Arc::clone(&over)));
    let samples = tokio::spawn(sampled(running_counted, Arc::clone(&over)));
    let cpu = process_usage(pid)?.cpu;
    let mut began = Instant::now();
    jobs_submit(arguments, &workload.measured, workload.offered_per_s, |spec| job_submit(&client, spec))
        .await?;
    let submitted = began.elapsed();
    let late = match workload.background.nodes_late {
        0 => None,
        nodes => {
            // They wait: the measurement is how fast new nodes requeue them.
            tokio::time::sleep(Duration::from_secs(2)).await;
            began = Instant::now();
            Some(background.nodes_late(nodes)?)
        }
    };
    let all = usize::try_from(before + workload.measured.tasks)?;
    watched.placed.reached(all, PATIENCE).await?;
    let placed = began.elapsed();
    watched.running.reached(all, PATIENCE).await?;
    let running = began.elapsed();
    let usage = process_usage(pid)?;
    over.store(true, Ordering::Relaxed);
    background_run.await??;

    let mut stats = shape_stats(arguments, workload);
    let per_second = |time: Duration| (f64::from(workload.measured.tasks) / time.as_secs_f64()).round();
    stats.set("agents", json!(true));
    stats.set("running_per_s", json!(per_second(running)));
    stats.set("placements_per_s", json!(per_second(placed)));
    stats.set("admitted_per_s", json!(per_second(submitted)));
    stats.set("sampled_mean_per_s", json!(mean(&samples.await?)));
    let nodes = f64::from(u32::try_from(fleet.shared.options.hellos.len())?);
    stats.set("registered_per_s", json!((nodes / registered.as_secs_f64()).round()));
    let spent = u64::try_from(usage.cpu.saturating_sub(cpu).as_micros())?;
    stats.set("control_cpu_us_per_task", json!(spent / u64::from(workload.measured.tasks.max(1))));
    stats.set("control_rss_mib", json!(usage.rss_bytes >> 20));
    fleet_stats(&mut stats, &fleet)?;
    watcher.abort();
    fleet.end().await;
    if let Some(late) = late {
        background.left(late).await;
    }
    background.stats(&mut stats);
    system.control_end()?;
    if arguments.check {
        store_check(&system, &mut stats).await?;
    }
    Ok(stats)
}

/// Starts the workload's nodes as simulated agents.
async fn fleet_start(
    system: &System,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
) -> anyhow::Result<Fleet> {
    anyhow::ensure!(
        workload.background.preempting_per_s == 0,
        "{} is not measured with --agents: who preempts beside it is submitted as rows",
        workload.reference
    );
    let usual = (0..workload.nodes).map(|number| (format!("node-{number}"), node_of(workload, number)));
    let vast = workload.vast_node.then(|| ("vast".to_owned(), vast_facts()));
    let hellos = usual.chain(vast).map(|(name, facts)| hello(name, facts)).collect();
    let (gateways, token) = system.access()?;
    Fleet::start(fleet_options(gateways, Some(token), hellos, &arguments.simulated)?)
}

pub(super) fn hello(node: String, facts: NodeFacts) -> v1::Hello {
    v1::Hello {
        cell: CELL.to_owned(),
        node,
        agent_version: facts.agent_version,
        boot_id: facts.boot_id,
        capacity: Some(resources_to_message(&facts.capacity)),
        port_first: facts.port_first.into(),
        port_last: facts.port_last.into(),
        attributes: facts.attributes,
        host: facts.host,
        ..v1::Hello::default()
    }
}

/// Waits until every node takes tasks.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn nodes_ready(client: &Client, count: usize) -> anyhow::Result<()> {
    let (began, ready) = (Instant::now(), i32::from(v1::NodeState::Ready));
    loop {
        let nodes = client.node_list().await?;
        if nodes.iter().filter(|node| node.state == ready).count() >= count {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "the nodes were not ready within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Follows every task of the cell as any client would.
fn watch(client: &Client) -> (WatchedTasks, JoinHandle<anyhow::Result<()>>) {
    let watched = WatchedTasks::default();
    let filter = v1::WatchFilter { tasks: true, ..v1::WatchFilter::default() };
    let (mut items, seen) = (client.watch_cell(filter, None), watched.clone());
    let watcher = tokio::spawn(async move {
        while let Some(item) = items.next().await {
            match item? {
                CellItem::Change(change) => {
                    if let Some(Change::Task(task)) = &change.change {
                        seen.note(task)?;
                    }
                }
                CellItem::Bookmark(_) | CellItem::Absent(_) => {}
                CellItem::Resync(why) => anyhow::bail!("the watcher fell behind: {why}"),
            }
        }
        Ok(())
    });
    (watched, watcher)
}

impl WatchedTasks {
    fn note(&self, task: &v1::Task) -> anyhow::Result<()> {
        let id = TaskId { job: job_id_from_text("job_id", &task.job_id)?, index: task.index };
        if !task.node.is_empty() {
            self.placed.task(id);
        }
        if task.state == i32::from(v1::TaskState::Running) {
            self.running.task(id);
        }
        Ok(())
    }
}

/// Runs the tasks that exist before the measurement. Returns how many, and the jobs of the running ones.
async fn before_run(
    client: &Client,
    arguments: &SchedulerBenchArguments,
    workload: &Workload,
    watched: &WatchedTasks,
) -> anyhow::Result<(u32, JobsBefore)> {
    let (mut placed, mut jobs) = (0, Vec::new());
    if workload.before.iter().any(|batch| batch.gated) {
        client.job_submit(job_spec_to_message(&gate_spec()?), 0).await?;
    }
    for batch in &workload.before {
        jobs_submit(arguments, batch, None, |spec| job_submit(client, spec)).await?;
        if !batch.gated {
            placed += batch.tasks;
            watched.running.reached(usize::try_from(placed)?, PATIENCE).await?;
            for (number, count) in jobs_of(batch, arguments.tasks_per_job) {
                let spec = batch.job_spec(number, count)?;
                jobs.push((spec.user.to_string(), spec.name.to_string(), count));
            }
        }
    }
    Ok((placed, jobs))
}

/// Submits a job through the gateway.
fn job_submit(client: &Client, spec: JobSpec) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
    let (client, spec) = (client.clone(), job_spec_to_message(&spec));
    async move {
        client.job_submit(spec, 0).await?;
        Ok(())
    }
}

/// Checks the store that an ended control process has left.
///
/// # Errors
/// It cannot be opened or read.
pub(crate) async fn store_check(system: &System, stats: &mut Stats) -> anyhow::Result<()> {
    let (rng, _) = SeededRng::from_kernel();
    let options = OpenOptions::new(system.store_directory(), SystemClock::shared(), rng);
    let engine = EmbeddedEngine::open(options).context("the control process has left no store")?;
    let db = Database::new(Arc::new(engine.clone()));
    let space = CellSpace::new(Name::new(CELL)?);
    let checked = cell_stats(&db, &space, stats).await;
    engine.close().await;
    checked
}
