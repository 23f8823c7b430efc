//! The memory of a worker's view of its cell: resident memory of this process before and after.

use borough_scheduler::CellView;
use borough_scheduler_core::ShardDivision;
use procfs::process::Process;
use serde_json::json;

use super::workload;
use crate::result::{Stats, StatsSet as _};

/// Resident memory in bytes.
fn resident_bytes() -> anyhow::Result<u64> {
    let page_bytes = rustix::param::page_size() as u64;
    Ok(Process::myself()?.statm()?.resident * page_bytes)
}

/// Fills a worker's view with nodes, then with running tasks, and returns the cost of each. Rows are made, applied and
/// dropped one by one, so that nothing else stays in memory.
pub(super) fn measured(seed: u64) -> anyhow::Result<Stats> {
    let mut view = CellView::new(workload::settings(), ShardDivision::of(1));
    let begin = resident_bytes()?;
    let nodes = workload::memory_nodes(seed, |delta| {
        view.apply_delta(&delta);
    });
    let with_nodes = resident_bytes()?;
    let tasks = workload::memory_tasks(nodes, |delta| {
        view.apply_delta(&delta);
    });
    let with_tasks = resident_bytes()?;
    let per = |more: u64, less: u64, count: u32| json!(more.saturating_sub(less) / u64::from(count.max(1)));
    let mut stats = Stats::new();
    stats.set("nodes", json!(nodes));
    stats.set("tasks", json!(tasks));
    stats.set("bytes_per_node", per(with_nodes, begin, nodes));
    stats.set("bytes_per_task", per(with_tasks, with_nodes, tasks));
    stats.set("nodes_known", json!(view.snapshot.tables().node_count()));
    Ok(stats)
}
