//! What the leader of a federation has seen with its own looks.
//!
//! A silence is counted by looks: it grows by the time between two successive looks of one leader that brought no
//! answer. So no jump of a wall clock makes a silence longer. The time in which nobody looked does not count, nor the
//! time in which the federation itself was cut off.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{MemberId, Name};
use crate::member::{MEMBER_LOOK_MS, ProblemKind};

/// A longer time between two rounds of looks is a gap: the leader was paused, and knows nothing of the time between.
pub const WATCH_GAP_MS: u64 = 3 * MEMBER_LOOK_MS.unsigned_abs();

/// What one look at a member cell has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellLook {
    /// A report of the cell.
    Answered,
    /// Somebody answered, and refused or had an older store: the cell is alive.
    Refused,
    /// Nothing.
    Unanswered,
}

impl CellLook {
    /// What a look with this problem, or without one, has brought.
    pub fn of(problem: Option<ProblemKind>) -> Self {
        match problem {
            None => Self::Answered,
            Some(ProblemKind::Refused | ProblemKind::OlderStore) => Self::Refused,
            Some(ProblemKind::Silent) => Self::Unanswered,
        }
    }
}

/// One look of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellLooked {
    pub cell: Name,
    pub member: MemberId,
    pub look: CellLook,
}

/// A silence that a leader hands on to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellSilence {
    /// The membership that was looked at.
    #[n(0)]
    pub member: MemberId,
    /// The sum of the times between successive looks without an answer.
    #[n(1)]
    pub observed_ms: u64,
}

/// What is known of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchedCell {
    member: MemberId,
    pub(super) look: CellLook,
    /// Successive looks of the unbroken watch that brought no answer.
    pub(super) looks_failed: u32,
    pub(super) observed_ms: u64,
}

/// The looks of one leader, in the memory of its process. All times are of the monotonic clock of that process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationWatch {
    /// Silences that earlier leaders have handed on.
    known: BTreeMap<Name, CellSilence>,
    cells: BTreeMap<Name, WatchedCell>,
    /// The time of the last round.
    looked_ms: Option<u64>,
    /// Since when each round came in time and saw a majority of the cells; absent: the last one did not.
    unbroken_since_ms: Option<u64>,
    /// When the last job of a cell began to fail over.
    begun: BTreeMap<Name, u64>,
}

impl FederationWatch {
    /// The watch of a new leader, with the silences that earlier ones have recorded.
    pub fn after(known: BTreeMap<Name, CellSilence>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Takes a round of looks into account. It has one look at each member cell, and began at `at_ms`.
    pub fn round(&mut self, looks: &[CellLooked], at_ms: u64) {
        let since_last = self.looked_ms.and_then(|last| at_ms.checked_sub(last));
        let in_time = since_last.filter(|passed| *passed <= WATCH_GAP_MS);
        let before = std::mem::take(&mut self.cells);
        let answering = looks.iter().filter(|looked| looked.look == CellLook::Answered).count();
        let sees_majority = is_majority(answering, looks.len());
        let goes_on = in_time.filter(|_| sees_majority && self.unbroken_since_ms.is_some());
        for looked in looks {
            let known = self.known.remove(&looked.cell).filter(|known| known.member == looked.member);
            let before = before.get(&looked.cell).filter(|cell| cell.member == looked.member);
            let mut cell =
                WatchedCell { member: looked.member, look: looked.look, looks_failed: 0, observed_ms: 0 };
            if looked.look == CellLook::Unanswered {
                let handed_on = known.map_or(0, |known| known.observed_ms);
                cell.observed_ms = before.map_or(handed_on, |cell| cell.observed_ms);
                let failed = goes_on.and(before).map_or(0, |cell| cell.looks_failed);
                if failed > 0 {
                    cell.observed_ms = cell.observed_ms.saturating_add(goes_on.unwrap_or(0));
                }
                cell.looks_failed = failed.saturating_add(u32::from(sees_majority));
            }
            self.cells.insert(looked.cell.clone(), cell);
        }
        self.looked_ms = Some(at_ms);
        let begins = sees_majority.then_some(at_ms);
        self.unbroken_since_ms = if goes_on.is_some() { self.unbroken_since_ms } else { begins };
    }

    /// The silences to record with what the last round saw. The next leader goes on from them.
    pub fn silences(&self) -> BTreeMap<Name, CellSilence> {
        let silent = self.cells.iter().filter(|(_, cell)| cell.look == CellLook::Unanswered);
        let silence = |cell: &WatchedCell| CellSilence { member: cell.member, observed_ms: cell.observed_ms };
        silent.map(|(name, cell)| (name.clone(), silence(cell))).collect()
    }

    /// Notes that jobs of a cell begin to fail over. The leader calls it before it records that: a transaction with an
    /// unknown result counts.
    pub fn failover_begins(&mut self, cell: Name, now_ms: u64) {
        self.begun.insert(cell, now_ms);
    }

    /// How many cells answered in the last round, and how many there are.
    pub fn visible(&self) -> (usize, usize) {
        let answering = self.cells.values().filter(|cell| cell.look == CellLook::Answered).count();
        (answering, self.cells.len())
    }

    /// Whether more than half of the cells answered in the last round.
    pub(super) fn sees_majority(&self) -> bool {
        let (answering, all) = self.visible();
        is_majority(answering, all)
    }

    /// How long the leader has watched without a gap, up to its last round.
    pub(super) fn unbroken_ms(&self) -> u64 {
        let ends = self.looked_ms.unwrap_or(0);
        self.unbroken_since_ms.map_or(0, |since| ends.saturating_sub(since))
    }

    /// How long ago the last round began; absent: there was none.
    pub(super) fn idle_ms(&self, now_ms: u64) -> Option<u64> {
        self.looked_ms.map(|last| now_ms.saturating_sub(last))
    }

    pub(super) fn cell(&self, name: &Name) -> Option<&WatchedCell> {
        self.cells.get(name)
    }

    /// The cells that began to fail over within `window_ms` before now.
    pub(super) fn begun_within(&self, window_ms: u64, now_ms: u64) -> impl Iterator<Item = &Name> {
        let recent = move |at: &u64| now_ms.saturating_sub(*at) < window_ms;
        self.begun.iter().filter(move |(_, at)| recent(at)).map(|(cell, _)| cell)
    }
}

/// More than half: two halves of a network must not both be right.
fn is_majority(answering: usize, all: usize) -> bool {
    answering > all / 2
}
