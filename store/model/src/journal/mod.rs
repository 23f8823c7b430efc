//! The journal entry of a mutating transaction: absolute deltas, each with its row's revision.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::audit::AuditedCall;
use crate::federation::FederatedJobRow;
use crate::id::{FederatedJobId, JobId, MemberId, MergedServiceId, Name, NodeId, RequestId, TaskId};
use crate::job::{JobRow, JobSpec};
use crate::member::MemberRow;
use crate::merged::MergedServiceRow;
use crate::node::{NodeAlloc, NodeLoad, NodeRow};
use crate::task::{Endpoint, GangRow, TaskRow};

mod delta;
mod shared;
mod value;

pub use delta::DeltaKey;
pub use value::ValueChange;

/// The entry of one transaction.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The request or batch that caused it. A worker finds its own commit by it after an unknown result.
    #[n(0)]
    pub request: RequestId,
    /// The author: `user/<name>`, `scheduler/<shard>`, `controller`, `gateway`, `node/<name>`.
    #[n(1)]
    pub actor: String,
    /// The name of the transaction.
    #[n(2)]
    pub action: String,
    /// Wall time of the writer, milliseconds since 1970; for people only.
    #[n(3)]
    pub at_ms: i64,
    #[n(4)]
    pub deltas: Vec<Delta>,
    /// The labels or settings that it has changed, for people; absent: none, or an older version wrote the entry.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<ValueChange>>,
    /// The calls of the API that it is made of, and refused ones, for the audit; absent: a process of the cell wrote
    /// the entry of itself.
    #[n(6)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<AuditedCall>>,
}

/// The name of a job with that of its user. No two running jobs of a cell share it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobName {
    #[n(0)]
    pub user: Name,
    #[n(1)]
    pub job: Name,
}

/// The new value of one row; an older revision never overwrites a newer one.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delta {
    #[n(0)]
    Node {
        #[n(0)]
        row: NodeRow,
    },
    /// An operator removed a node.
    #[n(1)]
    NodeRemoved {
        #[n(0)]
        node: NodeId,
        /// The name that watchers ask for: no row has it any more. Entries of older versions lack it.
        #[n(1)]
        name: Option<Name>,
    },
    #[n(2)]
    NodeAlloc {
        #[n(0)]
        node: NodeId,
        /// The new value; its epoch is its revision.
        #[n(1)]
        alloc: NodeAlloc,
    },
    /// A job's row, with the spec if it is new or changed.
    #[n(3)]
    Job {
        #[n(0)]
        #[cbor(with = "shared")]
        row: Arc<JobRow>,
        /// The spec of `row.spec_version`, if this transaction wrote it.
        #[n(1)]
        spec: Option<Box<JobSpec>>,
    },
    /// A job was removed, some time after its end.
    #[n(4)]
    JobRemoved {
        #[n(0)]
        job: JobId,
        /// The name that watchers ask for: no row has it any more. Entries of older versions lack it.
        #[n(1)]
        name: Option<JobName>,
    },
    #[n(5)]
    Task {
        #[n(0)]
        row: TaskRow,
    },
    /// A task's row was removed with its job, or after the job shrank.
    #[n(6)]
    TaskRemoved {
        #[n(0)]
        task: TaskId,
        /// The revision at which it was removed.
        #[n(1)]
        revision: u64,
    },
    /// An endpoint, published or changed.
    #[n(7)]
    Endpoint {
        #[n(0)]
        endpoint: Endpoint,
        /// The revision of the task's row that it follows from.
        #[n(1)]
        revision: u64,
    },
    /// An endpoint, withdrawn.
    #[n(8)]
    EndpointWithdrawn {
        #[n(0)]
        user: Name,
        #[n(1)]
        job: Name,
        #[n(2)]
        task: TaskId,
        /// The revision of the task's row that it follows from.
        #[n(3)]
        revision: u64,
    },
    #[n(9)]
    Gang {
        #[n(0)]
        row: GangRow,
    },
    /// A node's measured load.
    #[n(11)]
    NodeLoad {
        #[n(0)]
        node: NodeId,
        #[n(1)]
        load: NodeLoad,
    },
    /// The settings of the cell have changed: readers must read them again.
    #[n(10)]
    CellSettings {
        /// The revision of the settings.
        #[n(0)]
        revision: u64,
    },
    /// A merged service, made or changed.
    #[n(12)]
    MergedService {
        #[n(0)]
        row: Box<MergedServiceRow>,
    },
    /// The owner of a merged service removed it.
    #[n(13)]
    MergedServiceRemoved {
        #[n(0)]
        id: MergedServiceId,
        #[n(1)]
        user: Name,
        #[n(2)]
        name: Name,
    },
    /// A member cell, joined or changed.
    #[n(14)]
    Member {
        #[n(0)]
        row: Box<MemberRow>,
    },
    /// A member cell has left the federation.
    #[n(15)]
    MemberRemoved {
        #[n(0)]
        id: MemberId,
        #[n(1)]
        cell: Name,
    },
    /// A federated job, new or changed.
    #[n(16)]
    FederatedJob {
        #[n(0)]
        row: Box<FederatedJobRow>,
    },
    /// A federated job was forgotten. Its parts in cells go on.
    #[n(17)]
    FederatedJobRemoved {
        #[n(0)]
        id: FederatedJobId,
        #[n(1)]
        user: Name,
        #[n(2)]
        name: Name,
    },
}
