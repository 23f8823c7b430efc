//! Jobs that wait for others: a circle is refused when the job that closes it is submitted.

use borough_model::job::{JobState, after_cycle};
use borough_model::{JobSpec, Name};
use borough_proto::convert::FieldRefused;
use tonic::Status;

use crate::cell::CellContext;
use crate::status::status_from_field;

/// Refuses a job that would wait for itself by way of other jobs. If two such jobs come at the same time, both are
/// admitted, and an explanation says that they never start. A circle by way of more jobs than one search asks about is
/// admitted too.
pub(super) fn after_check(cell: &CellContext, spec: &JobSpec) -> Result<(), Status> {
    if spec.after.is_empty() {
        return Ok(());
    }
    let names = |spec: &JobSpec| spec.after.iter().map(|after| after.job.clone()).collect();
    cell.state(|_| ())?;
    let cycle = after_cycle(&spec.name, |name| {
        if *name == spec.name {
            return names(spec);
        }
        // Decoded without the mirror's lock.
        let stored = cell.mirror.read(|state| {
            let waiting = state.job_by_name(&spec.user, name).filter(|row| row.state == JobState::Waiting);
            waiting.and_then(|row| state.stored_spec_of(row))
        });
        stored.and_then(|stored| stored.decoded(name)).map(|spec| names(&spec)).unwrap_or_default()
    });
    let Some(cycle) = cycle else { return Ok(()) };
    let cycle = cycle.iter().map(Name::as_str).collect::<Vec<_>>().join(" -> ");
    let accepted = "jobs that do not wait for this one themselves";
    Err(status_from_field(&FieldRefused::new("spec.after", cycle, accepted)))
}
