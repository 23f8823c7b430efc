//! A random workload over every kind of row, which records in the journal what it writes.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_kv::env::{Rng, SeededRng};
use borough_model::job::{JobSpec, JobState};
use borough_model::node::{LoadMeasured, NodeLoad, NodeRow, NodeState};
use borough_model::task::{Endpoint, GangRow, GangState, Health, TaskRow, TaskState};
use borough_model::{Delta, GangId, Incarnation, JobId, JobRow, Name, NodeId, RequestId, Resources, TaskId};

use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, EndpointKey, GangKey, JobNameKey, JobRowKey, JobSpecKey, Key, NodeAllocKey, NodeKey,
    NodeLoadKey, Prefix, TaskKey,
};
use crate::row::EndpointRow;
use crate::testing::{TestCell, change, job_spec, name};

/// Draws operations from a seed and runs them.
pub(super) struct Workload {
    rng: std::sync::Arc<dyn Rng>,
    requests: u128,
}

const NODES: u64 = 6;
const JOBS: u64 = 4;
const TASKS: u64 = 5;

impl Workload {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: SeededRng::shared(seed), requests: 0 }
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.rng.next_u64() % bound
    }

    /// One transaction of one to three operations.
    pub(super) async fn step(&mut self, cell: &TestCell) {
        self.try_step(cell).await.unwrap();
    }

    /// As [`Workload::step`], if the store may fail it.
    pub(super) async fn try_step(&mut self, cell: &TestCell) -> StoreResult<()> {
        self.requests += 1;
        let draws: Vec<[u64; 4]> =
            (0..=self.below(3)).map(|_| [(); 4].map(|()| self.rng.next_u64() >> 8)).collect();
        let stepping = cell.change(change(self.requests, "workload"), async |tx, changes| {
            for draw in &draws {
                operation(tx, changes, *draw).await?;
            }
            Ok(())
        });
        stepping.await
    }
}

async fn operation(tx: &Transaction, changes: &mut ChangeSet, draw: [u64; 4]) -> StoreResult<()> {
    let [kind, which, second, value] = draw;
    let node = NodeId(which % NODES);
    let job = JobId(which % JOBS);
    let task = TaskId { job, index: u32::try_from(second % TASKS).unwrap() };
    match kind % 10 {
        0 => node_put(tx, changes, node, value).await,
        1 if value.is_multiple_of(4) => node_gone(tx, changes, node).await,
        1 | 2 => alloc_put(tx, changes, node, value).await,
        3 => job_put(tx, changes, job, value).await,
        4 if value.is_multiple_of(4) => job_gone(tx, changes, job).await,
        4 | 5 => task_put(tx, changes, task, value).await,
        6 => task_gone(tx, changes, task).await,
        7 => endpoint_put(tx, changes, task, value).await,
        8 => endpoint_gone(tx, changes, task).await,
        _ => gang_put(tx, changes, GangId(which % 3), value).await,
    }
}

async fn node_put(tx: &Transaction, changes: &mut ChangeSet, id: NodeId, value: u64) -> StoreResult<()> {
    let key = NodeKey { node: id };
    let before = keys::read(tx, changes.space(), &key).await?;
    let row = NodeRow {
        id,
        name: name(&format!("n{}", id.0)),
        state: [NodeState::Ready, NodeState::Recovering, NodeState::Lost][(value % 3) as usize],
        schedulable: value.is_multiple_of(2),
        draining: false,
        capacity: Resources { cpu_millis: value, ..Resources::default() },
        port_first: 1,
        port_last: 2,
        attributes: BTreeMap::new(),
        labels: BTreeMap::new(),
        host: "h".to_owned(),
        boot_id: "b".to_owned(),
        agent_version: "0".to_owned(),
        revision: before.map_or(1, |row| row.revision + 1),
        changed_ms: 0,
        taints: Vec::new(),
        cards: Vec::new(),
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    };
    keys::write(tx, changes.space(), &key, &row)?;
    changes.push(Delta::Node { row });
    alloc_put(tx, changes, id, value).await
}

/// Ids come back here, with revisions from 1: harder than what the layer does.
async fn node_gone(tx: &Transaction, changes: &mut ChangeSet, id: NodeId) -> StoreResult<()> {
    keys::clear(tx, changes.space(), &NodeKey { node: id })?;
    keys::clear(tx, changes.space(), &NodeAllocKey { node: id })?;
    keys::clear(tx, changes.space(), &NodeLoadKey { node: id })?;
    changes.push(Delta::NodeRemoved { node: id, name: None });
    Ok(())
}

async fn alloc_put(tx: &Transaction, changes: &mut ChangeSet, node: NodeId, value: u64) -> StoreResult<()> {
    let key = NodeAllocKey { node };
    if keys::read(tx, changes.space(), &NodeKey { node }).await?.is_none() {
        return Ok(());
    }
    let mut alloc = keys::read(tx, changes.space(), &key).await?.unwrap_or_default();
    alloc.epoch += 1;
    alloc.used.cpu_millis = value;
    keys::write(tx, changes.space(), &key, &alloc)?;
    changes.push(Delta::NodeAlloc { node, alloc });
    let key = NodeLoadKey { node };
    let before = keys::read(tx, changes.space(), &key).await?;
    let load = NodeLoad {
        revision: before.map_or(1, |load| load.revision + 1),
        changed_ms: 0,
        measured: (!value.is_multiple_of(3))
            .then(|| LoadMeasured { cpu_millis: value, ..LoadMeasured::default() }),
        unjournalled: None,
    };
    keys::write(tx, changes.space(), &key, &load)?;
    changes.push(Delta::NodeLoad { node, load });
    Ok(())
}

/// Two jobs share a name: it goes to the one that was created last.
fn owner(job: JobId) -> (Name, Name) {
    (name("ada"), name(&format!("job{}", job.0 / 2)))
}

async fn job_put(tx: &Transaction, changes: &mut ChangeSet, id: JobId, value: u64) -> StoreResult<()> {
    let key = JobRowKey { job: id };
    let before = keys::read(tx, changes.space(), &key).await?;
    let new_spec = before.is_none() || value.is_multiple_of(3);
    let version = before.as_ref().map_or(0, |row| row.spec_version) + u32::from(new_spec);
    let (user, job_name) = owner(id);
    let row = JobRow {
        id,
        user,
        name: job_name,
        state: JobState::Running,
        count: u32::try_from(value % 100).unwrap(),
        priority: 200,
        spec_version: version,
        revision: before.map_or(1, |row| row.revision + 1),
        submitted_ms: 0,
        changed_ms: 0,
        request: RequestId(0),
        succeeded: 0,
        failed: 0,
        rollout: None,
        changes: None,
        daemon: None,
        moves: None,
        alloc: None,
        quota_groups: None,
    };
    let spec = new_spec.then(|| Box::new(spec_of(&row, value)));
    if let Some(spec) = &spec {
        keys::write(tx, changes.space(), &JobSpecKey { job: id, version }, spec)?;
    }
    if row.revision == 1 {
        let name_key = JobNameKey { user: row.user.clone(), name: row.name.clone() };
        keys::write(tx, changes.space(), &name_key, &id)?;
    }
    keys::write(tx, changes.space(), &key, &row)?;
    changes.push(Delta::Job { row: row.into(), spec });
    Ok(())
}

/// A spec of varying size: some need several parts of the journal's entry.
fn spec_of(row: &JobRow, value: u64) -> JobSpec {
    let mut spec = job_spec(row.user.clone(), row.name.clone());
    spec.task.command.push("x".repeat(usize::try_from(value % 5).unwrap() * 15_000));
    spec
}

/// Removes a job with its specs, tasks, gangs and endpoints, as one entry.
async fn job_gone(tx: &Transaction, changes: &mut ChangeSet, job: JobId) -> StoreResult<()> {
    let space = changes.space().clone();
    for index in 0..u32::try_from(TASKS).unwrap() {
        endpoint_gone(tx, changes, TaskId { job, index }).await?;
    }
    let gangs = keys::range::<GangKey>(tx, &space, &Prefix::all(), keys::RangeOptions::default()).await?;
    for (key, _) in gangs.iter().filter(|(_, row)| row.job == job) {
        keys::clear(tx, &space, key)?;
    }
    let (user, job_name) = owner(job);
    let name_key = JobNameKey { user, name: job_name };
    if keys::read(tx, &space, &name_key).await? == Some(job) {
        keys::clear(tx, &space, &name_key)?;
    }
    keys::clear_prefix(tx, &space, &Prefix::<TaskKey>::of(&job))?;
    keys::clear_prefix(tx, &space, &Prefix::<JobSpecKey>::of(&job))?;
    keys::clear(tx, &space, &JobRowKey { job })?;
    changes.push(Delta::JobRemoved { job, name: None });
    Ok(())
}

async fn task_put(tx: &Transaction, changes: &mut ChangeSet, id: TaskId, value: u64) -> StoreResult<()> {
    let key = TaskKey::of(id);
    let before = keys::read(tx, changes.space(), &key).await?;
    let mut row = before.unwrap_or_else(|| TaskRow::never_placed(id));
    row.state = TaskState::ALL[usize::try_from(value % 9).unwrap()];
    row.node = Some(NodeId(value % NODES));
    row.revision += 1;
    keys::write(tx, changes.space(), &key, &row)?;
    changes.push(Delta::Task { row });
    Ok(())
}

/// The next row of the task begins at revision 1 again.
async fn task_gone(tx: &Transaction, changes: &mut ChangeSet, id: TaskId) -> StoreResult<()> {
    let key = TaskKey::of(id);
    let Some(row) = keys::read(tx, changes.space(), &key).await? else { return Ok(()) };
    keys::clear(tx, changes.space(), &key)?;
    changes.push(Delta::TaskRemoved { task: id, revision: row.revision + 1 });
    Ok(())
}

/// One name per job here, so that a key leads to one task.
fn endpoint_key(task: TaskId) -> EndpointKey {
    EndpointKey { user: name("ada"), job: name(&format!("job{}", task.job.0)), index: task.index }
}

async fn endpoint_put(
    tx: &Transaction,
    changes: &mut ChangeSet,
    task: TaskId,
    value: u64,
) -> StoreResult<()> {
    let key = endpoint_key(task);
    let revision = keys::read(tx, changes.space(), &key).await?.map_or(1, |row| row.revision + 1);
    let endpoint = Endpoint {
        task,
        user: key.user.clone(),
        job: key.job.clone(),
        incarnation: Incarnation(value),
        host: "h".to_owned(),
        ports: Vec::new(),
        health: Health::Healthy,
        weight: 1,
        node: name("n1"),
        healthy_since_ms: 0,
        domains: Vec::new(),
    };
    keys::write(tx, changes.space(), &key, &EndpointRow { endpoint: endpoint.clone(), revision })?;
    changes.push(Delta::Endpoint { endpoint, revision });
    Ok(())
}

async fn endpoint_gone(tx: &Transaction, changes: &mut ChangeSet, task: TaskId) -> StoreResult<()> {
    let key = endpoint_key(task);
    let Some(row) = keys::read(tx, changes.space(), &key).await? else { return Ok(()) };
    keys::clear(tx, changes.space(), &key)?;
    let EndpointKey { user, job, .. } = key;
    changes.push(Delta::EndpointWithdrawn { user, job, task, revision: row.revision + 1 });
    Ok(())
}

async fn gang_put(tx: &Transaction, changes: &mut ChangeSet, id: GangId, value: u64) -> StoreResult<()> {
    let key = GangKey { gang: id };
    let revision = keys::read(tx, changes.space(), &key).await?.map_or(1, |row| row.revision + 1);
    let row = GangRow {
        id,
        job: JobId(id.0),
        min_member: 1,
        state: GangState::Gathering,
        epoch: value,
        expires_ms: 0,
        revision,
    };
    keys::write(tx, changes.space(), &key, &row)?;
    changes.push(Delta::Gang { row });
    Ok(())
}

/// Counts the rows of a kind.
pub(super) async fn count<K: Key>(tx: &Transaction, space: &CellSpace) -> StoreResult<usize> {
    Ok(keys::range::<K>(tx, space, &Prefix::all(), keys::RangeOptions::snapshot()).await?.len())
}
