//! What the control plane is told: everything at first, then what has changed, and again what it has not applied.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::task_status::Phase;

use super::load::LoadTold;
use super::state::{State, status};
use crate::life::LifeId;

/// What was told in this session.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The last report.
    pub revision: u64,
    /// Up to here the control plane has applied.
    pub applied: u64,
    /// When the last report went, of any content.
    pub at: Duration,
    lives: BTreeMap<LifeId, Told>,
    /// What the machine was last said to be short of.
    pressure: Option<v1::PressureReport>,
    /// What was last said of its load.
    load: Option<LoadTold>,
    /// The packages that it was last said to have.
    packages: Option<v1::PackageReport>,
    /// New lives that are just being started, and since when they are known.
    starting: BTreeMap<LifeId, Duration>,
}

/// A start is told only where it takes longer than this: mostly the task runs by then, and one report, which is one
/// commit, says it all.
const START_TOLD_AFTER: Duration = Duration::from_millis(100);

/// The load of the machine is told at most so often.
const LOAD_PAUSE: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
struct Told {
    status: v1::TaskStatus,
    revision: u64,
    at: Duration,
}

impl Sent {
    /// The control plane has applied everything up to `revision`.
    pub fn applied(&mut self, revision: u64) {
        self.applied = self.applied.max(revision);
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
            if let Ok(id) = LifeId::new(&status.job_id, status.index, status.incarnation) {
                self.lives.insert(id, Told { status: status.clone(), revision: report.revision, at: now });
            }
        }
    }
}

/// The first report of a session: all there is.
pub fn report_full(state: &State, sent: &mut Sent, now: Duration) -> v1::Report {
    *sent = Sent::default();
    let tasks = state.lives.iter().map(|(id, life)| status(id, life, &state.node)).collect();
    let (usage, pressure) = (Some(usage_sum(state)), Some(state.pressure.report()));
    let packages = Some(packages_report(state));
    sent.load = state.load.told_next(None, now, LOAD_PAUSE);
    let load = sent.load.map(|told| told.report());
    let report = v1::Report { revision: 1, full: true, tasks, usage, pressure, packages, load };
    sent.told(&report, now);
    report
}

/// What is to be told now; `None` where there is nothing.
///
/// `interval` is how often something is sent where nothing changes; usage alone is only sent then. `repeat` is how
/// long the control plane may take to apply a status before it is told again.
pub fn report_changes(
    state: &State,
    sent: &mut Sent,
    now: Duration,
    interval: Duration,
    repeat: Duration,
) -> Option<v1::Report> {
    let due = now.saturating_sub(sent.at) >= interval;
    let mut tasks = Vec::new();
    for (id, life) in &state.lives {
        let status = status(id, life, &state.node);
        if start_withheld(id, &status, sent, now) {
            continue;
        }
        let tell = sent.lives.get(id).is_none_or(|told| {
            let unapplied = told.revision > sent.applied && now.saturating_sub(told.at) >= repeat;
            unapplied || differs(&told.status, &status) || (due && told.status.usage != status.usage)
        });
        if tell {
            tasks.push(status);
        }
    }
    sent.lives.retain(|id, _| state.lives.contains_key(id));
    sent.starting.retain(|id, _| state.lives.contains_key(id));
    let pressure = Some(state.pressure.report()).filter(|now| sent.pressure.as_ref() != Some(now));
    let packages = packages_changed(state, sent);
    let load = state.load.told_next(sent.load.as_ref(), now, LOAD_PAUSE);
    if tasks.is_empty() && pressure.is_none() && packages.is_none() && load.is_none() && !due {
        return None;
    }
    sent.load = load.or(sent.load);
    let load = load.map(|told| told.report());
    let usage = due.then(|| usage_sum(state));
    let revision = sent.revision.saturating_add(1);
    let report = v1::Report { revision, full: false, tasks, usage, pressure, packages, load };
    sent.told(&report, now);
    Some(report)
}

fn packages_report(state: &State) -> v1::PackageReport {
    v1::PackageReport { installed: state.packages.iter().cloned().collect() }
}

fn packages_changed(state: &State, sent: &Sent) -> Option<v1::PackageReport> {
    let same = |told: &v1::PackageReport| told.installed.iter().eq(&state.packages);
    (!sent.packages.as_ref().is_some_and(same)).then(|| packages_report(state))
}

/// Whether a life that was never told is just being started, and not for long.
fn start_withheld(id: &LifeId, status: &v1::TaskStatus, sent: &mut Sent, now: Duration) -> bool {
    if sent.lives.contains_key(id) || !matches!(status.phase(), Phase::Accepted | Phase::Starting) {
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
fn usage_sum(state: &State) -> v1::Usage {
    let mut sum = v1::Usage::default();
    for usage in state.lives.values().filter(|life| life.record.exit.is_none()).filter_map(|life| life.usage)
    {
        sum.at_ms = sum.at_ms.max(usage.at_ms);
        sum.cpu_millis = sum.cpu_millis.saturating_add(usage.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(usage.memory_bytes);
        sum.memory_peak_bytes = sum.memory_peak_bytes.saturating_add(usage.memory_peak_bytes);
        sum.processes = sum.processes.saturating_add(usage.processes);
    }
    sum
}
