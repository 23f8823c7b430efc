//! Releases over cells: their part of a job file, examples, and a simulated fleet.

mod example;
mod fleet;
mod spec;

use std::collections::BTreeMap;

use borough_model::federation::{
    CellProgress, CellReach, CellRelease, ReleaseAction, ReleaseSpec, ReleaseState, ReleaseStep, release_step,
};
use serde_json::{Value, json};

use super::sample;
use crate::sample::name;

/// The `rollout` of a job file.
fn rollout(value: Value) -> ReleaseSpec {
    sample::spec(json!({"rollout": value})).rollout
}

/// A cell whose tasks run this version.
fn cell(text: &str, version: u64) -> CellRelease {
    CellRelease {
        name: name(text),
        labels: BTreeMap::new(),
        has_tasks: true,
        reach: CellReach::Reachable,
        assigned: Some(version),
        progress: CellProgress::Complete,
    }
}

/// A release that is being carried out by the test.
struct Carried {
    spec: ReleaseSpec,
    state: ReleaseState,
    cells: Vec<CellRelease>,
    now_ms: i64,
}

impl Carried {
    /// Version 2 over cells that run version 1.
    fn of(rollout: ReleaseSpec, cells: &[&str]) -> Self {
        Self {
            spec: rollout,
            state: ReleaseState::first(1).superseded_by(2).unwrap(),
            cells: cells.iter().map(|text| cell(text, 1)).collect(),
            now_ms: 0,
        }
    }

    fn cell(&mut self, text: &str) -> &mut CellRelease {
        self.cells.iter_mut().find(|cell| cell.name.as_str() == text).unwrap()
    }

    /// The rolling update of the cell ends.
    fn ends(&mut self, text: &str, progress: CellProgress) {
        self.cell(text).progress = progress;
    }

    fn decide(&self) -> ReleaseStep {
        release_step(&self.spec, &self.state, &self.cells, self.now_ms)
    }

    /// Decides, and records what was decided.
    fn step(&mut self) -> ReleaseAction {
        let step = self.decide();
        self.state = step.state;
        if let ReleaseAction::Assign(assignments) = &step.action {
            for assignment in assignments {
                let cell = self.cell(assignment.cell.as_str());
                cell.assigned = Some(assignment.version);
                cell.progress = CellProgress::Rolling;
            }
        }
        step.action
    }

    /// The step in short: `a=2 b=2` for assignments.
    fn does(&mut self) -> String {
        match self.step() {
            ReleaseAction::Assign(assignments) => {
                let assignments = assignments
                    .iter()
                    .map(|assignment| format!("{}={}", assignment.cell, assignment.version));
                assignments.collect::<Vec<_>>().join(" ")
            }
            ReleaseAction::NextStage => "next".to_owned(),
            ReleaseAction::Fail => "fail".to_owned(),
            ReleaseAction::Revert => "revert".to_owned(),
            ReleaseAction::Reverted => "reverted".to_owned(),
            ReleaseAction::Done => "done".to_owned(),
            ReleaseAction::Wait { reason, due_ms: None } => reason.to_string(),
            ReleaseAction::Wait { reason, due_ms: Some(due_ms) } => format!("{due_ms}: {reason}"),
        }
    }
}

fn fails(why: &str) -> CellProgress {
    CellProgress::Failed { why: why.to_owned() }
}
