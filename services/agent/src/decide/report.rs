//! What the control plane is told: everything at first, then what has changed, and again what it has not applied.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use borough_proto::bounds::{
    CHUNK_BYTES_MAX, REPORT_TASKS_MAX, REPORTS_UNAPPLIED_MAX, STATUS_CORES_MAX, TEXT_BYTES_MAX, text_cut,
};
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use prost::Message as _;

use super::load::SentLoad;
use super::state::{AgentState, AttemptState, status};
use crate::attempt::AttemptId;

/// What was told in this session; the default is a session that was just opened.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The last report.
    pub revision: u64,
    /// Up to here the control plane has applied.
    pub applied: u64,
    /// When the last report went, of any content.
    pub at: Duration,
    attempts: BTreeMap<AttemptId, SentReport>,
    /// What the machine was last said to be short of.
    pressure: Option<v1::PressureReport>,
    /// What was last said of its load.
    load: Option<SentLoad>,
    /// The packages that it was last said to have.
    packages: Option<v1::PackageReport>,
    /// New attempts that are just being started, and since when they are known.
    starting: BTreeMap<AttemptId, Duration>,
    /// The full report is on its way, up to this attempt.
    full: Option<Option<AttemptId>>,
    /// A chunk was full with this attempt: the next one begins behind it.
    after: Option<AttemptId>,
    /// Usage is being told of every attempt that was not told since then.
    usage_since: Option<Duration>,
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            revision: 0,
            applied: 0,
            at: Duration::ZERO,
            attempts: BTreeMap::new(),
            pressure: None,
            load: None,
            packages: None,
            starting: BTreeMap::new(),
            full: Some(None),
            after: None,
            usage_since: None,
        }
    }
}

/// A start is told only where it takes longer than this: mostly the task runs by then, and one report, which is one
/// commit, says it all.
const START_TOLD_AFTER: Duration = Duration::from_millis(100);

/// The load of the machine is told at most so often.
const LOAD_PAUSE: Duration = Duration::from_secs(15);

/// Bytes that stand around a status in a report, at most.
const STATUS_FRAME_BYTES: usize = 8;

#[derive(Clone, Debug)]
struct SentReport {
    status: v1::TaskStatus,
    revision: u64,
    at: Duration,
}

impl Sent {
    /// The control plane has applied everything up to `revision`.
    pub fn applied(&mut self, revision: u64) {
        self.applied = self.applied.max(revision);
    }

    /// Whether as many reports as may be are on their way.
    pub fn is_full(&self) -> bool {
        let most = u64::try_from(REPORTS_UNAPPLIED_MAX).unwrap_or(u64::MAX);
        self.revision.saturating_sub(self.applied) >= most
    }

    /// Whether more is to be told as soon as there is room for it.
    pub fn goes_on(&self) -> bool {
        self.full.is_some() || self.after.is_some()
    }

    fn told(&mut self, report: &v1::Report, now: Duration) {
        self.revision = report.revision;
        self.at = now;
        if report.pressure.is_some() {
            self.pressure.clone_from(&report.pressure);
        }
        if report.packages.is_some() {
            self.packages.clone_from(&report.packages);
        }
        for status in &report.tasks {
            if let Ok(id) = AttemptId::new(&status.job_id, status.index, status.incarnation) {
                self.attempts
                    .insert(id, SentReport { status: status.clone(), revision: report.revision, at: now });
            }
        }
    }
}

/// What is to be told now, as one chunk: the full report first, then what has changed. `None` where there is nothing,
/// or where [`REPORTS_UNAPPLIED_MAX`] reports wait to be applied: nothing is lost, since statuses are absolute.
///
/// `interval` is how often something is sent where nothing changes; usage alone is only sent then. `repeat` is how
/// long the control plane may take to apply a status before it is told again.
pub fn report_next(
    state: &AgentState,
    sent: &mut Sent,
    now: Duration,
    interval: Duration,
    repeat: Duration,
) -> Option<v1::Report> {
    if sent.is_full() {
        return None;
    }
    match sent.full.take() {
        Some(after) => Some(report_full(state, sent, now, after)),
        None => report_changes(state, sent, now, interval, repeat),
    }
}

/// The next chunk of the full report, behind the attempt `after`.
fn report_full(state: &AgentState, sent: &mut Sent, now: Duration, after: Option<AttemptId>) -> v1::Report {
    let revision = sent.revision.saturating_add(1);
    let mut report = v1::Report { revision, full_begin: after.is_none(), ..v1::Report::default() };
    if report.full_begin {
        report.usage = Some(usage_sum(state));
        report.pressure = Some(state.pressure.report());
        report.packages = Some(packages_report(state));
        sent.load = state.load.told_next(None, now, LOAD_PAUSE);
        report.load = sent.load.map(|told| told.report());
    }
    let mut chunk = ReportChunk::new(&report);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut last = None;
    for (id, attempt) in state.attempts.range((from, Bound::Unbounded)) {
        if !chunk.take(status_bounded(id, attempt, &state.node)) {
            sent.full = Some(last);
            break;
        }
        last = Some(id.clone());
    }
    report.tasks = chunk.tasks;
    report.full_end = sent.full.is_none();
    sent.told(&report, now);
    report
}

fn report_changes(
    state: &AgentState,
    sent: &mut Sent,
    now: Duration,
    interval: Duration,
    repeat: Duration,
) -> Option<v1::Report> {
    let due = now.saturating_sub(sent.at) >= interval;
    sent.usage_since = if due { Some(now) } else { sent.usage_since };
    let pressure = Some(state.pressure.report()).filter(|now| sent.pressure.as_ref() != Some(now));
    let packages = packages_changed(state, sent);
    let load = state.load.told_next(sent.load.as_ref(), now, LOAD_PAUSE);
    let usage = due.then(|| usage_sum(state));
    let revision = sent.revision.saturating_add(1);
    let report = v1::Report { revision, usage, pressure, packages, ..v1::Report::default() };
    let tasks = changes_chunk(state, sent, now, repeat, ReportChunk::new(&report));
    sent.attempts.retain(|id, _| state.attempts.contains_key(id));
    sent.starting.retain(|id, _| state.attempts.contains_key(id));
    let silent = report.pressure.is_none() && report.packages.is_none() && load.is_none();
    if tasks.is_empty() && silent && !due {
        return None;
    }
    sent.load = load.or(sent.load);
    let report = v1::Report { tasks, load: load.map(|told| told.report()), ..report };
    sent.told(&report, now);
    Some(report)
}

/// The statuses that are to be told, as many as fit: from behind the one that the last full chunk ended with, and
/// around. So every attempt has its turn, however often others change.
fn changes_chunk(
    state: &AgentState,
    sent: &mut Sent,
    now: Duration,
    repeat: Duration,
    mut chunk: ReportChunk,
) -> Vec<v1::TaskStatus> {
    let after = sent.after.take();
    let behind = after.clone().map_or(Bound::Unbounded, Bound::Excluded);
    let before = after.map(|after| state.attempts.range(..=after));
    let around = state.attempts.range((behind, Bound::Unbounded)).chain(before.into_iter().flatten());
    let mut last = None;
    for (id, attempt) in around {
        let status = status_bounded(id, attempt, &state.node);
        if start_withheld(id, &status, sent, now) {
            continue;
        }
        let tell = sent.attempts.get(id).is_none_or(|told| {
            let unapplied = told.revision > sent.applied && now.saturating_sub(told.at) >= repeat;
            let usage = sent.usage_since.is_some_and(|since| told.at < since);
            unapplied || differs(&told.status, &status) || (usage && told.status.usage != status.usage)
        });
        if tell && !chunk.take(status) {
            sent.after = last;
            return chunk.tasks;
        }
        last = Some(id.clone());
    }
    sent.usage_since = None;
    chunk.tasks
}

/// Statuses of one report, within its bounds.
struct ReportChunk {
    tasks: Vec<v1::TaskStatus>,
    bytes: usize,
}

impl ReportChunk {
    fn new(report: &v1::Report) -> Self {
        Self { tasks: Vec::new(), bytes: report.encoded_len() }
    }

    /// Takes a status in; `false` where it does not fit any more.
    fn take(&mut self, status: v1::TaskStatus) -> bool {
        let bytes = self.bytes.saturating_add(status.encoded_len()).saturating_add(STATUS_FRAME_BYTES);
        let fits = self.tasks.len() < REPORT_TASKS_MAX && bytes <= CHUNK_BYTES_MAX;
        if fits {
            self.bytes = bytes;
            self.tasks.push(status);
        }
        fits
    }
}

/// The status of an attempt within its bound ([`borough_proto::bounds::STATUS_BYTES_MAX`]).
fn status_bounded(id: &AttemptId, attempt: &AttemptState, node: &str) -> v1::TaskStatus {
    let mut status = status(id, attempt, node);
    status.cores.truncate(STATUS_CORES_MAX);
    if let Some(exit) = &mut status.exit {
        text_cut(&mut exit.message, TEXT_BYTES_MAX);
    }
    status
}

fn packages_report(state: &AgentState) -> v1::PackageReport {
    v1::PackageReport { installed: state.packages.iter().cloned().collect() }
}

fn packages_changed(state: &AgentState, sent: &Sent) -> Option<v1::PackageReport> {
    let same = |told: &v1::PackageReport| told.installed.iter().eq(&state.packages);
    (!sent.packages.as_ref().is_some_and(same)).then(|| packages_report(state))
}

/// Whether an attempt that was never told is just being started, and not for long.
fn start_withheld(id: &AttemptId, status: &v1::TaskStatus, sent: &mut Sent, now: Duration) -> bool {
    if sent.attempts.contains_key(id) || !matches!(status.phase(), Phase::Accepted | Phase::Starting) {
        sent.starting.remove(id);
        return false;
    }
    let since = *sent.starting.entry(id.clone()).or_insert(now);
    now.saturating_sub(since) < START_TOLD_AFTER
}

/// Whether anything but the usage differs.
fn differs(before: &v1::TaskStatus, after: &v1::TaskStatus) -> bool {
    v1::TaskStatus { usage: None, ..before.clone() } != v1::TaskStatus { usage: None, ..after.clone() }
}

/// What all tasks of the node use together; what the machine does besides is not the cell's to count.
fn usage_sum(state: &AgentState) -> v1::Usage {
    let mut sum = v1::Usage::default();
    for usage in state
        .attempts
        .values()
        .filter(|attempt| attempt.record.exit.is_none())
        .filter_map(|attempt| attempt.usage)
    {
        sum.at_ms = sum.at_ms.max(usage.at_ms);
        sum.cpu_millis = sum.cpu_millis.saturating_add(usage.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(usage.memory_bytes);
        sum.memory_peak_bytes = sum.memory_peak_bytes.saturating_add(usage.memory_peak_bytes);
        sum.processes = sum.processes.saturating_add(usage.processes);
    }
    sum
}
