//! Units past their time: a gang that gathers is let go by its worker, or by that worker's successor. Where there is no
//! successor, what it holds of the nodes would be held for ever.

use borough_model::UnitId;
use borough_model::task::{TaskRow, TaskState, UnitRow, UnitState};
use borough_store::mirror::MirrorState;
use borough_store::unit::{unit_expire, unit_holds_settle};
use borough_store::{StoreError, StoreResult};

use crate::act::Hands;

/// Rows looked at in one transaction when holds are carried out.
const SETTLE_MAX: usize = 256;

/// Units whose time is over and that still gather, that wait for victims and have lost a member, or that have holds which were
/// not carried out.
pub fn units_overdue(state: &MirrorState, now_ms: i64) -> Vec<UnitId> {
    let holding = |unit: &UnitRow| {
        let holds = |row: &TaskRow| row.state == TaskState::Held && row.unit == Some(unit.id);
        let waits = unit.state == UnitState::Waiting;
        let counts = |row: &TaskRow| holds(row) && (!waits || row.unit_epoch == unit.epoch);
        state.job_tasks(unit.job).filter(|row| counts(row)).count()
    };
    let left = |unit: &UnitRow| match unit.state {
        UnitState::Gathering => true,
        UnitState::Waiting => holding(unit) < unit.min_member as usize,
        UnitState::Committed | UnitState::Released => holding(unit) > 0,
    };
    let over = state.units().values().filter(|unit| unit.expires_ms <= now_ms);
    over.filter(|unit| left(unit)).map(|unit| unit.id).collect()
}

/// Ends an overdue unit: one that gathers, or waits and has lost a member, is given up. Then carries out what its holds are
/// worth: placements where it was committed, else given back.
pub async fn unit_end(hands: &Hands, unit: UnitId) -> StoreResult<()> {
    let ended = hands.change("unit_expire", |tx, mut changes| async move {
        unit_expire(&tx, &mut changes, unit).await?;
        Ok(((), changes))
    });
    match ended.await {
        Ok(()) => tracing::warn!(%unit, "a gang did not come together, and its worker is gone"),
        // Committed or released already: what is left is to carry out its holds.
        Err(StoreError::Unit(_)) => {}
        Err(error) => return Err(error),
    }
    let mut after = None;
    loop {
        let sweep = hands.change("unit_settle", |tx, mut changes| async move {
            let sweep = unit_holds_settle(&tx, &mut changes, unit, after, SETTLE_MAX).await?;
            Ok((sweep, changes))
        });
        after = sweep.await?.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
