//! What is true of a whole cell, checked over everything that is stored: for every whole-system test, and for an
//! operator who doubts a store.
//!
//! [`cell_rows_read`] reads the cell at one version; [`cell_violations`] is pure. Each rule is stated where it is checked;
//! together they say that indexes, sums, counters, endpoints and charges follow from the rows of tasks and jobs, and
//! that the journal, replayed from its beginning, gives those rows.

mod endpoint;
mod job;
mod journal;
mod node;
mod quota;
mod rows;
mod task;

use borough_kv::Transaction;

pub use rows::{CellRows, cell_rows_read};

use crate::error::StoreResult;
use crate::keys::CellSpace;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule, such as `node_alloc_sum`.
    pub rule: &'static str,
    /// What breaks it, and how.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What is expected of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckMode {
    /// What holds after every commit.
    Always,
    /// Besides, what holds once the controllers and agents have nothing left to do: whatever is not wanted is dead.
    Settled,
}

/// Everything that is wrong with the cell at the transaction's read version; empty where nothing is. Reads all of it in
/// one transaction, without conflicts: for cells that five seconds are enough for.
pub async fn cell_check(tx: &Transaction, space: &CellSpace, mode: CheckMode) -> StoreResult<Vec<Violation>> {
    let rows = cell_rows_read(tx, space).await?;
    Ok(cell_violations(&rows, mode))
}

/// Everything that is wrong with these rows.
pub fn cell_violations(rows: &CellRows, mode: CheckMode) -> Vec<Violation> {
    let mut found = Violations::default();
    node::check(&mut found, rows);
    task::check(&mut found, rows, mode);
    job::check(&mut found, rows, mode);
    endpoint::check(&mut found, rows);
    quota::check(&mut found, rows);
    journal::check(&mut found, rows);
    found.0
}

/// Collects violations.
#[derive(Debug, Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn require(&mut self, holds: bool, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Violation { rule, what: what() });
        }
    }
}
