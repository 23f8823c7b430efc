//! The keyspace, one key type per kind: fields on the left, then the kind, and the stored type on the right.

use borough_kv::Versionstamp;
use borough_model::access::AccessSubject;
use borough_model::federation::{
    FederatedJobRow, FederatedPart, FederatedQuestion, FederatedStatus, FederatedVersion,
};
use borough_model::job::{Band, JobRow, JobSpec};
use borough_model::member::{MemberRow, MemberSeen};
use borough_model::merged::MergedServiceRow;
use borough_model::node::{GatewayLive, NodeAlloc, NodeLive, NodeLoad, NodeRow, NodeSession};
use borough_model::quota::QuotaGrant;
use borough_model::task::{GangRow, TaskRow};
use borough_model::{FederatedJobId, GangId, JobId, Name, NodeId, RequestId, Resources, TaskId};

use super::key::keys;
use super::{Counter, StampValue};
use crate::row::{
    AccessGrantRow, AuditChunk, AuditHead, CellGate, CellMeta, ConstraintToken, EndpointRow, FederationCell,
    ImportRow, JobGate, JournalFloor, JournalPart, LeaseBeat, LeaseRow, NodeJoin, QuotaRow, QuotaUsed,
    RequestExpiry, RequestRow, SchedulerPool, StoreGeneration, WorkerStatus, WorkloadKey, WorkloadSigner,
};

impl ConstraintKey {
    /// The token of all terms together. The admission of a job that keeps others away writes it. Every placement guards
    /// on it, since a worker that has not seen the job cannot know its term.
    pub fn of_all() -> Self {
        Self { term: String::new(), domain: String::new() }
    }
}

keys! {
    /// `meta`: settings of the cell.
    CellMetaKey {} = CellMeta => CellMeta;
    /// `cell_gate`: read by every mutating transaction, so that closing the cell voids those in flight.
    CellGateKey {} = CellGate => CellGate;
    /// `import`: how far the import of the cell is, or which export it came from.
    ImportKey {} = Import => ImportRow;
    /// `gateway_live/<gateway>`: a gateway that vouches for nodes; never in the journal.
    GatewayLiveKey {
        /// The random number of the gateway's process.
        gateway: u64,
    } = GatewayLive => GatewayLive;

    /// `node/<node>`: the row of a node.
    NodeKey {
        node: NodeId,
    } = Node => NodeRow;
    /// `node_alloc/<node>`: the node's concurrency token.
    NodeAllocKey {
        node: NodeId,
    } = NodeAlloc => NodeAlloc;
    /// `node_tasks/<node>/<job>/<index>`: a task that is charged to a node.
    NodeTaskKey {
        node: NodeId,
        job: JobId,
        index: u32,
    } = NodeTask => ();
    /// `node_live/<node>`: the node's liveness, and who vouches for it; never in the journal.
    NodeLiveKey {
        node: NodeId,
    } = NodeLive => NodeLive;
    /// `node_reserved/<node>`: the expected use of the node's tasks, instead of their limits.
    NodeReservedKey {
        node: NodeId,
    } = NodeReserved => Resources;
    /// `node_name/<name>`: maps a node's name to its id.
    NodeNameKey {
        name: Name,
    } = NodeName => NodeId;
    /// `node_load/<node>`: the node's measured load; never read by placements.
    NodeLoadKey {
        node: NodeId,
    } = NodeLoad => NodeLoad;
    /// `node_session/<node>`: the session of the node's agent. It is the fence for what gateways write for the node,
    /// and is never in the journal.
    NodeSessionKey {
        node: NodeId,
    } = NodeSession => NodeSession;
    /// `node_live_at/<node>`: the stamp of the node's entry in `node_live_change`.
    NodeLiveAtKey {
        node: NodeId,
    } = NodeLiveAt => StampValue;
    /// `node_live_change/<stamp>/<node>`: one entry per node, where its `node_live` last changed. Observers read what
    /// is after their last reading instead of every node.
    NodeLiveChangeKey {
        stamp: Versionstamp,
        node: NodeId,
    } = NodeLiveChange => ();

    /// `job/<user>/<name>`: maps a job's name to its id.
    JobNameKey {
        user: Name,
        name: Name,
    } = JobName => JobId;
    /// `job_spec/<job>/<version>`: a version of the spec.
    JobSpecKey {
        job: JobId,
        /// From 1.
        version: u32,
    } = JobSpec => JobSpec;
    /// `job_gate/<job>`: the key that every placement guards on. Nothing is stored there any more: it only serves for
    /// conflicts.
    JobGateKey {
        job: JobId,
    } = JobGate => JobGate;
    /// `job_row/<job>`: desired state, count and outcome.
    JobRowKey {
        job: JobId,
    } = JobRow => JobRow;
    /// `job_past/<user>/<name>/<submitted>/<job>`: the jobs that had the name before the present one.
    JobPastKey {
        user: Name,
        name: Name,
        /// Wall time of submission, milliseconds since 1970.
        submitted_ms: i64,
        job: JobId,
    } = JobPast => ();

    /// `task/<job>/<index>`: a task. Without a row it is pending and was never placed.
    TaskKey {
        job: JobId,
        index: u32,
    } = Task => TaskRow;
    /// `constraint/<term>[/<domain>]`: read as a conflict and written by every placement that matches the term. The
    /// empty term stands for all of them.
    ConstraintKey {
        term: String,
        /// Empty if the term has no domain.
        domain: String,
    } = Constraint => ConstraintToken;
    /// `gang/<gang>`: a gang.
    GangKey {
        gang: GangId,
    } = Gang => GangRow;

    /// `quota/<holder>/<band>`: the line of a user or a group.
    QuotaKey {
        holder: AccessSubject,
        band: Band,
    } = Quota => QuotaRow;
    /// `quota_used/<holder>/<band>`: what is admitted. Only admission writes it.
    QuotaUsedKey {
        holder: AccessSubject,
        band: Band,
    } = QuotaUsed => QuotaUsed;
    /// `quota_released/<holder>/<band>/<dimension>`: the releases since admission last folded them in, less charges
    /// that were made without a limit.
    QuotaReleasedKey {
        holder: AccessSubject,
        band: Band,
        dimension: String,
    } = QuotaReleased => Counter;
    /// `quota_below/<band>/<parent>/<holder>`: what a line that is set grants, by its parent.
    QuotaBelowKey {
        band: Band,
        /// Empty: the line has none.
        parent: String,
        holder: AccessSubject,
    } = QuotaBelow => QuotaGrant;

    /// `name/<user>/<job>/<index>`: a task's endpoint.
    EndpointKey {
        user: Name,
        job: Name,
        index: u32,
    } = Name => EndpointRow;
    /// `name_rev/<user>/<job>`: changes with every endpoint of the job.
    NameRevisionKey {
        user: Name,
        job: Name,
    } = NameRevision => StampValue;
    /// `merged_service/<user>/<name>`: which jobs of the user are one service under the name.
    MergedServiceKey {
        user: Name,
        name: Name,
    } = MergedService => MergedServiceRow;

    /// `member/<cell>`: a member cell of the federation that has its home here.
    MemberKey {
        cell: Name,
    } = Member => MemberRow;
    /// `member_seen/<cell>`: what was last seen of a member cell; never in the journal.
    MemberSeenKey {
        cell: Name,
    } = MemberSeen => MemberSeen;
    /// `federated_job/<user>/<name>`: a federated job of the federation that has its home here.
    FederatedJobKey {
        user: Name,
        name: Name,
    } = FederatedJob => FederatedJobRow;
    /// `federated_version/<job>/<version>`: a version of a federated job.
    FederatedVersionKey {
        job: FederatedJobId,
        /// From 1.
        version: u64,
    } = FederatedVersion => FederatedVersion;
    /// `federated_part/<job>/<cell>`: what was promised to a cell of a federated job; never in the journal.
    FederatedPartKey {
        job: FederatedJobId,
        cell: Name,
    } = FederatedPart => FederatedPart;
    /// `federated_status/<job>`: how a federated job was last divided; never in the journal.
    FederatedStatusKey {
        job: FederatedJobId,
    } = FederatedStatus => FederatedStatus;

    /// `journal/<store_epoch>/<stamp>/<part>`: a part of an entry.
    JournalKey {
        /// The epoch of the store that gave the stamp.
        store_epoch: u64,
        stamp: Versionstamp,
        /// From 0.
        part: u32,
    } = Journal => JournalPart;
    /// `journal_head`: the stamp of the last entry.
    JournalHeadKey {} = JournalHead => StampValue;
    /// `journal_floor`: the position up to which entries were trimmed.
    JournalFloorKey {} = JournalFloor => JournalFloor;

    /// `lease/<role>/<shard>`: the holder and its epoch.
    LeaseKey {
        /// Such as `scheduler`.
        role: String,
        shard: u32,
    } = Lease => LeaseRow;
    /// `lease_beat/<role>/<shard>`: the holder's heartbeat.
    LeaseBeatKey {
        role: String,
        shard: u32,
    } = LeaseBeat => LeaseBeat;
    /// `lease_status/<role>/<shard>`: the report of the holder, a scheduler worker, about itself.
    LeaseStatusKey {
        role: String,
        shard: u32,
    } = LeaseStatus => WorkerStatus;
    /// `lease_head/<role>`: changes with the holder of any lease of the role, and with its pool.
    LeaseHeadKey {
        role: String,
    } = LeaseHead => Counter;
    /// `scheduler_pool/<role>`: among how many shards the jobs of the role's scheduler are divided.
    SchedulerPoolKey {
        role: String,
    } = SchedulerPool => SchedulerPool;

    /// `request/<id>`: the result of a keyed request.
    RequestKey {
        id: RequestId,
    } = Request => RequestRow;
    /// `request_expiry/<time>/<entry>`: keyed requests by the time at which they may be removed. Those that were done
    /// together share an entry.
    RequestExpiryKey {
        /// Wall time, milliseconds since 1970.
        expires_ms: i64,
        id: RequestId,
    } = RequestExpiry => RequestExpiry;

    /// `federation_cell/<cell>`, in the federation's space: where a cell's keys are.
    FederationCellKey {
        cell: Name,
    } = FederationCell => FederationCell;
    /// `store_generation`, in the federation's space: counts openings of a store that only one process opens.
    StoreGenerationKey {} = StoreGeneration => StoreGeneration;

    /// `access_grant/<subject>`: what a user or a group may do in the cell.
    AccessGrantKey {
        /// `user/<name>` or `group/<name>`.
        subject: String,
    } = AccessGrant => AccessGrantRow;
    /// `access_head`: counts the changes of grants and quotas, for gateways that keep all of them.
    AccessHeadKey {} = AccessHead => Counter;

    /// `audit_head`: how far the audit is sealed. The journal is not trimmed beyond it.
    AuditHeadKey {} = AuditHead => AuditHead;
    /// `audit_chunk/<number>`: a chunk of sealed calls, without gaps between the kept ones.
    AuditChunkKey {
        number: u64,
    } = AuditChunk => AuditChunk;

    /// `federated_question/<question>`: what would become of a job; never in the journal.
    FederatedQuestionKey {
        /// The id that the job gets if it is new and comes to be.
        question: FederatedJobId,
    } = FederatedQuestion => FederatedQuestion;
    /// `federated_question_head`: counts the questions, for the federation process that answers them.
    FederatedQuestionHeadKey {} = FederatedQuestionHead => Counter;

    /// `workload_key/<number>`: the public half of a key that signs the identities of tasks; never in the journal.
    WorkloadKeyKey {
        number: u64,
    } = WorkloadKey => WorkloadKey;
    /// `workload_signer/<number>`: the private half of the key, a secret; never in the journal or in an export.
    WorkloadSignerKey {
        number: u64,
    } = WorkloadSigner => WorkloadSigner;

    /// `node_join/<name>`: the join token and the identity of a node name; never in the journal.
    NodeJoinKey {
        name: Name,
    } = NodeJoin => NodeJoin;

    /// `node_join_head`: counts the identities that were ended or replaced, for gateways that hold sessions by them.
    NodeJoinHeadKey {} = NodeJoinHead => Counter;
}

impl TaskKey {
    /// The key of a task.
    pub fn of(task: TaskId) -> Self {
        Self { job: task.job, index: task.index }
    }
}

impl NodeTaskKey {
    /// The key of a task that is charged to `node`.
    pub fn of(node: NodeId, task: TaskId) -> Self {
        Self { node, job: task.job, index: task.index }
    }

    /// The task.
    pub fn task(&self) -> TaskId {
        TaskId { job: self.job, index: self.index }
    }
}
