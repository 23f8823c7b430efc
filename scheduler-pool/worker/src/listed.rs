//! What a scheduler makes of a cell as the store or a mirror has it. The gateway and the controller ask a scheduler's
//! snapshot as well, so their answers say what a worker will do.

use borough_scheduler_core::{CellSettings, Snapshot, StoredSettings};
use borough_store::cell::CellMeta;
use borough_store::mirror::MirrorState;

/// The settings that a worker plans with.
pub fn settings_of_meta(meta: &CellMeta) -> CellSettings {
    CellSettings::of_stored(&StoredSettings {
        failure_domains: &meta.failure_domains,
        profile: &meta.profile,
        queueing: &meta.queueing,
        queues: &meta.queues,
        fresh_start_ms: meta.fresh_start_ms,
        reclaim: meta.reclaim,
    })
}

/// The snapshot of a cell as its mirror shows it.
pub fn snapshot_of_mirror(state: &MirrorState, settings: CellSettings) -> Snapshot {
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
        snapshot.job_upsert(row, state.spec_of(row).as_deref());
    }
    for row in state.tasks().values() {
        snapshot.task_upsert(row);
    }
    snapshot
}
