//! A gang that gathers over several transactions, against a store.

mod race;
mod waits;

use borough_kv::Idempotency;
use borough_model::job::{JobKind, JobSpec};
use borough_model::task::machine::GangRefused;
use borough_model::task::{GangState, Placement, TaskRow, TaskState};
use borough_model::{GangId, Incarnation, JobId, NodeId, TaskId};

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::error::{StoreError, StoreResult};
use crate::job::job_submit;
use crate::journal::{Change, ChangeSet};
use crate::keys::{self, Prefix, RangeOptions, TaskKey};
use crate::node::{NodeRegistration, SessionFence, node_register, node_reported};
use crate::task::{GangHold, gang_hold, gang_holds_settle};
use crate::testing::{TestCell, change, name, node_facts};

const GANG: GangId = GangId(3);
const NODE: NodeId = NodeId(7);

fn at(at_ms: i64) -> Change {
    Change { at_ms, ..change(1, "gang") }
}

async fn world() -> TestCell {
    world_in(TestCell::new().await).await
}

/// A node and a job that wants to be a gang, created despite faults of the store.
async fn world_in(cell: TestCell) -> TestCell {
    let facts = node_facts(4_000);
    let mut spec = JobSpec::defaults(name("ada"), name("gang"), JobKind::Batch, vec!["run".to_owned()]);
    (spec.count, spec.min_member) = (3, 2);
    let made = async || {
        cell.change(change(1, "world"), async |tx, changes| {
            let registration = NodeRegistration::new(name("n7"), facts.clone(), NODE, 1);
            let (_, writer) = node_register(tx, changes, &registration).await?;
            node_reported(&writer, changes, &[]).await?;
            job_submit(tx, changes, &spec, JobId(1)).await
        })
        .await
    };
    while let Err(error) = made().await {
        assert!(matches!(error, StoreError::Kv(_)), "{error:?}");
    }
    cell
}

async fn begin(cell: &TestCell, at_ms: i64) -> StoreResult<borough_model::task::GangRow> {
    cell.change(at(at_ms), async |tx, changes| {
        gang_begin(tx, &mut changes.open()?, GANG, JobId(1), 2, at_ms + 1_000).await
    })
    .await
}

async fn hold(cell: &TestCell, index: u32, incarnation: u64, epoch: u64) -> StoreResult<()> {
    hold_at(cell, at(1_100), index, incarnation, epoch).await
}

async fn hold_at(
    cell: &TestCell,
    change: Change,
    index: u32,
    incarnation: u64,
    epoch: u64,
) -> StoreResult<()> {
    let resources = JobSpec::defaults(name("ada"), name("gang"), JobKind::Batch, vec![]).task.resources;
    let placement = Placement {
        node: NODE,
        incarnation: Incarnation(incarnation),
        ports: Vec::new(),
        resources,
        spec_version: 1,
        gang: Some((GANG, epoch)),
        alloc: None,
    };
    let holds = [GangHold { task: TaskId { job: JobId(1), index }, placement, node_revision: None }];
    cell.change(change, async |tx, changes| gang_hold(tx, &mut changes.open()?, GANG, epoch, &holds).await)
        .await
}

async fn commit(cell: &TestCell, epoch: u64) -> StoreResult<borough_model::task::GangRow> {
    cell.change(at(1_200), async |tx, changes| gang_commit(tx, &mut changes.open()?, GANG, epoch).await).await
}

async fn settle(cell: &TestCell, at_ms: i64) -> Vec<TaskState> {
    let mut after = None;
    loop {
        let sweep = cell
            .change(at(at_ms), async |tx, changes| gang_holds_settle(tx, changes, GANG, after, 1).await)
            .await
            .unwrap();
        after = sweep.next;
        if after.is_none() {
            break;
        }
    }
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found, []);
    let tasks = Prefix::<TaskKey>::of(&JobId(1));
    let rows =
        cell.run(async |tx| keys::range(&tx, &cell.space, &tasks, RangeOptions::default()).await).await;
    rows.unwrap().iter().map(|(_, row)| row.state).collect()
}

#[tokio::test]
async fn holds_become_placements_when_enough_are_there() {
    let cell = world().await;
    let epoch = begin(&cell, 1_000).await.unwrap().epoch;
    hold(&cell, 0, 1, epoch).await.unwrap();
    hold(&cell, 0, 1, epoch).await.unwrap();
    let few = commit(&cell, epoch).await;
    assert!(
        matches!(few, Err(StoreError::Gang(GangRefused::TooFew { holding: 1, min_member: 2 }))),
        "{few:?}"
    );
    hold(&cell, 2, 1, epoch).await.unwrap();
    assert_eq!(settle(&cell, 1_200).await, [TaskState::Held, TaskState::Held], "nothing starts before");
    assert_eq!(commit(&cell, epoch).await.unwrap().state, GangState::Committed);
    assert_eq!(commit(&cell, epoch).await.unwrap().state, GangState::Committed, "a repetition");
    assert_eq!(settle(&cell, 1_200).await, [TaskState::Assigned, TaskState::Assigned]);
    assert!(hold(&cell, 1, 1, epoch).await.is_err(), "it gathers no more");
}

#[tokio::test]
async fn holds_of_an_epoch_that_is_over_are_void() {
    let cell = world().await;
    let epoch = begin(&cell, 1_000).await.unwrap().epoch;
    hold(&cell, 0, 1, epoch).await.unwrap();
    let expire =
        async |at_ms| cell.change(at(at_ms), async |tx, changes| gang_expire(tx, changes, GANG).await).await;
    assert!(matches!(expire(1_500).await, Err(StoreError::Gang(GangRefused::NotExpired))));
    assert_eq!(expire(2_000).await.unwrap().state, GangState::Released);
    assert!(hold(&cell, 1, 1, epoch).await.is_err());
    let again = begin(&cell, 1_050).await.unwrap();
    assert!(again.epoch > epoch && again.state == GangState::Gathering);
    assert!(matches!(commit(&cell, epoch).await, Err(StoreError::Gang(GangRefused::StaleEpoch { .. }))));
    assert_eq!(settle(&cell, 1_200).await, [TaskState::Pending], "the old hold is given back");
    hold(&cell, 0, 2, again.epoch).await.unwrap();
    hold(&cell, 1, 1, again.epoch).await.unwrap();
    commit(&cell, again.epoch).await.unwrap();
    assert_eq!(settle(&cell, 1_200).await, [TaskState::Assigned, TaskState::Assigned]);
}

/// Tasks outside the gang change while it is committed, once per try. The commit does not wait for them. A member lost
/// meanwhile fails it.
#[tokio::test]
async fn a_gang_is_committed_while_other_tasks_of_its_job_change_without_end() {
    for (index, attempts) in [(1, Some(1)), (0, None)] {
        let cell = world().await;
        let epoch = begin(&cell, 1_000).await.unwrap().epoch;
        for member in [0, 2] {
            hold(&cell, member, 1, epoch).await.unwrap();
        }
        let stir = async |number: u32| {
            let id = TaskId { job: JobId(1), index };
            let row = TaskRow { revision: 10 + u64::from(number), ..TaskRow::never_placed(id) };
            cell.run(async |tx| keys::write(&tx, &cell.space, &TaskKey::of(id), &row)).await.unwrap();
        };
        let (change, space, stir) = (&at(1_200), &cell.space, &stir);
        let committed = cell.db.run("gang_commit", Idempotency::Natural, |tx, attempt| async move {
            if attempt.number > 5 {
                return Err(StoreError::refused("it never commits"));
            }
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            gang_commit(&tx, &mut changes.open()?, GANG, epoch).await?;
            stir(attempt.number).await;
            changes.append(&tx)?;
            Ok(attempt.number)
        });
        let committed = committed.await;
        assert_eq!(committed.as_ref().ok(), attempts.as_ref(), "task {index}: {committed:?}");
    }
}
