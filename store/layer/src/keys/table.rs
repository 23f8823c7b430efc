//! The keyspace, one key type per kind: fields on the left, kind, and what is stored on the right.

use borough_kv::Versionstamp;
use borough_model::job::{Band, JobRow, JobSpec};
use borough_model::node::{NodeAlloc, NodeLive, NodeLoad, NodeRow, NodeSession};
use borough_model::task::{GangRow, TaskRow};
use borough_model::{GangId, JobId, Name, NodeId, RequestId, Resources, TaskId};

use super::key::keys;
use super::{Counter, StampValue};
use crate::cell::{CellGate, CellMeta};
use crate::federation::{FederationCell, StoreGeneration};
use crate::job::JobGate;
use crate::journal::{JournalFloor, JournalPart};
use crate::lease::{LeaseBeat, LeaseRow, WorkerStatus};
use crate::name::EndpointRow;
use crate::quota::{QuotaRow, QuotaUsed};
use crate::request::RequestRow;
use crate::task::ConstraintToken;
use crate::transfer::ImportRow;

keys! {
    /// `meta`: settings of the cell.
    CellMetaKey {} = CellMeta => CellMeta;
    /// `cell_gate`: read by every mutating transaction, so that closing the cell voids those in flight.
    CellGateKey {} = CellGate => CellGate;
    /// `import`: how far the import of the cell is, or which export it came from.
    ImportKey {} = Import => ImportRow;

    /// `node/<node>`: what a node is.
    NodeKey {
        /// The node.
        node: NodeId,
    } = Node => NodeRow;
    /// `node_alloc/<node>`: the node's concurrency token.
    NodeAllocKey {
        /// The node.
        node: NodeId,
    } = NodeAlloc => NodeAlloc;
    /// `node_tasks/<node>/<job>/<index>`: tasks charged to a node.
    NodeTaskKey {
        /// The node that is charged.
        node: NodeId,
        /// The task's job.
        job: JobId,
        /// The task's index.
        index: u32,
    } = NodeTask => ();
    /// `node_live/<node>`: the node's coarse lease; never in the journal.
    NodeLiveKey {
        /// The node.
        node: NodeId,
    } = NodeLive => NodeLive;
    /// `node_reserved/<node>`: what the node's tasks are expected to use, instead of their limits.
    NodeReservedKey {
        /// The node.
        node: NodeId,
    } = NodeReserved => Resources;
    /// `node_name/<name>`: a node's name to its id.
    NodeNameKey {
        /// The node's name.
        name: Name,
    } = NodeName => NodeId;
    /// `node_load/<node>`: the node's real load; never read by placements.
    NodeLoadKey {
        /// The node.
        node: NodeId,
    } = NodeLoad => NodeLoad;
    /// `node_session/<node>`: the session of the node's agent, the fence of what gateways write for the node; never in
    /// the journal.
    NodeSessionKey {
        /// The node.
        node: NodeId,
    } = NodeSession => NodeSession;

    /// `job/<user>/<name>`: a job's name to its id.
    JobNameKey {
        /// Whose.
        user: Name,
        /// The job's name.
        name: Name,
    } = JobName => JobId;
    /// `job_spec/<job>/<version>`: a version of the spec.
    JobSpecKey {
        /// The job.
        job: JobId,
        /// From 1.
        version: u32,
    } = JobSpec => JobSpec;
    /// `job_gate/<job>`: what every placement guards on.
    JobGateKey {
        /// The job.
        job: JobId,
    } = JobGate => JobGate;
    /// `job_row/<job>`: desired state, count and outcome.
    JobRowKey {
        /// The job.
        job: JobId,
    } = JobRow => JobRow;
    /// `job_past/<user>/<name>/<submitted>/<job>`: every job that had the name, the present one included.
    JobPastKey {
        /// Whose.
        user: Name,
        /// The job's name.
        name: Name,
        /// Wall time of submission, milliseconds since 1970.
        submitted_ms: i64,
        /// The job.
        job: JobId,
    } = JobPast => ();

    /// `task/<job>/<index>`: absent is pending and never placed.
    TaskKey {
        /// The job.
        job: JobId,
        /// The task's index.
        index: u32,
    } = Task => TaskRow;
    /// `constraint/<term>[/<domain>]`: read as a conflict and written by every placement that matches the term. The
    /// empty term stands for all of them.
    ConstraintKey {
        /// The term.
        term: String,
        /// The failure domain; empty where the term has none.
        domain: String,
    } = Constraint => ConstraintToken;
    /// `gang/<gang>`: a gang.
    GangKey {
        /// The gang.
        gang: GangId,
    } = Gang => GangRow;

    /// `quota/<user>/<band>`: a limit.
    QuotaKey {
        /// Whose.
        user: Name,
        /// In which band.
        band: Band,
    } = Quota => QuotaRow;
    /// `quota_used/<user>/<band>`: what is admitted, written by admission only.
    QuotaUsedKey {
        /// Whose.
        user: Name,
        /// In which band.
        band: Band,
    } = QuotaUsed => QuotaUsed;
    /// `quota_released/<user>/<band>/<dimension>`: what was released since admission folded it in, less what was
    /// charged where there is no limit.
    QuotaReleasedKey {
        /// Whose.
        user: Name,
        /// In which band.
        band: Band,
        /// The resource's dimension.
        dimension: String,
    } = QuotaReleased => Counter;

    /// `name/<user>/<job>/<index>`: a task's endpoint.
    EndpointKey {
        /// Whose.
        user: Name,
        /// The job's name.
        job: Name,
        /// The task's index.
        index: u32,
    } = Name => EndpointRow;
    /// `name_rev/<user>/<job>`: changes with any endpoint of the job.
    NameRevisionKey {
        /// Whose.
        user: Name,
        /// The job's name.
        job: Name,
    } = NameRevision => StampValue;

    /// `journal/<store_epoch>/<stamp>/<part>`: a part of an entry.
    JournalKey {
        /// The epoch of the store that gave the stamp.
        store_epoch: u64,
        /// The stamp of the commit.
        stamp: Versionstamp,
        /// From 0.
        part: u32,
    } = Journal => JournalPart;
    /// `journal_head`: the stamp of the last entry.
    JournalHeadKey {} = JournalHead => StampValue;
    /// `journal_floor`: up to where entries were trimmed.
    JournalFloorKey {} = JournalFloor => JournalFloor;

    /// `lease/<role>/<shard>`: holder and epoch.
    LeaseKey {
        /// What for, such as `scheduler`.
        role: String,
        /// Which share of it, from 0.
        shard: u32,
    } = Lease => LeaseRow;
    /// `lease_beat/<role>/<shard>`: the holder's heartbeat.
    LeaseBeatKey {
        /// What for.
        role: String,
        /// Which share of it, from 0.
        shard: u32,
    } = LeaseBeat => LeaseBeat;
    /// `lease_status/<role>/<shard>`: what the holder, a scheduler worker, says of itself.
    LeaseStatusKey {
        /// What for.
        role: String,
        /// Which share of it, from 0.
        shard: u32,
    } = LeaseStatus => WorkerStatus;

    /// `request/<id>`: the result of a keyed request.
    RequestKey {
        /// The request.
        id: RequestId,
    } = Request => RequestRow;
    /// `request_expiry/<time>/<id>`: keyed requests by the time they may be forgotten.
    RequestExpiryKey {
        /// Wall time, milliseconds since 1970.
        expires_ms: i64,
        /// The request.
        id: RequestId,
    } = RequestExpiry => ();

    /// `federation_cell/<cell>`, in the federation's space: where a cell is.
    FederationCellKey {
        /// The cell.
        cell: Name,
    } = FederationCell => FederationCell;
    /// `store_generation`, in the federation's space: counts openings of a store that is opened by one process.
    StoreGenerationKey {} = StoreGeneration => StoreGeneration;
}

impl TaskKey {
    /// The key of a task.
    pub fn of(task: TaskId) -> Self {
        Self { job: task.job, index: task.index }
    }
}

impl NodeTaskKey {
    /// The key of a task charged to `node`.
    pub fn of(node: NodeId, task: TaskId) -> Self {
        Self { node, job: task.job, index: task.index }
    }

    /// The task.
    pub fn task(&self) -> TaskId {
        TaskId { job: self.job, index: self.index }
    }
}
