//! Four workers decide at once over a small cell while jobs grow, shrink and stop, nodes are cordoned, drained, lost
//! and rebooted, and roles die: the production code in one process, on a store with faults and a virtual clock. Whether
//! every rule was kept is read from the store afterwards: the auditor replays the journal entry by entry, and once all
//! is at rest the rows are checked against each other and against what was desired.
//!
//! One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-simulation --test contention`; more of them from there with
//! `BOROUGH_SEEDS=<count>`, the journal of a run with `BOROUGH_JOURNAL=1`. The seed decides over everything but the order
//! in which the runtime polls what is ready at one moment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod agent;
mod audit_test;
mod cell;
mod disturb;
mod left;
mod settle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;

use agent::{Agent, Machines};
use cell::Cell;
use disturb::{Disturber, NODES};

/// Runs, unless told otherwise.
const SEEDS: u64 = 36;

/// What a run met, by name.
type Met = BTreeMap<String, u64>;

/// One run; what it met, and what is wrong.
async fn run(seed: u64) -> (Met, Vec<String>) {
    let cell = Cell::new(seed).await;
    let machines = Arc::new(Machines::default());
    let agents = (0..NODES).map(|number| Agent::new(&cell, &machines, seed, number));
    let agents: Vec<_> = agents.map(|agent| tokio::task::spawn_local(agent.run())).collect();
    let mut disturber = Disturber::new(&cell, &machines, seed);
    disturber.run().await;
    disturber.calm().await;
    let mut wrong = settle::settled(&cell).await;
    disturber.end().await;
    for agent in agents {
        if agent.is_finished() {
            wrong.push("an agent has ended by itself".to_owned());
        }
        agent.abort();
    }
    wrong.extend(std::mem::take(&mut *machines.wrong.lock()));
    let auditor = cell.audit().await;
    let broken = auditor.broken.iter();
    wrong.extend(broken.map(|broken| format!("entry {}: {}: {}", broken.entry, broken.rule, broken.what)));
    let mut met = auditor.seen.clone();
    met.insert("entries".to_owned(), u64::try_from(auditor.entries()).unwrap());
    met.extend(figures(&cell));
    (met, wrong)
}

/// The workers' counters.
fn figures(cell: &Cell) -> Met {
    let mut text = String::new();
    encode(&mut text, &cell.registry).unwrap();
    let counters = text.lines().filter_map(|line| line.strip_prefix("borough_scheduler_"));
    let counters = counters.filter_map(|line| line.split_once("_total "));
    counters.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn run_alone(seed: u64) -> (Met, Vec<String>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    // Agents change the store through closures of one thread.
    runtime.block_on(tokio::task::LocalSet::new().run_until(run(seed)))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn four_workers_at_once_keep_every_rule() {
    let first = number("BOROUGH_SEED");
    let count = number("BOROUGH_SEEDS").unwrap_or_else(|| if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(0);
    let next = AtomicU64::new(first);
    let (met, failed) = (Mutex::new(Met::new()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + count {
            return;
        }
        let run = std::panic::catch_unwind(|| run_alone(seed));
        let (own, wrong) =
            run.unwrap_or_else(|_| (Met::new(), vec!["it panicked, as told above".to_owned()]));
        for (what, times) in own {
            *met.lock().entry(what).or_default() += times;
        }
        if !wrong.is_empty() {
            let command = format!("BOROUGH_SEED={seed} cargo test -p borough-simulation --test contention");
            failed.lock().push(format!("seed {seed} ({command}):\n  {}", wrong.join("\n  ")));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (met, failed) = (met.into_inner(), failed.into_inner());
    println!("{count} runs met {met:?}");
    assert!(failed.is_empty(), "{} of {count} runs failed\n{}", failed.len(), failed.join("\n"));
    if count >= 10 {
        coverage_check(&met);
    }
}

/// A run that meets nothing shows nothing.
fn coverage_check(met: &Met) {
    let expected = [
        "conflicts",
        "placed",
        "returned",
        "evicted",
        "evicted_held",
        "published",
        "shrunk",
        "lost",
        "cordoned",
        "drained",
        "job_submit",
        "job_stop",
        "job_end",
        "job_remove",
        "task_move",
        "task_stop",
        "task_restart",
        "job_priority",
        "promise_kept",
        "reclaimed",
        "quota_full",
        "unit_hold",
        "unit_commit",
        "unit_give_up",
        "unit Committed",
        "Lost",
        "Releasing",
        "Dead",
    ];
    let never: Vec<&str> =
        expected.into_iter().filter(|what| !met.contains_key(*what) || met[*what] == 0).collect();
    assert!(never.is_empty(), "never met: {never:?}; met {met:?}");
}
