//! Units past their time: a gang that gathers is let go by its worker, or by that worker's successor. Where there is no
//! successor, what it holds of the nodes would be held for ever.

use borough_model::UnitId;
use borough_model::task::UnitState;
use borough_model::{JobId, TaskState};
use borough_store::mirror::MirrorState;
use borough_store::unit::{unit_expire, unit_holds_settle};
use borough_store::{StoreError, StoreResult};

use crate::act::Hands;

/// Rows looked at in one transaction when holds are carried out.
const SETTLE_MAX: usize = 256;

/// Units whose time is over and that still gather, or have holds that were not carried out.
pub fn units_overdue(state: &MirrorState, now_ms: i64) -> Vec<UnitId> {
    let holds = |unit: UnitId, job: JobId| {
        state.job_tasks(job).any(|task| task.state == TaskState::Held && task.unit == Some(unit))
    };
    let over = state.units().values().filter(|unit| unit.expires_ms <= now_ms);
    let left = over.filter(|unit| unit.state == UnitState::Gathering || holds(unit.id, unit.job));
    left.map(|unit| unit.id).collect()
}

/// Carries out what the holds of an overdue unit are worth: placements where it was committed, else given back.
pub async fn unit_end(hands: &Hands, unit: UnitId) -> StoreResult<()> {
    let expired = hands.change("unit_expire", |tx, mut changes| async move {
        unit_expire(&tx, &mut changes, unit).await?;
        Ok(((), changes))
    });
    match expired.await {
        Ok(()) => tracing::warn!(%unit, "a gang did not come together in its time, and its worker is gone"),
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
