//! Makes the journal have the measured loads of nodes, before the gateway accepts what follows them.
//!
//! Workers and mirrors know loads from the journal. So the loads come first, and then the setting or the job that needs
//! them: no worker scores by loads from before.

use borough_kv::{Idempotency, Transaction};
use borough_model::NodeId;
use borough_scheduler_core::ScoringProfile;
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::{loads_begin, loads_begun, loads_journal};
use borough_store::{StoreError, StoreResult};

use super::context::CellContext;

/// Most nodes in one transaction: 500 loads take a third of a part of the journal.
const NODES_MAX: usize = 500;
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
        let mut next = FollowStep::Begin;
        while let Some(step) = next.step() {
            next = step_do(cell, step).await?;
        }
        if next == FollowStep::Over {
            return Ok(());
        }
    }
    // The controller sees the follower, and begins again.
    Ok(())
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowStep {
    Begin,
    /// Journal the loads of the nodes after this one.
    Page(Option<NodeId>),
    Begun,
    Over,
    /// Somebody has ended it meanwhile.
    Ended,
}

impl FollowStep {
    /// This one, unless nothing is left.
    fn step(self) -> Option<Self> {
        (!matches!(self, Self::Over | Self::Ended)).then_some(self)
    }

    fn action(self) -> &'static str {
        match self {
            Self::Begin => "loads_begin",
            Self::Page(_) => "node_loads",
            Self::Begun | Self::Over | Self::Ended => "loads_begun",
        }
    }

    /// Does it in a transaction. Returns the next one.
    async fn write(self, tx: &Transaction, changes: &mut ChangeSet) -> StoreResult<Self> {
        Ok(match self {
            Self::Begin if loads_begin(tx, changes).await? => Self::Page(None),
            Self::Begin => Self::Over,
            Self::Page(after) => {
                let last = loads_journal(tx, changes, after, NODES_MAX).await?;
                last.map_or(Self::Begun, |last| Self::Page(Some(last)))
            }
            Self::Begun if loads_begun(tx, changes).await? => Self::Over,
            Self::Begun => Self::Ended,
            Self::Over | Self::Ended => self,
        })
    }
}

/// One transaction of the gateway itself.
async fn step_do(cell: &CellContext, step: FollowStep) -> StoreResult<FollowStep> {
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
