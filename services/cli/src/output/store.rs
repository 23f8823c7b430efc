//! Results of verbs on stores: checks, exports, imports and measurements.

use borough_store::check::Violation;
use serde::Serialize;

use super::table::{Tabular, table};
use super::text::{bytes, facts, tally};
use super::{Foreign, Style};

/// The result of `store check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StoreCheckView {
    pub(crate) store: String,
    pub(crate) cells: Vec<CellCheckView>,
    pub(crate) violations: usize,
}

/// One cell of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellCheckView {
    pub(crate) cell: Foreign,
    pub(crate) state: String,
    /// The position of the journal for everything here.
    pub(crate) at: Option<String>,
    pub(crate) nodes: usize,
    pub(crate) jobs: usize,
    pub(crate) tasks: usize,
    pub(crate) endpoints: usize,
    pub(crate) requests: usize,
    pub(crate) violations: Vec<ViolationView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ViolationView {
    pub(crate) rule: String,
    pub(crate) key: Foreign,
    pub(crate) stored: Foreign,
    pub(crate) expected: Foreign,
}

impl From<Violation> for ViolationView {
    fn from(violation: Violation) -> Self {
        let Violation { rule, key, stored, expected } = violation;
        Self { rule: rule.to_owned(), key: key.into(), stored: stored.into(), expected: expected.into() }
    }
}

impl Tabular for CellCheckView {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "STATE", "NODES", "JOBS", "TASKS", "WRONG"], vec!["ENDPOINTS", "REQUESTS", "POSITION"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let numbers = [self.nodes, self.jobs, self.tasks, self.violations.len()];
        let mut cells = vec![self.cell.to_string(), self.state.clone()];
        cells.extend(numbers.map(|number| number.to_string()));
        let position = self.at.clone().unwrap_or_default();
        (cells, vec![self.endpoints.to_string(), self.requests.to_string(), position])
    }
}

impl StoreCheckView {
    pub(crate) fn new(store: String, cells: Vec<CellCheckView>) -> Self {
        let violations = cells.iter().map(|cell| cell.violations.len()).sum();
        Self { store, cells, violations }
    }

    pub(crate) fn text(&self, style: &Style) -> String {
        if self.cells.is_empty() {
            return format!("{} has no cells", self.store);
        }
        let mut text = table(&self.cells, style);
        for cell in &self.cells {
            for violation in &cell.violations {
                let head = format!("{}: {} ({})", cell.cell, violation.key, violation.rule);
                text.push_str(&format!(
                    "\n{}\n  stored    {}\n  expected  {}\n",
                    style.paint(&head, 31),
                    violation.stored,
                    violation.expected
                ));
            }
        }
        text
    }
}

/// The result of `store accept-loss`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StoreLossView {
    pub(crate) store: String,
    pub(crate) accepted: bool,
    pub(crate) lost: Option<String>,
}

impl StoreLossView {
    pub(crate) fn text(&self, _: &Style) -> String {
        match &self.lost {
            None => format!("{} has lost nothing; the command changed nothing", self.store),
            Some(lost) => facts(&[
                ("accepted", self.store.clone()),
                ("lost", lost.clone()),
                ("now", "run `borough store check`, and start every watcher again".to_owned()),
            ]),
        }
    }
}

/// The result of `store export`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StoreExportView {
    pub(crate) cell: Foreign,
    pub(crate) store: String,
    /// `-` is standard output.
    pub(crate) file: String,
    pub(crate) export: String,
    pub(crate) at: String,
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    pub(crate) file_bytes: u64,
    /// Violations that `store check` would report. They are exported unchanged.
    pub(crate) violations: usize,
}

impl StoreExportView {
    pub(crate) fn text(&self, _: &Style) -> String {
        let wrong = if self.violations == 0 {
            String::new()
        } else {
            format!("{}: `borough store check` shows them", tally(self.violations, "contradiction"))
        };
        facts(&[
            ("exported", self.cell.to_string()),
            ("from", self.store.clone()),
            ("to", self.file.clone()),
            ("as of", self.at.clone()),
            ("rows", self.rows.to_string()),
            ("size", bytes(self.file_bytes)),
            ("carried", wrong),
        ])
    }
}

/// The result of `store import`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StoreImportView {
    pub(crate) cell: Foreign,
    pub(crate) store: String,
    pub(crate) state: String,
    pub(crate) store_epoch: u64,
    pub(crate) exported_cell: Foreign,
    pub(crate) exported_at: String,
    pub(crate) exported_ms: i64,
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    /// Of `blocks`, those that an earlier run had stored.
    pub(crate) blocks_before: u64,
}

impl StoreImportView {
    pub(crate) fn text(&self, _: &Style) -> String {
        let before = match self.blocks_before {
            0 => String::new(),
            before => format!("after {before} of {} blocks", self.blocks),
        };
        facts(&[
            ("imported", self.cell.to_string()),
            ("into", self.store.clone()),
            ("state", self.state.clone()),
            ("store epoch", self.store_epoch.to_string()),
            (
                "from",
                format!(
                    "{} as of {}, {}",
                    self.exported_cell,
                    self.exported_at,
                    super::text::time(self.exported_ms)
                ),
            ),
            ("rows", self.rows.to_string()),
            ("resumed", before),
        ])
    }
}

/// The result of `store bench`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StoreBenchView {
    pub(crate) store: String,
    pub(crate) engine: String,
    pub(crate) clients: u32,
    /// For each operation.
    pub(crate) time_ms: u64,
    pub(crate) stats: Vec<OperationStats>,
}

/// Operations per second, and how long one took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OperationStats {
    pub(crate) what: String,
    /// Concurrent operations.
    pub(crate) at_a_time: u32,
    pub(crate) operations: u64,
    pub(crate) operations_per_s: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
    /// Operations that the store finally refused.
    pub(crate) failed: u64,
}

impl Tabular for OperationStats {
    const PLURAL: &'static str = "measurements";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["OPERATION", "AT A TIME", "PER SECOND", "P50", "P99", "MAX"], vec!["COUNT", "FAILED"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let time = |us: u64| format!("{}.{:03}ms", us / 1_000, us % 1_000);
        let cells = vec![
            self.what.clone(),
            self.at_a_time.to_string(),
            format!("{:.0}", self.operations_per_s),
            time(self.p50_us),
            time(self.p99_us),
            time(self.max_us),
        ];
        (cells, vec![self.operations.to_string(), self.failed.to_string()])
    }
}

impl StoreBenchView {
    pub(crate) fn text(&self, style: &Style) -> String {
        let head = facts(&[("store", self.store.clone()), ("engine", self.engine.clone())]);
        format!("{head}\n{}", table(&self.stats, style))
    }
}
