//! Finds out whether the tasks of a drained node have room elsewhere, by the scheduler's own code.

use borough_scheduler_core::{CellSettings, Relocation, Snapshot};
use borough_store::cell::CellMeta;
use borough_store::mirror::MirrorState;

use crate::decide::leaving;

/// Possible moves in the cell as the mirror has it.
pub fn relocation_of(state: &MirrorState, meta: &CellMeta, now_ms: i64) -> Relocation {
    Relocation::new(snapshot_of(state, meta), leaving(state), now_ms)
}

fn snapshot_of(state: &MirrorState, meta: &CellMeta) -> Snapshot {
    let settings = CellSettings {
        fresh_start_ms: meta.fresh_start_ms.unwrap_or_default(),
        reclaim: meta.reclaim.unwrap_or_default(),
        ..CellSettings::of_cell(
            meta.failure_domains.clone(),
            &meta.profile,
            &meta.queueing,
            meta.queues.clone(),
        )
    };
    let mut snapshot = Snapshot::new(settings);
    for row in state.nodes().values() {
        snapshot.node_upsert(row);
    }
    for (&node, alloc) in state.allocs() {
        snapshot.alloc_upsert(node, alloc);
    }
    for (&node, load) in state.loads() {
        snapshot.load_upsert(node, load);
    }
    for row in state.jobs().values() {
        snapshot.job_upsert(row, state.spec_of(row).cloned());
    }
    for row in state.tasks().values() {
        snapshot.task_upsert(row);
    }
    snapshot
}
