//! Allocs: places that hold tasks of several jobs. An alloc is a task of an alloc set; a job is submitted into a set.
//!
//! The row of the set names its jobs, so that their submissions and its stop conflict. What an alloc has given out is
//! in the rows of the tasks that are in it, and nowhere else.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause, attempts_within};
use borough_model::job::{
    JobEvent, JobKind, JobRow, JobSpec, JobState, member_check, member_fits, set_holds, set_stop_refused,
};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{FieldError, Incarnation, JobId, TaskId};

use crate::error::{StoreError, StoreResult};
use crate::job::{job_event, job_spec_in_force};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, JobNameKey, JobRowKey};
use crate::task::job_tasks_read;

/// Puts a new job into the alloc set that its spec names. Returns the set; `None` if it names none. Refuses a set that
/// does not run, or whose allocs can never hold one of the tasks.
pub(crate) async fn member_join(
    tx: &Transaction,
    changes: &mut ChangeSet,
    spec: &JobSpec,
    job: JobId,
) -> StoreResult<Option<JobId>> {
    let Some(name) = &spec.alloc_set else { return Ok(None) };
    let key = JobNameKey { user: spec.user.clone(), name: name.clone() };
    let set = match keys::read(tx, changes.space(), &key).await? {
        Some(job) => keys::read(tx, changes.space(), &JobRowKey { job }).await?,
        None => None,
    };
    let set = set.filter(|set| !matches!(set.state, JobState::Ended { .. }));
    let set_spec = match &set {
        Some(set) => Some(job_spec_in_force(tx, changes.space(), set).await?),
        None => None,
    };
    let alive = match &set {
        Some(set) => members_alive(tx, changes.space(), set).await?,
        None => Vec::new(),
    };
    member_check(spec, set.as_ref().zip(set_spec.as_ref()), alive.len()).map_err(refused)?;
    let Some(set) = set else { return Ok(None) };
    let mut members: Vec<JobId> = alive.iter().map(|row| row.id).collect();
    members.push(job);
    job_event(tx, changes, &set, &JobEvent::MembersSet { members })?;
    Ok(Some(set.id))
}

fn refused(error: FieldError) -> StoreError {
    StoreError::InvalidSpec { errors: vec![error] }
}

/// The jobs in a set that have not ended, with read conflicts.
async fn members_alive(tx: &Transaction, space: &CellSpace, set: &JobRow) -> StoreResult<Vec<JobRow>> {
    let mut alive = Vec::new();
    for &job in set.alloc_members().unwrap_or_default() {
        let row = keys::read(tx, space, &JobRowKey { job }).await?;
        alive.extend(row.filter(|row| !matches!(row.state, JobState::Ended { .. })));
    }
    Ok(alive)
}

/// Refuses the end of a set with jobs in it: they would have no place.
pub(crate) async fn set_stop_check(tx: &Transaction, space: &CellSpace, set: &JobRow) -> StoreResult<()> {
    let members = members_alive(tx, space, set).await?;
    match set_stop_refused(set, &members) {
        Some(reason) => Err(StoreError::refused(reason)),
        None => Ok(()),
    }
}

/// Checks the next spec of a running job: of a set, whether its allocs can still hold the tasks of each job in it; of a
/// job in a set, whether they can hold its own.
pub(crate) async fn alloc_change_check(
    tx: &Transaction,
    space: &CellSpace,
    row: &JobRow,
    spec: &JobSpec,
) -> StoreResult<()> {
    if let Some(job) = row.alloc_set() {
        let Some(set) = keys::read(tx, space, &JobRowKey { job }).await? else { return Ok(()) };
        return member_fits(spec, &job_spec_in_force(tx, space, &set).await?).map_err(refused);
    }
    for member in members_alive(tx, space, row).await? {
        set_holds(spec, &job_spec_in_force(tx, space, &member).await?).map_err(refused)?;
    }
    Ok(())
}

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

/// Those of the attempts of an alloc set that may leave now: what is in an alloc leaves with it, so the disruption
/// budget of each job in it must have room as well. If an alloc has more tasks of a job than its budget ever allows, it
/// leaves while no other task of the job is away.
pub(crate) async fn allocs_leaving(
    tx: &Transaction,
    changes: &ChangeSet,
    set: &JobRow,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<AllocsLeaving> {
    let mut members = Vec::new();
    for row in members_alive(tx, changes.space(), set).await? {
        let spec = job_spec_in_force(tx, changes.space(), &row).await?;
        let rows = job_tasks_read(tx, changes.space(), row.id).await?;
        let is_bound = row.state == JobState::Running && spec.kind != JobKind::Batch;
        let budget = is_bound.then(|| {
            let mut budget = DisruptionBudget::of(&spec, &row, DisruptionCause::Move);
            // Nothing can stand in for a task that goes where its alloc goes.
            (budget.away_max, budget.surge_wanted) = (budget.away_max.max(1), 0);
            budget
        });
        members.push(LeavingMember { row, rows, budget, leaving: Vec::new() });
    }
    let mut leaving = AllocsLeaving::default();
    for attempt in attempts {
        let inside: BTreeMap<JobId, Vec<(TaskId, Incarnation)>> =
            members.iter().map(|member| (member.row.id, member.inside(*attempt))).collect();
        let of = |member: &LeavingMember| inside.get(&member.row.id).cloned().unwrap_or_default();
        if !members.iter().all(|member| member.may_leave(&of(member), changes.at_ms())) {
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
    fn inside(&self, (alloc, attempt): (TaskId, Incarnation)) -> Vec<(TaskId, Incarnation)> {
        let is_inside = |row: &&TaskRow| {
            let place = row.in_alloc().filter(|place| place.alloc == alloc && place.attempt == attempt);
            let goes_on = !matches!(row.state, TaskState::Stopping | TaskState::Releasing);
            place.is_some() && goes_on
        };
        self.rows.iter().filter(is_inside).map(|row| (row.id, row.incarnation)).collect()
    }

    fn may_leave(&self, inside: &[(TaskId, Incarnation)], now_ms: i64) -> bool {
        let Some(budget) = self.budget.as_ref().filter(|_| !inside.is_empty()) else { return true };
        let all: Vec<_> = self.leaving.iter().chain(inside).copied().collect();
        let is_within = attempts_within(budget, &self.rows, &all, now_ms).len() == all.len();
        let none_away = || BudgetUse::of_rows(budget, &self.rows, now_ms).away == 0;
        is_within || (self.leaving.is_empty() && none_away())
    }
}
