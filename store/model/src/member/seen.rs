//! What a federation process has last seen of a member cell, and what that says of the cell now.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::MemberRow;
use crate::id::MemberId;
use crate::resource::Resources;

/// The interval between two looks at a member cell, in milliseconds.
pub const MEMBER_LOOK_MS: i64 = 5_000;

/// Looks that may fail to come before nobody vouches for what was seen.
const LOOKS_MISSED: i64 = 3;

/// What the cell itself has reported.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct MemberReport {
    /// The epoch of its store. It grows when the cell moves to another store.
    #[n(0)]
    pub store_epoch: u64,
    #[n(1)]
    pub nodes: u32,
    #[n(2)]
    pub nodes_ready: u32,
    /// Of its nodes that are ready.
    #[n(3)]
    pub capacity: Resources,
    /// What its tasks are charged for.
    #[n(4)]
    pub used: Resources,
    #[n(5)]
    pub jobs: u32,
    /// Tasks that run.
    #[n(6)]
    pub running: u32,
    /// Tasks that wait for a node.
    #[n(7)]
    pub pending: u32,
}

/// Why the last look brought no report.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct MemberProblem {
    #[n(0)]
    pub kind: ProblemKind,
    /// When looks began to fail like this: time of the federation's home, milliseconds since 1970.
    #[n(1)]
    pub since_ms: i64,
    /// For people.
    #[n(2)]
    pub message: String,
}

/// Whether anybody has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// None of its gateways has answered: nothing is known of the cell.
    #[n(0)]
    Silent,
    /// A gateway has refused the look: the cell is there, and an operator has to do something.
    #[n(1)]
    Refused,
    /// The store of the cell is older than one that was seen before: it is a copy, or was restored.
    #[n(2)]
    OlderStore,
}

/// What was last seen of a member cell. It is no part of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct MemberSeen {
    /// The membership that was looked at.
    #[n(0)]
    pub member: MemberId,
    /// When somebody has last looked: time of the federation's home, milliseconds since 1970.
    #[n(1)]
    pub looked_ms: i64,
    /// When the report came; 0: never.
    #[n(2)]
    pub reported_ms: i64,
    #[n(3)]
    pub report: Option<MemberReport>,
    /// Absent: the last look brought the report.
    #[n(4)]
    pub problem: Option<MemberProblem>,
    /// The addresses that were looked at. What was seen there says nothing of others.
    #[n(5)]
    #[cbor(default)]
    pub gateways: Vec<String>,
}

/// What is known of a member cell now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberHealth {
    /// It has answered lately.
    Current,
    /// It has just joined, or has other addresses since the last look.
    NotLooked,
    /// Nobody has looked since, so nobody knows.
    Unwatched { since_ms: i64 },
    /// It does not answer, or does not answer as it must.
    Failing { kind: ProblemKind, since_ms: i64 },
}

impl MemberSeen {
    /// What follows from a look at `at_ms` after what was seen before. A report of an older store than was seen counts
    /// as a problem, and does not replace that of the newer one.
    pub fn looked(
        before: Option<&Self>,
        row: &MemberRow,
        looked: Result<MemberReport, (ProblemKind, String)>,
        at_ms: i64,
    ) -> Self {
        let (member, gateways) = (row.id, row.gateways.clone());
        let before = before.filter(|before| before.member == member);
        let known = before.and_then(|before| before.report.as_ref());
        let epoch = known.map_or(0, |known| known.store_epoch);
        let problem = match looked {
            Ok(report) if report.store_epoch < epoch => (
                ProblemKind::OlderStore,
                format!(
                    "its store has epoch {}, and epoch {epoch} was seen before; if that is meant, take the cell out and \
                     add it again",
                    report.store_epoch
                ),
            ),
            Ok(report) => {
                let report = Some(report);
                return Self {
                    member,
                    looked_ms: at_ms,
                    reported_ms: at_ms,
                    report,
                    problem: None,
                    gateways,
                };
            }
            Err(problem) => problem,
        };
        let (kind, message) = problem;
        let same = before.and_then(|before| before.problem.as_ref()).filter(|known| known.kind == kind);
        let since_ms = same.map_or(at_ms, |known| known.since_ms);
        Self {
            member,
            looked_ms: at_ms,
            reported_ms: before.map_or(0, |before| before.reported_ms),
            report: known.cloned(),
            problem: Some(MemberProblem { kind, since_ms, message }),
            gateways,
        }
    }

    /// Whether somebody has looked at this membership, by the addresses that it has now.
    pub fn is_of(&self, row: &MemberRow) -> bool {
        self.member == row.id && self.gateways == row.gateways
    }
}

/// What is known of a member cell at `now_ms`, by the clock of the federation's home.
pub fn member_health(row: &MemberRow, seen: Option<&MemberSeen>, now_ms: i64) -> MemberHealth {
    let seen = seen.filter(|seen| seen.member == row.id);
    let since_ms = seen.map_or(row.joined_ms, |seen| seen.looked_ms);
    if now_ms.saturating_sub(since_ms) > MEMBER_LOOK_MS.saturating_mul(LOOKS_MISSED) {
        return MemberHealth::Unwatched { since_ms };
    }
    match seen.filter(|seen| seen.is_of(row)).map(|seen| &seen.problem) {
        None => MemberHealth::NotLooked,
        Some(None) => MemberHealth::Current,
        Some(Some(problem)) => MemberHealth::Failing { kind: problem.kind, since_ms: problem.since_ms },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: MemberId = MemberId(7);

    fn report(store_epoch: u64, nodes: u32) -> MemberReport {
        MemberReport { store_epoch, nodes, ..MemberReport::default() }
    }

    /// A member that joined at 0.
    fn row(id: MemberId) -> MemberRow {
        MemberRow {
            id,
            cell: crate::id::Name::new("beta").unwrap(),
            gateways: vec!["a:1".to_owned()],
            labels: std::collections::BTreeMap::new(),
            cordoned: false,
            revision: 1,
            joined_ms: 0,
            changed_ms: 0,
            changed_by: String::new(),
            draining: false,
        }
    }

    fn silent() -> Result<MemberReport, (ProblemKind, String)> {
        Err((ProblemKind::Silent, "connection refused".to_owned()))
    }

    #[test]
    fn a_silent_cell_keeps_its_report_and_says_since_when() {
        let first = MemberSeen::looked(None, &row(MEMBER), Ok(report(1, 3)), 10_000);
        assert_eq!(member_health(&row(MEMBER), Some(&first), 12_000), MemberHealth::Current);
        let second = MemberSeen::looked(Some(&first), &row(MEMBER), silent(), 15_000);
        let third = MemberSeen::looked(Some(&second), &row(MEMBER), silent(), 20_000);
        assert_eq!((third.reported_ms, third.report.as_ref().map(|known| known.nodes)), (10_000, Some(3)));
        let failing = MemberHealth::Failing { kind: ProblemKind::Silent, since_ms: 15_000 };
        assert_eq!(member_health(&row(MEMBER), Some(&third), 21_000), failing);
        let refused = Err((ProblemKind::Refused, "no right".to_owned()));
        let fourth = MemberSeen::looked(Some(&third), &row(MEMBER), refused, 25_000);
        let failing = MemberHealth::Failing { kind: ProblemKind::Refused, since_ms: 25_000 };
        assert_eq!(
            member_health(&row(MEMBER), Some(&fourth), 25_000),
            failing,
            "another problem begins anew"
        );
        let back = MemberSeen::looked(Some(&fourth), &row(MEMBER), Ok(report(1, 4)), 30_000);
        assert_eq!(member_health(&row(MEMBER), Some(&back), 30_000), MemberHealth::Current);
    }

    #[test]
    fn what_nobody_looks_at_is_not_known() {
        assert_eq!(member_health(&row(MEMBER), None, 15_000), MemberHealth::NotLooked);
        assert_eq!(member_health(&row(MEMBER), None, 15_001), MemberHealth::Unwatched { since_ms: 0 });
        let seen = MemberSeen::looked(None, &row(MEMBER), Ok(report(1, 3)), 10_000);
        assert_eq!(member_health(&row(MEMBER), Some(&seen), 25_000), MemberHealth::Current);
        assert_eq!(
            member_health(&row(MEMBER), Some(&seen), 25_001),
            MemberHealth::Unwatched { since_ms: 10_000 }
        );
        assert_eq!(
            member_health(&row(MemberId(8)), Some(&seen), 10_000),
            MemberHealth::NotLooked,
            "it joined again"
        );
    }

    #[test]
    fn what_was_seen_at_other_addresses_says_nothing_of_the_present_ones() {
        let seen = MemberSeen::looked(None, &row(MEMBER), silent(), 10_000);
        let moved = MemberRow { gateways: vec!["b:1".to_owned()], ..row(MEMBER) };
        assert!(seen.is_of(&row(MEMBER)) && !seen.is_of(&moved));
        assert_eq!(member_health(&moved, Some(&seen), 12_000), MemberHealth::NotLooked);
        let unwatched = MemberHealth::Unwatched { since_ms: 10_000 };
        assert_eq!(
            member_health(&moved, Some(&seen), 25_001),
            unwatched,
            "nobody looks at the new ones either"
        );
        // The cell has been silent all the time.
        let again = MemberSeen::looked(Some(&seen), &moved, silent(), 15_000);
        let failing = MemberHealth::Failing { kind: ProblemKind::Silent, since_ms: 10_000 };
        assert_eq!(member_health(&moved, Some(&again), 16_000), failing);
        let labelled = MemberRow { revision: 9, ..row(MEMBER) };
        assert!(seen.is_of(&labelled), "a change of labels is no other address");
    }

    #[test]
    fn a_copy_of_an_older_store_is_not_taken_for_the_cell() {
        let seen = MemberSeen::looked(None, &row(MEMBER), Ok(report(3, 5)), 10_000);
        let copy = MemberSeen::looked(Some(&seen), &row(MEMBER), Ok(report(2, 1)), 15_000);
        let failing = MemberHealth::Failing { kind: ProblemKind::OlderStore, since_ms: 15_000 };
        assert_eq!(member_health(&row(MEMBER), Some(&copy), 15_000), failing);
        assert_eq!(copy.report.as_ref().map(|known| known.nodes), Some(5));
        assert!(copy.problem.unwrap().message.contains("epoch 2, and epoch 3"));
        let again = MemberSeen::looked(Some(&seen), &row(MemberId(8)), Ok(report(2, 1)), 20_000);
        assert_eq!(again.problem, None, "a cell that joins again begins anew");
    }
}
