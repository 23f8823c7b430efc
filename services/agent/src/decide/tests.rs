//! Actions and reports for any combination of actual and desired state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use borough_shim::process::ProcessId;
use borough_shim::record::{AttemptRecord, ExitRecord};
use borough_shim::spec::StopOrder;
use proptest::prelude::*;

use super::resize::{ResizedAmounts, assignment_resized};
use super::{AgentState, AttemptState, Desired, Effect, Sent, ShimState, parked, reconcile, report_next};
use super::{ResizeRecord, ResizeRefusal};
use crate::attempt::AttemptId;

const KEPT_MS: i64 = 1000;

fn id(index: u32) -> AttemptId {
    AttemptId::new("j0000000000000001", index, 1).unwrap()
}

fn wire(index: u32) -> v1::TaskAttempt {
    v1::TaskAttempt { job_id: "j0000000000000001".to_owned(), index, incarnation: 1 }
}

fn assignment(index: u32) -> v1::Assignment {
    v1::Assignment { attempt: Some(wire(index)), ..v1::Assignment::default() }
}

fn stop(index: u32, grace_ms: u64) -> v1::StopCommand {
    v1::StopCommand { attempt: Some(wire(index)), grace_ms, ..v1::StopCommand::default() }
}

fn running() -> AttemptState {
    let process = ProcessId { pid: 7, start_ticks: 1 };
    let record = AttemptRecord {
        boot_id: "b".to_owned(),
        shim: Some(process),
        task: Some(process),
        started_ms: Some(5),
        ..AttemptRecord::default()
    };
    let assignment = Some(Arc::new(assignment(0)));
    AttemptState { assignment, record, shim: ShimState::Alive, probed: true, ..AttemptState::default() }
}

fn released() -> AttemptState {
    let mut attempt = running();
    attempt.record.exit = Some(ExitRecord { code: Some(0), ..ExitRecord::default() });
    attempt.record.released_ms = Some(9);
    (attempt.shim, attempt.probed) = (ShimState::Gone, false);
    attempt
}

fn state(attempts: impl IntoIterator<Item = (u32, AttemptState)>) -> AgentState {
    let attempts = attempts.into_iter().map(|(index, attempt)| (id(index), attempt)).collect();
    AgentState { node: "n".to_owned(), attempts, ..AgentState::default() }
}

fn desired(message: v1::Desired) -> Desired {
    let mut desired = Desired::default();
    assert!(desired.apply(message).is_empty());
    desired
}

fn effects(state: &AgentState, desired: &Desired) -> Vec<Effect> {
    reconcile(state, desired, &Sent::default(), 10, KEPT_MS)
}

#[test]
fn what_is_wanted_and_not_there_is_started_once() {
    let wanted = desired(v1::Desired { assignments: vec![assignment(0)], ..v1::Desired::default() });
    assert!(matches!(effects(&state([]), &wanted).as_slice(), [Effect::Start(of, _)] if *of == id(0)));
    let begun = AttemptState { busy: true, ..AttemptState::default() };
    for attempt in [begun, running(), released()] {
        assert_eq!(effects(&state([(0, attempt)]), &wanted), []);
    }
    // An agent that died before the shim began has made its directory.
    assert_eq!(effects(&state([(0, AttemptState::default())]), &wanted).len(), 1);
}

/// A lost node comes back with an attempt that was replaced, and is assigned its successor.
#[test]
fn an_attempt_begins_when_the_one_before_it_is_gone() {
    let next = v1::TaskAttempt { incarnation: 2, ..wire(0) };
    let given = v1::Assignment { attempt: Some(next), ..v1::Assignment::default() };
    let wanted = |stops| v1::Desired { assignments: vec![given.clone()], stops, ..v1::Desired::default() };
    let ends = desired(wanted(vec![stop(0, 5)]));
    let first = effects(&state([(0, running())]), &ends);
    assert!(matches!(first.as_slice(), [Effect::Stop(of, _), ..] if *of == id(0)), "{first:?}");
    let begins = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::Start(of, _) if of.incarnation == 2))
    };
    assert!(!begins(&first));
    assert!(begins(&effects(&state([(0, released())]), &ends)));
    // An attempt without a stop is not waited for.
    assert!(begins(&effects(&state([(0, running())]), &desired(wanted(Vec::new())))));
}

#[test]
fn a_stop_is_ordered_once_and_again_if_it_changes() {
    let wanted = desired(v1::Desired { stops: vec![stop(0, 50)], ..v1::Desired::default() });
    let order = StopOrder { drain_delay_ms: 0, grace_ms: 50 };
    assert_eq!(effects(&state([(0, running())]), &wanted), [Effect::Stop(id(0), order)]);
    let reported = AttemptState { stop: Some(order), probed: false, ..running() };
    assert_eq!(effects(&state([(0, reported.clone())]), &wanted), []);
    let harder = desired(v1::Desired { stops: vec![stop(0, 1)], ..v1::Desired::default() });
    assert_eq!(effects(&state([(0, reported)]), &harder).len(), 1);
    assert_eq!(effects(&state([(0, released())]), &wanted), []);
    assert_eq!(effects(&state([]), &wanted), [Effect::Decline(id(0))]);
    assert_eq!(effects(&state([(0, AttemptState::default())]), &wanted), [Effect::Decline(id(0))]);
}

#[test]
fn an_attempt_is_forgotten_on_order_or_after_a_long_time_unnamed() {
    let reported = desired(v1::Desired { forget: vec![wire(0)], ..v1::Desired::default() });
    assert_eq!(effects(&state([(0, released())]), &reported), [Effect::Forget(id(0))]);
    assert_eq!(effects(&state([(0, running())]), &reported), [], "not before it is over");
    let unknown = desired(v1::Desired { full_begin: true, full_end: true, ..v1::Desired::default() });
    let over = state([(0, released())]);
    let mut sent = Sent::default();
    let second = Duration::from_secs(1);
    let revision = report_next(&over, &mut sent, second, second, second).unwrap().revision;
    let late = 10 + KEPT_MS;
    assert_eq!(reconcile(&over, &unknown, &sent, late, KEPT_MS), [], "nobody knows that it is over");
    sent.applied(revision);
    assert_eq!(reconcile(&over, &unknown, &sent, late - 1, KEPT_MS), []);
    assert_eq!(reconcile(&over, &unknown, &sent, late, KEPT_MS), [Effect::Forget(id(0))]);
    assert_eq!(reconcile(&over, &Desired::default(), &sent, late, KEPT_MS), []);
}

#[test]
fn only_a_full_message_parks_and_it_stops_nothing() {
    let partial = desired(v1::Desired { assignments: vec![assignment(1)], ..v1::Desired::default() });
    let known = state([(0, running())]);
    assert!(parked(&known, &partial).is_empty());
    let full = desired(v1::Desired { full_begin: true, full_end: true, ..v1::Desired::default() });
    assert_eq!(parked(&known, &full).into_iter().collect::<Vec<_>>(), [id(0)]);
    assert_eq!(effects(&known, &full), []);
}

#[test]
fn a_dead_shim_is_cleaned_up_after() {
    let dead = AttemptState { shim: ShimState::Gone, ..running() };
    assert_eq!(effects(&state([(0, dead.clone())]), &Desired::default()), [Effect::Clean(id(0))]);
    assert_eq!(effects(&state([(0, AttemptState { busy: true, ..dead })]), &Desired::default()), []);
}

#[test]
fn probes_run_exactly_while_the_task_does() {
    let probe = Some(v1::health_check::Probe::Tcp(v1::TcpProbe::default()));
    let spec = v1::TaskSpec {
        health: Some(v1::HealthCheck { probe, ..v1::HealthCheck::default() }),
        ..v1::TaskSpec::default()
    };
    let checked = Arc::new(v1::Assignment { spec: Some(spec), ..assignment(0) });
    let attempt = AttemptState { assignment: Some(checked.clone()), probed: false, ..running() };
    assert_eq!(effects(&state([(0, attempt.clone())]), &Desired::default()), [Effect::Probe(id(0))]);
    let probed = AttemptState { probed: true, ..attempt };
    assert_eq!(effects(&state([(0, probed)]), &Desired::default()), []);
    let over = AttemptState { assignment: Some(checked), probed: true, ..released() };
    assert_eq!(effects(&state([(0, over)]), &Desired::default()), [Effect::ProbeEnd(id(0))]);
}

#[test]
fn what_names_no_attempt_is_named_and_left_out() {
    let mut wanted = Desired::default();
    let bad = v1::TaskAttempt { job_id: "../x".to_owned(), ..wire(0) };
    let assignment = v1::Assignment { attempt: Some(bad.clone()), ..v1::Assignment::default() };
    let message = v1::Desired {
        assignments: vec![assignment, v1::Assignment::default()],
        forget: vec![bad],
        ..v1::Desired::default()
    };
    assert_eq!(wanted.apply(message).len(), 3);
    assert!(wanted.assignments.is_empty() && wanted.forget.is_empty());
}

const INTERVAL: Duration = Duration::from_secs(5);
const REPEAT: Duration = Duration::from_secs(10);

fn changes(state: &AgentState, sent: &mut Sent, at_s: u64) -> Option<v1::Report> {
    report_next(state, sent, Duration::from_secs(at_s), INTERVAL, REPEAT)
}

/// The first report of a session. It contains everything, since the attempts are few.
fn report_full(state: &AgentState, sent: &mut Sent, now: Duration) -> v1::Report {
    *sent = Sent::default();
    let report = report_next(state, sent, now, INTERVAL, REPEAT).unwrap();
    assert!(report.full_begin && report.full_end);
    report
}

#[test]
fn changes_are_reported_at_once_and_usage_at_intervals() {
    let (mut known, mut sent) = (state([(0, running()), (1, running())]), Sent::default());
    let full = report_full(&known, &mut sent, Duration::ZERO);
    assert_eq!((full.revision, full.tasks.len()), (1, 2));
    sent.applied(1);
    assert_eq!(changes(&known, &mut sent, 1), None);
    known.attempts.insert(id(0), released());
    let report = changes(&known, &mut sent, 1).unwrap();
    assert_eq!((report.full_begin, report.revision, report.tasks.len()), (false, 2, 1));
    assert_eq!(report.tasks[0].phase(), Phase::Released);
    sent.applied(2);
    let usage = Some(v1::Usage { memory_bytes: 5, ..v1::Usage::default() });
    known.attempts.insert(id(1), AttemptState { usage, ..running() });
    assert_eq!(changes(&known, &mut sent, 2), None);
    let report = changes(&known, &mut sent, 6).unwrap();
    assert_eq!((report.tasks.len(), report.usage.unwrap().memory_bytes), (1, 5));
    sent.applied(3);
    assert!(changes(&known, &mut sent, 11).unwrap().tasks.is_empty(), "it says that it is there");
}

#[test]
fn unapplied_statuses_are_reported_again() {
    let (known, mut sent) = (state([(0, running())]), Sent::default());
    report_full(&known, &mut sent, Duration::ZERO);
    assert!(changes(&known, &mut sent, 9).unwrap().tasks.is_empty());
    assert_eq!(changes(&known, &mut sent, 10).unwrap().tasks.len(), 1);
    assert_eq!(changes(&known, &mut sent, 12), None);
    sent.applied(3);
    assert!(changes(&known, &mut sent, 30).unwrap().tasks.is_empty());
}

#[test]
fn a_start_is_reported_alone_only_if_it_takes_long() {
    let (mut known, mut sent) = (state([]), Sent::default());
    report_full(&known, &mut sent, Duration::ZERO);
    let ms = Duration::from_millis;
    let mut changes = |known: &AgentState, at_ms| {
        report_next(known, &mut sent, ms(at_ms), INTERVAL, REPEAT).map(|report| report.tasks)
    };
    for index in [0, 1] {
        known.attempts.insert(id(index), AttemptState { busy: true, ..AttemptState::default() });
    }
    assert_eq!(changes(&known, 10), None);
    known.attempts.insert(id(0), running());
    let reported = changes(&known, 20).unwrap();
    assert_eq!((reported.len(), reported[0].phase()), (1, Phase::Running));
    assert_eq!(changes(&known, 109), None);
    let reported = changes(&known, 110).unwrap();
    assert_eq!((reported.len(), reported[0].index, reported[0].phase()), (1, 1, Phase::Accepted));
    assert_eq!(changes(&known, 111), None);
}

/// One step of what may happen to an attempt.
fn later(attempt: &AttemptState, step: u8) -> AttemptState {
    match step {
        1 => released(),
        0 | 2.. if attempt.shim == ShimState::None => running(),
        0 => running(),
        2 => AttemptState { stop: Some(StopOrder { drain_delay_ms: 0, grace_ms: 1 }), ..attempt.clone() },
        3 => AttemptState { health: v1::Health::Healthy, ..attempt.clone() },
        _ => AttemptState {
            usage: Some(v1::Usage { cpu_millis: u64::from(step), ..v1::Usage::default() }),
            ..attempt.clone()
        },
    }
}

proptest! {
    /// A reader that applies every report has the agent's state, except the usage since the last interval.
    #[test]
    fn reports_add_up_to_the_state(
        steps in prop::collection::vec((0u32..4, 0u8..8, 0u64..7, any::<bool>()), 1..40),
    ) {
        let (mut known, mut sent) = (state([]), Sent::default());
        let mut reported: BTreeMap<u32, v1::TaskStatus> = BTreeMap::new();
        report_full(&known, &mut sent, Duration::ZERO);
        let (mut now, mut revision) = (0, 1);
        for (index, step, wait, applied) in steps {
            now += wait;
            let attempt = known.attempts.remove(&id(index)).unwrap_or_default();
            known.attempts.insert(id(index), later(&attempt, step));
            if let Some(report) = changes(&known, &mut sent, now) {
                prop_assert_eq!(report.revision, revision + 1);
                revision = report.revision;
                reported.extend(report.tasks.into_iter().map(|task| (task.index, task)));
                if applied || sent.is_full() {
                    sent.applied(revision);
                }
            }
            for (id, attempt) in &known.attempts {
                let expect = v1::TaskStatus { usage: None, ..super::state::status(id, attempt, "n") };
                let have = reported.get(&id.index).map(|task| v1::TaskStatus { usage: None, ..task.clone() });
                prop_assert_eq!(have, Some(expect));
            }
        }
    }

    /// Whatever is desired, an attempt that is over is never started, and no action begins for a busy one.
    #[test]
    fn nothing_is_begun_twice(
        attempts in prop::collection::vec((0u32..4, 0u8..3, any::<bool>()), 0..6), starts in prop::collection::vec(0u32..4, 0..6),
        stops in prop::collection::vec(0u32..4, 0..6), forgets in prop::collection::vec(0u32..4, 0..6), full: bool,
    ) {
        let attempt = |kind| match kind {
            0 => AttemptState::default(),
            1 => running(),
            _ => released(),
        };
        let known = state(attempts.into_iter().map(|(index, kind, busy)| (index, AttemptState { busy, ..attempt(kind) })));
        let wanted = desired(v1::Desired {
            full_begin: full,
            full_end: full,
            assignments: starts.into_iter().map(assignment).collect(),
            stops: stops.into_iter().map(|index| stop(index, 1)).collect(),
            forget: forgets.into_iter().map(wire).collect(),
            ..v1::Desired::default()
        });
        let mut touched = Vec::new();
        for effect in effects(&known, &wanted) {
            let of = match &effect {
                Effect::Start(of, _) | Effect::Decline(of) | Effect::Stop(of, _) | Effect::Resize(of, _) | Effect::Clean(of)
                | Effect::Forget(of) | Effect::Probe(of) | Effect::ProbeEnd(of) | Effect::Identify(of) => of.clone(),
            };
            let attempt = known.attempts.get(&of);
            prop_assert!(attempt.is_none_or(|attempt| !attempt.busy), "{effect:?}");
            if matches!(effect, Effect::Start(..)) {
                prop_assert!(attempt.is_none_or(|attempt| attempt.shim == ShimState::None && attempt.record.exit.is_none()));
            }
            prop_assert!(!touched.contains(&of), "two things at once for {of}");
            touched.push(of);
        }
    }
}

/// What is refused is not applied again by an agent that starts again, and a later order is.
#[test]
fn an_order_to_resize_is_carried_out_once_and_only_while_the_attempt_runs() {
    let amounts = v1::Resources { cpu_millis: 300, memory_bytes: 64, ..v1::Resources::default() };
    let order = |order| v1::ResizeOrder { order, resources: Some(amounts.clone()), signal: 0 };
    let ordered = |number| v1::Assignment { resize: Some(order(number)), ..assignment(0) };
    let wanted =
        |number| desired(v1::Desired { assignments: vec![ordered(number)], ..v1::Desired::default() });
    let due = |attempt: &AttemptState, number| effects(&state([(0, attempt.clone())]), &wanted(number));
    assert_eq!(due(&running(), 7), [Effect::Resize(id(0), order(7))]);
    assert_eq!(due(&AttemptState { busy: true, ..running() }, 7), []);
    let stopping = AttemptState { stop: Some(StopOrder::default()), probed: false, ..running() };
    assert_eq!(due(&stopping, 7), []);
    let refusal = Some(ResizeRefusal::MemoryInUse { used_bytes: 65, asked_bytes: 64 });
    let record = ResizeRecord::default().after(7, ResizedAmounts::of(&amounts), refusal);
    let refused = AttemptState { resize: record.clone(), ..running() };
    assert_eq!(due(&refused, 7), []);
    assert_eq!(due(&refused, 9), [Effect::Resize(id(0), order(9))]);
    let settled = super::state::status(&id(0), &refused, "n").resize.unwrap();
    assert_eq!((settled.order, settled.memory_used_bytes, settled.memory_asked_bytes), (7, 65, 64));
    // What is refused leaves in force what was.
    let of = Arc::new(v1::Assignment { spec: Some(v1::TaskSpec::default()), ..assignment(0) });
    let in_force = |record: &ResizeRecord| {
        let assignment = assignment_resized(&of, record);
        assignment.spec.clone().unwrap().resources.map(|resources| resources.cpu_millis)
    };
    assert_eq!(in_force(&record), None);
    let applied = record.after(9, ResizedAmounts::of(&amounts), None);
    assert_eq!(in_force(&applied), Some(300));
    let other = ResizedAmounts { cpu_millis: 900, ..ResizedAmounts::default() };
    let failed = applied.after(11, other, Some(ResizeRefusal::Failed("no".to_owned())));
    assert_eq!(in_force(&failed), Some(300));
}

#[test]
fn shortages_and_packages_are_reported_at_once_and_once() {
    use super::pressure::{PressureLimits, PressureReading};
    let (mut known, mut sent) = (AgentState::default(), Sent::default());
    let (second, limits) = (Duration::from_secs(1), PressureLimits::default());
    let full = report_full(&known, &mut sent, Duration::ZERO);
    assert_eq!(full.pressure, Some(v1::PressureReport::default()));
    let mut changes = |known: &AgentState| report_next(known, &mut sent, Duration::ZERO, second, second);
    assert_eq!(changes(&known), None);
    let short = PressureReading { disk_free: Some(1), ..PressureReading::default() };
    known.pressure = known.pressure.next(&short, &limits).next(&short, &limits);
    let reported = changes(&known).unwrap().pressure.unwrap();
    assert_eq!(reported.short_of, [i32::from(v1::NodePressure::Disk)]);
    assert_eq!(changes(&known), None);
    known.packages.insert("web/1".to_owned());
    let reported = changes(&known).unwrap();
    assert_eq!((reported.packages.unwrap().installed, reported.pressure), (vec!["web/1".to_owned()], None));
    assert_eq!(changes(&known), None);
}

/// A load is reported once it is known and when it has changed much. A new session begins with all of it.
#[test]
fn the_load_of_the_machine_is_reported_after_a_large_change() {
    use super::load::{LoadReading, MachineLoad, OwnTasks, ProcessorTime};
    let capacity = v1::Resources { cpu_millis: 4_000, memory_bytes: 1 << 30, ..v1::Resources::default() };
    let (mut known, mut sent) = (AgentState::default(), Sent::default());
    known.load = MachineLoad::new(Some(&capacity));
    let look = |state: &mut AgentState, busy: u64, idle: u64, at_s: u64| {
        let reading = LoadReading {
            processor: Some(ProcessorTime { busy, idle, processors: 4 }),
            memory_free_bytes: Some(1 << 30),
            memory_total_bytes: Some(1 << 30),
        };
        let own = OwnTasks::of(state);
        state.load = state.load.clone().next(&reading, &own, |millis| millis, Duration::from_secs(at_s));
    };
    let full = report_full(&known, &mut sent, Duration::ZERO);
    assert_eq!(full.load, Some(v1::LoadReport::default()), "not known yet, which is said");
    look(&mut known, 0, 0, 1);
    assert_eq!(changes(&known, &mut sent, 1).and_then(|report| report.load), None);
    look(&mut known, 50, 50, 2);
    let cpu = |report: Option<v1::Report>| Some(report?.load?.load?.cpu_millis);
    assert_eq!(cpu(changes(&known, &mut sent, 2)), Some(2_000));
    assert_eq!(cpu(changes(&known, &mut sent, 3)), None, "once");
    look(&mut known, 1_050, 50, 30);
    assert!(cpu(changes(&known, &mut sent, 30)).is_some_and(|cpu| cpu > 2_500));
    let again = report_full(&known, &mut sent, Duration::from_secs(31));
    assert!(cpu(Some(again)).is_some_and(|cpu| cpu > 2_500), "a new session gets all of it");
}
