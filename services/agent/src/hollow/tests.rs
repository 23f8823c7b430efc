//! A simulated agent reports what a real one would.

use borough_proto::v1::task_status::Phase;

use super::*;

/// Free places for messages in a session.
const MESSAGES_MAX: usize = 8;

const TIMES: HollowTimes = HollowTimes {
    start_ms: 10..=10,
    run_ms: None,
    stop_ms: 20..=20,
    failed_percent: 0,
    health: HollowHealth::AtOnce,
};

fn attempt(incarnation: u64) -> v1::TaskAttempt {
    v1::TaskAttempt { job_id: "j0000000000000001".to_owned(), index: 0, incarnation }
}

fn assign(incarnation: u64) -> v1::Desired {
    let assignment = v1::Assignment { attempt: Some(attempt(incarnation)), ..v1::Assignment::default() };
    v1::Desired { assignments: vec![assignment], ..v1::Desired::default() }
}

fn send(hollow: &mut Hollow, desired: v1::Desired) {
    hollow.message(v1::GatewayMessage { message: Some(Message::Desired(desired)) });
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn reports(step: &HollowStep) -> Vec<&v1::Report> {
    let mut reports = Vec::new();
    for message in &step.messages {
        if let Outgoing::Report(report) = message {
            reports.push(report);
        }
    }
    reports
}

fn report(step: HollowStep) -> Option<v1::Report> {
    reports(&step).first().map(|report| (*report).clone())
}

/// The only report, which the gateway applies.
fn applied(hollow: &mut Hollow, step: HollowStep) -> Option<v1::Report> {
    let report = report(step)?;
    let applied = v1::ReportApplied { revision: report.revision, report_interval_ms: 0 };
    hollow.message(v1::GatewayMessage { message: Some(Message::ReportApplied(applied)) });
    Some(report)
}

fn phases(step: &HollowStep) -> Vec<Phase> {
    reports(step).iter().flat_map(|report| &report.tasks).map(|status| status.phase()).collect()
}

/// A started agent whose first report is out.
fn hollow(times: HollowTimes) -> Hollow {
    let mut hollow = Hollow::new("n1", "boot", times, 7);
    hollow.opened();
    let step = hollow.step(at(0), 0, MESSAGES_MAX);
    let first = applied(&mut hollow, step).unwrap();
    assert!(first.full_begin && first.full_end && first.tasks.is_empty());
    hollow
}

#[test]
fn an_attempt_runs_until_it_is_stopped_and_is_forgotten_then() {
    let mut hollow = hollow(TIMES);
    send(&mut hollow, assign(1));
    let begun = hollow.step(at(1), 1, MESSAGES_MAX);
    assert!(matches!(begun.events[..], [HollowEvent::Begun(..)]));
    assert!(phases(&begun).is_empty(), "a quick start is one report");
    assert_eq!(hollow.wait(at(1)), at(10));
    assert_eq!(phases(&hollow.step(at(11), 11, MESSAGES_MAX)), [Phase::Running]);
    let stop = v1::StopCommand { attempt: Some(attempt(1)), drain_delay_ms: 5, ..v1::StopCommand::default() };
    send(&mut hollow, v1::Desired { stops: vec![stop], ..v1::Desired::default() });
    assert_eq!(phases(&hollow.step(at(12), 12, MESSAGES_MAX)), [Phase::Stopping]);
    assert_eq!(phases(&hollow.step(at(36), 36, MESSAGES_MAX)), []);
    let ended = hollow.step(at(37), 37, MESSAGES_MAX);
    assert_eq!(phases(&ended), [Phase::Released]);
    assert!(matches!(ended.events[..], [HollowEvent::Released(_)]));
    assert_eq!(hollow.live(), 0);
    send(&mut hollow, v1::Desired { forget: vec![attempt(1)], ..v1::Desired::default() });
    hollow.step(at(38), 38, MESSAGES_MAX);
    // A start that arrives late finds it over.
    send(&mut hollow, assign(1));
    let late = hollow.step(at(39), 39, MESSAGES_MAX);
    assert!(matches!(late.events[..], [HollowEvent::Late(_)]));
    assert_eq!(phases(&late), [Phase::Released]);
}

#[test]
fn an_attempt_that_ends_by_itself_exits_as_it_was_drawn() {
    let mut hollow = hollow(HollowTimes { run_ms: Some(5..=5), failed_percent: 100, ..TIMES });
    send(&mut hollow, assign(1));
    hollow.step(at(1), 1, MESSAGES_MAX);
    hollow.step(at(11), 11, MESSAGES_MAX);
    let report = report(hollow.step(at(16), 16, MESSAGES_MAX)).unwrap();
    assert_eq!(report.tasks[0].exit.as_ref().unwrap().code, Some(1));
}

#[test]
fn a_new_session_gets_a_full_report_and_an_idle_one_reports_at_intervals() {
    let mut hollow = hollow(TIMES);
    assert_eq!(hollow.wait(at(0)), REPORT_INTERVAL);
    send(&mut hollow, assign(1));
    hollow.step(at(1), 1, 0);
    assert!(hollow.step(at(11), 11, 0).messages.is_empty(), "there is no session");
    hollow.opened();
    let full = report(hollow.step(at(12), 12, MESSAGES_MAX)).unwrap();
    assert!(full.full_begin && full.full_end && full.tasks[0].phase() == Phase::Running);
    assert!(hollow.step(at(13), 13, MESSAGES_MAX).messages.is_empty());
    let beat = report(hollow.step(at(12) + REPORT_INTERVAL, 0, MESSAGES_MAX)).unwrap();
    assert!(
        !beat.full_begin && beat.tasks.len() == 1 && beat.tasks[0].usage.is_some(),
        "a sample of what it uses"
    );
}

/// The gateway tells the interval with each answer. An older one tells none. A change is reported at once all the same.
#[test]
fn reports_come_as_often_as_the_gateway_has_told_and_changes_at_once() {
    let mut hollow = Hollow::new("n1", "boot", TIMES, 7);
    hollow.opened();
    let answer = |revision, report_interval_ms| {
        let applied = v1::ReportApplied { revision, report_interval_ms };
        v1::GatewayMessage { message: Some(Message::ReportApplied(applied)) }
    };
    let first = report(hollow.step(at(0), 0, MESSAGES_MAX)).unwrap();
    hollow.message(answer(first.revision, 60_000));
    assert!(report(hollow.step(at(59_999), 59_999, MESSAGES_MAX)).is_none());
    let second = report(hollow.step(at(60_000), 60_000, MESSAGES_MAX)).unwrap();
    hollow.message(answer(second.revision, 0));
    assert_eq!(hollow.wait(at(60_000)), at(60_000), "as before");
    send(&mut hollow, assign(1));
    assert!(report(hollow.step(at(60_001), 60_001, MESSAGES_MAX)).is_none(), "it is being started");
    assert_eq!(phases(&hollow.step(at(60_011), 60_011, MESSAGES_MAX)), [Phase::Running]);
    hollow.message(answer(second.revision + 1, 12_000));
    assert_eq!(hollow.wait(at(60_011)), at(12_000));
}

/// A rollout waits for health, so an attempt must not be healthy before a real one could be.
#[test]
fn an_attempt_is_healthy_when_it_has_run_for_as_long_as_it_was_assigned() {
    for (assigned_ms, after_ms) in [(0, 1_000), (4_000, 4_000)] {
        let mut hollow = hollow(HollowTimes { health: HollowHealth::AsAssigned, ..TIMES });
        let mut desired = assign(1);
        desired.assignments[0].healthy_after_ms = assigned_ms;
        send(&mut hollow, desired);
        hollow.step(at(0), 0, MESSAGES_MAX);
        let running = report(hollow.step(at(10), 10, MESSAGES_MAX)).unwrap();
        assert_eq!(running.tasks[0].health(), v1::Health::Unknown);
        assert_eq!(phases(&hollow.step(at(9 + after_ms), 0, MESSAGES_MAX)), []);
        let healthy = report(hollow.step(at(10 + after_ms), 0, MESSAGES_MAX)).unwrap();
        assert_eq!(healthy.tasks[0].health(), v1::Health::Healthy);
    }
}

#[test]
fn other_amounts_are_in_force_at_once_and_reported() {
    let mut hollow = hollow(TIMES);
    send(&mut hollow, assign(1));
    hollow.step(at(0), 0, MESSAGES_MAX);
    hollow.step(at(10), 10, MESSAGES_MAX);
    let larger = v1::Resources { cpu_millis: 200, ..v1::Resources::default() };
    let mut desired = assign(1);
    desired.assignments[0].resize =
        Some(v1::ResizeOrder { order: 9, resources: Some(larger.clone()), signal: 0 });
    send(&mut hollow, desired);
    let step = hollow.step(at(20), 20, MESSAGES_MAX);
    assert!(matches!(&step.events[..], [HollowEvent::Resized(_, resources)] if *resources == larger));
    let status = report(step).unwrap().tasks[0].clone();
    assert_eq!(status.resize.map(|resize| resize.order), Some(9));
}
