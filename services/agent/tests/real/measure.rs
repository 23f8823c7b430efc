//! Figures, for people: `cargo test -p borough-agent --test real measure -- --ignored --nocapture`.

use std::time::Duration;

use borough_kv::env::SystemClock;
use borough_proto::v1::task_status::Phase;
use borough_shim::process::stat_read;

use crate::harness::{Cell, command, life};

fn percentiles(name: &str, mut values: Vec<i64>) {
    values.sort_unstable();
    let at = |percent: usize| values[(values.len() - 1) * percent / 100];
    println!("{name}: p50 {} ms, p99 {} ms", at(50), at(99));
}

/// The agent's share of the time from submitting a task to its execution: assignment sent, program executed, told.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; run by hand"]
async fn measure_start() {
    let cell = Cell::new().await;
    let mut agent = cell.agent_process();
    let clock = SystemClock::shared();
    cell.gateway.wait("a session", |seen| (!seen.reports.is_empty()).then_some(())).await;
    let (mut executed, mut told) = (Vec::new(), Vec::new());
    for index in 0..100 {
        let life = life(index, 1);
        let sent = clock.wall_ms();
        cell.gateway.run(command(&life, &["sleep", "2"]));
        let status = cell.gateway.phase(&life, Phase::Running).await;
        told.push(clock.wall_ms() - sent);
        executed.push(status.started_ms.unwrap() - sent);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    percentiles("assignment to execution", executed);
    percentiles("assignment to report", told);
    let pages = stat_read(agent.id()).unwrap().resident_pages;
    println!("agent: {} KiB resident", pages * 4);
    agent.kill().unwrap();
    agent.wait().unwrap();
}
