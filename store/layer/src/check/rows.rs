//! Everything that is stored of a cell, at one version.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Transaction;
use borough_model::job::{Band, JobRow, JobSpec};
use borough_model::node::{NodeAlloc, NodeRow};
use borough_model::task::{TaskRow, UnitRow};
use borough_model::{Delta, JobId, Name, NodeId, TaskId, UnitId};

use crate::error::StoreResult;
use crate::job::JobGate;
use crate::journal::{Cursor, journal_tail};
use crate::keys::{
    self, CellGateKey, CellSpace, EndpointKey, JobGateKey, JobNameKey, JobRowKey, JobSpecKey,
    JournalFloorKey, Key, NodeAllocKey, NodeKey, NodeTaskKey, Prefix, QuotaReleasedKey, QuotaUsedKey,
    RangeOptions, TaskKey, UnitKey,
};
use crate::name::EndpointRow;
use crate::quota::{QuotaUsed, quota_usage};

/// The rows of a cell.
#[derive(Clone, Debug, Default)]
pub struct CellRows {
    /// Nodes.
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// What is committed on them.
    pub allocs: BTreeMap<NodeId, NodeAlloc>,
    /// The index of tasks by node.
    pub node_tasks: BTreeSet<(NodeId, TaskId)>,
    /// Jobs.
    pub jobs: BTreeMap<JobId, JobRow>,
    /// Their gates.
    pub gates: BTreeMap<JobId, JobGate>,
    /// Their specs, by version.
    pub specs: BTreeMap<(JobId, u32), JobSpec>,
    /// Their names.
    pub names: BTreeMap<(Name, Name), JobId>,
    /// Tasks, by the task their key names.
    pub tasks: BTreeMap<TaskId, TaskRow>,
    /// Units.
    pub units: BTreeMap<UnitId, UnitRow>,
    /// Endpoints, by user, job and index.
    pub endpoints: BTreeMap<(Name, Name, u32), EndpointRow>,
    /// What is charged, releases folded in, by user and band.
    pub quota: BTreeMap<(Name, Band), QuotaUsed>,
    /// Every delta there was, in order, where the journal still has all of them.
    pub deltas: Option<Vec<Delta>>,
}

/// Entries of the journal per page.
const PAGE_ENTRIES: usize = 1_024;

/// Reads everything, without conflicts.
pub async fn cell_rows_read(tx: &Transaction, space: &CellSpace) -> StoreResult<CellRows> {
    let mut rows = CellRows {
        nodes: all::<NodeKey>(tx, space).await?.map(|(key, row)| (key.node, row)).collect(),
        allocs: all::<NodeAllocKey>(tx, space).await?.map(|(key, row)| (key.node, row)).collect(),
        node_tasks: all::<NodeTaskKey>(tx, space).await?.map(|(key, ())| (key.node, key.task())).collect(),
        jobs: all::<JobRowKey>(tx, space).await?.map(|(key, row)| (key.job, row)).collect(),
        gates: all::<JobGateKey>(tx, space).await?.map(|(key, row)| (key.job, row)).collect(),
        specs: all::<JobSpecKey>(tx, space).await?.map(|(key, row)| ((key.job, key.version), row)).collect(),
        names: all::<JobNameKey>(tx, space).await?.map(|(key, job)| ((key.user, key.name), job)).collect(),
        units: all::<UnitKey>(tx, space).await?.map(|(key, row)| (key.unit, row)).collect(),
        ..CellRows::default()
    };
    let tasks = all::<TaskKey>(tx, space).await?;
    rows.tasks = tasks.map(|(key, row)| (TaskId { job: key.job, index: key.index }, row)).collect();
    let endpoints = all::<EndpointKey>(tx, space).await?;
    rows.endpoints = endpoints.map(|(key, row)| ((key.user, key.job, key.index), row)).collect();
    let used = all::<QuotaUsedKey>(tx, space).await?.map(|(key, _)| (key.user, key.band));
    let released = all::<QuotaReleasedKey>(tx, space).await?.map(|(key, _)| (key.user, key.band));
    let lines: BTreeSet<(Name, Band)> = used.chain(released).collect();
    for (user, band) in lines {
        let usage = quota_usage(tx, space, &user, band).await?;
        rows.quota.insert((user, band), usage);
    }
    rows.deltas = deltas_read(tx, space).await?;
    Ok(rows)
}

async fn all<K: Key>(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<impl Iterator<Item = (K, K::Value)> + use<K>> {
    let rows = keys::range::<K>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter())
}

/// `None` where the journal was trimmed, or begins with another life of the store.
async fn deltas_read(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<Vec<Delta>>> {
    let gate = keys::read_snapshot(tx, space, &CellGateKey {}).await?;
    let trimmed = keys::read_snapshot(tx, space, &JournalFloorKey {}).await?.is_some();
    let Some(gate) = gate.filter(|gate| !trimmed && gate.store_epoch <= 1) else { return Ok(None) };
    let mut after = Cursor::start(gate.store_epoch);
    let mut deltas = Vec::new();
    loop {
        let page = journal_tail(tx, space, after, PAGE_ENTRIES).await?;
        deltas.extend(page.entries.into_iter().flat_map(|(_, entry)| entry.deltas));
        after = page.next;
        if !page.more {
            return Ok(Some(deltas));
        }
    }
}
