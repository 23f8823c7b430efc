//! What one cell has of a federated job.

use borough_proto::v1;
use serde::Serialize;

use super::super::Foreign;
use super::super::table::Tabular;
use super::super::text::{time, word};
use super::release::{VersionComes, VersionGoal};

/// What one cell has of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedPartView {
    pub(super) cell: Foreign,
    pub(super) count: u32,
    pub(super) target: u32,
    version: u64,
    pub(super) arrived: bool,
    job_id: Foreign,
    running: u32,
    pub(super) healthy: u32,
    pending: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    /// `rolling`, `done` or `failed`; empty before the first report of the cell.
    rollout: String,
    /// 0: the cell has not reported yet.
    seen_ms: i64,
    pub(super) problem: Foreign,
    problem_since_ms: i64,
    /// Since when its tasks are promised to other cells; 0: they are not.
    failed_over_ms: i64,
    /// Its job has ended by itself.
    finished: bool,
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
    pub(super) fn state_text(&self, goal: VersionGoal) -> String {
        if self.failed_over_ms > 0 {
            return format!("failed over since {}", time(self.failed_over_ms));
        }
        if self.is_refused() {
            return format!("refused since {}", time(self.problem_since_ms));
        }
        if !self.arrived {
            return "being told".to_owned();
        }
        if self.finished {
            return if self.failed > 0 { "has ended, with failures" } else { "has ended" }.to_owned();
        }
        match self.rollout.as_str() {
            "failed" => format!("version {} failed", self.version),
            "rolling" => "rolling".to_owned(),
            _ if self.target < self.count => format!("{} move", self.count - self.target),
            _ if self.version != goal.version && self.count > 0 => match goal.comes {
                VersionComes::InTurn => "waits for its turn".to_owned(),
                VersionComes::NoMore => format!("stays at version {}", self.version),
            },
            _ if self.running > self.count => format!("{} end", self.running - self.count),
            _ if self.ready() < self.count => format!("{} not healthy yet", self.count - self.ready()),
            _ => "current".to_owned(),
        }
    }

    /// What is waited for, in the line of a wait.
    pub(super) fn wait_text(&self, goal: VersionGoal) -> String {
        if self.is_refused() {
            return format!("{} (refused: {})", self.cell, self.problem);
        }
        format!("{} ({})", self.cell, self.state_text(goal))
    }

    /// Whether its cell does not take what it was promised.
    pub(super) fn is_refused(&self) -> bool {
        self.failed_over_ms == 0 && !self.problem.is_empty()
    }

    /// Whether tasks that are to run are not healthy, and no rollout is under way that says how long they may take.
    pub(super) fn lacks_healthy(&self) -> bool {
        self.failed_over_ms == 0
            && self.arrived
            && !self.finished
            && matches!(self.rollout.as_str(), "done" | "failed")
            && self.ready() < self.count
    }

    /// Tasks that run beyond those that it should have.
    pub(super) fn surplus(&self) -> u32 {
        self.running.saturating_sub(self.count)
    }

    /// Whether it has as many tasks as it should have, of whichever version. A rollout may run more, also one
    /// that has failed.
    pub(super) fn has_count(&self) -> bool {
        if self.is_to_end() {
            return self.has_ended_its_tasks();
        }
        let surges = matches!(self.rollout.as_str(), "rolling" | "failed");
        let has_no_more = surges || self.running <= self.count;
        let is_told = self.arrived && self.target == self.count;
        is_told && (self.finished || (self.ready() >= self.count && has_no_more))
    }

    fn has_ended_its_tasks(&self) -> bool {
        self.failed_over_ms > 0 || (self.arrived && self.running == 0)
    }

    /// Whether it has what it should have. One that is to have nothing has been told so, and runs nothing.
    pub(super) fn is_settled(&self, goal: VersionGoal) -> bool {
        if self.is_to_end() {
            return self.has_ended_its_tasks();
        }
        // After a failed release each cell keeps the version that it has, also one that has failed there.
        let stays = goal.comes == VersionComes::NoMore;
        let is_done = self.arrived && self.target == self.count && (stays || self.version == goal.version);
        let is_right = self.ready() >= self.count && self.running <= self.count;
        let is_failed = stays && self.rollout == "failed";
        is_done && (self.finished || is_failed || (self.rollout == "done" && is_right))
    }

    /// Whether it only has another version than it will have.
    pub(super) fn waits_for_turn(&self, goal: VersionGoal) -> bool {
        let as_it_is = VersionGoal { version: self.version, ..goal };
        goal.comes == VersionComes::InTurn && self.version != goal.version && self.is_settled(as_it_is)
    }

    /// Whether the cell is to have no task of it.
    pub(super) fn is_to_end(&self) -> bool {
        self.count == 0
    }

    /// Tasks that are healthy, or have ended for good.
    fn ready(&self) -> u32 {
        self.healthy.saturating_add(self.succeeded).saturating_add(self.failed)
    }
}

/// A part as a row of a table.
pub(super) struct PartRow<'p>(pub(super) &'p FederatedPartView, pub(super) VersionGoal);

impl Tabular for PartRow<'_> {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "TASKS", "HEALTHY", "PENDING", "VERSION", "STATE"], vec!["JOB", "SEEN"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let Self(part, goal) = self;
        let cells = vec![
            part.cell.to_string(),
            part.count.to_string(),
            part.healthy.to_string(),
            part.pending.to_string(),
            // Its own rollout may have gone back since.
            if part.rollout == "failed" { "-".to_owned() } else { part.version.to_string() },
            part.state_text(*goal),
        ];
        (cells, vec![part.job_id.to_string(), time(part.seen_ms)])
    }
}
