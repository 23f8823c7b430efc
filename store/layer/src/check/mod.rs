//! Checks the invariants of a whole cell over everything that is stored. Whole-system tests call it, and operators who
//! doubt a store.
//!
//! [`cell_rows_read`] reads a small cell in one transaction. [`cell_rows_load`] reads one of any size in chunks by
//! following the journal, and still returns it at one position. [`cell_violations`] is pure. Each rule stands where it
//! is checked. Together they prove two things. Indexes, sums, counters, endpoints and charges follow from the rows of
//! tasks and jobs. The journal's last record of each row equals that row.

mod alloc;
mod cell;
mod endpoint;
mod federated;
mod job;
mod journal;
mod last_delta;
mod load;
mod member;
mod merged;
mod node;
mod quota;
mod request;
mod rows;
mod task;
#[cfg(test)]
pub(crate) mod tests;

use borough_kv::Transaction;
use serde::Serialize;

pub use last_delta::JournalRecord;
#[cfg(test)]
pub(crate) use load::delta_apply;
pub use load::{LOAD_CHUNK_ROWS, LoadProgress, cell_rows_load, cell_rows_read};
#[cfg(test)]
pub(crate) use quota::quota_held;
pub use rows::CellRows;

use crate::error::StoreResult;
use crate::keys::CellSpace;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Violation {
    /// The rule, such as `node_alloc_sum`.
    pub rule: &'static str,
    /// The wrong key, in the form of the table in `docs/mechanisms/store.md`.
    pub key: String,
    pub stored: String,
    /// The value that follows from the other rows.
    pub expected: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: stored: {}; expected: {}", self.rule, self.key, self.stored, self.expected)
    }
}

/// Which rules a check applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckMode {
    /// The rules that hold after every commit.
    Always,
    /// Also the rules that hold once controllers and agents have finished their work: unwanted tasks are dead.
    Settled,
}

/// All violations at the transaction's read version; empty if none. Reads the cell in one transaction, without
/// conflicts: for cells that can be read in five seconds.
pub async fn cell_check(tx: &Transaction, space: &CellSpace, mode: CheckMode) -> StoreResult<Vec<Violation>> {
    let rows = cell_rows_read(tx, space).await?;
    Ok(cell_violations(&rows, mode))
}

/// All violations in these rows.
pub fn cell_violations(rows: &CellRows, mode: CheckMode) -> Vec<Violation> {
    let mut found = Violations(rows.damage.clone());
    cell::check(&mut found, rows);
    node::check(&mut found, rows);
    alloc::check(&mut found, rows);
    task::check(&mut found, rows, mode);
    job::check(&mut found, rows, mode);
    endpoint::check(&mut found, rows);
    member::check(&mut found, rows);
    federated::check(&mut found, rows);
    merged::check(&mut found, rows);
    quota::check(&mut found, rows);
    request::check(&mut found, rows);
    journal::check(&mut found, rows);
    found.0
}

#[derive(Debug, Default)]
struct Violations(Vec<Violation>);

/// A key with its stored and its expected value.
struct BrokenRow {
    key: String,
    stored: String,
    expected: String,
}

fn wrong(key: impl Into<String>, stored: impl Into<String>, expected: impl Into<String>) -> BrokenRow {
    BrokenRow { key: key.into(), stored: stored.into(), expected: expected.into() }
}

impl Violations {
    fn require(&mut self, holds: bool, rule: &'static str, what: impl FnOnce() -> BrokenRow) {
        if !holds {
            let BrokenRow { key, stored, expected } = what();
            self.0.push(Violation { rule, key, stored, expected });
        }
    }
}
