//! Finds out whether the tasks of a drained node have room elsewhere, by the scheduler's own code.

use borough_scheduler::{settings_of_meta, snapshot_of_mirror};
use borough_scheduler_core::Relocation;
use borough_store::cell::CellMeta;
use borough_store::mirror::MirrorState;

use crate::decide::leaving;

/// Possible moves in the cell as the mirror has it.
pub(crate) fn relocation_of(state: &MirrorState, meta: &CellMeta, now_ms: i64) -> Relocation {
    Relocation::new(snapshot_of_mirror(state, settings_of_meta(meta)), leaving(state), now_ms)
}
