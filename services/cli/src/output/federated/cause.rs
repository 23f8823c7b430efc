//! What cells say of the tasks of a federated job that are not healthy.

use borough_client::JobRef;
use serde::Serialize;

use super::super::Foreign;
use crate::args::TypedOptions;

/// What one cell says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellCauseView {
    cell: Foreign,
    /// Line by line; empty: the gateway of the home does not serve the cell, or the cell does not answer.
    words: Vec<Foreign>,
    /// The command that asks the cell.
    command: String,
}

impl CellCauseView {
    pub(crate) fn new(cell: &str, job: &JobRef, words: String) -> Self {
        let command = format!("borough --cell {cell} why {job}");
        // The cell names commands as if it were the one that the reader asks.
        let there = TypedOptions::of_cell(cell);
        let words = words.lines().map(|line| Foreign::from(there.completed_answer(line).as_str())).collect();
        Self { cell: cell.to_owned().into(), words, command }
    }

    /// The command that asks the cell.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }
}

/// What cells say, for people.
pub(crate) fn causes_text(causes: &[CellCauseView]) -> String {
    let text = |cause: &CellCauseView| {
        let CellCauseView { cell, words, command } = cause;
        match words.as_slice() {
            [] => format!("{cell}: what keeps its tasks from being healthy: {command}\n"),
            lines => {
                let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
                format!("{cell} says ({command}):{lines}\n")
            }
        }
    };
    causes.iter().map(text).collect()
}
