//! The fence of sessions: a session that has a successor changes nothing of its node.

use std::sync::atomic::{AtomicU32, Ordering};

use borough_model::job::{JobKind, JobSpec};
use borough_model::task::{Placement, StopReason, TaskEvent, TaskState};
use borough_model::{Incarnation, TaskRow};

use super::*;
use crate::job::job_submit;
use crate::keys::TaskKey;
use crate::task::{TaskBook, task_node_lost};

const TASK: TaskId = TaskId { job: JobId(1), index: 0 };

/// A node whose session 5 has the successor 6.
async fn superseded() -> (TestCell, NodeId) {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    assert!(cell.beat(fence(node), 1).await.unwrap());
    register_as(&cell, NodeRegistration::new(name("n1"), facts(), NodeId(8), 6)).await.unwrap();
    (cell, node)
}

async fn live_of(cell: &TestCell, node: NodeId) -> Option<NodeSeen> {
    cell.run(async |tx| node_live_read(&tx, &cell.space, node).await).await.unwrap()
}

/// A renewal of the old session arrives after a registration and before the new session's full report. It must neither
/// renew the lease nor name its own session in it.
#[tokio::test]
async fn a_beat_of_a_session_that_was_followed_renews_nothing() {
    let (cell, node) = superseded().await;
    let before = live_of(&cell, node).await;
    assert!(!cell.beat(fence(node), 2).await.unwrap());
    assert_eq!(live_of(&cell, node).await, before);
    assert!(cell.beat(SessionFence { node, session: 6 }, 1).await.unwrap());
    assert_eq!(live_of(&cell, node).await.map(|seen| seen.live.session), Some(6));
}

#[tokio::test]
async fn a_session_that_was_followed_writes_nothing() {
    let (cell, node) = superseded().await;
    let late = cell.change_as(change(3, "late"), fence(node), async |writer, changes| {
        node_pressure_set(writer, changes, &[Pressure::Disk].into()).await?;
        node_reported(writer, changes, &[]).await
    });
    assert_eq!(late.await.unwrap(), None);
    let row = cell.run(async |tx| node_read(&tx, &cell.space, node).await).await.unwrap();
    assert_eq!((row.state, row.taints), (NodeState::Recovering, Vec::new()));
    let gone = SessionFence { node: NodeId(99), session: SESSION };
    assert_eq!(cell.change_as(change(4, "late"), gone, async |_, _| Ok(())).await.unwrap(), None);
}

/// The session is read with a conflict: a registration between the check and the commit fails the transaction.
#[tokio::test]
async fn a_registration_in_between_fails_what_the_session_before_it_writes() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let attempts = AtomicU32::new(0);
    let late = cell.change_as(change(3, "late"), fence(node), async |writer, changes| {
        if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            register_as(&cell, NodeRegistration::new(name("n1"), facts(), NodeId(8), 6)).await?;
        }
        node_reported(writer, changes, &[]).await
    });
    assert_eq!(late.await.unwrap(), None);
    assert_eq!(attempts.load(Ordering::SeqCst), 1, "the second attempt found another session");
    let row = cell.run(async |tx| node_read(&tx, &cell.space, node).await).await.unwrap();
    assert_eq!(row.state, NodeState::Recovering);
}

/// A renewal fails no other write of its session.
#[tokio::test]
async fn a_beat_fails_no_other_write_of_its_session() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    let attempts = AtomicU32::new(0);
    let reported = cell.change_as(change(3, "node_reported"), fence(node), async |writer, changes| {
        if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(cell.beat(fence(node), 2).await?);
        }
        node_reported(writer, changes, &[]).await
    });
    assert_eq!(reported.await.unwrap().map(|row| row.state), Some(NodeState::Ready));
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}

/// Places the task on the node, as its first attempt.
async fn place(cell: &TestCell, node: NodeId) {
    let spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["run".to_owned()]);
    let placement = Placement {
        node,
        incarnation: Incarnation(1),
        ports: Vec::new(),
        resources: spec.task.resources.clone(),
        spec_version: 1,
        gang: None,
        alloc: None,
    };
    cell.change(change(5, "place"), async |tx, changes| {
        job_submit(tx, changes, &spec, TASK.job).await?;
        let mut book = TaskBook::read(tx, changes.space(), [TASK]).await?;
        book.extend_nodes(tx, changes.space(), [node]).await?;
        book.apply(TASK, &TaskEvent::Place(placement.clone()), changes.at_ms())?.unwrap();
        book.write(tx, changes).await
    })
    .await
    .unwrap();
}

async fn reported(cell: &TestCell, node: NodeId, present: &[(TaskId, Incarnation)]) -> NodeState {
    let reported = cell.change_as(change(6, "node_reported"), fence(node), async |writer, changes| {
        node_reported(writer, changes, present).await
    });
    reported.await.unwrap().unwrap().state
}

/// The old attempts on a node are counted from the rows, whatever the gateway believes. They are a lost task that still
/// names the node, and an attempt that is over in the store.
#[tokio::test]
async fn what_is_left_on_a_returning_node_is_counted_from_the_rows() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    assert_eq!(reported(&cell, node, &[]).await, NodeState::Ready);
    place(&cell, node).await;
    cell.change(change(7, "lost"), async |tx, changes| {
        node_declare_lost(tx, changes, node, None).await?;
        task_node_lost(tx, changes, node, None, 10).await
    })
    .await
    .unwrap();
    assert_eq!(reported(&cell, node, &[]).await, NodeState::Lost, "only a registration brings it back");
    register(&cell, "n1", &facts(), 8).await;
    assert_eq!(reported(&cell, node, &[]).await, NodeState::Recovering, "a lost task names it");
    let attempts = [(TASK, Incarnation(1))];
    let row: Option<TaskRow> =
        cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(TASK)).await).await.unwrap();
    assert_eq!(row.map(|row| row.state), Some(TaskState::Lost));
    cell.change(change(9, "given up"), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [TASK]).await?;
        book.apply(TASK, &TaskEvent::RescheduleLost, changes.at_ms())?.unwrap();
        book.write(tx, changes).await
    })
    .await
    .unwrap();
    assert_eq!(reported(&cell, node, &attempts).await, NodeState::Recovering, "it runs what is over");
    let unknown = [(TaskId { job: JobId(9), index: 0 }, Incarnation(1))];
    assert_eq!(reported(&cell, node, &unknown).await, NodeState::Ready, "what is unknown is parked");
}

/// A task whose stop the loss of its node overtook is dead, and its job may place it again. Its node takes no tasks
/// while the attempt still ends there: two attempts would run.
#[tokio::test]
async fn a_dead_task_that_still_ends_on_a_returning_node_is_left_over() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    assert_eq!(reported(&cell, node, &[]).await, NodeState::Ready);
    place(&cell, node).await;
    cell.change(change(7, "stopped and lost"), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [TASK]).await?;
        let stop = TaskEvent::StopRequested { reason: StopReason::JobShrunk };
        book.apply(TASK, &stop, changes.at_ms())?.unwrap();
        book.write(tx, changes).await?;
        node_declare_lost(tx, changes, node, None).await?;
        task_node_lost(tx, changes, node, None, 10).await
    })
    .await
    .unwrap();
    let row: Option<TaskRow> =
        cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(TASK)).await).await.unwrap();
    assert_eq!(row.map(|row| row.state), Some(TaskState::Dead));
    register(&cell, "n1", &facts(), 8).await;
    let attempts = [(TASK, Incarnation(1))];
    assert_eq!(reported(&cell, node, &attempts).await, NodeState::Recovering, "it still runs it");
    let later = [(TASK, Incarnation(1)), (TASK, Incarnation(2))];
    assert_eq!(reported(&cell, node, &later).await, NodeState::Recovering);
    let later = &later[1..];
    assert_eq!(reported(&cell, node, later).await, NodeState::Ready, "the store is older than what it runs");
}
