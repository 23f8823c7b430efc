//! All rows of a cell, at one position of its journal.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::Versionstamp;
use borough_model::access::AccessSubject;
use borough_model::federation::{FederatedJobRow, FederatedPart, FederatedVersion};
use borough_model::job::{Band, JobRow, JobSpec};
use borough_model::member::MemberRow;
use borough_model::merged::MergedServiceRow;
use borough_model::node::{NodeAlloc, NodeLoad, NodeRow};
use borough_model::quota::QuotaGrant;
use borough_model::task::{GangRow, TaskRow};
use borough_model::{FederatedJobId, GangId, JobId, Name, NodeId, RequestId, TaskId};

use super::{JournalRecord, Violation};
use crate::row::{
    AccessGrantRow, CellGate, CellMeta, EndpointRow, JournalFloor, LeaseBeat, LeaseRow, NodeJoin, QuotaRow,
    QuotaUsed, RequestExpiry, RequestRow,
};
use crate::workload::WorkloadKeys;

/// The rows of a cell: every kind except journal entries, tokens of constraints, and the expected use of nodes.
#[derive(Clone, Debug, Default)]
pub struct CellRows {
    pub meta: Option<CellMeta>,
    pub gate: Option<CellGate>,
    pub nodes: BTreeMap<NodeId, NodeRow>,
    /// The commitments of nodes.
    pub allocs: BTreeMap<NodeId, NodeAlloc>,
    /// The index of tasks by node.
    pub node_tasks: BTreeSet<(NodeId, TaskId)>,
    pub node_names: BTreeMap<Name, NodeId>,
    /// Nodes that have a row of liveness.
    pub node_leases: BTreeSet<NodeId>,
    /// Nodes that have a place in the order of changes of liveness.
    pub node_live_places: BTreeSet<NodeId>,
    /// That order.
    pub node_live_changes: BTreeSet<(Versionstamp, NodeId)>,
    /// Nodes whose agent has, or had, a session.
    pub node_sessions: BTreeSet<NodeId>,
    /// The measured load of nodes.
    pub loads: BTreeMap<NodeId, NodeLoad>,
    pub jobs: BTreeMap<JobId, JobRow>,
    /// Their specs, by version.
    pub specs: BTreeMap<(JobId, u32), JobSpec>,
    /// Their names.
    pub names: BTreeMap<(Name, Name), JobId>,
    /// The jobs that had a name before the present one, by user, name and wall time of submission.
    pub past: BTreeSet<(Name, Name, i64, JobId)>,
    /// Tasks, by the task that their key names.
    pub tasks: BTreeMap<TaskId, TaskRow>,
    pub gangs: BTreeMap<GangId, GangRow>,
    /// Endpoints, by user, job and index.
    pub endpoints: BTreeMap<(Name, Name, u32), EndpointRow>,
    /// The stamp of the last change of any endpoint, by user and job.
    pub name_revisions: BTreeMap<(Name, Name), Versionstamp>,
    /// Merged services, by user and name.
    pub merged_services: BTreeMap<(Name, Name), MergedServiceRow>,
    pub members: BTreeMap<Name, MemberRow>,
    pub members_seen: BTreeSet<Name>,
    /// Federated jobs, by user and name.
    pub federated_jobs: BTreeMap<(Name, Name), FederatedJobRow>,
    /// Their versions.
    pub federated_versions: BTreeMap<(FederatedJobId, u64), FederatedVersion>,
    /// What was promised to their cells.
    pub federated_parts: BTreeMap<(FederatedJobId, Name), FederatedPart>,
    /// Those that were divided.
    pub federated_statuses: BTreeSet<FederatedJobId>,
    /// Lines of quotas, by holder and band.
    pub quota_limits: BTreeMap<(AccessSubject, Band), QuotaRow>,
    /// The charges that admission has recorded, by holder and band.
    pub quota_used: BTreeMap<(AccessSubject, Band), QuotaUsed>,
    /// The releases since, by holder, band and dimension.
    pub quota_released: BTreeMap<(AccessSubject, Band, String), i64>,
    /// What each line grants, by band, parent (empty: none) and holder.
    pub quota_below: BTreeMap<(Band, String, AccessSubject), QuotaGrant>,
    /// What subjects may do, by `user/<name>` or `group/<name>`.
    pub grants: BTreeMap<String, AccessGrantRow>,
    /// The keys that sign the identities of tasks.
    pub workload: WorkloadKeys,
    /// How nodes join, and their identities, by name.
    pub joins: BTreeMap<Name, NodeJoin>,
    /// Results of keyed requests.
    pub requests: BTreeMap<RequestId, RequestRow>,
    /// Requests by the time they expire, and by entry.
    pub request_expiries: BTreeMap<(i64, RequestId), RequestExpiry>,
    /// Leases by role and shard.
    pub leases: BTreeMap<(String, u32), LeaseRow>,
    /// Their heartbeats.
    pub lease_beats: BTreeMap<(String, u32), LeaseBeat>,
    /// The journal is trimmed up to here.
    pub journal_floor: Option<JournalFloor>,
    /// The stamp of its last entry.
    pub journal_head: Option<Versionstamp>,
    /// What the kept part of the journal records of the rows.
    pub journal_record: JournalRecord,
    /// Keys and values that cannot be decoded.
    pub damage: Vec<Violation>,
}

impl CellRows {
    /// The user and the name of a job that has a row.
    pub(super) fn job_name(&self, job: JobId) -> Option<(Name, Name)> {
        self.jobs.get(&job).map(|row| (row.user.clone(), row.name.clone()))
    }
}
