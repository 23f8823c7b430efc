//! Cells.

use borough_proto::v1;
use serde::Serialize;

use super::Style;
use super::job::CountsView;
use super::table::Tabular;
use super::text::{ResourcesView, facts, word};

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellView {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) store: String,
    pub(crate) store_epoch: u64,
    pub(crate) nodes: u32,
    pub(crate) nodes_ready: u32,
    pub(crate) capacity: ResourcesView,
    pub(crate) used: ResourcesView,
    pub(crate) jobs: u32,
    pub(crate) tasks: CountsView,
    pub(crate) schedulers: Vec<SchedulerView>,
    pub(crate) staleness_ms: u64,
}

/// A scheduler worker as its lease says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SchedulerView {
    pub(crate) shard: u32,
    pub(crate) owner: String,
    pub(crate) epoch: u64,
}

impl From<v1::Cell> for CellView {
    fn from(cell: v1::Cell) -> Self {
        let scheduler = |worker: v1::SchedulerWorker| SchedulerView {
            shard: worker.shard,
            owner: worker.owner,
            epoch: worker.epoch,
        };
        Self {
            state: word(cell.state().as_str_name(), "CELL_STATE_"),
            name: cell.name,
            store: cell.store,
            store_epoch: cell.store_epoch,
            nodes: cell.nodes,
            nodes_ready: cell.nodes_ready,
            capacity: cell.capacity.unwrap_or_default().into(),
            used: cell.used.unwrap_or_default().into(),
            jobs: cell.jobs,
            tasks: cell.tasks.unwrap_or_default().into(),
            schedulers: cell.schedulers.into_iter().map(scheduler).collect(),
            staleness_ms: cell.staleness_ms,
        }
    }
}

impl Tabular for CellView {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "STATE", "NODES READY", "JOBS", "TASKS", "STORE"], vec!["CAPACITY", "USED"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            self.name.clone(),
            self.state.clone(),
            format!("{}/{}", self.nodes_ready, self.nodes),
            self.jobs.to_string(),
            self.tasks.text(),
            self.store.clone(),
        ];
        (cells, vec![self.capacity.text(), self.used.text()])
    }
}

impl CellView {
    pub(crate) fn text(&self, _: &Style) -> String {
        let worker = |worker: &SchedulerView| {
            format!("shard {} by {} (epoch {})", worker.shard, worker.owner, worker.epoch)
        };
        facts(&[
            ("cell", self.name.clone()),
            ("state", self.state.clone()),
            (
                "store",
                format!("{} (epoch {}), read {} ms ago", self.store, self.store_epoch, self.staleness_ms),
            ),
            ("nodes", format!("{} of {} ready", self.nodes_ready, self.nodes)),
            ("capacity", self.capacity.text()),
            ("used", self.used.text()),
            ("jobs", self.jobs.to_string()),
            ("tasks", self.tasks.text()),
            ("schedulers", self.schedulers.iter().map(worker).collect::<Vec<_>>().join("; ")),
        ])
    }
}
