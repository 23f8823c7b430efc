//! Gangs past their time. A worker, or its successor, gives up a gang that gathers in vain. Without a successor, the
//! gang would hold its nodes' capacity for ever.

use std::ops::Bound;

use borough_kv::Transaction;
use borough_model::GangId;
use borough_model::task::{GangRow, GangState, TaskRow, TaskState};
use borough_store::gang::gang_expire;
use borough_store::journal::ChangeSet;
use borough_store::lease::LeaseWriter;
use borough_store::mirror::MirrorState;
use borough_store::task::gang_holds_settle;
use borough_store::{StoreError, StoreResult};

/// Rows visited in one transaction when holds are settled.
const SETTLE_MAX: usize = 256;

/// Tasks that are visited under one hold of the mirror's lock. A single gang may have more.
const PART_TASKS: usize = 4_096;

/// Some gangs that need an action, and the gang after which the next part begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverduePart {
    pub gangs: Vec<GangId>,
    pub next: Option<GangId>,
}

/// Gangs behind `after` that need an action: those that still gather after their time, that wait for victims and have
/// lost a member, or that have holds to settle.
pub(crate) fn gangs_overdue(state: &MirrorState, now_ms: i64, after: Option<GangId>) -> OverduePart {
    let holding = |gang: &GangRow| {
        let holds = |row: &TaskRow| row.state == TaskState::Held && row.gang == Some(gang.id);
        let waits = gang.state == GangState::Waiting;
        let counts = |row: &TaskRow| holds(row) && (!waits || row.gang_epoch == gang.epoch);
        state.job_tasks(gang.job).filter(|row| counts(row)).count()
    };
    let left = |gang: &GangRow| match gang.state {
        GangState::Gathering => true,
        GangState::Waiting => holding(gang) < gang.min_member as usize,
        GangState::Committed | GangState::Released => holding(gang) > 0,
    };
    let (mut part, mut visited) = (OverduePart::default(), 0_usize);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    for gang in state.gangs().range((from, Bound::Unbounded)).map(|(_, gang)| gang) {
        let tasks =
            state.jobs().get(&gang.job).map_or(0, |job| usize::try_from(job.count).unwrap_or(usize::MAX));
        let is_over = gang.expires_ms <= now_ms;
        visited = visited.saturating_add(if is_over { tasks } else { 1 });
        if is_over && left(gang) {
            part.gangs.push(gang.id);
        }
        if visited >= PART_TASKS {
            part.next = Some(gang.id);
            break;
        }
    }
    part
}

/// Ends an overdue gang: gives up one that gathers, or waits and has lost a member. Then settles its holds: they become
/// placements if the gang was committed, and are released otherwise.
pub(crate) async fn gang_end(writer: &LeaseWriter, gang: GangId) -> StoreResult<()> {
    let expire = |tx: Transaction, mut changes: ChangeSet| async move {
        Ok((gang_expire(&tx, &mut changes, gang).await?, changes))
    };
    match writer.change("gang_expire", expire).await {
        Ok(_) => tracing::warn!(%gang, "a gang did not come together, and its worker is gone"),
        // Committed or released already: only its holds must be settled.
        Err(StoreError::Gang(_)) => {}
        Err(error) => return Err(error),
    }
    let settle = |tx: Transaction, mut changes: ChangeSet, after| async move {
        Ok((gang_holds_settle(&tx, &mut changes, gang, after, SETTLE_MAX).await?, changes))
    };
    writer.sweep("gang_settle", settle).await
}
