//! Allocs leave their nodes with the tasks in them. What an alloc has given out is in the rows of these tasks, and
//! nowhere else.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::disruption::{BudgetUse, DisruptionBudget, attempts_within};
use borough_model::job::JobRow;
use borough_model::task::{TaskRow, TaskState};
use borough_model::{Incarnation, JobId, TaskId};

use super::job_tasks_read;
use crate::error::StoreResult;
use crate::job::{job_spec_in_force, members_alive};
use crate::journal::ChangeSet;

/// Allocs that leave their nodes, and the attempts in them.
#[derive(Debug, Default)]
pub(crate) struct AllocsLeaving {
    pub allocs: Vec<(TaskId, Incarnation)>,
    pub inside: Vec<(TaskId, Incarnation)>,
}

/// A job with tasks in the allocs that leave.
struct LeavingMember {
    row: JobRow,
    rows: Vec<TaskRow>,
    /// `None`: no bound holds for its attempts.
    budget: Option<DisruptionBudget>,
    leaving: Vec<(TaskId, Incarnation)>,
}

/// Why allocs leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocsLeave {
    /// They have to leave their nodes. A drained one lets no task into them any more.
    Moves,
    /// A rollout replaces them. Tasks come back to them until then.
    Rollout,
}

/// An alloc that is to leave.
#[derive(Clone, Copy, Debug)]
struct LeavingAlloc {
    alloc: TaskId,
    why: AllocsLeave,
}

impl LeavingAlloc {
    /// Returns true if a task of a job in the set can go nowhere before the alloc leaves.
    fn is_awaited(self, row: &TaskRow) -> bool {
        let comes_back = row.alloc.as_deref().is_some_and(|place| place.alloc == self.alloc);
        self.why == AllocsLeave::Moves && comes_back && row.state == TaskState::Pending
    }
}

/// Those of the attempts of an alloc set that may leave now: `may_end` is asked once for each that its own jobs let go,
/// and counts it. So an alloc that has to wait for a job in it takes no place from one that need not.
///
/// What is in an alloc leaves with it, so the disruption budget of each job in it must have room as well. If an alloc
/// has more tasks of a job than its budget ever allows, it leaves while no other task of the job is away. A task
/// that comes back to an alloc on a node that is to be left is no other one. It waits for the alloc, so the alloc does
/// not wait for it.
pub(crate) async fn allocs_leaving(
    tx: &Transaction,
    changes: &ChangeSet,
    set: &JobRow,
    attempts: &[(TaskId, Incarnation)],
    why: AllocsLeave,
    mut may_end: impl FnMut(TaskId) -> bool,
) -> StoreResult<AllocsLeaving> {
    let mut members = Vec::new();
    for row in members_alive(tx, changes.space(), set).await? {
        let spec = job_spec_in_force(tx, changes.space(), &row).await?;
        let rows = job_tasks_read(tx, changes.space(), row.id).await?;
        let budget = DisruptionBudget::in_alloc(&spec, &row);
        members.push(LeavingMember { row, rows, budget, leaving: Vec::new() });
    }
    let mut leaving = AllocsLeaving::default();
    for attempt in attempts {
        let inside: BTreeMap<JobId, Vec<(TaskId, Incarnation)>> =
            members.iter().map(|member| (member.row.id, member.inside(attempt.0, attempt.1))).collect();
        let of = |member: &LeavingMember| inside.get(&member.row.id).cloned().unwrap_or_default();
        let goes = LeavingAlloc { alloc: attempt.0, why };
        let lets_go = members.iter().all(|member| member.may_leave(goes, &of(member), changes.at_ms()));
        if !lets_go || !may_end(attempt.0) {
            continue;
        }
        for member in &mut members {
            let inside = inside.get(&member.row.id).cloned().unwrap_or_default();
            leaving.inside.extend(inside.iter().copied());
            member.leaving.extend(inside);
        }
        leaving.allocs.push(*attempt);
    }
    Ok(leaving)
}

impl LeavingMember {
    /// Its attempts in an alloc that have not been ordered to stop.
    fn inside(&self, alloc: TaskId, attempt: Incarnation) -> Vec<(TaskId, Incarnation)> {
        let is_inside = |row: &&TaskRow| {
            let place = row.in_alloc().filter(|place| place.alloc == alloc && place.attempt == attempt);
            let goes_on = !matches!(row.state, TaskState::Stopping | TaskState::Releasing);
            place.is_some() && goes_on
        };
        self.rows.iter().filter(is_inside).map(|row| (row.id, row.incarnation)).collect()
    }

    fn may_leave(&self, goes: LeavingAlloc, inside: &[(TaskId, Incarnation)], now_ms: i64) -> bool {
        let Some(budget) = self.budget.as_ref().filter(|_| !inside.is_empty()) else { return true };
        let all: Vec<_> = self.leaving.iter().chain(inside).copied().collect();
        let is_within = attempts_within(budget, &self.rows, &all, now_ms).len() == all.len();
        let others = self.rows.iter().filter(|row| !goes.is_awaited(row));
        is_within || (self.leaving.is_empty() && BudgetUse::of_rows(budget, others, now_ms).away == 0)
    }
}
