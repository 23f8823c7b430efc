//! Promotions: the tasks of the owner follow their canaries.

use borough_kv::Transaction;
use borough_model::JobId;
use borough_model::job::{JobRow, RolloutRefused, RolloutState};
use borough_model::node::silent_since_ms;
use borough_model::rollout::{RolloutRules, canaries_healthy};

use super::{rollout_at, surge_with};
use crate::error::{StoreError, StoreResult};
use crate::job::{job_get, job_spec_in_force};
use crate::journal::ChangeSet;
use crate::keys::{self, NodeKey, Prefix, RangeOptions, TaskKey};

/// Promotes the version of a rollout whose canaries are healthy. Does nothing if the job's row has another revision by
/// now.
pub async fn rollout_promote(
    tx: &Transaction,
    changes: &mut ChangeSet,
    job: JobId,
    revision: u64,
) -> StoreResult<()> {
    let before = job_get(tx, changes.space(), job).await?;
    let Some(rollout) = rollout_at(&before, revision) else { return Ok(()) };
    let in_force = job_spec_in_force(tx, changes.space(), &before).await?;
    let rules = RolloutRules::of_job(&in_force, rollout, &before);
    // One may have ended since the step was decided.
    if canaries_answering(tx, changes, &before, &rules).await? < rules.canaries {
        return Ok(());
    }
    let promoted = rollout.promoted(changes.at_ms());
    surge_with(tx, changes, &before, &in_force, promoted).await.map(drop)
}

/// Promotes at the owner's request, if the canaries have been healthy for long enough.
pub(super) async fn promote_ordered(
    tx: &Transaction,
    changes: &mut ChangeSet,
    before: &JobRow,
) -> StoreResult<JobRow> {
    let refused =
        |why: RolloutRefused| StoreError::refused(format!("job {}/{}: {why}", before.user, before.name));
    let rollout = before.rollout.as_deref().ok_or_else(|| refused(RolloutRefused::Absent))?;
    if !rollout.state.is_open() {
        return Err(refused(RolloutRefused::Over(rollout.state)));
    }
    if rollout.canaries == 0 {
        return Err(refused(RolloutRefused::NoCanary));
    }
    if rollout.state == RolloutState::Paused {
        return Err(refused(RolloutRefused::Paused));
    }
    let in_force = job_spec_in_force(tx, changes.space(), before).await?;
    let rules = RolloutRules::of_job(&in_force, rollout, before);
    let healthy = canaries_answering(tx, changes, before, &rules).await?;
    if healthy < rules.canaries {
        return Err(refused(RolloutRefused::CanariesNotHealthy { healthy, canaries: rules.canaries }));
    }
    let promoted = rollout.promoted(changes.at_ms());
    surge_with(tx, changes, before, &in_force, promoted).await
}

/// How many canaries have been healthy for long enough, on nodes that answer. Reads their rows with conflicts.
async fn canaries_answering(
    tx: &Transaction,
    changes: &ChangeSet,
    before: &JobRow,
    rules: &RolloutRules,
) -> StoreResult<u32> {
    let after = rules.count.checked_sub(1).map(|index| TaskKey { job: before.id, index });
    let options = RangeOptions { after, ..RangeOptions::default() };
    let rows = keys::range(tx, changes.space(), &Prefix::<TaskKey>::of(&before.id), options).await?;
    let mut answering = Vec::with_capacity(rows.len());
    for (_, row) in rows {
        let node = match row.node {
            Some(node) => keys::read(tx, changes.space(), &NodeKey { node }).await?,
            None => None,
        };
        // Nobody knows how a canary is whose node does not answer.
        if node.is_none_or(|node| silent_since_ms(&node.taints).is_none()) {
            answering.push(row);
        }
    }
    Ok(canaries_healthy(rules, answering.iter(), changes.at_ms()))
}
