//! A gang whose worker is gone for good. The controller releases its holds, or turns them into placements if the
//! deciding transaction has committed.

use std::sync::Arc;
use std::time::Duration;

use borough_model::job::JobKind;
use borough_model::node::NodeState;
use borough_model::task::Placement;
use borough_model::{GangId, Incarnation, JobId, TaskId, TaskState};
use borough_store::check::{CheckMode, cell_violations};
use borough_store::gang::{gang_begin, gang_commit};
use borough_store::job::job_submit;
use borough_store::task::{GangHold, gang_hold};
use borough_testkit::{in_simulated_time, job_spec};

use crate::agent::{Agent, Machines};
use crate::cell::Cell;

const SEED: u64 = 7;
const GANG: GangId = GangId(3);
/// The time limit for gathering the gang.
const GATHER_MS: i64 = 5_000;
/// By then the controller has made another pass, whatever the store's faults are.
const PATIENCE: Duration = Duration::from_secs(60);

/// Leaves one holding member of a gang of two, as a dying worker does. Returns its final state.
async fn left(commits: bool) -> TaskState {
    let cell = Cell::new(SEED).await;
    let machines = Arc::new(Machines::default());
    let agent = tokio::task::spawn_local(Agent::new(&cell, &machines, SEED, 0).run());
    let job = JobId(1);
    let mut spec = job_spec("ada", "gang", JobKind::Batch);
    (spec.count, spec.min_member) = (2, if commits { 1 } else { 2 });
    let spec = &spec;
    let node = loop {
        let ready = cell.rows().await.nodes.into_values().find(|node| node.state == NodeState::Ready);
        if let Some(node) = ready {
            break node.id;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let expires_ms = cell.clock.wall_ms() + GATHER_MS;
    let member = TaskId { job, index: 0 };
    let placement = Placement {
        node,
        incarnation: Incarnation(1),
        ports: Vec::new(),
        resources: spec.task.resources.clone(),
        spec_version: 1,
        gang: Some((GANG, 1)),
        alloc: None,
    };
    let holds = [GangHold { task: member, placement, node_revision: None }];
    let begun = cell.change("worker", "gather", async |tx, changes| {
        job_submit(tx, changes, spec, job).await?;
        gang_begin(tx, &mut changes.open()?, GANG, job, spec.min_member, expires_ms).await
    });
    begun.await.unwrap();
    let held = cell.change("worker", "gather", async |tx, changes| {
        gang_hold(tx, &mut changes.open()?, GANG, 1, &holds).await
    });
    held.await.unwrap();
    if commits {
        let committed = cell.change("worker", "gather", async |tx, changes| {
            gang_commit(tx, &mut changes.open()?, GANG, 1).await
        });
        committed.await.unwrap();
    }
    let controller = cell.controller();
    let began = cell.clock.monotonic();
    let state = loop {
        let state = cell.rows().await.tasks.get(&member).map(|row| row.state).unwrap();
        let waited = cell.clock.monotonic().saturating_sub(began);
        assert!(state == TaskState::Held || cell.clock.wall_ms() >= expires_ms, "{state:?} before its time");
        if state != TaskState::Held || waited > PATIENCE {
            break state;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let found = cell.rows().await;
    let broken = cell_violations(&found, CheckMode::Always);
    assert!(broken.is_empty(), "{broken:?}");
    if !commits {
        assert!(found.allocs.values().all(|alloc| alloc.used.is_zero()), "what it held is free");
    }
    controller.end().await;
    agent.abort();
    state
}

fn run_left(commits: bool) -> TaskState {
    in_simulated_time(tokio::task::LocalSet::new().run_until(left(commits)))
}

#[test]
fn what_a_gang_holds_is_given_back_when_no_worker_is_left_to_do_it() {
    assert_eq!(run_left(false), TaskState::Pending);
}

#[test]
fn a_gang_that_had_come_together_is_placed_when_no_worker_is_left_to_do_it() {
    let state = run_left(true);
    assert!(!matches!(state, TaskState::Held | TaskState::Pending), "{state:?}");
}
