//! Which bands a user's jobs may run in: those above batch need a quota there, or a right.

use borough_model::access::asks_for_more;
use borough_model::job::{JobState, band};
use borough_model::journal::JobName;
use borough_model::{JobRow, JobSpec};
use tonic::Status;

use crate::auth::Principal;
use crate::cell::CellContext;

/// A job that is over holds nothing, and gives its name no right.
fn is_live(row: &JobRow) -> bool {
    !matches!(row.state, JobState::Ended { .. })
}

/// Refuses a job in a band where its user may not run. One that is there already may be changed as long as it asks for
/// no more: it must be possible to correct it.
pub(super) fn priority_allow(
    cell: &CellContext,
    principal: &Principal,
    spec: &JobSpec,
) -> Result<(), Status> {
    if principal.is_free_in(band(spec.priority)) {
        return Ok(());
    }
    let more = cell.state(|state| {
        let row = state.job_by_name(&spec.user, &spec.name).filter(|row| is_live(row));
        let before = row.and_then(|row| Some((row.owner_count(), state.spec_of(row)?.in_force(row))));
        before.is_none_or(|(count, before)| asks_for_more(&before, count, spec))
    })?;
    if more { cell.allow_priority(principal, &spec.user, spec.priority) } else { Ok(()) }
}

/// Refuses a larger count of a job in a band where its user may not run.
pub(super) fn growth_allow(
    cell: &CellContext,
    principal: &Principal,
    job: &JobName,
    count: u32,
) -> Result<(), Status> {
    let grows = |row: &JobRow| is_live(row) && count > row.owner_count();
    let priority = cell.state(|state| {
        let row = state.job_by_name(&job.user, &job.job).filter(|row| grows(row));
        row.map(|row| row.priority)
    })?;
    match priority.filter(|priority| !principal.is_free_in(band(*priority))) {
        Some(priority) => cell.allow_priority(principal, &job.user, priority),
        None => Ok(()),
    }
}
