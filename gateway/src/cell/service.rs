//! `CellService`: lists cells and describes their state.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::access::ActionNeed;
use borough_proto::convert::resources_to_message;
use borough_proto::v1;
use borough_proto::v1::cell_service_server::CellService;
use borough_store::cell::{CellMeta, CellState};
use borough_store::lease::{SchedulerShard, WorkerStatus, scheduler_shards};
use borough_store::mirror::MirrorState;
use futures::future::join_all;
use tonic::{Request, Response, Status};

use super::admit::{Asked, context_complete, principal_of};
use super::context::{CellContext, Cells, caller_of_read, cursor_to_message};
use super::load::cell_load;
use super::oversell::CellGrants;
use super::settings::{SettingsChange, reclaim_idle, settings_change, settings_message, settings_read};
use super::tally::CellTally;
use crate::status::status_from_store;

/// The gRPC service of cells.
#[derive(Clone)]
pub struct CellServer {
    cells: Arc<Cells>,
}

impl CellServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl CellService for CellServer {
    async fn list_cells(
        &self,
        request: Request<v1::ListCellsRequest>,
    ) -> Result<Response<v1::ListCellsResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let mut message = request.get_ref().clone();
        context_complete(&principal, &mut message.context)?;
        caller_of_read(message.context.as_ref())?;
        // Cells where the caller has no right are not shown.
        let shown = |cell: &&Arc<CellContext>| {
            cell.allow(&principal, "CellService/GetCell", ActionNeed::Any, "").is_ok()
        };
        let shown: Vec<&Arc<CellContext>> = self.cells.0.values().filter(shown).collect();
        let mut cells = Vec::with_capacity(shown.len());
        for cell in &shown {
            cells.push(cell_message(cell).await?);
        }
        if message.load {
            // At once: a store that does not answer costs one wait, and not one for each cell.
            let loads = join_all(shown.iter().map(|cell| cell_load(cell))).await;
            for (message, load) in cells.iter_mut().zip(loads) {
                message.load = load;
            }
        }
        Ok(Response::new(v1::ListCellsResponse { cells }))
    }

    async fn get_cell(
        &self,
        request: Request<v1::GetCellRequest>,
    ) -> Result<Response<v1::GetCellResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let mut message = cell_message(cell).await?;
        if request.load {
            message.load = cell_load(cell).await;
        }
        let cursor = Some(cursor_to_message(cell.mirror.cursor()));
        Ok(Response::new(v1::GetCellResponse { cell: Some(message), cursor }))
    }

    async fn update_cell(
        &self,
        request: Request<v1::UpdateCellRequest>,
    ) -> Result<Response<v1::UpdateCellResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let change = SettingsChange::of(&request)?;
        let capacity = change.oversell.capacity(cell).await?;
        let changed = settings_change(cell, &caller, &request, &change, capacity.as_ref()).await;
        let (_, cursor) = cell.settled(changed).await?;
        let message = cell_message(cell).await?;
        Ok(Response::new(v1::UpdateCellResponse {
            cell: Some(message),
            cursor: Some(cursor_to_message(cursor)),
        }))
    }
}

async fn cell_message(cell: &CellContext) -> Result<v1::Cell, Status> {
    cell.state(|_| ())?;
    let tally = CellTally::of(cell).await;
    let mut message = cell.mirror.read(|state| cell_of_state(state, &tally));
    message.name = cell.name.to_string();
    let info = cell.db.info();
    message.store = format!("{} {}", info.name, info.location);
    message.staleness_ms = u64::try_from(cell.mirror.staleness().as_millis()).unwrap_or(u64::MAX);
    let shards = scheduler_shards_read(cell).await?;
    let meta = settings_read(cell).await.map_err(|error| status_from_store(&error))?;
    let wanted = schedulers_wanted(&tally, &meta);
    message.warnings = schedulers_unserved(&shards, &wanted, cell.clock.wall_ms());
    message.warnings.extend(reclaim_idle(&meta));
    let capacity = (message.nodes > 0).then(|| tally.capacity.clone());
    message.warnings.extend(CellGrants::read_against(cell, capacity).await?.warnings());
    message.schedulers = shards.into_iter().map(scheduler_message).collect();
    message.settings = Some(settings_message(meta));
    Ok(message)
}

fn cell_of_state(state: &MirrorState, tally: &CellTally) -> v1::Cell {
    let gate = state.gate();
    v1::Cell {
        state: match gate.map(|gate| gate.state) {
            Some(CellState::Open) => v1::CellState::Open,
            Some(CellState::Draining) => v1::CellState::Draining,
            Some(CellState::Moved) => v1::CellState::Moved,
            Some(CellState::Importing) => v1::CellState::Importing,
            None => v1::CellState::Unspecified,
        }
        .into(),
        store_epoch: gate.map_or(0, |gate| gate.store_epoch),
        nodes: u32::try_from(state.nodes().len()).unwrap_or(u32::MAX),
        nodes_ready: tally.nodes_ready,
        capacity: Some(resources_to_message(&tally.capacity)),
        used: Some(resources_to_message(&tally.used)),
        jobs: tally.jobs,
        tasks: Some(tally.tasks),
        members: u32::try_from(state.members().len()).unwrap_or(u32::MAX),
        ..v1::Cell::default()
    }
}

/// Reads every shard of the cell's schedulers.
pub(crate) async fn scheduler_shards_read(cell: &CellContext) -> Result<Vec<SchedulerShard>, Status> {
    let space = &cell.space;
    let rows = cell.db.run("cell_schedulers", Idempotency::ReadOnly, |tx, _| async move {
        scheduler_shards(&tx, space).await
    });
    rows.await.map_err(|error| status_from_store(&error))
}

/// The schedulers that the cell's rules and present jobs name, with the number of jobs of each.
fn schedulers_wanted(tally: &CellTally, meta: &CellMeta) -> BTreeMap<String, usize> {
    let constrained = meta.schedulers.iter().flatten().map(|(_, scheduler)| (scheduler.to_string(), 0));
    let mut wanted: BTreeMap<String, usize> = constrained.collect();
    wanted.extend(tally.schedulers.iter().map(|(scheduler, jobs)| (scheduler.clone(), *jobs)));
    wanted
}

/// A warning for each scheduler that no worker serves.
fn schedulers_unserved(
    shards: &[SchedulerShard],
    wanted: &BTreeMap<String, usize>,
    now_ms: i64,
) -> Vec<String> {
    let warnings = wanted.iter().filter_map(|(scheduler, jobs)| {
        let unserved = scheduler_unserved(shards, scheduler, now_ms)?;
        Some(match jobs {
            0 => format!("{unserved}; a rule of the cell gives it jobs"),
            1 => format!("{unserved}; 1 job is its"),
            jobs => format!("{unserved}; {jobs} jobs are its"),
        })
    });
    warnings.collect()
}

fn scheduler_message(shard: SchedulerShard) -> v1::SchedulerWorker {
    let age_versions = shard.age_versions;
    let stats = |status: WorkerStatus| v1::WorkerStats {
        at_ms: status.at_ms,
        waiting: status.waiting,
        unschedulable: status.unschedulable,
        rate_per_s: status.rate_per_ks as f64 / 1000.0,
        placed: status.placed,
        commits: status.commits,
        conflicts: status.conflicts,
        scored_per_task: status.scored_per_mille as f64 / 1000.0,
        cached_share: f64::from(status.cached_per_mille) / 1000.0,
        age_versions,
        age_ms: status.age_ms,
        part_first: status.part_first,
        part_nodes: status.part_nodes,
        batch_tasks: status.batch_tasks,
        shards: status.shards,
    };
    v1::SchedulerWorker {
        shard: shard.shard,
        owner: shard.lease.holder,
        epoch: shard.lease.epoch,
        scheduler: shard.scheduler,
        stats: shard.status.map(stats),
        standby: shard.standby,
    }
}

/// After so many lease durations of silence, a worker no longer counts.
const SILENT_LEASES: u64 = 3;

/// A warning about a scheduler that no worker serves; `None` if one does.
pub(crate) fn scheduler_unserved(shards: &[SchedulerShard], scheduler: &str, now_ms: i64) -> Option<String> {
    let of_it = || shards.iter().filter(|shard| shard.scheduler == scheduler);
    let silent_ms = |at_ms: i64| u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0);
    let serves = |shard: &SchedulerShard| {
        let patience_ms = shard.lease.duration_ms.saturating_mul(SILENT_LEASES);
        let silent = shard.status.as_ref().is_some_and(|status| silent_ms(status.at_ms) > patience_ms);
        !shard.lease.holder.is_empty() && !silent
    };
    if of_it().any(serves) {
        return None;
    }
    let reported_last_ms = of_it().filter_map(|shard| shard.status_last_ms).max();
    Some(match reported_last_ms {
        Some(at_ms) => {
            format!("no worker serves scheduler {scheduler} since {}s ago", silent_ms(at_ms) / 1000)
        }
        None => format!("no worker serves scheduler {scheduler}, and none ever has"),
    })
}

#[cfg(test)]
mod tests {
    use borough_store::lease::LeaseRow;

    use super::*;

    #[test]
    fn a_scheduler_without_a_worker_is_reported() {
        let shard = |scheduler: &str, holder: &str, reported_ms: Option<i64>| SchedulerShard {
            scheduler: scheduler.to_owned(),
            shard: 0,
            lease: LeaseRow { holder: holder.to_owned(), duration_ms: 5_000, ..LeaseRow::default() },
            status: reported_ms
                .filter(|_| !holder.is_empty())
                .map(|at_ms| WorkerStatus { at_ms, ..WorkerStatus::default() }),
            age_versions: 0,
            status_last_ms: reported_ms,
            standby: false,
        };
        let warnings = |shards: &[SchedulerShard]| scheduler_unserved(shards, "gpu", 100_000);
        assert_eq!(warnings(&[shard("gpu", "w1", Some(99_000))]), None);
        assert_eq!(warnings(&[shard("gpu", "w1", None)]), None, "it has only just begun");
        assert_eq!(warnings(&[shard("gpu", "", Some(9_000)), shard("gpu", "w2", Some(99_000))]), None);
        let never = warnings(&[shard("default", "w1", Some(99_000))]).unwrap();
        assert_eq!(never, "no worker serves scheduler gpu, and none ever has");
        let dead = warnings(&[shard("gpu", "w1", Some(60_000)), shard("gpu", "", Some(70_000))]).unwrap();
        assert_eq!(dead, "no worker serves scheduler gpu since 30s ago");
        let wanted = [("default", 3), ("gpu", 2), ("fast", 0)].map(|(name, jobs)| (name.to_owned(), jobs));
        let warnings = schedulers_unserved(&[shard("default", "w1", Some(99_000))], &wanted.into(), 100_000);
        let never =
            |scheduler, more| format!("no worker serves scheduler {scheduler}, and none ever has; {more}");
        assert_eq!(
            warnings,
            [never("fast", "a rule of the cell gives it jobs"), never("gpu", "2 jobs are its")]
        );
    }
}
