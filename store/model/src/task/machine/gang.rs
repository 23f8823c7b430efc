//! Gangs: members hold until enough do, then one key changes and their holds are placements.
//!
//! If members wait for victims, one batch places all of them as holds, with a gang that waits until each has its share.
//!
//! The gang's epoch fences holds. A transaction that takes a hold reads the gang and records its epoch in the task's
//! row. Giving up the holds raises the epoch, which voids all of them at once.

use crate::id::{GangId, JobId};
use crate::task::{GangRow, GangState, TaskRow, TaskState};

/// What may happen to a gang as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangEvent {
    /// Gather (again), or get more time for it.
    Gather {
        /// Wall time at which its holds expire, milliseconds since 1970.
        expires_ms: i64,
    },
    /// Enough members hold: their holds become placements.
    Commit {
        /// The epoch at which the holds were taken.
        epoch: u64,
        /// Members with a valid hold at this epoch that wait for nobody.
        holding: u32,
    },
    /// Its holds have expired.
    Expire,
    /// Its holds, or its members' attempts, are given up.
    GiveUp {
        /// The epoch that is given up.
        epoch: u64,
    },
}

/// Why an event does not apply to a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GangRefused {
    /// The holds were given up in between: plan again.
    #[error("epoch {epoch} of the gang is over; it is in epoch {current}")]
    StaleEpoch {
        /// The caller's epoch.
        epoch: u64,
        /// The epoch of the gang.
        current: u64,
    },
    /// Hold more members first.
    #[error("{holding} members hold, {min_member} must")]
    TooFew {
        /// Members that hold.
        holding: u32,
        /// The members that the gang needs.
        min_member: u32,
    },
    /// The holds have expired: expire them, then gather again.
    #[error("the holds have expired")]
    Expired,
    /// There is time left: leave it alone.
    #[error("the holds have not expired yet")]
    NotExpired,
    /// Its members are placed already; it cannot gather again before it is given up.
    #[error("the gang is committed")]
    Committed,
    /// It does not gather.
    #[error("the gang was released")]
    Released,
    /// It has all its members, and waits for their victims.
    #[error("the gang waits for its victims")]
    Waiting,
}

/// The effects of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangTransition {
    /// The new row; the old one if nothing has changed.
    pub row: GangRow,
    pub changed: bool,
}

/// A new gang that gathers.
pub fn gang_gathering(id: GangId, job: JobId, min_member: u32, expires_ms: i64) -> GangRow {
    GangRow { id, job, min_member, state: GangState::Gathering, epoch: 1, expires_ms, revision: 1 }
}

/// Applies `event` to `row` at wall time `now_ms` (milliseconds since 1970).
pub fn gang_transition(row: &GangRow, event: &GangEvent, now_ms: i64) -> Result<GangTransition, GangRefused> {
    match (*event, row.state) {
        (GangEvent::Gather { .. }, GangState::Gathering) if now_ms >= row.expires_ms => {
            Err(GangRefused::Expired)
        }
        (GangEvent::Gather { expires_ms }, GangState::Gathering) if expires_ms <= row.expires_ms => {
            Ok(gang_unchanged(row))
        }
        (GangEvent::Gather { expires_ms }, GangState::Gathering) => {
            Ok(gang_changed(row, GangState::Gathering, row.epoch, expires_ms))
        }
        (GangEvent::Gather { expires_ms }, GangState::Released) => {
            Ok(gang_changed(row, GangState::Gathering, row.epoch.saturating_add(1), expires_ms))
        }
        (GangEvent::Gather { .. }, GangState::Committed) => Err(GangRefused::Committed),
        (GangEvent::Gather { .. }, GangState::Waiting) => Err(GangRefused::Waiting),
        (GangEvent::Commit { epoch, .. }, _) if epoch != row.epoch => {
            Err(GangRefused::StaleEpoch { epoch, current: row.epoch })
        }
        (GangEvent::Commit { .. }, GangState::Committed) => Ok(gang_unchanged(row)),
        (GangEvent::Commit { .. }, GangState::Released) => Err(GangRefused::Released),
        (GangEvent::Commit { .. }, GangState::Gathering) if now_ms >= row.expires_ms => {
            Err(GangRefused::Expired)
        }
        (GangEvent::Commit { holding, .. }, GangState::Gathering | GangState::Waiting) => {
            gang_complete(row, holding)
        }
        (GangEvent::Expire, GangState::Gathering) if now_ms < row.expires_ms => Err(GangRefused::NotExpired),
        (GangEvent::Expire, GangState::Gathering) => Ok(gang_release(row)),
        // A committed gang has no holds that could expire, and one that waits does so for as long as its victims take.
        (GangEvent::Expire, GangState::Committed | GangState::Released | GangState::Waiting) => {
            Ok(gang_unchanged(row))
        }
        (GangEvent::GiveUp { .. }, GangState::Released) => Ok(gang_unchanged(row)),
        (GangEvent::GiveUp { epoch }, _) if epoch != row.epoch => {
            Err(GangRefused::StaleEpoch { epoch, current: row.epoch })
        }
        (GangEvent::GiveUp { .. }, GangState::Gathering | GangState::Committed | GangState::Waiting) => {
            Ok(gang_release(row))
        }
    }
}

fn gang_complete(row: &GangRow, holding: u32) -> Result<GangTransition, GangRefused> {
    if holding < row.min_member {
        return Err(GangRefused::TooFew { holding, min_member: row.min_member });
    }
    Ok(gang_changed(row, GangState::Committed, row.epoch, row.expires_ms))
}

fn gang_release(row: &GangRow) -> GangTransition {
    gang_changed(row, GangState::Released, row.epoch.saturating_add(1), row.expires_ms)
}

fn gang_changed(row: &GangRow, state: GangState, epoch: u64, expires_ms: i64) -> GangTransition {
    let revision = row.revision.saturating_add(1);
    GangTransition { row: GangRow { state, epoch, expires_ms, revision, ..row.clone() }, changed: true }
}

fn gang_unchanged(row: &GangRow) -> GangTransition {
    GangTransition { row: row.clone(), changed: false }
}

/// The status of a held member's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldStatus {
    /// The gang still gathers, or waits for victims: wait.
    Waits,
    /// The gang was committed: apply [`super::TaskEvent::HoldConfirmed`].
    Placed,
    /// The gang was released, or has expired: apply [`super::TaskEvent::HoldExpired`].
    Void,
}

/// The status of the hold of `row`; `gang` is the gang that it names. `None` if the row holds nothing for that gang.
pub fn hold_status(row: &TaskRow, gang: &GangRow, now_ms: i64) -> Option<HoldStatus> {
    if row.state != TaskState::Held || row.gang != Some(gang.id) {
        return None;
    }
    let status = match gang.state {
        _ if row.gang_epoch != gang.epoch => HoldStatus::Void,
        GangState::Gathering if now_ms >= gang.expires_ms => HoldStatus::Void,
        GangState::Gathering | GangState::Waiting => HoldStatus::Waits,
        GangState::Committed => HoldStatus::Placed,
        GangState::Released => HoldStatus::Void,
    };
    Some(status)
}
