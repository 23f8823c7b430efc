//! What operators and machines do to a job under load, and what its clients may notice of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1::{Task, TaskState};
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, is_healthy, now, until};
use rustix::process::Signal;

use super::load::Tally;

/// Tasks of the job at first.
pub(super) const FEW: usize = 3;
/// Tasks of the job while it is scaled up.
const MANY: usize = 30;
/// How long the name service and the store are away, each time.
const AWAY: Duration = Duration::from_secs(10);
/// Requests after which the effect of something would have shown.
const REQUESTS: u64 = 40;

/// Changes a job of [`FEW`] tasks as operators do, then lets a task and the control process fail. Fails if a client has
/// noticed more than it may: nothing, except the requests that were under way in a killed task.
pub(super) async fn changes_and_faults(cell: &mut TestCell, job: &str, tallies: &[Arc<Tally>]) {
    scale(cell, job, tallies).await;
    restart(cell, job, tallies).await;
    task_kill(cell, job, tallies).await;
    // Both the name service and the store are in the control process.
    cell.control_kill();
    away(tallies).await;
    cell.control_start().await;
    cell.nodes_ready().await;
    settled("the control process was dead", tallies).await;
    let control = cell.control();
    control.signal(Signal::STOP).unwrap();
    away(tallies).await;
    control.signal(Signal::CONT).unwrap();
    cell.nodes_ready().await;
    settled("the control process hung", tallies).await;
    // Views go on where they were.
    cell.borough(&["job", "scale", job, &(FEW + 2).to_string()]).await.ended(0);
    all_seen(FEW + 2, tallies).await;
    settled("the job was scaled after the outages", tallies).await;
}

async fn scale(cell: &TestCell, job: &str, tallies: &[Arc<Tally>]) {
    all_seen(FEW, tallies).await;
    cell.borough(&["job", "scale", job, &MANY.to_string()]).await.ended(0);
    all_seen(MANY, tallies).await;
    settled("the job was scaled up", tallies).await;
    cell.borough(&["job", "scale", job, &FEW.to_string()]).await.ended(0);
    cell.tasks_until(job, "scaled down", |tasks| tasks.iter().filter(|task| is_live(task)).count() == FEW)
        .await;
    settled("the job was scaled down", tallies).await;
}

async fn restart(cell: &TestCell, job: &str, tallies: &[Arc<Tally>]) {
    let attempts = |tasks: &[Task]| -> BTreeMap<u32, u64> {
        tasks.iter().filter(|task| is_live(task)).map(|task| (task.index, task.incarnation)).collect()
    };
    let before = attempts(&cell.tasks(job).await);
    cell.borough(&["job", "restart", job]).await.ended(0);
    let after = attempts(&cell.tasks(job).await);
    assert!(
        before.iter().all(|(index, attempt)| after[index] > *attempt),
        "{before:?}, restarted: {after:?}"
    );
    settled("all tasks were restarted", tallies).await;
}

async fn task_kill(cell: &TestCell, job: &str, tallies: &[Arc<Tally>]) {
    let killed = cell.tasks(job).await.into_iter().find(is_live).unwrap();
    ProcessId::find(killed.pid.unwrap()).unwrap().signal(Signal::KILL).unwrap();
    cell.tasks_until(job, "started again after a kill", |tasks| {
        let next = tasks.iter().find(|task| task.index == killed.index);
        next.is_some_and(|task| is_healthy(task) && task.incarnation > killed.incarnation)
    })
    .await;
    for tally in tallies {
        tally.asked_until_more(REQUESTS).await;
        let failures = tally.failures_take();
        let under_way = usize::try_from(tally.clients).unwrap();
        let name = tally.name;
        assert!(
            failures.len() <= under_way,
            "{name}: more than what was under way in a killed task: {failures:?}"
        );
    }
}

/// Returns true unless its job has ended it.
fn is_live(task: &Task) -> bool {
    task.state() != TaskState::Dead
}

/// Lets the clients ask for a while.
async fn away(tallies: &[Arc<Tally>]) {
    let begun = now();
    let asked: Vec<u64> = tallies.iter().map(|tally| tally.asked()).collect();
    until("requests during an outage", || async {
        let has_asked = tallies.iter().zip(&asked).all(|(tally, asked)| tally.asked() >= asked + REQUESTS);
        (has_asked && now().saturating_sub(begun) >= AWAY).then_some(())
    })
    .await;
}

/// Waits until every client has had answers of this many servers from now on.
async fn all_seen(count: usize, tallies: &[Arc<Tally>]) {
    tallies.iter().for_each(|tally| tally.servers_forget());
    for tally in tallies {
        tally.servers_until(count).await;
    }
}

/// Lets every client go on for a moment. Fails if a request has failed.
async fn settled(after: &str, tallies: &[Arc<Tally>]) {
    for tally in tallies {
        tally.asked_until_more(REQUESTS).await;
        let failures = tally.failures_take();
        assert!(
            failures.is_empty(),
            "{}: of {} requests, when {after}: {failures:?}",
            tally.name,
            tally.asked()
        );
    }
}
