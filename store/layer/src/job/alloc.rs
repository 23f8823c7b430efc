//! Alloc sets and the jobs in them. The row of a set names its jobs, so that their submissions and its stop conflict.

use borough_kv::Transaction;
use borough_model::job::{
    JobEvent, JobRow, JobSpec, JobState, member_check, member_fits, set_change_check, set_stop_refused,
};
use borough_model::{FieldError, JobId};

use super::change::job_event;
use super::read::job_spec_in_force;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, JobNameKey, JobRowKey};

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
pub(crate) async fn members_alive(
    tx: &Transaction,
    space: &CellSpace,
    set: &JobRow,
) -> StoreResult<Vec<JobRow>> {
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

/// The specs in force of the jobs in a set that have not ended, with read conflicts.
async fn members_specs(tx: &Transaction, space: &CellSpace, set: &JobRow) -> StoreResult<Vec<JobSpec>> {
    let mut specs = Vec::new();
    for member in members_alive(tx, space, set).await? {
        specs.push(job_spec_in_force(tx, space, &member).await?.in_force(&member));
    }
    Ok(specs)
}

/// Refuses so few allocs of a set that they do not hold the jobs in it.
pub(crate) async fn set_count_check(
    tx: &Transaction,
    space: &CellSpace,
    set: &JobRow,
    spec: &JobSpec,
    count: u32,
) -> StoreResult<()> {
    if set.alloc_members().is_none() || count >= set.owner_count() {
        return Ok(());
    }
    let before = spec.in_force(set);
    let after = JobSpec { count, ..before.clone() };
    // The count is a good one: the jobs in the set forbid it, as they forbid its stop.
    let checked = set_change_check(&before, &after, &members_specs(tx, space, set).await?);
    checked.map_err(|error| StoreError::refused(format!("job {}/{}: {error}", set.user, set.name)))
}

/// Checks the next spec of a running job. Of a set: whether its allocs can still hold the jobs in it. Of a job in a
/// set: whether they can hold its own tasks.
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
    if row.alloc_members().is_none() {
        return Ok(());
    }
    let before = job_spec_in_force(tx, space, row).await?.in_force(row);
    set_change_check(&before, spec, &members_specs(tx, space, row).await?).map_err(refused)
}
