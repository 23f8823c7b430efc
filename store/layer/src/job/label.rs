//! Changes labels of a job.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::JobId;
use borough_model::job::{JobRow, JobSpec};
use borough_model::journal::ValueChange;
use borough_model::node::labels_changed;

use super::change::job_spec_replace;
use super::read::{job_get, job_spec_in_force};
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;

/// Sets the labels of `set` and removes those of `remove`; a missing one is no error. The job gets another version of
/// its spec and no task of it restarts. The same labels change nothing.
pub async fn job_labels_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    set: &BTreeMap<String, String>,
    remove: &BTreeSet<String>,
) -> StoreResult<JobRow> {
    let before = job_get(tx, changes.space(), job).await?;
    let in_force = job_spec_in_force(tx, changes.space(), &before).await?;
    let labels = labels_changed(&in_force.labels, set, remove);
    if labels == in_force.labels {
        return Ok(before);
    }
    let values = ValueChange::of_labels(&in_force.labels, &labels);
    let spec = JobSpec { labels, ..in_force.clone() };
    // A smaller count than at its submission keeps the overrides of tasks that it no longer has.
    let indexes = spec.overrides.last_key_value().map_or(0, |(index, _)| index.saturating_add(1));
    let checked = JobSpec { count: spec.count.max(indexes), ..spec.clone() };
    checked.validate().map_err(|errors| StoreError::InvalidSpec { errors })?;
    changes.values_push(values);
    job_spec_replace(tx, changes, &before, &in_force, &spec)
}
