//! The part of a federated job that one cell has: what was promised to the cell, what has arrived, and what was seen.
//!
//! A promise is recorded before the cell hears of it. Telling the cell again has no further effect, so whoever leads
//! next finishes what a crash left. The functions here decide; the federation process calls the cells.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::failover::{KeptSide, SettleCell, SettleOutcome, SettleStep, Settlement};
use super::release::{CellProgress, CellReach, CellRelease};
use super::row::{FederatedJobRow, FederatedState, FederatedStatus};
use super::split::Split;
use crate::id::{FederatedJobId, Name};

/// What the federation has promised to a cell of a job, and what it knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FederatedPart {
    #[n(0)]
    pub cell: Name,
    /// Tasks that are promised to it.
    #[n(1)]
    pub count: u32,
    /// Tasks that it keeps once those that replace the others are healthy elsewhere: at most `count`.
    #[n(2)]
    pub target: u32,
    /// The version of the job that is assigned to it.
    #[n(3)]
    pub version: u64,
    /// Counts the promises.
    #[n(4)]
    pub promise: u64,
    /// The last promise that the cell has taken.
    #[n(5)]
    pub arrived: u64,
    /// When the last promise was made. Time of the federation's home, milliseconds since 1970.
    #[n(6)]
    pub promised_ms: i64,
    /// What the cell has admitted for it.
    #[n(7)]
    pub admitted: Option<AdmittedJob>,
    #[n(8)]
    pub seen: Option<PartSeen>,
    #[n(9)]
    pub problem: Option<PartProblem>,
    /// Since when its tasks are promised to other cells, because it was silent for too long.
    #[n(10)]
    pub failed_over_ms: Option<i64>,
    /// Its tasks that do not replace those of a cell that was failed over; absent: all.
    #[n(11)]
    pub own: Option<u32>,
    /// The version that the cell has admitted last; 0: none that is known.
    #[n(12)]
    #[cbor(default)]
    pub admitted_version: u64,
}

/// A job of a cell, as the cell admitted it for the federation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AdmittedJob {
    /// Its id in the cell.
    #[n(0)]
    pub id: String,
    /// The revision after the last change of its spec, its count or its priority. Another one: somebody else has
    /// changed it since.
    #[n(1)]
    pub changed_revision: u64,
    /// The version of its spec in the cell, or that of its rollout until that is over; 0: not recorded.
    #[n(2)]
    #[cbor(default)]
    pub version: u32,
}

impl AdmittedJob {
    /// Whether nobody else has changed the job since it was `before`.
    pub fn is_unchanged(&self, before: &Self) -> bool {
        (&self.id, self.changed_revision) == (&before.id, before.changed_revision)
    }

    /// Whether the cell's own rollout, which has taken back the version `reverts`, has taken back this one. Without a
    /// record any that it has taken back may be this one.
    pub fn is_taken_back(&self, found: &Self, reverts: u32) -> bool {
        reverts > 0 && self.id == found.id && (self.version == reverts || self.version == 0)
    }

    /// Whether the cell still has this version, whatever its count is.
    pub fn is_version_of(&self, found: &Self) -> bool {
        self.id == found.id && self.version > 0 && self.version == found.version
    }
}

/// What a cell has reported of its part.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct PartSeen {
    /// Time of the federation's home, milliseconds since 1970.
    #[n(0)]
    pub at_ms: i64,
    #[n(1)]
    pub running: u32,
    #[n(2)]
    pub healthy: u32,
    #[n(3)]
    pub pending: u32,
    /// Ended for good with exit code 0.
    #[n(4)]
    pub succeeded: u32,
    /// Ended for good in any other way.
    #[n(5)]
    pub failed: u32,
    #[n(6)]
    pub rollout: PartRollout,
    /// Its job has ended by itself, as batch work does. It is not run again, also when the cell has forgotten it.
    #[n(7)]
    #[cbor(default)]
    pub finished: bool,
}

/// How far a cell is with the version that is assigned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum PartRollout {
    /// Every task has it.
    #[default]
    #[n(0)]
    Done,
    #[n(1)]
    Rolling,
    /// Its own rollout has stopped, or has taken the version back.
    #[n(2)]
    Failed,
}

/// What keeps a cell from taking a promise.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PartProblem {
    /// Time of the federation's home, milliseconds since 1970.
    #[n(0)]
    pub since_ms: i64,
    #[n(1)]
    pub message: String,
}

impl FederatedPart {
    /// A cell to which nothing is promised yet.
    pub fn new(cell: Name) -> Self {
        Self {
            cell,
            count: 0,
            target: 0,
            version: 0,
            promise: 0,
            arrived: 0,
            promised_ms: 0,
            admitted: None,
            seen: None,
            problem: None,
            failed_over_ms: None,
            own: None,
            admitted_version: 0,
        }
    }

    /// A part that its cell has and that nobody promised: the cell is to give it up.
    pub fn unwanted(cell: Name, version: u64, now_ms: i64) -> Self {
        Self { version, promise: 1, promised_ms: now_ms, ..Self::new(cell) }
    }

    /// Promises other numbers or another version. The same again is no promise.
    pub fn promise(&mut self, count: u32, target: u32, version: u64, now_ms: i64) {
        let is_new = (count, version) != (self.count, self.version);
        (self.count, self.target, self.version) = (count, target.min(count), version);
        if is_new {
            self.promise = self.promise.saturating_add(1);
            self.promised_ms = now_ms;
        }
    }

    /// Whether the cell has taken the last promise.
    pub fn is_arrived(&self) -> bool {
        self.arrived == self.promise
    }

    /// Healthy tasks of the last report, at most as many as were promised.
    pub fn healthy(&self) -> u32 {
        self.seen.as_ref().map_or(0, |seen| seen.healthy.saturating_add(seen.succeeded)).min(self.count)
    }

    /// Whether its job has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.finished)
    }

    /// Whether nothing is left to do or to remember.
    pub fn is_over(&self) -> bool {
        self.count == 0 && self.is_arrived() && self.failed_over_ms.is_none()
    }
}

/// What a cell has under the name of a federated job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundJob {
    pub job: AdmittedJob,
    /// The revision that a change is made for.
    pub revision: u64,
    /// The federated job that it is a part of, by its label; absent: it is a job of the cell alone.
    pub owner: Option<FederatedJobId>,
    pub count: u32,
    /// Whether its last rollout has stopped.
    pub has_failed: bool,
    /// The version of its spec that its last rollout has taken back; 0: none.
    pub reverts: u32,
    /// Whether it has ended by itself.
    pub is_finished: bool,
}

/// What to tell a cell of its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// It has what it should have.
    Rest,
    /// Submit the job, in place of this one; absent: the cell must have none.
    Submit { expected: Option<FoundJob> },
    /// Only change the number of tasks of this job: its version has failed in the cell, and a submission would begin it
    /// again.
    Scale { expected: FoundJob },
    /// Stop the job of this id.
    Stop { id: String },
    /// The name belongs to a job of the cell's own. Its owner decides.
    Taken { id: String },
}

/// What to tell a cell that has `found` under the name of the job. A job without this job's label is never touched.
pub fn part_step(job: FederatedJobId, part: &FederatedPart, found: Option<&FoundJob>) -> PartStep {
    let is_wanted = part.count > 0;
    let Some(found) = found else {
        if part.is_arrived() && part.is_finished() {
            return PartStep::Rest;
        }
        return if is_wanted { PartStep::Submit { expected: None } } else { PartStep::Rest };
    };
    // Another file of the name takes the labels away, and the job is the same.
    let is_admitted = |admitted: &AdmittedJob| found.owner.is_none() && admitted.id == found.job.id;
    let is_ours = found.owner == Some(job) || part.admitted.as_ref().is_some_and(is_admitted);
    if !is_ours {
        if !is_wanted {
            return PartStep::Rest;
        }
        // An earlier job of the name that has ended is in nobody's way.
        let taken = PartStep::Taken { id: found.job.id.clone() };
        return if found.is_finished { PartStep::Submit { expected: None } } else { taken };
    }
    if found.is_finished {
        // Another version is none of tasks that have ended, as in a cell alone. More tasks are other work.
        let is_same = part.admitted.as_ref().is_some_and(|job| job.id == found.job.id);
        let is_done = !is_wanted || (is_same && (part.is_arrived() || part.count <= found.count));
        // What has ended is in nobody's way.
        return if is_done { PartStep::Rest } else { PartStep::Submit { expected: None } };
    }
    if !is_wanted {
        return PartStep::Stop { id: found.job.id.clone() };
    }
    // Somebody has changed it in the cell: what the federation has promised holds. A version that the cell has taken
    // back is no such change: the release of the job decides.
    let admitted = part.admitted.as_ref().filter(|_| found.owner == Some(job));
    let is_unchanged = admitted.is_some_and(|admitted| found.job.is_unchanged(admitted));
    let is_taken_back = admitted.is_some_and(|admitted| admitted.is_taken_back(&found.job, found.reverts));
    // It has failed there. The count may have been brought, without an answer that says so.
    let has_failed = is_taken_back
        || (found.has_failed && admitted.is_some_and(|admitted| admitted.is_version_of(&found.job)));
    if part.is_arrived() && (is_unchanged || has_failed) && found.count == part.count {
        return PartStep::Rest;
    }
    let expected = found.clone();
    let is_lost = has_failed && part.admitted_version == part.version;
    if is_lost { PartStep::Scale { expected } } else { PartStep::Submit { expected: Some(expected) } }
}

/// Whether all tasks of a job have ended by themselves, as batch work does: each cell that has some says so, and none
/// is without a cell.
pub fn parts_finished(
    job: &FederatedJobRow,
    status: &FederatedStatus,
    parts: &BTreeMap<Name, FederatedPart>,
) -> bool {
    let is_divided = status.divided == job.revision && status.unplaced == 0;
    let with_tasks = || parts.values().filter(|part| part.count > 0 && part.failed_over_ms.is_none());
    let has_ended = |part: &FederatedPart| part.is_arrived() && part.is_finished();
    job.state == FederatedState::Active
        && is_divided
        && with_tasks().next().is_some()
        && with_tasks().all(has_ended)
}

/// The parts that a split changes. A cell that loses tasks keeps them for now: [`parts_lowered`] says when they go.
/// One that was failed over is left as it is, and one that is new to the job begins with `version`.
pub fn parts_promised(
    job: &FederatedJobRow,
    parts: &BTreeMap<Name, FederatedPart>,
    split: &Split,
    version: u64,
    now_ms: i64,
) -> Vec<FederatedPart> {
    let is_stopped = job.state != FederatedState::Active;
    let new = split.counts.keys().filter(|cell| !parts.contains_key(*cell));
    let new: Vec<FederatedPart> = new.map(|cell| FederatedPart::new(cell.clone())).collect();
    let mut changed = Vec::new();
    for before in parts.values().chain(&new) {
        let mut part = before.clone();
        let gets = split.counts.get(&part.cell).copied().unwrap_or(0);
        if is_stopped {
            part.failed_over_ms = None;
            part.promise(0, 0, part.version, now_ms);
        } else if part.failed_over_ms.is_some() {
            part.target = 0;
        } else {
            let version = if part.count == 0 { version } else { part.version };
            part.promise(part.count.max(gets), gets, version, now_ms);
        }
        if part != *before {
            changed.push(part);
        }
    }
    changed
}

/// The parts that may give up tasks now, as they are afterwards. Those that replace healthy tasks are healthy first. A
/// task that is not healthy is no loss. A cell that was failed over gives up nothing here: see
/// [`settlement_of`].
pub fn parts_lowered(
    parts: &BTreeMap<Name, FederatedPart>,
    is_heard: impl Fn(&Name) -> bool,
    now_ms: i64,
) -> Vec<FederatedPart> {
    let sum =
        |of: &dyn Fn(&FederatedPart) -> u32| parts.values().map(|part| u64::from(of(part))).sum::<u64>();
    let wanted = sum(&|part| part.target);
    let mut healthy = sum(&|part| if is_heard(&part.cell) { part.healthy() } else { 0 });
    let mut lowered = Vec::new();
    // What a cell has that was failed over is settled when it is back.
    let is_lower = |part: &&FederatedPart| part.target < part.count && part.failed_over_ms.is_none();
    for part in parts.values().filter(is_lower) {
        let healthy_here = if is_heard(&part.cell) { part.healthy() } else { 0 };
        let lost = u64::from(healthy_here.saturating_sub(part.target));
        if lost > 0 && healthy.saturating_sub(lost) < wanted {
            continue;
        }
        healthy = healthy.saturating_sub(lost);
        let mut after = part.clone();
        after.promise(part.target, part.target, part.version, now_ms);
        lowered.push(after);
    }
    lowered
}

/// What is known of a part for the release of its job. `reach`: whether the cell answers.
pub fn part_release(
    part: &FederatedPart,
    labels: &BTreeMap<String, String>,
    reach: CellReach,
) -> CellRelease {
    let progress = match part.seen.as_ref().filter(|seen| part.is_arrived() && seen.at_ms >= part.promised_ms)
    {
        None => CellProgress::Rolling,
        Some(seen) if seen.rollout == PartRollout::Failed => {
            CellProgress::Failed { why: "the rollout of the cell has failed".to_owned() }
        }
        Some(seen) => {
            let ready = seen.healthy.saturating_add(seen.succeeded).saturating_add(seen.failed);
            // What has ended by itself changes no more.
            let is_complete = seen.finished || (seen.rollout == PartRollout::Done && ready >= part.target);
            if is_complete { CellProgress::Complete } else { CellProgress::Rolling }
        }
    };
    CellRelease {
        name: part.cell.clone(),
        labels: labels.clone(),
        has_tasks: part.count > 0 && part.failed_over_ms.is_none(),
        reach,
        assigned: Some(part.version),
        progress,
    }
}

/// The parts of a job after its tasks in `cell` are promised to others. Those that have tasks remember how many were
/// their own.
pub fn part_failed_over(
    parts: &BTreeMap<Name, FederatedPart>,
    cell: &Name,
    now_ms: i64,
) -> Vec<FederatedPart> {
    let mut changed = Vec::new();
    for before in parts.values() {
        let mut part = before.clone();
        if part.cell == *cell {
            (part.failed_over_ms, part.target, part.own) = (Some(now_ms), 0, None);
        } else if part.failed_over_ms.is_none() && part.own.is_none() {
            part.own = Some(part.target);
        }
        if part != *before {
            changed.push(part);
        }
    }
    changed
}

/// What there is to settle of a job: cells that were failed over and have reported since. `None`: there are none.
/// `back_ms`: for how long a cell has answered again.
pub fn settlement_of(
    job: &FederatedJobRow,
    parts: &BTreeMap<Name, FederatedPart>,
    kept: Option<KeptSide>,
    is_heard: impl Fn(&Name) -> bool,
    back_ms: impl Fn(&Name) -> u64,
    now_ms: i64,
) -> Option<Settlement> {
    let has_reported = |part: &FederatedPart| {
        let failed_ms = part.failed_over_ms.unwrap_or(i64::MAX);
        is_heard(&part.cell) && part.seen.as_ref().is_some_and(|seen| seen.at_ms > failed_ms)
    };
    let settled = |part: &FederatedPart| {
        let seen = part.seen.clone().unwrap_or_default();
        let since_ms = now_ms.saturating_sub(part.promised_ms);
        SettleCell {
            cell: part.cell.clone(),
            is_current: is_heard(&part.cell),
            promised: part.count,
            own: if part.failed_over_ms.is_some() { 0 } else { part.own.unwrap_or(0).min(part.count) },
            running: seen.running,
            healthy: seen.healthy,
            // The cell does not say how long its tasks have run: they are as old as the promise at most.
            runs_for_ms: u64::try_from(since_ms).unwrap_or(0),
        }
    };
    let returned: Vec<SettleCell> = parts.values().filter(|part| has_reported(part)).map(settled).collect();
    let back_ms = returned.iter().map(|cell| back_ms(&cell.cell)).min()?;
    let others = parts.values().filter(|part| part.failed_over_ms.is_none() && part.count > 0);
    Some(Settlement {
        policy: job.spec.federation.returns,
        count: job.spec.job.count,
        returned,
        others: others.map(settled).collect(),
        kept,
        back_ms,
    })
}

/// The parts that a step of a settlement changes.
pub fn settlement_apply(
    parts: &BTreeMap<Name, FederatedPart>,
    step: &SettleStep,
    now_ms: i64,
) -> Vec<FederatedPart> {
    let is_settled = step.outcome == SettleOutcome::Settled;
    let mut changed = Vec::new();
    for before in parts.values() {
        let mut part = before.clone();
        if let Some(count) = step.counts.get(&part.cell) {
            let count = (*count).min(part.count);
            // A move out of the cell goes on.
            let target = if part.failed_over_ms.is_some() { count } else { part.target.min(count) };
            part.promise(count, target, part.version, now_ms);
            if is_settled {
                part.failed_over_ms = None;
            }
        }
        if is_settled {
            part.own = None;
        }
        if part != *before {
            changed.push(part);
        }
    }
    changed
}

#[cfg(test)]
mod tests;
