//! A gang whose members preempt other tasks. Each member gets its share when its victims have exited, and none starts
//! before all have theirs. The first lost member releases everything.

use borough_kv::Transaction;
use borough_model::Delta;
use borough_model::task::{Attempt, Evicted, GangRow, StopReason, TaskEvent, TaskRow};

use super::*;
use crate::keys::GangKey;
use crate::task::{
    ReportPhase, TaskBook, TaskReport, task_promises_expire, task_report_apply, task_stop_begin,
};

fn task(index: u32) -> TaskId {
    TaskId { job: JobId(1), index }
}

fn placement(gang: Option<(GangId, u64)>) -> Placement {
    let resources = JobSpec::defaults(name("ada"), name("gang"), JobKind::Batch, vec![]).task.resources;
    Placement {
        node: NODE,
        incarnation: Incarnation(1),
        ports: Vec::new(),
        resources,
        spec_version: 1,
        gang,
        alloc: None,
    }
}

/// Changes the gang's row to `waiting` at `epoch`. A worker's batch writes such a row with the holds of the members.
async fn wait(tx: &Transaction, changes: &mut ChangeSet, epoch: u64) -> StoreResult<()> {
    let before = gang_get(tx, changes.space(), GANG).await?;
    let revision = before.revision + 1;
    let row = GangRow { state: GangState::Waiting, epoch, expires_ms: 0, revision, ..before };
    keys::write(tx, changes.space(), &GangKey { gang: GANG }, &row)?;
    changes.push(Delta::Gang { row });
    Ok(())
}

/// The first member holds, the second waits for the exit of a victim, and nobody may join the gang.
async fn waiting() -> (TestCell, u64) {
    let cell = world().await;
    let epoch = begin(&cell, 1_000).await.unwrap().epoch;
    hold(&cell, 0, 1, epoch).await.unwrap();
    let evicted = Evicted { by: task(1), notice_max_ms: None, attempt: Incarnation(1) };
    cell.change(at(1_100), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [task(1), task(2)]).await?;
        book.extend_nodes(tx, changes.space(), [NODE]).await?;
        let events = [
            (task(2), TaskEvent::Place(placement(None))),
            (task(2), TaskEvent::Evict(evicted)),
            (task(1), TaskEvent::HoldPromised(placement(Some((GANG, epoch))))),
        ];
        for (task, event) in events {
            book.apply(task, &event, changes.at_ms())?.unwrap();
        }
        book.write(tx, changes).await?;
        wait(tx, changes, epoch).await
    })
    .await
    .unwrap();
    assert_eq!(gang(&cell).await, GangState::Waiting);
    (cell, epoch)
}

async fn gang(cell: &TestCell) -> GangState {
    cell.run(async |tx| gang_get(&tx, &cell.space, GANG).await).await.unwrap().state
}

async fn row(cell: &TestCell, index: u32) -> TaskRow {
    cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task(index))).await).await.unwrap().unwrap()
}

/// The victim exits and is released.
async fn victim_leaves(cell: &TestCell) {
    let report = TaskReport {
        task: task(2),
        incarnation: Incarnation(1),
        phase: ReportPhase::Released,
        process: None,
        cores: Vec::new(),
        health: borough_model::task::Health::Unknown,
        exit: None,
        resize: None,
        helpers: Vec::new(),
    };
    let fence = SessionFence { node: NODE, session: 1 };
    let left = cell.change_as(at(1_300), fence, async |writer, changes| {
        task_report_apply(writer, changes, std::slice::from_ref(&report)).await
    });
    assert!(left.await.unwrap().is_some());
}

#[tokio::test]
async fn members_take_their_shares_one_by_one_and_start_together() {
    let (cell, epoch) = waiting().await;
    let early = commit(&cell, epoch).await;
    assert!(
        matches!(early, Err(StoreError::Gang(GangRefused::TooFew { holding: 1, min_member: 2 }))),
        "{early:?}"
    );
    assert!(hold(&cell, 2, 1, epoch).await.is_err(), "nobody joins");
    victim_leaves(&cell).await;
    let second = row(&cell, 1).await;
    assert_eq!((second.state, second.promised), (TaskState::Held, false), "its share is its own by now");
    assert_eq!(
        settle(&cell, 900_000).await[..2],
        [TaskState::Held, TaskState::Held],
        "it waits as long as it takes"
    );
    assert_eq!(commit(&cell, epoch).await.unwrap().state, GangState::Committed);
    assert_eq!(settle(&cell, 900_000).await, [TaskState::Assigned, TaskState::Assigned, TaskState::Pending]);
}

#[tokio::test]
async fn with_the_first_member_that_is_lost_all_is_given_back_in_one_transaction() {
    for loss in 0..3 {
        let (cell, epoch) = waiting().await;
        let lost = cell.change(at(1_400), async |tx, changes| match loss {
            0 => task_promises_expire(tx, changes, NODE, &[(task(1), Incarnation(1))]).await,
            1 => task_stop_begin(tx, changes, &[(task(0), Incarnation(1))], StopReason::Drained).await,
            _ => task_stop_begin(tx, changes, &[(task(0), Incarnation(1))], StopReason::JobStopped).await,
        });
        assert_eq!((lost.await.unwrap(), gang(&cell).await), (1, GangState::Released), "loss {loss}");
        assert!(commit(&cell, epoch).await.is_err());
        victim_leaves(&cell).await;
        let held = [row(&cell, 0).await, row(&cell, 1).await];
        assert!(held.iter().all(|row| row.state != TaskState::Assigned), "loss {loss}: {held:?}");
        let left = settle(&cell, 1_500).await;
        assert!(left.iter().all(|state| matches!(state, TaskState::Pending | TaskState::Dead)), "{left:?}");
    }
}

#[tokio::test]
async fn a_gang_that_waits_expires_only_where_it_lacks_a_member() {
    let (cell, _) = waiting().await;
    let expire = async || {
        let expired = cell.change(at(900_000), async |tx, changes| gang_expire(tx, changes, GANG).await);
        expired.await.unwrap().state
    };
    assert_eq!(expire().await, GangState::Waiting);
    // A member that leaves without a report: it only held, and a commit that reads nothing has evicted it.
    let attempt = Attempt { node: NODE, incarnation: Incarnation(1) };
    cell.change(at(1_400), async |tx, changes| {
        let before = keys::read(tx, changes.space(), &TaskKey::of(task(0))).await?.unwrap();
        let mut book = TaskBook::read(tx, changes.space(), [task(0)]).await?;
        book.apply(task(0), &TaskEvent::HoldExpired { attempt }, 1_400)?.unwrap();
        book.write(tx, changes).await?;
        wait(tx, changes, before.gang_epoch).await
    })
    .await
    .unwrap();
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found.iter().map(|found| found.rule).collect::<Vec<_>>(), ["gang_waiting"]);
    assert_eq!(expire().await, GangState::Released);
}
