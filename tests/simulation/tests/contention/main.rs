//! Four workers decide at once over a small cell. Meanwhile jobs grow, shrink and stop, nodes are cordoned, drained,
//! lost and rebooted, and roles die. It is the production code in one process, on a store with faults and a virtual
//! clock.
//!
//! The rules are checked from the store afterwards. The auditor replays the journal entry by entry. Once all is at
//! rest, the rows are checked against each other and against the desired state.
//!
//! One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-simulation --test contention`; more of them from there
//! with `BOROUGH_SEEDS=<count>`, the journal of a run with `BOROUGH_JOURNAL=1`. The seed decides everything except the
//! order in which the runtime polls tasks that are ready at one moment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod agent;
mod audit_test;
mod cell;
mod disturb;
mod left;
mod settle;

use std::sync::Arc;

use borough_simulation::seeds::{Coverage, Met, Run, runs_make};
use borough_testkit::{in_simulated_time, metrics_text};

use agent::{Agent, Machines};
use cell::Cell;
use disturb::{Disturber, NODES};

/// Seeds that a run without arguments tries.
const SEEDS: u64 = 36;
/// Events that must happen in some run.
const EVENTS: &[&str] = &[
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
    "jobs_remove",
    "task_move",
    "moved_healthy",
    "moved_with_surge",
    "task_surge_begin",
    "task_surge_end",
    "task_stop",
    "task_restart",
    "task_attempt_stop",
    "rollout_canaries",
    "rollout_promote",
    "job_priority",
    "promise_kept",
    "reclaimed",
    "quota_full",
    "gang_hold",
    "gang_commit",
    "gang_give_up",
    "gang Committed",
    "Lost",
    "Releasing",
    "Dead",
];

async fn run(seed: u64) -> Run {
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
    met.extend(stats(&cell));
    Run { met, wrong }
}

fn stats(cell: &Cell) -> Met {
    let text = metrics_text(|registry| cell.metrics.register(registry));
    let counters = text.lines().filter_map(|line| line.strip_prefix("borough_scheduler_"));
    let counters = counters.filter_map(|line| line.split_once("_total "));
    counters.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn run_alone(seed: u64) -> Run {
    // Agents change the store through closures of one thread.
    in_simulated_time(tokio::task::LocalSet::new().run_until(run(seed)))
}

#[test]
fn four_workers_at_once_keep_every_rule() {
    runs_make("contention", SEEDS, Coverage { runs_least: SEEDS, events: EVENTS }, |seed| {
        let panicked = |_| Run { met: Met::new(), wrong: vec!["panic: as printed above".to_owned()] };
        std::panic::catch_unwind(|| run_alone(seed)).unwrap_or_else(panicked)
    });
}
