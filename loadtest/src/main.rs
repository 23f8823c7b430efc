//! `borough-loadtest`: benchmarks of the production program. Each result is one line of JSON. See the README in this
//! folder. `Bench` lists the benchmarks, each is a module, and `system` starts the processes that they measure.

mod api;
mod conflicts;
mod decide;
mod experiment;
mod first_answer;
mod garbage;
mod hollow;
mod idle;
mod kv;
mod lifecycle;
mod list;
mod logs;
mod memory;
mod micro_task;
mod names;
mod overload;
mod recovery;
mod resident;
mod result;
mod runs;
mod scheduler;
mod soak;
mod spec;
mod start_latency;
mod sustained;
mod system;
mod verb;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::result::Results;
use crate::system::{SystemOptions, scratch};

/// jemalloc instead of the C library's allocator, which takes locks when a thread frees what another has allocated.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Benchmarks of a Borough cell.
#[derive(Debug, Parser)]
#[command(name = "borough-loadtest", version, about, max_term_width = 110)]
struct LoadtestArguments {
    /// The program that is measured: a release build
    #[arg(long, global = true, env = "BOROUGH_PROGRAM", value_name = "FILE")]
    borough: Option<PathBuf>,
    /// Where the cell's directory is made, on the disk that is to be measured
    #[arg(long, global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Nodes of the cell
    #[arg(long, global = true, default_value_t = 3)]
    nodes: u32,
    /// Scheduler workers of the cell
    #[arg(long, global = true, default_value_t = 2)]
    schedulers: u32,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Submit to exec, and to the endpoint seen by a watcher, of micro tasks on real agents
    StartLatency(start_latency::StartLatencyArguments),
    /// From the start of the program to the first byte of its answer
    FirstAnswer(first_answer::FirstAnswerArguments),
    /// A list of many tasks: time to the first row, bytes, memory of the client and of the control process
    List(list::ListBenchArguments),
    /// The output of a job of many tasks, followed by one client
    Logs(logs::LogsArguments),
    /// How fast a change of an endpoint reaches everybody who follows it, and answers of DNS
    Names(names::NameBenchArguments),
    /// What one gateway answers per second, encrypted, with rights, quotas and the audit
    Api(api::ApiBenchArguments),
    /// What other callers notice of one user who asks for far more than a share
    Overload(overload::OverloadArguments),
    /// A changed file reaches every task of a service: time, commits, and how many tasks are away at once
    Rollout(lifecycle::rollout::RolloutBenchArguments),
    /// Other amounts for every task of a service in place, on hollow nodes
    Resize(lifecycle::resize::ResizeBenchArguments),
    /// A daemon job on hollow nodes: how fast its tasks start, also on nodes that join
    Daemon(lifecycle::daemon::DaemonBenchArguments),
    /// What a cell writes while nothing happens
    Idle(idle::IdleArguments),
    /// From the start of a killed control process to its first placement
    Recovery(recovery::RecoveryArguments),
    /// The store's engine alone: commits, reads, the placement commit, watches, a tail
    Kv(kv::KvArguments),
    /// The scheduler pool over a store, with nodes as rows
    Scheduler(scheduler::SchedulerBenchArguments),
    /// Simulated agents in one process, through a real gateway: sessions, tasks, storms, promises
    Hollow(hollow::HollowArguments),
    /// Resident memory of an idle control process, an agent and a shim
    Memory,
    /// Deciding alone, on one core and without a store
    Decide(decide::DecideArguments),
    /// The published packing experiment on the openb trace, under each scoring policy
    Packing(experiment::packing::PackingArguments),
    /// The fewest machines that the tasks of a trace fit in, under each scoring policy
    Compaction(experiment::compaction::CompactionArguments),
    /// The same work under each scoring policy: how evenly the nodes are loaded, what is stranded
    Balance(experiment::balance::BalanceArguments),
    /// Alibaba's stream of batch work through a store and the scheduler's workers, with time compressed
    Replay(experiment::replay::ReplayArguments),
    /// One to twelve workers over one cell in simulated time: what their conflicts cost
    Conflicts(conflicts::ConflictsArguments),
    /// The embedded engine alone for a long time: its rules, its memory, its files
    Soak(soak::SoakArguments),
    /// The embedded engine under writes that do not end: its memory, and the bytes of its journal
    Sustained(sustained::SustainedArguments),
    /// Jobs that end as fast as they come: how fast controllers remove them, and the memory
    Garbage(garbage::GarbageArguments),
    /// The bytes that each role keeps per task
    Resident(resident::ResidentArguments),
    /// What the benchmarks run as a task: notes its start, listens, ends with SIGTERM
    #[command(hide = true)]
    MicroTask(micro_task::MicroTaskArguments),
    /// The calls of the user in `overload` who asks for far more than a share
    #[command(hide = true)]
    OverloadStorm(overload::storm::StormArguments),
}

fn main() -> anyhow::Result<()> {
    let arguments = LoadtestArguments::parse();
    if let Bench::MicroTask(task) = &arguments.bench {
        return micro_task::run(task);
    }
    if let Some(held) = without_store(&arguments.bench) {
        return held;
    }
    let directory = arguments.directory.unwrap_or_else(std::env::temp_dir);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Bench::OverloadStorm(storm) = &arguments.bench {
        return runtime.block_on(overload::storm::run(storm));
    }
    if let Some(held) = with_store(&runtime, &directory, &arguments.bench) {
        return held;
    }
    let system = |borough, schedulers| SystemOptions::new(borough, directory.clone(), 0, schedulers);
    if let Bench::Scheduler(scheduler) = &arguments.bench {
        let own = scheduler.agents.then(|| system(arguments.borough, scheduler.workers())).transpose()?;
        return scheduler_run(&runtime, &directory, scheduler, own.as_ref());
    }
    if let Bench::Hollow(hollow) = &arguments.bench {
        // The cell starts without nodes: all of them are hollow.
        let own =
            hollow::is_own(hollow).then(|| system(arguments.borough, arguments.schedulers)).transpose()?;
        let mut results = Results::begin("embedded", &scratch(&directory)?)?;
        let held = runtime.block_on(hollow::run(own.as_ref(), arguments.nodes, hollow, &mut results));
        results.end();
        return held;
    }
    if let Bench::Conflicts(conflicts) = &arguments.bench {
        return conflicts_run(&runtime, &directory, conflicts);
    }
    let options = SystemOptions::new(arguments.borough, directory, arguments.nodes, arguments.schedulers)?;
    runtime.block_on(async {
        let mut results = Results::begin("embedded", &options.scratch()?)?;
        match arguments.bench {
            Bench::StartLatency(arguments) => start_latency::run(&options, &arguments, &mut results).await,
            Bench::FirstAnswer(arguments) => first_answer::run(&options, &arguments, &mut results).await,
            Bench::List(arguments) => list::run(&options, &arguments, &mut results).await,
            Bench::Logs(arguments) => logs::run(&options, &arguments, &mut results).await,
            Bench::Names(arguments) => names::run(&options, &arguments, &mut results).await,
            Bench::Api(arguments) => api::run(&options, &arguments, &mut results).await,
            Bench::Overload(arguments) => overload::run(&options, &arguments, &mut results).await,
            Bench::Rollout(arguments) => lifecycle::rollout::run(&options, &arguments, &mut results).await,
            Bench::Resize(arguments) => lifecycle::resize::run(&options, &arguments, &mut results).await,
            Bench::Daemon(arguments) => lifecycle::daemon::run(&options, &arguments, &mut results).await,
            Bench::Idle(arguments) => idle::run(&options, &arguments, &mut results).await,
            Bench::Recovery(arguments) => recovery::run(&options, &arguments, &mut results).await,
            Bench::Memory => memory::run(&options, &mut results).await,
            Bench::Kv(_)
            | Bench::Scheduler(_)
            | Bench::Conflicts(_)
            | Bench::Soak(_)
            | Bench::Sustained(_)
            | Bench::Garbage(_)
            | Bench::Resident(_)
            | Bench::Decide(_)
            | Bench::Packing(_)
            | Bench::Compaction(_)
            | Bench::Balance(_)
            | Bench::Replay(_)
            | Bench::Hollow(_)
            | Bench::OverloadStorm(_)
            | Bench::MicroTask(_) => Ok(()),
        }?;
        results.end();
        Ok(())
    })
}

fn conflicts_run(
    runtime: &tokio::runtime::Runtime,
    directory: &std::path::Path,
    conflicts: &conflicts::ConflictsArguments,
) -> anyhow::Result<()> {
    let scratch = scratch(directory)?;
    let mut results = Results::begin("embedded", &scratch)?;
    let latencies = runtime.block_on(conflicts::latencies_measured(&scratch))?;
    conflicts::run(conflicts, &latencies, &mut results)?;
    std::fs::remove_dir_all(&scratch).ok();
    results.end();
    Ok(())
}

/// Runs a benchmark that keeps no store; `None` for the others.
fn without_store(bench: &Bench) -> Option<anyhow::Result<()>> {
    let mut results = Results::without_store();
    let held = match bench {
        Bench::Decide(decide) => decide::run(decide, &mut results),
        Bench::Packing(packing) => experiment::packing::run(packing, &mut results),
        Bench::Compaction(compaction) => experiment::compaction::run(compaction, &mut results),
        Bench::Balance(balance) => experiment::balance::run(balance, &mut results),
        _ => return None,
    };
    results.end();
    Some(held)
}

/// Runs a benchmark that keeps a store in this process and needs no cell; `None` for the others.
fn with_store(
    runtime: &tokio::runtime::Runtime,
    directory: &Path,
    bench: &Bench,
) -> Option<anyhow::Result<()>> {
    let engine = match bench {
        Bench::Kv(kv) => kv.engine.name(),
        Bench::Soak(_) | Bench::Sustained(_) | Bench::Garbage(_) | Bench::Resident(_) | Bench::Replay(_) => {
            "embedded"
        }
        _ => return None,
    };
    Some((|| {
        let scratch = scratch(directory)?;
        let mut results = Results::begin(engine, &scratch)?;
        let held = match bench {
            Bench::Kv(kv) => runtime.block_on(kv::run(scratch, kv, &mut results)),
            Bench::Soak(soak) => runtime.block_on(soak::run(&scratch, soak, &mut results)),
            Bench::Sustained(sustained) => {
                runtime.block_on(sustained::run(&scratch, sustained, &mut results))
            }
            Bench::Garbage(garbage) => runtime.block_on(garbage::run(&scratch, garbage, &mut results)),
            Bench::Resident(resident) => runtime.block_on(resident::run(&scratch, resident, &mut results)),
            Bench::Replay(replay) => runtime.block_on(experiment::replay::run(scratch, replay, &mut results)),
            _ => Ok(()),
        };
        results.end();
        held
    })())
}

fn scheduler_run(
    runtime: &tokio::runtime::Runtime,
    directory: &Path,
    arguments: &scheduler::SchedulerBenchArguments,
    system: Option<&SystemOptions>,
) -> anyhow::Result<()> {
    let scratch = scratch(directory)?;
    let mut results = Results::begin(arguments.engine.name(), &scratch)?;
    let run = runtime.block_on(scheduler::run(scratch, arguments, system, &mut results));
    results.end();
    run
}
