//! Figures, for people: `cargo test -p borough-agent --test real measure -- --ignored --nocapture`.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use borough_kv::env::SystemClock;
use borough_proto::v1::task_status::Phase;
use borough_shim::process::stat_read;

use crate::harness::{Cell, command, life};

fn percentiles(name: &str, mut values: Vec<i64>) {
    values.sort_unstable();
    let at = |percent: usize| values[(values.len() - 1) * percent / 100];
    println!("{name}: p50 {} ms, p99 {} ms", at(50), at(99));
}

fn written_ms(path: &Path) -> i64 {
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    i64::try_from(modified.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The agent's share of the time from submitting a task to its execution: assignment sent, program executed, told.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; run by hand"]
async fn measure_start() {
    let cell = Cell::new().await;
    let mut agent = cell.agent_process();
    let clock = SystemClock::shared();
    cell.gateway.wait("a session", |seen| (!seen.reports.is_empty()).then_some(())).await;
    let (mut ordered, mut begun, mut executed, mut told) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for index in 0..100 {
        let life = life(index, 1);
        let sent = clock.wall_ms();
        cell.gateway.run(command(&life, &["sleep", "2"]));
        let status = cell.gateway.phase(&life, Phase::Running).await;
        // Written by the agent before it starts the shim, and by the shim before it starts the task.
        ordered.push(written_ms(&cell.life_dir(&life).join("spec.json")) - sent);
        begun.push(written_ms(&cell.life_dir(&life).join("stdout.0.log")) - sent);
        told.push(clock.wall_ms() - sent);
        executed.push(status.started_ms.unwrap() - sent);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    percentiles("assignment to spec on disk", ordered);
    percentiles("assignment to shim at work", begun);
    percentiles("assignment to execution", executed);
    percentiles("assignment to report", told);
    let pages = stat_read(agent.id()).unwrap().resident_pages;
    println!("agent: {} KiB resident", pages * 4);
    agent.kill().unwrap();
    agent.wait().unwrap();
}
