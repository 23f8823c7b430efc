//! Federated jobs, and what each cell has of them.

mod cause;
mod part;
mod plan;
mod progress;
mod release;
#[cfg(test)]
mod tests;
mod version;

use borough_proto::v1;
use serde::Serialize;

use super::table::{Tabular, table};
use super::text::{time, word};
use super::{Foreign, Style};
use crate::args::FEDERATION_HOME;

use self::part::{FederatedPartView, PartRow};
use self::release::{FederatedReleaseView, VersionComes, VersionGoal};
pub(crate) use cause::{CellCauseView, causes_text};
pub(crate) use plan::FederatedPlanView;
pub(crate) use progress::{FederatedProgress, Judged};
pub(crate) use version::{FederatedVersionView, federated_changes};

/// A federated job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedJobView {
    id: Foreign,
    user: Foreign,
    name: Foreign,
    /// `active`, `succeeded`, `failed`, `stopping` or `stopped`.
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
    /// Whether all its tasks have ended by themselves.
    ended: bool,
    /// Tasks that have ended for good without success.
    failed: u32,
    parts: Vec<FederatedPartView>,
    reasons: Vec<CellsReasonView>,
    /// What keeps the tasks of cells that do not answer from going to others.
    holds: Vec<CellsReasonView>,
    /// Null: the federation has not come to its newest version yet.
    release: Option<FederatedReleaseView>,
    /// What cells say of their tasks that are not healthy; only of one job.
    causes: Vec<CellCauseView>,
}

/// Cells for which the same words hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellsReasonView {
    words: Foreign,
    cells: Vec<Foreign>,
}

impl From<v1::FederatedJob> for FederatedJobView {
    fn from(job: v1::FederatedJob) -> Self {
        // The federation keeps a job whose tasks have ended as active until its owner stops it.
        let end = if job.failed == 0 { "succeeded" } else { "failed" };
        let state = word(job.state().as_str_name(), "FEDERATED_JOB_STATE_");
        let state = if job.ended { end.to_owned() } else { state };
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
            ended: job.ended,
            failed: job.failed,
            parts: job.parts.into_iter().map(FederatedPartView::from).collect(),
            reasons: job.reasons.into_iter().map(CellsReasonView::from).collect(),
            release: job.release.map(FederatedReleaseView::from),
            holds: job.holds.into_iter().map(CellsReasonView::from).collect(),
            causes: Vec::new(),
        }
    }
}

impl From<v1::CellsReason> for CellsReasonView {
    fn from(reason: v1::CellsReason) -> Self {
        let cells = reason.cells.into_iter().map(Foreign::from).collect();
        Self { words: reason.words.into(), cells }
    }
}

/// A federation in a sentence. Most have the name by which they are found anyway.
pub(crate) fn federation_named(home: &str) -> String {
    if home == FEDERATION_HOME { "the federation".to_owned() } else { format!("the federation {home}") }
}

impl FederatedJobView {
    /// The version that its cells are to have.
    fn goal(&self) -> VersionGoal {
        let newest = VersionGoal { version: self.version, comes: VersionComes::InTurn };
        let release = self.release.as_ref().filter(|release| release.version == self.version);
        release.map_or(newest, FederatedReleaseView::goal)
    }

    /// The newest version, or the last proven one if the newest has failed or was taken back.
    fn version_standing(&self) -> u64 {
        let release = self.release.as_ref().filter(|release| release.version == self.version);
        release
            .filter(|release| release.is_lost())
            .map_or_else(|| self.goal().version, |release| release.from)
    }

    /// Whether the federation has done what the owner wants, as far as the cells have room. Cells that are `away` end
    /// their tasks when they are back. Of a release that is not judged only the counts are waited for.
    pub(crate) fn is_settled(&self, away: &[String], judged: Judged) -> bool {
        match self.state.as_str() {
            "stopped" => true,
            "stopping" => false,
            _ => {
                self.is_released(judged)
                    && self.unplaced == 0
                    && self.shortfall.is_empty()
                    && self.has_settled(away, judged)
            }
        }
    }

    fn is_released(&self, judged: Judged) -> bool {
        let release = self.release.as_ref().filter(|release| release.version == self.version);
        judged.skips(self.version) || release.is_some_and(|release| release.phase == "done")
    }

    /// Whether each cell has what it should have of what is decided.
    fn has_settled(&self, away: &[String], judged: Judged) -> bool {
        let is_away = |part: &FederatedPartView| away.iter().any(|cell| part.cell.to_string() == *cell);
        let is_there = |part: &FederatedPartView| {
            if judged.skips(self.version) { part.has_count() } else { part.is_settled(self.goal()) }
        };
        let is_settled = |part: &FederatedPartView| is_there(part) || (part.is_to_end() && is_away(part));
        self.divided_revision == self.revision && self.parts.iter().all(is_settled)
    }

    /// The cells that are to have no task of it and are not known to have ended theirs.
    pub(crate) fn cells_ending(&self) -> Vec<String> {
        let ending = |part: &&FederatedPartView| part.is_to_end() && !part.is_settled(self.goal());
        self.parts.iter().filter(ending).map(|part| part.cell.to_string()).collect()
    }

    /// What has become of the order to take `version` back.
    pub(crate) fn taken_back(&self, version: u64, away: &[String]) -> TakenBack {
        let release = self.release.as_ref().filter(|release| release.version == version);
        match release {
            _ if self.state != "active" || self.version != version => TakenBack::Overtaken,
            Some(release) if release.phase == "reverted" && self.has_settled(away, Judged::Every) => {
                TakenBack::Done
            }
            Some(release) if release.phase == "done" => TakenBack::Overtaken,
            _ => TakenBack::NotYet,
        }
    }

    /// Why it does not get where its owner wants it, if that is for certain.
    pub(crate) fn failure_text(&self, judged: Judged) -> Option<String> {
        let release = self.release.as_ref().filter(|release| release.version == self.version)?;
        let counts = release.is_lost() && !judged.skips(release.version);
        if !counts || self.state != "active" || self.divided_revision < self.revision {
            return None;
        }
        release.text()
    }

    /// Whether nothing of it goes on any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended || self.state == "stopped"
    }

    /// How its tasks have ended, if all have by themselves, as those of batch work do.
    pub(crate) fn end(&self) -> Option<FederatedEnd> {
        let cells = self.parts.iter().filter(|part| part.failed > 0);
        let cells = cells.map(|part| part.cell.to_string()).collect();
        self.ended.then_some(FederatedEnd { failed: self.failed, cells })
    }

    /// Whether the newest version can be taken back.
    pub(crate) fn can_undo(&self) -> bool {
        self.release.as_ref().is_some_and(FederatedReleaseView::can_undo)
    }

    /// The cells that have it and lack healthy tasks.
    pub(crate) fn cells_unhealthy(&self) -> Vec<String> {
        let parts = self.parts.iter().filter(|part| self.state == "active" && part.lacks_healthy());
        parts.map(|part| part.cell.to_string()).collect()
    }

    /// Keeps what cells say of their tasks.
    pub(crate) fn causes_set(&mut self, causes: Vec<CellCauseView>) {
        self.causes = causes;
    }

    /// The commands that show why its newest version has failed; `None`: it has failed in no cell.
    pub(crate) fn cause_hint(&self) -> Option<String> {
        let release = self.release.as_ref().filter(|release| release.version == self.version)?;
        release.cause_hint(&format!("{}/{}", self.user, self.name))
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
        let open = self.parts.iter().filter(|part| !part.is_settled(self.goal()));
        let mut open: Vec<&FederatedPartView> = open.collect();
        if let Some(release) = self.release.as_ref().filter(|release| !release.waits.is_empty()) {
            // Cells whose turn it is not say nothing more, while the release waits for a person or for time.
            if open.iter().all(|part| part.waits_for_turn(self.goal())) {
                text = format!("{text}; {}", release.waits);
                open.clear();
            }
        }
        let open: Vec<String> = open.into_iter().map(|part| part.wait_text(self.goal())).collect();
        if !open.is_empty() {
            text = format!("{text}; waits for {}", open.join(", "));
        }
        text
    }

    /// How many tasks it is to have. Of a duplicate each cell has the whole count.
    fn wanted(&self) -> u32 {
        let targets = self.parts.iter().map(|part| part.target).fold(0, u32::saturating_add);
        targets.saturating_add(self.unplaced).max(self.count)
    }

    fn tasks_text(&self) -> String {
        let cells = if self.cells == 1 { "1 cell".to_owned() } else { format!("{} cells", self.cells) };
        let unplaced = match self.unplaced {
            0 => String::new(),
            1 => ", 1 without a cell".to_owned(),
            count => format!(", {count} without a cell"),
        };
        let sum = |of: fn(&FederatedPartView) -> u32| self.parts.iter().map(of).fold(0, u32::saturating_add);
        let wanted = self.wanted();
        let (succeeded, failed) = (sum(|part| part.succeeded), sum(|part| part.failed));
        let ended = match (succeeded, failed) {
            (0, 0) => String::new(),
            (succeeded, 0) => format!(", {succeeded} done"),
            (succeeded, failed) => format!(", {succeeded} done, {failed} failed"),
        };
        // Tasks of a larger count, or of a cell that they have left, may still be healthy.
        let more = match self.healthy.saturating_sub(wanted) {
            0 => String::new(),
            more => format!(", {more} more than wanted"),
        };
        format!("{}/{wanted} healthy in {cells}{more}{ended}{unplaced}", self.healthy.min(wanted))
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
        if self.state == "active" {
            text.push_str(&self.release_text());
        }
        if !self.shortfall.is_empty() {
            text = format!("{text}\n{}", self.shortfall);
        }
        text.push_str(self.cells_missing_text());
        let rows: Vec<PartRow<'_>> = self.parts.iter().map(|part| PartRow(part, self.goal())).collect();
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
        // Its tasks run no more, so the cells are not asked about them.
        let failed = self.end().and_then(|end| end.cells.into_iter().next());
        if let Some(cell) = failed {
            let (user, name) = (&self.user, &self.name);
            text = format!("{text}\n\nwhat its tasks wrote: borough --cell {cell} job logs {user}/{name}");
        }
        let causes = causes_text(&self.causes);
        if !causes.is_empty() {
            text = format!("{text}\n\n{}", causes.trim_end());
        }
        text
    }

    /// Its release; `None` once it is stopped, when nothing of it goes on.
    pub(crate) fn release_standing(&self) -> Option<&FederatedReleaseView> {
        self.release.as_ref().filter(|_| self.state == "active")
    }

    /// How far its release is, and where the cause of a failure is.
    fn release_text(&self) -> String {
        let release = self.release.as_ref().and_then(FederatedReleaseView::text);
        let mut text = release.map_or_else(String::new, |release| format!("\n{release}"));
        if let Some(hint) = self.cause_hint().filter(|_| self.goal().comes == VersionComes::NoMore) {
            text = format!("{text}\n  the cause is in the cell: {hint}");
        }
        text
    }

    /// What to do if the federation has no cells.
    fn cells_missing_text(&self) -> &'static str {
        if self.lacks_cells() {
            "\nthe federation has no cells: borough cell join CELL --at HOST:PORT"
        } else {
            ""
        }
    }

    /// Why tasks have no cell; empty: none lacks one.
    pub(crate) fn missing_text(&self) -> String {
        if self.unplaced == 0 {
            return String::new();
        }
        format!("{}{}", self.shortfall, self.reasons_text()).trim_start().to_owned()
    }

    /// Returns true if tasks have no place because the federation has no cells. Each that it has is in the reasons.
    pub(crate) fn lacks_cells(&self) -> bool {
        self.divided_revision == self.revision && self.unplaced > 0 && self.reasons.is_empty()
    }

    /// Why each cell has no more; empty if nothing is known.
    fn reasons_text(&self) -> String {
        // What a cell refuses is said above.
        let is_refused =
            |cell: &Foreign| self.parts.iter().any(|part| part.cell == *cell && part.is_refused());
        let mut lines = String::new();
        for reason in &self.reasons {
            let cells = reason.cells.iter().filter(|cell| !is_refused(cell));
            let cells: Vec<String> = cells.map(ToString::to_string).collect();
            if !cells.is_empty() {
                lines = format!("{lines}\n  {}: {}", cells.join(", "), reason.words);
            }
        }
        if lines.is_empty() { lines } else { format!("\n\nwhy each cell has no more:{lines}") }
    }
}

impl Tabular for FederatedJobView {
    const PLURAL: &'static str = "federated jobs";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (
            vec!["USER", "JOB", "STATE", "TASKS", "HEALTHY", "CELLS", "UNPLACED", "RELEASE"],
            vec!["VERSION", "REVISION", "CHANGED"],
        )
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            self.user.to_string(),
            self.name.to_string(),
            self.state.clone(),
            self.wanted().to_string(),
            self.healthy.to_string(),
            self.cells.to_string(),
            self.unplaced.to_string(),
            self.release_standing().map_or("-", FederatedReleaseView::under_way).to_owned(),
        ];
        (cells, vec![self.version.to_string(), self.revision.to_string(), time(self.changed_ms)])
    }

    fn key(&self) -> String {
        format!("{}/{}", self.user, self.name)
    }
}

/// How the tasks of a job have ended by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FederatedEnd {
    /// Tasks that did not succeed.
    pub(crate) failed: u32,
    /// Their cells; empty in a list.
    pub(crate) cells: Vec<String>,
}

/// What has become of the order to take a version back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenBack {
    NotYet,
    Done,
    /// Another version has come, or all cells have this one, or the job is stopped.
    Overtaken,
}
