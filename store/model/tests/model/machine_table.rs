//! The whole table of the state machine: every state with every event, as a golden file that people read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use borough_model::job::JobKind;
use borough_model::node::{CapacityEffect, PORT_KEPT_BACK_MS};
use borough_model::task::machine::task_row_check;
use borough_model::task::{
    Effects, EndReason, EndpointEffect, Evicted, Health, OwnerEffect, ResizeRefused, StartedProcess,
    StopReason, TaskEvent, TaskRow, TaskState, Transition, TransitionRefused, task_transition,
};
use borough_model::{JobId, TaskId};
use expect_test::expect_file;

use crate::sample::{
    NODE, NOW, STARTED, attempt, exit, exited, helper_status, placed, placement, resize_ordered, row_after,
    row_from, rules, running, started, stop,
};

fn rows() -> Vec<(&'static str, TaskRow)> {
    let lost = TaskEvent::NodeDeclaredLost { node: NODE };
    let batch_zero = exited(1, 0, false, JobKind::Batch);
    let crash = exited(1, 1, false, JobKind::Service);
    let gone = TaskEvent::ReleaseConfirmed { attempt: attempt(1) };
    vec![
        ("pending, never placed", row_after(&[])),
        ("pending, in back-off", row_from(running(Health::Healthy), &[exited(1, 1, true, JobKind::Service)])),
        ("held", row_after(&[TaskEvent::Hold(placement(1))])),
        ("held, its share promised", row_after(&[TaskEvent::HoldPromised(placement(1))])),
        ("assigned", placed()),
        ("starting", row_from(placed(), &[TaskEvent::AgentAccepted { attempt: attempt(1) }])),
        ("running, health unknown", running(Health::Unknown)),
        ("running, healthy", running(Health::Healthy)),
        ("stopping, never started", row_from(placed(), &[stop(StopReason::Drained)])),
        ("stopping, to be placed again", row_from(running(Health::Healthy), &[stop(StopReason::Restart)])),
        ("stopping, job stopped", row_from(running(Health::Healthy), &[stop(StopReason::JobStopped)])),
        ("stopping, job shrank", row_from(running(Health::Healthy), &[stop(StopReason::JobShrunk)])),
        ("releasing, to be placed again", row_from(running(Health::Healthy), &[crash])),
        ("releasing, succeeded", row_from(running(Health::Healthy), std::slice::from_ref(&batch_zero))),
        ("running, being resized", row_from(running(Health::Healthy), &[resize_ordered(1, 1500, None)])),
        ("lost, ran", row_from(running(Health::Healthy), std::slice::from_ref(&lost))),
        (
            "lost, was stopping",
            row_from(running(Health::Healthy), &[stop(StopReason::Drained), lost.clone()]),
        ),
        ("lost, never started", row_from(placed(), &[lost])),
        ("dead, succeeded", row_from(running(Health::Healthy), &[batch_zero, gone.clone()])),
        (
            "dead, job shrank",
            row_from(running(Health::Healthy), &[stop(StopReason::JobShrunk), gone.clone()]),
        ),
        ("dead, surged", row_from(running(Health::Healthy), &[stop(StopReason::SurgeOver), gone.clone()])),
        ("pending, for its node", row_after(&[TaskEvent::NodeServed { node: NODE }])),
        (
            "dead, withdrawn from its node",
            row_from(running(Health::Healthy), &[stop(StopReason::NodeLeft), gone]),
        ),
    ]
}

fn attempt_events(at: u64) -> Vec<(String, TaskEvent)> {
    let one = attempt(at);
    let started_event = |health| ("process_started", started(at, health));
    let health = |health| TaskEvent::HealthChanged { attempt: one, health };
    let oom = exit(EndReason::OutOfMemory, None);
    let service = rules(JobKind::Service);
    let other_process = TaskEvent::ProcessStarted {
        attempt: one,
        pid: 43,
        started_ms: STARTED,
        health: Health::Unknown,
        cores: Vec::new(),
    };
    let returned = |process| TaskEvent::NodeReturned { attempt: one, process, health: Health::Healthy };
    let start_failed = TaskEvent::StartFailed {
        attempt: one,
        message: "no such file".to_owned(),
        failure: None,
        rules: service,
    };
    let oom_released = TaskEvent::ProcessExited { attempt: one, exit: oom, released: true, rules: service };
    let no_room = ResizeRefused::NoRoom { missing: "cpu".to_owned() };
    let in_use = ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 };
    let order = row_from(running(Health::Healthy), &[]).revision + 1;
    let settled = |refused| TaskEvent::ResizeSettled { attempt: one, order, refused };
    let named = [
        ("hold", TaskEvent::Hold(placement(at))),
        ("hold_promised", TaskEvent::HoldPromised(placement(at))),
        ("place", TaskEvent::Place(placement(at))),
        ("hold_confirmed", TaskEvent::HoldConfirmed { attempt: one }),
        ("hold_fulfilled", TaskEvent::HoldFulfilled { attempt: one }),
        ("hold_expired", TaskEvent::HoldExpired { attempt: one }),
        ("agent_accepted", TaskEvent::AgentAccepted { attempt: one }),
        started_event(Health::Unknown),
        started_event(Health::Healthy),
        started_event(Health::Unhealthy),
        ("process_started other pid", other_process),
        ("health_changed unknown", health(Health::Unknown)),
        ("health_changed healthy", health(Health::Healthy)),
        ("health_changed unhealthy", health(Health::Unhealthy)),
        ("process_exited 0, batch", exited(at, 0, false, JobKind::Batch)),
        ("process_exited 0, batch, released", exited(at, 0, true, JobKind::Batch)),
        ("process_exited 1, service", exited(at, 1, false, JobKind::Service)),
        ("process_exited oom, service, released", oom_released),
        ("start_failed", start_failed),
        ("release_confirmed", TaskEvent::ReleaseConfirmed { attempt: one }),
        ("resize_ordered", resize_ordered(at, 700, None)),
        ("resize_ordered without room", resize_ordered(at, 700, Some(no_room))),
        ("resize_settled", settled(None)),
        ("resize_settled, refused", settled(Some(in_use))),
        ("version_adopted", TaskEvent::VersionAdopted { attempt: one, version: 2 }),
        ("helpers_reported", TaskEvent::HelpersReported { attempt: one, helpers: vec![helper_status()] }),
        ("node_returned with its process", returned(Some(StartedProcess { pid: 42, started_ms: STARTED }))),
        ("node_returned without a process", returned(None)),
    ];
    named.into_iter().map(|(label, event)| (labelled(label, &event), event)).collect()
}

fn labelled(label: &str, event: &TaskEvent) -> String {
    match event {
        TaskEvent::ProcessStarted { health, pid: 42, .. } => format!("{label} {health:?}").to_lowercase(),
        _ => label.to_owned(),
    }
}

fn events(row: &TaskRow) -> Vec<(String, TaskEvent)> {
    let mut events = attempt_events(row.incarnation.0);
    let next = row.incarnation.0 + 1;
    events.push(("hold, next attempt".to_owned(), TaskEvent::Hold(placement(next))));
    events.push(("hold_promised, next attempt".to_owned(), TaskEvent::HoldPromised(placement(next))));
    events.push(("place, next attempt".to_owned(), TaskEvent::Place(placement(next))));
    events.push(("place, attempt after the next".to_owned(), TaskEvent::Place(placement(next + 1))));
    events.extend(
        StopReason::ALL.map(|reason| (format!("stop_requested {reason:?}").to_lowercase(), stop(reason))),
    );
    events.push(("move_requested".to_owned(), TaskEvent::MoveRequested));
    let by = TaskId { job: JobId(99), index: 0 };
    events.push((
        "evict".to_owned(),
        TaskEvent::Evict(Evicted { by, notice_max_ms: Some(100), attempt: attempt(1).incarnation }),
    ));
    events.push(("node_declared_lost".to_owned(), TaskEvent::NodeDeclaredLost { node: NODE }));
    events.push(("reschedule_lost".to_owned(), TaskEvent::RescheduleLost));
    events.push(("job_grown".to_owned(), TaskEvent::JobGrown));
    events.push(("node_served".to_owned(), TaskEvent::NodeServed { node: NODE }));
    events.push(("revived".to_owned(), TaskEvent::Revived));
    events.push(("failures_forgotten".to_owned(), TaskEvent::FailuresForgotten));
    events
}

fn effects_text(effects: &Effects) -> String {
    let mut parts = Vec::new();
    match &effects.capacity {
        CapacityEffect::Keep => {}
        CapacityEffect::Take(_) => parts.push("take".to_owned()),
        CapacityEffect::Promise(_) => parts.push("promise".to_owned()),
        CapacityEffect::Fulfil(_) => parts.push("fulfil".to_owned()),
        CapacityEffect::Forgo(_) => parts.push("forgo".to_owned()),
        CapacityEffect::Release { ports_cool_until_ms: None, .. } => parts.push("release".to_owned()),
        CapacityEffect::Release { ports_cool_until_ms: Some(PORT_KEPT_BACK_MS), .. } => {
            parts.push("release (ports kept back)".to_owned());
        }
        CapacityEffect::Release { ports_cool_until_ms: Some(until_ms), .. } => {
            parts.push(format!("release (ports cool {} ms)", until_ms - NOW));
        }
        CapacityEffect::Resize { resources, .. } => parts.push(format!("resize to {resources}")),
        CapacityEffect::Cool { ports_cool_until_ms, .. } => {
            parts.push(format!("ports cool {} ms", ports_cool_until_ms - NOW));
        }
    }
    if effects.endpoint != EndpointEffect::Keep {
        parts.push(format!("{:?}", effects.endpoint).to_lowercase());
    }
    if effects.owner != OwnerEffect::Keep {
        parts.push(format!("charge {:?}", effects.owner).to_lowercase());
    }
    if let Some(end) = effects.ended {
        parts.push(format!("count {end:?}").to_lowercase());
    }
    parts.join(", ")
}

fn result_text(before: &TaskRow, result: &Result<Transition, TransitionRefused>) -> String {
    match result {
        Ok(transition) if !transition.changed => "unchanged".to_owned(),
        Ok(transition) => {
            let row = &transition.row;
            let mut text = format!("-> {:?}", row.state).to_lowercase();
            if let (Some(stop), true) = (row.stop, row.stop != before.stop) {
                write!(text, " stop={stop:?}").unwrap();
            }
            if let (Some(verdict), true) = (row.verdict, row.verdict != before.verdict) {
                write!(text, " verdict={verdict:?}").unwrap();
            }
            if row.not_before_ms > NOW && row.not_before_ms != before.not_before_ms {
                write!(text, " after {} ms", row.not_before_ms - NOW).unwrap();
            }
            let effects = effects_text(&transition.effects);
            if effects.is_empty() { text } else { format!("{text:<42} {effects}") }
        }
        Err(TransitionRefused::Stale { .. }) => "refused: stale".to_owned(),
        Err(TransitionRefused::UnknownAttempt { .. }) => "refused: unknown attempt".to_owned(),
        Err(TransitionRefused::NodeReturnFirst) => "refused: node_returned first".to_owned(),
        Err(TransitionRefused::Illegal { why, .. }) => format!("refused: illegal, {why}"),
    }
}

#[test]
fn every_state_with_every_event_matches_the_golden_table() {
    let mut table = String::from(
        "Every state of a task with every event, at the row's own attempt. `unchanged`: the result is already there.\n",
    );
    for (label, row) in rows() {
        writeln!(table, "\n{label}").unwrap();
        for (event_label, event) in events(&row) {
            let result = task_transition(&row, &event, NOW);
            writeln!(table, "    {event_label:<38} {}", result_text(&row, &result)).unwrap();
        }
    }
    expect_file!["golden/machine.txt"].assert_eq(&table);
}

/// Fails to compile when an event is added, so that nobody forgets the table.
fn event_ordinal(event: &TaskEvent) -> usize {
    match event {
        TaskEvent::Hold(_) => 0,
        TaskEvent::Place(_) => 1,
        TaskEvent::HoldConfirmed { .. } => 2,
        TaskEvent::HoldExpired { .. } => 3,
        TaskEvent::AgentAccepted { .. } => 4,
        TaskEvent::ProcessStarted { .. } => 5,
        TaskEvent::HealthChanged { .. } => 6,
        TaskEvent::StopRequested { .. } => 7,
        TaskEvent::ProcessExited { .. } => 8,
        TaskEvent::StartFailed { .. } => 9,
        TaskEvent::ReleaseConfirmed { .. } => 10,
        TaskEvent::NodeDeclaredLost { .. } => 11,
        TaskEvent::NodeReturned { .. } => 12,
        TaskEvent::RescheduleLost => 13,
        TaskEvent::JobGrown => 14,
        TaskEvent::HoldPromised(_) => 15,
        TaskEvent::Evict(_) => 16,
        TaskEvent::HoldFulfilled { .. } => 17,
        TaskEvent::MoveRequested => 18,
        TaskEvent::NodeServed { .. } => 19,
        TaskEvent::ResizeOrdered { .. } => 20,
        TaskEvent::ResizeSettled { .. } => 21,
        TaskEvent::HelpersReported { .. } => 22,
        TaskEvent::VersionAdopted { .. } => 23,
        TaskEvent::Revived => 24,
        TaskEvent::FailuresForgotten => 25,
    }
}

#[test]
fn the_table_has_every_state_and_every_event() {
    let states: BTreeSet<TaskState> = rows().iter().map(|(_, row)| row.state).collect();
    assert_eq!(states, BTreeSet::from(TaskState::ALL));
    for (label, row) in rows() {
        let seen: BTreeSet<usize> = events(&row).iter().map(|(_, event)| event_ordinal(event)).collect();
        assert_eq!(seen, (0..26).collect(), "{label}");
    }
}

#[test]
fn every_row_of_the_table_and_all_that_follow_keep_the_invariants() {
    for (label, row) in rows() {
        task_row_check(&row).unwrap_or_else(|broken| panic!("{label}: {broken}"));
        for (event_label, event) in events(&row) {
            let Ok(transition) = task_transition(&row, &event, NOW) else { continue };
            task_row_check(&transition.row)
                .unwrap_or_else(|broken| panic!("{label}, {event_label}: {broken}"));
        }
    }
}

/// A drain, an eviction, a taint and a shutdown move a task, and a rollout gives it another version. It ran well, so
/// they are no restarts, and neither is the loss of its node.
#[test]
fn a_move_is_no_restart() {
    let end = exited(1, 0, true, JobKind::Service);
    for reason in StopReason::ALL.into_iter().filter(|reason| !reason.is_final()) {
        let row = row_from(running(Health::Healthy), &[stop(reason), end.clone()]);
        assert_eq!(row.state, TaskState::Pending, "{reason:?}");
        let moves = [
            StopReason::Drained,
            StopReason::Preempted,
            StopReason::Tainted,
            StopReason::Shutdown,
            StopReason::AllocLeft,
            StopReason::Updated,
        ];
        assert_eq!(row.restarts, u32::from(!moves.contains(&reason)), "{reason:?}");
    }
    let crashed = row_from(running(Health::Healthy), &[exited(1, 1, true, JobKind::Service)]);
    assert_eq!(crashed.restarts, 1);
}

#[test]
fn an_older_attempt_is_always_stale_and_a_later_one_always_unknown() {
    for (label, row) in rows() {
        let own = row.incarnation.0;
        let spoken = |at: u64| {
            attempt_events(at)
                .into_iter()
                .filter(|(name, _)| !["hold", "hold_promised", "place"].contains(&&**name))
        };
        for (event_label, event) in spoken(own + 1) {
            let result = task_transition(&row, &event, NOW);
            let unknown = matches!(result, Err(TransitionRefused::UnknownAttempt { .. }));
            assert!(unknown, "{label}, {event_label}: {result:?}");
        }
        for (event_label, event) in own.checked_sub(1).into_iter().flat_map(spoken) {
            let result = task_transition(&row, &event, NOW);
            let stale = matches!(result, Err(TransitionRefused::Stale { .. }));
            assert!(stale, "{label}, {event_label}: {result:?}");
        }
    }
}

#[test]
fn the_same_attempt_on_another_node_is_unknown() {
    let elsewhere = borough_model::task::Attempt { node: borough_model::NodeId(8), ..attempt(1) };
    let event = TaskEvent::AgentAccepted { attempt: elsewhere };
    let result = task_transition(&placed(), &event, NOW);
    assert!(matches!(result, Err(TransitionRefused::UnknownAttempt { .. })), "{result:?}");
}

#[test]
fn a_node_is_not_lost_for_a_task_that_has_moved_on() {
    let event = TaskEvent::NodeDeclaredLost { node: borough_model::NodeId(8) };
    let result = task_transition(&placed(), &event, NOW);
    assert!(matches!(result, Err(TransitionRefused::Stale { .. })), "{result:?}");
}
