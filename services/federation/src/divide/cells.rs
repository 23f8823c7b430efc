//! The member cells, as the division knows them.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use borough_model::Name;
use borough_model::federation::{CellLook, CellLooked, CellReach};
use borough_model::member::{MemberRow, MemberSeen};
use xxhash_rust::xxh3::Xxh3;

/// The members as the division knows them.
#[derive(Clone, Default)]
pub(super) struct MemberCells {
    pub(super) rows: BTreeMap<Name, Arc<MemberRow>>,
    pub(super) seen: Arc<BTreeMap<Name, MemberSeen>>,
    /// Of the rows. Another one is a reason to divide again.
    pub(super) mark: u64,
}

impl MemberCells {
    pub(super) fn new(rows: BTreeMap<Name, Arc<MemberRow>>, seen: Arc<BTreeMap<Name, MemberSeen>>) -> Self {
        let mut hasher = Xxh3::new();
        for row in rows.values() {
            (row.id.0, row.cell.as_str(), row.cordoned, row.draining).hash(&mut hasher);
            row.labels.hash(&mut hasher);
        }
        Self { rows, seen, mark: hasher.finish() }
    }

    /// Whether the last look at a cell brought a report.
    pub(super) fn is_heard(&self, cell: &Name) -> bool {
        self.rows.contains_key(cell) && self.seen.get(cell).is_some_and(|seen| seen.problem.is_none())
    }

    /// What the last round has brought, for the watch.
    pub(super) fn looks(&self) -> Vec<CellLooked> {
        let looked = self.rows.values().filter_map(|row| {
            let seen = self.seen.get(&row.cell).filter(|seen| seen.member == row.id)?;
            let look = CellLook::of(seen.problem.as_ref().map(|problem| problem.kind));
            Some(CellLooked { cell: row.cell.clone(), member: row.id, look })
        });
        looked.collect()
    }

    /// Whether a cell answers, and for how long it has not.
    pub(super) fn reach(&self, cell: &Name, now_ms: i64) -> CellReach {
        if self.is_heard(cell) {
            return CellReach::Reachable;
        }
        let problem = self.seen.get(cell).and_then(|seen| seen.problem.as_ref());
        let since_ms = problem.map_or(now_ms, |problem| problem.since_ms);
        CellReach::Unreachable { for_ms: u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0) }
    }
}
