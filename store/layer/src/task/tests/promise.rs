//! Capacity that is held until the victims exit.

use borough_model::task::Evicted;

use super::*;

/// The node has room for both. The victim has to leave since a rule keeps the preemptor away from it, not for its
/// capacity.
#[tokio::test]
async fn a_preemptor_waits_for_its_victim_even_if_the_node_has_space() {
    let cell = world_of(4_000).await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    evict(&cell, 0, 1, 1).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    let state = async |index| row(&cell, index).await.unwrap().state;
    assert_eq!(state(1).await, TaskState::Held, "its victim runs");
    for phase in [ReportPhase::Stopping, ReportPhase::Exited] {
        apply(&cell, SOURCE, &[exited(0, phase)]).await;
        // Other events on the node do not confirm the hold.
        stir(&cell).await;
        assert_eq!(state(1).await, TaskState::Held, "something of its victim is left: {phase:?}");
    }
    assert_eq!(expire(&cell, 1, 9).await, 0, "another attempt's promise");
    assert_eq!(state(1).await, TaskState::Held, "its victim is still there");
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await;
    assert_eq!((state(1).await, state(0).await), (TaskState::Assigned, TaskState::Pending));
}

/// A later attempt of the preemptor does not wait for the earlier one's victims: it was planned with them present.
#[tokio::test]
async fn the_next_attempt_of_a_preemptor_waits_for_no_victim_of_the_last() {
    let cell = world_of(4_000).await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    evict(&cell, 0, 1, 1).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    assert_eq!(expire(&cell, 1, 1).await, 1, "its victim cannot be ended");
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    stir(&cell).await;
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Assigned);
}

/// The victim's job is stopped while the victim ends. The victim is dead when it exits, and the preemptor still starts.
#[tokio::test]
async fn a_preemptor_starts_when_its_victim_is_gone_for_good() {
    let cell = world_of(4_000).await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    evict(&cell, 0, 1, 1).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    let stop = cell.change(change(9, "stop"), async |tx, changes| {
        task_stop_begin(tx, changes, &[(task(0), Incarnation(1))], StopReason::JobStopped).await
    });
    assert_eq!(stop.await.unwrap(), 1);
    stir(&cell).await;
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Held);
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await;
    let states = [row(&cell, 0).await.unwrap().state, row(&cell, 1).await.unwrap().state];
    assert_eq!(states, [TaskState::Dead, TaskState::Assigned]);
}

/// A task is evicted for an attempt of another.
async fn evict(cell: &TestCell, victim: u32, by: u32, attempt: u64) {
    let evicted = Evicted { by: task(by), notice_max_ms: None, attempt: Incarnation(attempt) };
    cell.change(change(9, "evict"), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [task(victim)]).await?;
        book.apply(task(victim), &TaskEvent::Evict(evicted), changes.at_ms())?.unwrap();
        book.write(tx, changes).await
    })
    .await
    .unwrap();
}

/// Another task joins the node and leaves it, as an agent reports.
async fn stir(cell: &TestCell) {
    let index = 2;
    cell.change(change(10, "scale"), async |tx, changes| job_scale(tx, changes, JobId(1), 3).await)
        .await
        .unwrap();
    place(cell, index).await;
    let attempt = row(cell, index).await.unwrap().incarnation;
    let mut gone = exited(index, ReportPhase::Released);
    gone.incarnation = attempt;
    gone.exit = gone.exit.map(|exit| Exit { incarnation: attempt, ..exit });
    apply(cell, SOURCE, &[report(index, attempt.0, ReportPhase::Running), gone]).await;
}

async fn expire(cell: &TestCell, index: u32, incarnation: u64) -> usize {
    let attempts = [(task(index), Incarnation(incarnation))];
    let expired = cell.change(change(9, "task_promise"), async |tx, changes| {
        task_promises_expire(tx, changes, NODE, &attempts).await
    });
    expired.await.unwrap()
}

#[tokio::test]
async fn a_preemptor_starts_with_the_commit_that_frees_its_share() {
    let cell = world_of(100).await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    let stop = cell.change(change(9, "preempt"), async |tx, changes| {
        task_stop_begin(tx, changes, &[(task(0), Incarnation(1))], StopReason::Preempted).await
    });
    assert_eq!(stop.await.unwrap(), 1);
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Held, "its victim is still there");
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Exited)]).await;
    assert_eq!(
        row(&cell, 1).await.unwrap().state,
        TaskState::Held,
        "nothing starts in the grace of something else"
    );
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await;
    let preemptor = row(&cell, 1).await.unwrap();
    assert_eq!((preemptor.state, preemptor.promised), (TaskState::Assigned, false));
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Pending);
    place_as(&cell, 0, TaskEvent::HoldPromised).await;
    apply(&cell, SOURCE, &[report(1, 1, ReportPhase::Accepted)]).await;
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Held, "nothing was freed");
}

#[tokio::test]
async fn a_promise_is_let_go_where_it_cannot_be_kept_and_kept_where_it_can() {
    let cell = world_of(100).await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    let stop = cell.change(change(9, "preempt"), async |tx, changes| {
        task_stop_begin(tx, changes, &[(task(0), Incarnation(1))], StopReason::Preempted).await
    });
    assert_eq!(stop.await.unwrap(), 1);
    assert_eq!(
        (expire(&cell, 1, 2).await, expire(&cell, 0, 1).await),
        (0, 0),
        "another attempt, and one that holds nothing"
    );
    assert_eq!(expire(&cell, 1, 1).await, 1);
    let waits = row(&cell, 1).await.unwrap();
    assert_eq!((waits.state, waits.node, waits.promised), (TaskState::Pending, None, false));
    // A late report starts nothing, and each promise is released once.
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Exited), exited(0, ReportPhase::Released)]).await;
    assert_eq!((expire(&cell, 1, 1).await, row(&cell, 1).await.unwrap().state), (0, TaskState::Pending));
    // A node that has grown keeps its promises, though no task has left it.
    place(&cell, 0).await;
    place_as(&cell, 1, TaskEvent::HoldPromised).await;
    let larger = node_facts(200);
    register(&cell, larger, SOURCE.session).await;
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Held);
    let attempt = row(&cell, 1).await.unwrap().incarnation;
    assert_eq!(expire(&cell, 1, attempt.0).await, 0);
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Assigned);
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
    assert_eq!(found, []);
}
