//! Units: members of a gang hold until enough do, then one key flips and their holds are placements.
//!
//! Where members wait for victims, all of them hold at once and the unit waits until each has its share.
//!
//! Holds are fenced by the unit's epoch: whoever takes one reads the unit in the same transaction and records its
//! epoch in the task's row; giving the holds up raises the epoch, which voids all of them at once.

use crate::id::{JobId, UnitId};
use crate::task::{TaskRow, TaskState, UnitRow, UnitState};

/// What happens to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitEvent {
    /// Gather (again), or have more time for it.
    Gather {
        /// Wall time at which its holds expire, milliseconds since 1970.
        expires_ms: i64,
    },
    /// All its members hold, and some of them wait for victims: nobody joins any more, and it has no time of its own.
    Wait {
        /// The epoch the holds were taken at.
        epoch: u64,
        /// Members whose hold stands at this epoch.
        holding: u32,
    },
    /// Enough members hold: their holds become placements.
    Commit {
        /// The epoch the holds were taken at.
        epoch: u64,
        /// Members whose hold stands at this epoch, and waits for nobody.
        holding: u32,
    },
    /// Its holds are past their time.
    Expire,
    /// Its holds, or its members' lives, are given up.
    GiveUp {
        /// The epoch that is given up.
        epoch: u64,
    },
}

/// Why an event does not apply to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitRefused {
    /// The holds were given up in between: plan again.
    #[error("epoch {epoch} of the unit is over; it is in epoch {current}")]
    StaleEpoch {
        /// The epoch the caller knows.
        epoch: u64,
        /// The unit's.
        current: u64,
    },
    /// Hold more members first.
    #[error("{holding} members hold, {min_member} must")]
    TooFew {
        /// Members that hold.
        holding: u32,
        /// Members that must.
        min_member: u32,
    },
    /// The holds are past their time: expire them, then gather again.
    #[error("the holds have expired")]
    Expired,
    /// There is time left: leave it alone.
    #[error("the holds have not expired yet")]
    NotExpired,
    /// Its members are placed already; it cannot gather again before it is given up.
    #[error("the unit is committed")]
    Committed,
    /// It does not gather.
    #[error("the unit was released")]
    Released,
    /// It has all its members, and waits for their victims.
    #[error("the unit waits for its victims")]
    Waiting,
}

/// What an event does to a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitTransition {
    /// The new row; the old one where nothing has changed.
    pub row: UnitRow,
    /// Whether anything has changed.
    pub changed: bool,
}

/// A new unit that gathers.
pub fn unit_gathering(id: UnitId, job: JobId, min_member: u32, expires_ms: i64) -> UnitRow {
    UnitRow { id, job, min_member, state: UnitState::Gathering, epoch: 1, expires_ms, revision: 1 }
}

/// What `event` does to `row` at wall time `now_ms` (milliseconds since 1970).
pub fn unit_transition(row: &UnitRow, event: &UnitEvent, now_ms: i64) -> Result<UnitTransition, UnitRefused> {
    match (*event, row.state) {
        (UnitEvent::Gather { .. }, UnitState::Gathering) if now_ms >= row.expires_ms => {
            Err(UnitRefused::Expired)
        }
        (UnitEvent::Gather { expires_ms }, UnitState::Gathering) if expires_ms <= row.expires_ms => {
            Ok(unit_unchanged(row))
        }
        (UnitEvent::Gather { expires_ms }, UnitState::Gathering) => {
            Ok(unit_changed(row, UnitState::Gathering, row.epoch, expires_ms))
        }
        (UnitEvent::Gather { expires_ms }, UnitState::Released) => {
            Ok(unit_changed(row, UnitState::Gathering, row.epoch.saturating_add(1), expires_ms))
        }
        (UnitEvent::Gather { .. }, UnitState::Committed) => Err(UnitRefused::Committed),
        (UnitEvent::Gather { .. }, UnitState::Waiting) => Err(UnitRefused::Waiting),
        (UnitEvent::Wait { epoch, .. } | UnitEvent::Commit { epoch, .. }, _) if epoch != row.epoch => {
            Err(UnitRefused::StaleEpoch { epoch, current: row.epoch })
        }
        (UnitEvent::Wait { .. }, UnitState::Waiting | UnitState::Committed)
        | (UnitEvent::Commit { .. }, UnitState::Committed) => Ok(unit_unchanged(row)),
        (UnitEvent::Wait { .. } | UnitEvent::Commit { .. }, UnitState::Released) => {
            Err(UnitRefused::Released)
        }
        (UnitEvent::Wait { .. } | UnitEvent::Commit { .. }, UnitState::Gathering)
            if now_ms >= row.expires_ms =>
        {
            Err(UnitRefused::Expired)
        }
        (UnitEvent::Wait { holding, .. }, UnitState::Gathering) => {
            unit_complete(row, holding, UnitState::Waiting)
        }
        (UnitEvent::Commit { holding, .. }, UnitState::Gathering | UnitState::Waiting) => {
            unit_complete(row, holding, UnitState::Committed)
        }
        (UnitEvent::Expire, UnitState::Gathering) if now_ms < row.expires_ms => Err(UnitRefused::NotExpired),
        (UnitEvent::Expire, UnitState::Gathering) => Ok(unit_release(row)),
        // A committed unit has no holds that could expire, and what waits does so for as long as its victims take.
        (UnitEvent::Expire, UnitState::Committed | UnitState::Released | UnitState::Waiting) => {
            Ok(unit_unchanged(row))
        }
        (UnitEvent::GiveUp { .. }, UnitState::Released) => Ok(unit_unchanged(row)),
        (UnitEvent::GiveUp { epoch }, _) if epoch != row.epoch => {
            Err(UnitRefused::StaleEpoch { epoch, current: row.epoch })
        }
        (UnitEvent::GiveUp { .. }, UnitState::Gathering | UnitState::Committed | UnitState::Waiting) => {
            Ok(unit_release(row))
        }
    }
}

fn unit_complete(row: &UnitRow, holding: u32, state: UnitState) -> Result<UnitTransition, UnitRefused> {
    if holding < row.min_member {
        return Err(UnitRefused::TooFew { holding, min_member: row.min_member });
    }
    Ok(unit_changed(row, state, row.epoch, row.expires_ms))
}

fn unit_release(row: &UnitRow) -> UnitTransition {
    unit_changed(row, UnitState::Released, row.epoch.saturating_add(1), row.expires_ms)
}

fn unit_changed(row: &UnitRow, state: UnitState, epoch: u64, expires_ms: i64) -> UnitTransition {
    let revision = row.revision.saturating_add(1);
    UnitTransition { row: UnitRow { state, epoch, expires_ms, revision, ..row.clone() }, changed: true }
}

fn unit_unchanged(row: &UnitRow) -> UnitTransition {
    UnitTransition { row: row.clone(), changed: false }
}

/// What a held member's hold is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldStanding {
    /// The unit still gathers, or waits for victims: wait.
    Waits,
    /// The unit was committed: apply [`super::TaskEvent::HoldConfirmed`].
    Placed,
    /// The unit was released, or has expired: apply [`super::TaskEvent::HoldExpired`].
    Void,
}

/// What the hold of `row` is worth, `unit` being the unit it names. `None` where the row holds nothing for that unit.
pub fn hold_standing(row: &TaskRow, unit: &UnitRow, now_ms: i64) -> Option<HoldStanding> {
    if row.state != TaskState::Held || row.unit != Some(unit.id) {
        return None;
    }
    let standing = match unit.state {
        _ if row.unit_epoch != unit.epoch => HoldStanding::Void,
        UnitState::Gathering if now_ms >= unit.expires_ms => HoldStanding::Void,
        UnitState::Gathering | UnitState::Waiting => HoldStanding::Waits,
        UnitState::Committed => HoldStanding::Placed,
        UnitState::Released => HoldStanding::Void,
    };
    Some(standing)
}
