//! The step of a rollout that gives running attempts the version in force as they run.

use borough_kv::Transaction;
use borough_model::job::JobEvent;
use borough_model::rollout::{AttemptFit, AttemptFits, RolloutRules};
use borough_model::task::{Attempt, TaskEvent};
use borough_model::{Incarnation, JobId, TaskId};

use super::rollout_at;
use crate::error::StoreResult;
use crate::job::{job_event, job_get, job_spec_in_force};
use crate::journal::ChangeSet;
use crate::task::TaskBook;

/// Gives running attempts of a job the version in force, which runs them as they run. The same commit writes their
/// endpoints with the weights of that version: nothing is withdrawn. Does nothing if the job's row has another revision
/// by now. Returns how many attempts have adopted the version.
pub async fn rollout_adopt(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
    attempts: &[(TaskId, Incarnation)],
) -> StoreResult<usize> {
    let row = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&row, revision) else { return Ok(0) };
    let spec = job_spec_in_force(tx, changes.space(), &row).await?;
    let rules = RolloutRules::of_job(&spec, rollout, &row);
    let mut fits = AttemptFits::new(row.spec_version, spec.into());
    let mut book = TaskBook::read(tx, changes.space(), attempts.iter().map(|(task, _)| *task)).await?;
    let mut adopted = 0_usize;
    for &(task, incarnation) in attempts {
        // Beside canaries, the tasks of the owner keep their version.
        let keeps = rules.canaries > 0 && task.index < rules.count;
        let known = book.task(task).filter(|known| known.incarnation == incarnation && !keeps);
        let Some((known, node)) = known.and_then(|known| Some((known, known.node?))) else { continue };
        if fits.fit(known, |version| book.spec(task.job, version).cloned()) != AttemptFit::Adopts {
            continue;
        }
        let attempt = Attempt { node, incarnation };
        let event = TaskEvent::VersionAdopted { attempt, version: row.spec_version };
        // Another state by now: the next look decides.
        let is_done = book.apply(task, &event, changes.at_ms())?.unwrap_or(false);
        adopted = adopted.saturating_add(usize::from(is_done));
    }
    let stepped = Box::new(rollout.stepped(0));
    job_event(tx, changes, &row, &JobEvent::RolloutSet { rollout: stepped })?;
    book.write(tx, changes).await?;
    Ok(adopted)
}
