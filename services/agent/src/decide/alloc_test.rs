//! The order of starts and ends in an alloc, and what the tasks in it see.

use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, ExitRecord};

use super::alloc::variables;
use super::{AgentState, AttemptState, Desired, Effect, Sent, ShimState, reconcile, report_next};
use crate::attempt::AttemptId;

const ALLOC: &str = "j0000000000000001";
const WEB: &str = "j0000000000000002";

fn id(job: &str) -> AttemptId {
    AttemptId::new(job, 3, 1).unwrap()
}

fn wire(job: &str) -> v1::TaskAttempt {
    v1::TaskAttempt { job_id: job.to_owned(), index: 3, incarnation: 1 }
}

fn alloc() -> v1::Assignment {
    v1::Assignment { attempt: Some(wire(ALLOC)), is_alloc: true, ..v1::Assignment::default() }
}

fn inside() -> v1::Assignment {
    let port = v1::Port { name: "http-in".to_owned(), number: 20_001 };
    let alloc = v1::InAlloc { attempt: Some(wire(ALLOC)), set: "places".to_owned(), ports: vec![port] };
    v1::Assignment { attempt: Some(wire(WEB)), alloc: Some(alloc), ..v1::Assignment::default() }
}

fn running(assignment: v1::Assignment) -> AttemptState {
    let process = ProcessId { pid: 7, start_ticks: 1 };
    let record = AttemptRecord {
        boot_id: "b".to_owned(),
        shim: Some(process),
        task: Some(process),
        started_ms: Some(5),
        ..AttemptRecord::default()
    };
    let assignment = Some(Arc::new(assignment));
    AttemptState { assignment, record, shim: ShimState::Alive, probed: true, ..AttemptState::default() }
}

fn released(assignment: v1::Assignment) -> AttemptState {
    let mut attempt = running(assignment);
    attempt.record.exit = Some(ExitRecord { code: Some(0), ..ExitRecord::default() });
    attempt.record.released_ms = Some(9);
    (attempt.shim, attempt.probed) = (ShimState::Gone, false);
    attempt
}

fn state(attempts: impl IntoIterator<Item = (&'static str, AttemptState)>) -> AgentState {
    let attempts = attempts.into_iter().map(|(job, attempt)| (id(job), attempt)).collect();
    AgentState { node: "n".to_owned(), attempts, ..AgentState::default() }
}

fn desired(stops: &[&str], forget: &[&str]) -> Desired {
    let stop = |job: &&str| v1::StopCommand { attempt: Some(wire(job)), ..v1::StopCommand::default() };
    let assignments = vec![alloc(), inside()];
    let stops = stops.iter().map(stop).collect();
    let forget = forget.iter().map(|job| wire(job)).collect();
    let mut desired = Desired::default();
    assert!(desired.apply(v1::Desired { assignments, stops, forget, ..v1::Desired::default() }).is_empty());
    desired
}

/// The attempts that are started, ended and forgotten.
fn done(state: &AgentState, desired: &Desired) -> Vec<(&'static str, String)> {
    let effect = |effect: Effect| match effect {
        Effect::Start(id, _) => Some(("start", id.job_id)),
        Effect::Stop(id, _) => Some(("stop", id.job_id)),
        Effect::Forget(id) => Some(("forget", id.job_id)),
        _ => None,
    };
    reconcile(state, desired, &Sent::default(), 10, 1_000).into_iter().filter_map(effect).collect()
}

fn phase(state: &AgentState, job: &str) -> Phase {
    let second = Duration::from_secs(1);
    let report = report_next(state, &mut Sent::default(), second, second, second).unwrap();
    report.tasks.iter().find(|task| task.job_id == job).unwrap().phase()
}

#[test]
fn an_alloc_ends_after_what_is_in_it_and_nothing_in_it_starts_before_it() {
    let both = desired(&[], &[]);
    assert_eq!(done(&state([]), &both), [("start", ALLOC.to_owned())]);
    let begun = AttemptState { busy: true, ..AttemptState::default() };
    assert_eq!(done(&state([(ALLOC, begun)]), &both), []);
    assert_eq!(done(&state([(ALLOC, running(alloc()))]), &both), [("start", WEB.to_owned())]);
    assert_eq!(done(&state([(ALLOC, released(alloc()))]), &both), [], "the alloc is gone");

    // The alloc is to end first: it waits, and nothing more starts in it.
    let ends = desired(&[ALLOC], &[]);
    let full = || state([(ALLOC, running(alloc())), (WEB, running(inside()))]);
    assert_eq!(done(&full(), &ends), []);
    assert_eq!(done(&state([(ALLOC, running(alloc()))]), &ends), [("stop", ALLOC.to_owned())]);
    assert_eq!(done(&full(), &desired(&[ALLOC, WEB], &[])), [("stop", WEB.to_owned())]);
    let left = state([(ALLOC, running(alloc())), (WEB, released(inside()))]);
    assert_eq!(done(&left, &desired(&[ALLOC, WEB], &[])), [("stop", ALLOC.to_owned())]);
}

/// The process of the alloc has ended by itself.
#[test]
fn a_node_gets_the_room_of_an_alloc_back_when_nothing_in_it_runs() {
    let state_with = |web: AttemptState| state([(ALLOC, released(alloc())), (WEB, web)]);
    let full = state_with(running(inside()));
    assert_eq!(phase(&full, ALLOC), Phase::Exited);
    assert_eq!(done(&full, &desired(&[], &[ALLOC])), [], "its files are the directory of what is in it");
    let left = state_with(released(inside()));
    assert_eq!(phase(&left, ALLOC), Phase::Released);

    // A clock that has jumped by a day takes no record whose release was never reported.
    let mut unnamed = Desired::default();
    let everything = v1::Desired { full_begin: true, full_end: true, ..v1::Desired::default() };
    assert!(unnamed.apply(everything).is_empty());
    let mut sent = Sent::default();
    let second = Duration::from_secs(1);
    let occupied = report_next(&full, &mut sent, second, second, second).unwrap();
    sent.applied(occupied.revision);
    let forgotten = |sent: &Sent| {
        let effects = reconcile(&left, &unnamed, sent, 2_000, 1_000);
        effects.contains(&Effect::Forget(id(ALLOC)))
    };
    assert!(!forgotten(&sent));
    let report = report_next(&left, &mut sent, second, second, second).unwrap();
    sent.applied(report.revision);
    assert!(forgotten(&sent));

    assert_eq!(done(&left, &desired(&[], &[ALLOC])), [("forget", ALLOC.to_owned())]);
    // Another attempt of the alloc is another alloc.
    let mut other = inside();
    other.alloc.as_mut().unwrap().attempt.as_mut().unwrap().incarnation = 2;
    assert_eq!(phase(&state_with(running(other)), ALLOC), Phase::Released);
}

#[test]
fn a_task_in_an_alloc_sees_its_name_its_directory_and_its_ports() {
    let seen = variables(&inside(), Some("/tasks/a"));
    let expected = [
        ("BOROUGH_ALLOC", "places/3"),
        ("BOROUGH_ALLOC_DIR", "/tasks/a"),
        ("BOROUGH_ALLOC_INDEX", "3"),
        ("BOROUGH_ALLOC_PORT_HTTP_IN", "20001"),
        ("BOROUGH_ALLOC_SET", "places"),
    ];
    let seen: Vec<(&str, &str)> = seen.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(seen, expected);
    assert!(variables(&alloc(), None).is_empty());
}
