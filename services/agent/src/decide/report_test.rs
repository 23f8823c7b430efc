//! Reports of nodes with more tasks than one message holds.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_proto::bounds::{
    CHUNK_BYTES_MAX, REPORT_TASKS_MAX, REPORTS_UNAPPLIED_MAX, STATUS_BYTES_MAX, STATUS_CORES_MAX,
    TEXT_BYTES_MAX,
};
use borough_proto::v1;
use borough_shim::record::{AttemptRecord, ExitRecord};
use prost::Message as _;

use super::report::GATHERED_FOR;
use super::{AgentState, AttemptState, Sent, report_next};
use crate::attempt::AttemptId;

const INTERVAL: Duration = Duration::from_secs(5);
const REPEAT: Duration = Duration::from_secs(10);

/// An attempt whose status is as long as a status may be, or longer before it is cut.
fn largest(message: usize) -> AttemptState {
    let exit = ExitRecord { message: "x".repeat(message), code: Some(1), ..ExitRecord::default() };
    let assignment = v1::Assignment {
        cpus: (0..8 * STATUS_CORES_MAX as u32).collect(),
        exclusive_cores: true,
        ..v1::Assignment::default()
    };
    let record = AttemptRecord { exit: Some(exit), started_ms: Some(5), ..AttemptRecord::default() };
    let usage = Some(v1::Usage { memory_bytes: u64::MAX, at_ms: i64::MAX, ..v1::Usage::default() });
    AttemptState { assignment: Some(assignment.into()), record, usage, ..AttemptState::default() }
}

fn state(attempts: u32, attempt: &AttemptState) -> AgentState {
    let id = |index| AttemptId::new("j0000000000000001", index, u64::MAX).unwrap();
    AgentState {
        attempts: (0..attempts).map(|index| (id(index), attempt.clone())).collect(),
        ..AgentState::default()
    }
}

fn next(state: &AgentState, sent: &mut Sent, at_s: u64) -> Option<v1::Report> {
    report_next(state, sent, Duration::from_secs(at_s), INTERVAL, REPEAT)
}

/// All reports of a session in which each is applied at once.
fn all(state: &AgentState, sent: &mut Sent, at_s: u64) -> Vec<v1::Report> {
    let mut reports = Vec::new();
    while let Some(report) = next(state, sent, at_s) {
        assert!(report.encoded_len() <= CHUNK_BYTES_MAX, "{} bytes", report.encoded_len());
        assert!(report.tasks.len() <= REPORT_TASKS_MAX);
        sent.applied(report.revision);
        reports.push(report);
    }
    reports
}

#[test]
fn a_full_report_of_twenty_thousand_attempts_is_chunks_with_a_beginning_and_an_end() {
    let state = state(20_000, &AttemptState::default());
    let reports = all(&state, &mut Sent::default(), 1);
    let flags: Vec<_> = reports.iter().map(|report| (report.full_begin, report.full_end)).collect();
    assert_eq!(flags.iter().filter(|(begin, _)| *begin).count(), 1);
    assert!(flags[0] == (true, false) && flags[flags.len() - 1] == (false, true), "{flags:?}");
    assert!(flags[..flags.len() - 1].iter().all(|(_, end)| !end));
    let reported: BTreeMap<u32, ()> =
        reports.iter().flat_map(|report| &report.tasks).map(|task| (task.index, ())).collect();
    assert_eq!(reported.len(), 20_000);
}

#[test]
fn the_longest_status_is_within_its_bound() {
    let state = state(80, &largest(10 * TEXT_BYTES_MAX));
    let reports = all(&state, &mut Sent::default(), 1);
    assert!(reports.len() > 1, "not all in one");
    for task in reports.iter().flat_map(|report| &report.tasks) {
        assert!(task.encoded_len() <= STATUS_BYTES_MAX, "{} bytes", task.encoded_len());
        assert_eq!(task.exit.as_ref().unwrap().message.len(), TEXT_BYTES_MAX);
        assert_eq!(task.cores.len(), STATUS_CORES_MAX);
    }
}

#[test]
fn only_so_many_reports_wait_to_be_applied() {
    let state = state(20_000, &AttemptState::default());
    let mut sent = Sent::default();
    for revision in 1..=REPORTS_UNAPPLIED_MAX as u64 {
        assert_eq!(next(&state, &mut sent, 1).unwrap().revision, revision);
    }
    assert_eq!(next(&state, &mut sent, 100), None, "not even at the interval");
    assert!(sent.goes_on());
    sent.applied(1);
    assert_eq!(next(&state, &mut sent, 100).unwrap().revision, REPORTS_UNAPPLIED_MAX as u64 + 1);
    assert_eq!(next(&state, &mut sent, 100), None);
}

/// A change after a silence is reported at once, and those that follow it share the next report.
#[test]
fn changes_behind_a_report_are_gathered_for_a_moment() {
    let (ms, mut sent) = (Duration::from_millis, Sent::default());
    let known = state(20_000, &AttemptState::default());
    assert_eq!(sent.gathers_for(Duration::ZERO), None, "a session that was just opened reports everything");
    let at = Duration::from_secs(1);
    report_next(&known, &mut sent, at, ms(5_000), ms(5_000)).unwrap();
    assert!(sent.goes_on());
    assert_eq!(sent.gathers_for(at), None, "the rest of the full report waits for nothing");
    all(&known, &mut sent, 1);
    assert_eq!(sent.gathers_for(at), Some(GATHERED_FOR));
    assert_eq!(sent.gathers_for(at + GATHERED_FOR - ms(1)), Some(ms(1)));
    assert_eq!(sent.gathers_for(at + GATHERED_FOR), None);
}

/// Attempts that change all the time do not keep others out of the reports.
#[test]
fn every_attempt_has_its_turn() {
    let (mut known, mut sent) = (state(0, &AttemptState::default()), Sent::default());
    all(&known, &mut sent, 1);
    let many = REPORT_TASKS_MAX as u32 * 3;
    known.attempts = state(many, &largest(1)).attempts;
    let mut reported = BTreeMap::new();
    for pid in 0..12 {
        // All attempts change between two reports.
        for attempt in known.attempts.values_mut() {
            attempt.record.exit.as_mut().unwrap().code = Some(pid);
        }
        let report = next(&known, &mut sent, 2).unwrap();
        sent.applied(report.revision);
        reported.extend(report.tasks.into_iter().map(|task| (task.index, ())));
    }
    let first = reported.len();
    assert!(first > 0);
    let chunks = (known.attempts.len() / first).saturating_add(1) * 12;
    for pid in 0..i32::try_from(chunks).unwrap() {
        known
            .attempts
            .values_mut()
            .for_each(|attempt| attempt.record.exit.as_mut().unwrap().code = Some(100 + pid));
        let report = next(&known, &mut sent, 3).unwrap();
        sent.applied(report.revision);
        reported.extend(report.tasks.into_iter().map(|task| (task.index, ())));
    }
    assert_eq!(reported.len(), known.attempts.len());
}

/// The usage of every attempt is reported once an interval, over as many reports as needed.
#[test]
fn usage_of_every_attempt_is_reported_over_several_reports() {
    let mut known = state(2_000, &AttemptState::default());
    known.attempts.values_mut().for_each(|attempt| attempt.record.started_ms = Some(1));
    let mut sent = Sent::default();
    all(&known, &mut sent, 1);
    let usage = |bytes| Some(v1::Usage { memory_bytes: bytes, ..v1::Usage::default() });
    known.attempts.values_mut().for_each(|attempt| attempt.usage = usage(7));
    assert_eq!(next(&known, &mut sent, 2), None, "not before the interval");
    let reported: usize = all(&known, &mut sent, 6).iter().map(|report| report.tasks.len()).sum();
    assert_eq!(reported, 2_000);
    known.attempts.values_mut().for_each(|attempt| attempt.usage = usage(8));
    assert_eq!(next(&known, &mut sent, 7), None);
}
