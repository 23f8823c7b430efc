//! Federated jobs, and what each cell has of them.

mod plan;

use borough_proto::v1;
use serde::Serialize;

use super::table::{Tabular, table};
use super::text::{time, word};
use super::{Foreign, Style};

pub(crate) use plan::FederatedPlanView;

/// A federated job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedJobView {
    id: Foreign,
    user: Foreign,
    name: Foreign,
    /// `active`, `stopping` or `stopped`.
    state: String,
    count: u32,
    version: u64,
    revision: u64,
    submitted_ms: i64,
    changed_ms: i64,
    changed_by: Foreign,
    /// The revision that was last divided among cells; below `revision`: the federation has not come to it yet.
    divided_revision: u64,
    divided_ms: i64,
    /// Tasks without a cell.
    unplaced: u32,
    shortfall: Foreign,
    cells: u32,
    running: u32,
    healthy: u32,
    pending: u32,
    parts: Vec<FederatedPartView>,
    reasons: Vec<CellsReasonView>,
    /// What keeps the tasks of cells that do not answer from going to others.
    holds: Vec<CellsReasonView>,
    /// Null: the federation has not come to its newest version yet.
    release: Option<FederatedReleaseView>,
}

/// How far its newest version is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedReleaseView {
    version: u64,
    from: u64,
    /// `rolling`, `failed`, `reverting`, `reverted` or `done`.
    phase: String,
    /// From 0.
    stage: u32,
    paused: bool,
    failed: Vec<CellsReasonView>,
    /// What it waits for; empty: nothing.
    waits: Foreign,
}

/// What one cell has of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedPartView {
    cell: Foreign,
    count: u32,
    target: u32,
    version: u64,
    arrived: bool,
    job_id: Foreign,
    running: u32,
    healthy: u32,
    pending: u32,
    succeeded: u32,
    failed: u32,
    /// `rolling`, `done` or `failed`; empty before the first report of the cell.
    rollout: String,
    /// 0: the cell has not reported yet.
    seen_ms: i64,
    problem: Foreign,
    problem_since_ms: i64,
    /// Since when its tasks are promised to other cells; 0: they are not.
    failed_over_ms: i64,
    /// Its job has ended by itself.
    finished: bool,
}

/// Cells for which the same words hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellsReasonView {
    words: Foreign,
    cells: Vec<Foreign>,
}

impl From<v1::FederatedJob> for FederatedJobView {
    fn from(job: v1::FederatedJob) -> Self {
        let state = word(job.state().as_str_name(), "FEDERATED_JOB_STATE_");
        Self {
            id: job.id.into(),
            user: job.user.into(),
            name: job.name.into(),
            state,
            count: job.count,
            version: job.version,
            revision: job.revision,
            submitted_ms: job.submitted_ms,
            changed_ms: job.changed_ms,
            changed_by: job.changed_by.into(),
            divided_revision: job.divided_revision,
            divided_ms: job.divided_ms,
            unplaced: job.unplaced,
            shortfall: job.shortfall.into(),
            cells: job.cells,
            running: job.running,
            healthy: job.healthy,
            pending: job.pending,
            parts: job.parts.into_iter().map(FederatedPartView::from).collect(),
            reasons: job.reasons.into_iter().map(CellsReasonView::from).collect(),
            release: job.release.map(FederatedReleaseView::from),
            holds: job.holds.into_iter().map(CellsReasonView::from).collect(),
        }
    }
}

impl From<v1::CellsReason> for CellsReasonView {
    fn from(reason: v1::CellsReason) -> Self {
        let cells = reason.cells.into_iter().map(Foreign::from).collect();
        Self { words: reason.words.into(), cells }
    }
}

impl From<v1::FederatedRelease> for FederatedReleaseView {
    fn from(release: v1::FederatedRelease) -> Self {
        let phase = word(release.phase().as_str_name(), "RELEASE_PHASE_");
        Self {
            version: release.version,
            from: release.from,
            phase,
            stage: release.stage,
            paused: release.paused,
            failed: release.failed.into_iter().map(CellsReasonView::from).collect(),
            waits: release.waits.into(),
        }
    }
}

impl FederatedReleaseView {
    /// How far it is, if it is under way or has failed.
    fn text(&self) -> Option<String> {
        let Self { version, from, phase, stage, paused, failed, waits } = self;
        if phase == "done" {
            return None;
        }
        let paused = if *paused { ", paused" } else { "" };
        let mut text = format!("release of version {version} (from {from}): {phase}, stage {stage}{paused}");
        if !waits.is_empty() {
            text = format!("{text}: {waits}");
        }
        for reason in failed {
            let cells: Vec<String> = reason.cells.iter().map(ToString::to_string).collect();
            text = format!("{text}\n  failed in {}: {}", cells.join(", "), reason.words);
        }
        Some(text)
    }
}

impl From<v1::FederatedPart> for FederatedPartView {
    fn from(part: v1::FederatedPart) -> Self {
        let is_reported = part.rollout() != v1::PartRollout::Unspecified;
        let rollout =
            if is_reported { word(part.rollout().as_str_name(), "PART_ROLLOUT_") } else { String::new() };
        Self {
            cell: part.cell.into(),
            count: part.count,
            target: part.target,
            version: part.version,
            arrived: part.arrived,
            job_id: part.job_id.into(),
            running: part.running,
            healthy: part.healthy,
            pending: part.pending,
            succeeded: part.succeeded,
            failed: part.failed,
            rollout,
            seen_ms: part.seen_ms,
            problem: part.problem.into(),
            problem_since_ms: part.problem_since_ms,
            failed_over_ms: part.failed_over_ms,
            finished: part.finished,
        }
    }
}

impl FederatedPartView {
    /// What the cell does with it now.
    fn state_text(&self, version: u64) -> String {
        if self.failed_over_ms > 0 {
            return format!("failed over since {}", time(self.failed_over_ms));
        }
        if !self.problem.is_empty() {
            return format!("refused since {}", time(self.problem_since_ms));
        }
        if !self.arrived {
            return "being told".to_owned();
        }
        if self.finished {
            return if self.failed > 0 { "has ended, with failures" } else { "has ended" }.to_owned();
        }
        match self.rollout.as_str() {
            "failed" => "rollout failed".to_owned(),
            "rolling" => "rolling".to_owned(),
            _ if self.target < self.count => format!("{} move", self.count - self.target),
            _ if self.version < version => "waits for its turn".to_owned(),
            _ if self.running > self.count => format!("{} end", self.running - self.count),
            _ if self.ready() < self.count => format!("{} not healthy yet", self.count - self.ready()),
            _ => "current".to_owned(),
        }
    }

    fn is_settled(&self, version: u64) -> bool {
        let is_done = self.arrived && self.target == self.count && self.version == version;
        let is_right = self.ready() >= self.count && self.running <= self.count;
        self.count == 0 || (is_done && (self.finished || (self.rollout == "done" && is_right)))
    }

    /// Tasks that are healthy, or have ended for good.
    fn ready(&self) -> u32 {
        self.healthy.saturating_add(self.succeeded).saturating_add(self.failed)
    }
}

/// A part as a row of a table.
struct PartRow<'p>(&'p FederatedPartView, u64);

impl Tabular for PartRow<'_> {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "TASKS", "HEALTHY", "PENDING", "VERSION", "STATE"], vec!["JOB", "SEEN"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let Self(part, version) = self;
        let cells = vec![
            part.cell.to_string(),
            part.count.to_string(),
            part.healthy.to_string(),
            part.pending.to_string(),
            part.version.to_string(),
            part.state_text(*version),
        ];
        (cells, vec![part.job_id.to_string(), time(part.seen_ms)])
    }
}

impl FederatedJobView {
    /// Whether the federation has done what the owner wants, as far as the cells have room.
    pub(crate) fn is_settled(&self) -> bool {
        let is_divided = self.divided_revision == self.revision;
        match self.state.as_str() {
            "stopped" => true,
            "stopping" => false,
            _ => {
                let is_released = self
                    .release
                    .as_ref()
                    .is_some_and(|release| release.phase == "done" && release.version == self.version);
                is_divided
                    && is_released
                    && self.unplaced == 0
                    && self.shortfall.is_empty()
                    && self.parts.iter().all(|part| part.is_settled(self.version))
            }
        }
    }

    /// Why it does not get where its owner wants it, if that is for certain.
    pub(crate) fn failure_text(&self) -> Option<String> {
        let release = self.release.as_ref().filter(|release| release.version == self.version)?;
        let is_over = matches!(release.phase.as_str(), "failed" | "reverted");
        if !is_over || self.state != "active" || self.divided_revision < self.revision {
            return None;
        }
        release.text()
    }

    /// How far it is, in one line.
    pub(crate) fn progress_text(&self) -> String {
        if self.state == "stopping" {
            let cells: Vec<String> = self.parts.iter().map(|part| part.cell.to_string()).collect();
            return format!(
                "waits for {}",
                if cells.is_empty() { "its end".to_owned() } else { cells.join(", ") }
            );
        }
        if self.divided_revision < self.revision {
            return "being divided among the cells".to_owned();
        }
        let mut text = format!("{}{}", self.tasks_text(), self.cells_missing_text().replace('\n', "; "));
        let open = self.parts.iter().filter(|part| !part.is_settled(self.version));
        let open: Vec<String> =
            open.map(|part| format!("{} ({})", part.cell, part.state_text(self.version))).collect();
        let waits = self.release.as_ref().filter(|release| !release.waits.is_empty() && open.is_empty());
        if let Some(release) = waits {
            text = format!("{text}; stage {}: {}", release.stage, release.waits);
        }
        if !open.is_empty() {
            text = format!("{text}; waits for {}", open.join(", "));
        }
        text
    }

    fn tasks_text(&self) -> String {
        let cells = if self.cells == 1 { "1 cell".to_owned() } else { format!("{} cells", self.cells) };
        let unplaced = match self.unplaced {
            0 => String::new(),
            1 => ", 1 without a cell".to_owned(),
            count => format!(", {count} without a cell"),
        };
        let sum = |of: fn(&FederatedPartView) -> u32| self.parts.iter().map(of).fold(0, u32::saturating_add);
        // Of a duplicate each cell has the whole count.
        let wanted = sum(|part| part.target).saturating_add(self.unplaced).max(self.count);
        let (succeeded, failed) = (sum(|part| part.succeeded), sum(|part| part.failed));
        let ended = match (succeeded, failed) {
            (0, 0) => String::new(),
            (succeeded, 0) => format!(", {succeeded} done"),
            (succeeded, failed) => format!(", {succeeded} done, {failed} failed"),
        };
        format!("{}/{wanted} healthy in {cells}{ended}{unplaced}", self.healthy)
    }

    /// For people.
    pub(crate) fn text(&self, style: &Style) -> String {
        let mut text = format!(
            "{}/{}: {}, {}\nversion {}, revision {}, changed {} by {}",
            self.user,
            self.name,
            self.state,
            self.tasks_text(),
            self.version,
            self.revision,
            time(self.changed_ms),
            self.changed_by
        );
        if self.state == "active" && self.divided_revision < self.revision {
            text.push_str("\nbeing divided among the cells; if that stays, see whether anybody does it: borough cell members");
        }
        if let Some(release) = self.release.as_ref().and_then(FederatedReleaseView::text) {
            text = format!("{text}\n{release}");
        }
        if !self.shortfall.is_empty() {
            text = format!("{text}\n{}", self.shortfall);
        }
        text.push_str(self.cells_missing_text());
        let rows: Vec<PartRow<'_>> = self.parts.iter().map(|part| PartRow(part, self.version)).collect();
        if !rows.is_empty() {
            text = format!("{text}\n\n{}", table(&rows, style).trim_end());
        }
        for part in self.parts.iter().filter(|part| !part.problem.is_empty()) {
            text = format!("{text}\n{}: {}", part.cell, part.problem);
        }
        for hold in &self.holds {
            let cells: Vec<String> = hold.cells.iter().map(ToString::to_string).collect();
            text = format!("{text}\n{}: no answer, and no failover: {}", cells.join(", "), hold.words);
        }
        if self.state == "active" {
            text.push_str(&self.reasons_text());
        }
        text
    }

    /// What to do if the federation has no cells. Each cell that it has is in the reasons.
    fn cells_missing_text(&self) -> &'static str {
        if self.divided_revision == self.revision && self.unplaced > 0 && self.reasons.is_empty() {
            "\nthe federation has no cells: borough cell join CELL --at HOST:PORT"
        } else {
            ""
        }
    }

    /// Why each cell has no more; empty if nothing is known.
    fn reasons_text(&self) -> String {
        if self.reasons.is_empty() {
            return String::new();
        }
        let mut text = "\n\nwhy each cell has no more:".to_owned();
        for reason in &self.reasons {
            let cells: Vec<String> = reason.cells.iter().map(ToString::to_string).collect();
            text = format!("{text}\n  {}: {}", cells.join(", "), reason.words);
        }
        text
    }
}

impl Tabular for FederatedJobView {
    const PLURAL: &'static str = "federated jobs";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (
            vec!["USER", "JOB", "STATE", "TASKS", "HEALTHY", "CELLS", "UNPLACED"],
            vec!["VERSION", "REVISION", "CHANGED"],
        )
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            self.user.to_string(),
            self.name.to_string(),
            self.state.clone(),
            self.count.to_string(),
            self.healthy.to_string(),
            self.cells.to_string(),
            self.unplaced.to_string(),
        ];
        (cells, vec![self.version.to_string(), self.revision.to_string(), time(self.changed_ms)])
    }

    fn key(&self) -> String {
        format!("{}/{}", self.user, self.name)
    }
}

/// A version of a federated job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedVersionView {
    version: u64,
    at_ms: i64,
    by: Foreign,
    job_file: serde_json::Value,
}

impl From<v1::FederatedJobVersion> for FederatedVersionView {
    fn from(version: v1::FederatedJobVersion) -> Self {
        Self {
            version: version.version,
            at_ms: version.at_ms,
            by: version.by.into(),
            job_file: serde_json::from_str(&version.job_file).unwrap_or_default(),
        }
    }
}

impl Tabular for FederatedVersionView {
    const PLURAL: &'static str = "versions";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["VERSION", "CHANGED", "BY"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.version.to_string(), time(self.at_ms), self.by.to_string()], Vec::new())
    }
}
