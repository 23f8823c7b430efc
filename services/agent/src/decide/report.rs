//! Decides what to report: everything at first, then changes, and again what the control plane has not applied.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use borough_proto::bounds::{
    CHUNK_BYTES_MAX, REPORT_TASKS_MAX, REPORTS_UNAPPLIED_MAX, STATUS_CORES_MAX, TEXT_BYTES_MAX, text_cut,
};
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use prost::Message as _;

use super::alloc::is_occupied;
use super::load::SentLoad;
use super::state::{AgentState, AttemptState, status};
use crate::attempt::AttemptId;

/// What this session has sent. The default is a session that was just opened.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The revision of the last report.
    pub revision: u64,
    /// The control plane has applied reports up to this revision.
    pub applied: u64,
    /// When the last report was sent.
    pub at: Duration,
    attempts: BTreeMap<AttemptId, SentReport>,
    pressure: Option<v1::PressureReport>,
    load: Option<SentLoad>,
    packages: Option<v1::PackageReport>,
    /// New attempts that are being started, and since when they are known.
    starting: BTreeMap<AttemptId, Duration>,
    /// The full report is being sent, up to this attempt.
    full: Option<Option<AttemptId>>,
    /// The last full chunk ended with this attempt: the next one begins after it.
    after: Option<AttemptId>,
    /// Every attempt's usage is being sent, unless it was sent since then.
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

/// A start is reported only if it takes longer than this. Most tasks run by then, and one report, which is one commit,
/// covers both.
const START_REPORTED_AFTER: Duration = Duration::from_millis(100);

/// After a report, changes are gathered for this long before the next one. The first change after a silence is reported
/// at once. Of many that come one after the other, as in an update, several share a report and so a commit.
pub(super) const GATHERED_FOR: Duration = Duration::from_millis(25);

/// Shortest time between two reports of the load.
const LOAD_PAUSE: Duration = Duration::from_secs(15);

/// Most bytes that frame a status in a report.
const STATUS_FRAME_BYTES: usize = 8;

#[derive(Clone, Debug)]
struct SentReport {
    status: v1::TaskStatus,
    revision: u64,
    at: Duration,
}

impl Sent {
    /// Records that the control plane has applied everything up to `revision`.
    pub(crate) fn applied(&mut self, revision: u64) {
        self.applied = self.applied.max(revision);
    }

    /// Returns true if the control plane has applied a report that the attempt is released.
    pub(super) fn has_released(&self, id: &AttemptId) -> bool {
        let is_applied = |sent: &SentReport| sent.revision <= self.applied;
        self.attempts.get(id).is_some_and(|sent| is_applied(sent) && sent.status.phase() == Phase::Released)
    }

    /// Returns true if no further report may be sent before one is applied.
    pub(crate) fn is_full(&self) -> bool {
        let most = u64::try_from(REPORTS_UNAPPLIED_MAX).unwrap_or(u64::MAX);
        self.revision.saturating_sub(self.applied) >= most
    }

    /// How much longer changes are gathered for the next report; `None`: it may be sent now.
    pub(crate) fn gathers_for(&self, now: Duration) -> Option<Duration> {
        if self.goes_on() {
            return None;
        }
        let left = self.at.saturating_add(GATHERED_FOR).saturating_sub(now);
        Some(left).filter(|left| !left.is_zero())
    }

    /// Returns true if another chunk should follow at once.
    pub(crate) fn goes_on(&self) -> bool {
        self.full.is_some() || self.after.is_some()
    }

    fn record(&mut self, report: &v1::Report, now: Duration) {
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

/// The next chunk to send: of the full report first, then of changes. `None` if nothing is due, or if
/// [`REPORTS_UNAPPLIED_MAX`] reports wait to be applied. Nothing is lost by that, since statuses are absolute.
///
/// `interval` is the time between reports when nothing changes; usage alone is sent only then. `repeat` is how long the
/// control plane may take to apply a status before it is sent again.
pub(crate) fn report_next(
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

/// The next chunk of the full report, after the attempt `after`.
fn report_full(state: &AgentState, sent: &mut Sent, now: Duration, after: Option<AttemptId>) -> v1::Report {
    let revision = sent.revision.saturating_add(1);
    let mut report = v1::Report { revision, full_begin: after.is_none(), ..v1::Report::default() };
    if report.full_begin {
        report.usage = Some(usage_sum(state));
        report.pressure = Some(state.pressure.report());
        report.packages = Some(packages_report(state));
        sent.load = state.load.next_report(None, now, LOAD_PAUSE);
        report.load = sent.load.map(|load| load.report());
    }
    let mut chunk = ReportChunk::new(&report);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut last = None;
    for (id, attempt) in state.attempts.range((from, Bound::Unbounded)) {
        if !chunk.take(status_bounded(state, id, attempt)) {
            sent.full = Some(last);
            break;
        }
        last = Some(id.clone());
    }
    report.tasks = chunk.tasks;
    report.full_end = sent.full.is_none();
    sent.record(&report, now);
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
    let load = state.load.next_report(sent.load.as_ref(), now, LOAD_PAUSE);
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
    let report = v1::Report { tasks, load: load.map(|load| load.report()), ..report };
    sent.record(&report, now);
    Some(report)
}

/// The due statuses, as many as fit. They begin after the last one of the previous full chunk and wrap around, so that
/// every attempt gets its turn however often others change.
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
        let status = status_bounded(state, id, attempt);
        if start_withheld(id, &status, sent, now) {
            continue;
        }
        let due = sent.attempts.get(id).is_none_or(|previous| {
            let unapplied = previous.revision > sent.applied && now.saturating_sub(previous.at) >= repeat;
            let usage = sent.usage_since.is_some_and(|since| previous.at < since);
            unapplied
                || differs(&previous.status, &status)
                || (usage && previous.status.usage != status.usage)
        });
        if due && !chunk.take(status) {
            sent.after = last;
            return chunk.tasks;
        }
        last = Some(id.clone());
    }
    sent.usage_since = None;
    chunk.tasks
}

/// The statuses of one report, within its bounds.
struct ReportChunk {
    tasks: Vec<v1::TaskStatus>,
    bytes: usize,
}

impl ReportChunk {
    fn new(report: &v1::Report) -> Self {
        Self { tasks: Vec::new(), bytes: report.encoded_len() }
    }

    /// Adds a status; `false` if it does not fit.
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
fn status_bounded(state: &AgentState, id: &AttemptId, attempt: &AttemptState) -> v1::TaskStatus {
    let mut status = status(id, attempt, &state.node);
    if status.phase() == Phase::Released && is_occupied(state, id, attempt) {
        // The node gets back what an alloc holds when nothing in it uses that any more.
        status.phase = Phase::Exited.into();
    }
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
    let same = |previous: &v1::PackageReport| previous.installed.iter().eq(&state.packages);
    (!sent.packages.as_ref().is_some_and(same)).then(|| packages_report(state))
}

/// Returns true if an attempt is being started, only for a short time, and was never reported.
fn start_withheld(id: &AttemptId, status: &v1::TaskStatus, sent: &mut Sent, now: Duration) -> bool {
    if sent.attempts.contains_key(id) || !matches!(status.phase(), Phase::Accepted | Phase::Starting) {
        sent.starting.remove(id);
        return false;
    }
    let since = *sent.starting.entry(id.clone()).or_insert(now);
    now.saturating_sub(since) < START_REPORTED_AFTER
}

/// Returns true if the statuses differ in more than the usage.
fn differs(before: &v1::TaskStatus, after: &v1::TaskStatus) -> bool {
    v1::TaskStatus { usage: None, ..before.clone() } != v1::TaskStatus { usage: None, ..after.clone() }
}

/// The sum of what the node's tasks use. Other use of the machine is not the cell's.
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
