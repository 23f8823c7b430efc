//! Makes the journal have the measured loads of nodes, before the gateway accepts what follows them.
//!
//! Workers and mirrors know loads from the journal. So the loads come first, and then the setting or the job that needs
//! them: no worker scores by loads from before.

use borough_kv::Idempotency;
use borough_scheduler_core::ScoringProfile;
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::LoadsStep;
use borough_store::{StoreError, StoreResult};

use super::context::CellContext;

/// How often it begins again if a controller ends it meanwhile, which one does that finds no follower.
const TRIES: usize = 3;

/// Makes the journal have every load, if the profile reads loads. It costs something only for the first one in a while:
/// a controller ends it some time after the last follower is gone.
pub(crate) async fn loads_follow(cell: &CellContext, profile: Option<&str>) -> StoreResult<()> {
    let profile = profile.and_then(|profile| profile.parse::<ScoringProfile>().ok());
    if !profile.is_some_and(|profile| profile.reads_load()) {
        return Ok(());
    }
    for _ in 0..TRIES {
        let mut step = LoadsStep::Begin;
        while step.is_left() {
            step = step_do(cell, step).await?;
        }
        if step == LoadsStep::Over {
            return Ok(());
        }
    }
    // The controller sees the follower, and begins again.
    Ok(())
}

/// One transaction of the gateway itself.
async fn step_do(cell: &CellContext, step: LoadsStep) -> StoreResult<LoadsStep> {
    let (action, at_ms) = (step.action(), cell.clock.wall_ms());
    let change = Change { request: cell.request_id(), actor: "gateway".to_owned(), action, at_ms };
    let (change, space) = (&change, &cell.space);
    let run = cell.db.run(action, Idempotency::Natural, |tx, _| async move {
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        let next = step.write(&tx, &mut changes).await?;
        changes.append(&tx)?;
        Ok::<_, StoreError>(next)
    });
    run.await
}
