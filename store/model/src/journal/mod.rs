//! What a mutating transaction tells the world: absolute deltas, each with its row's revision.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{JobId, Name, NodeId, RequestId, TaskId};
use crate::job::{JobRow, JobSpec};
use crate::node::{NodeAlloc, NodeLoad, NodeRow};
use crate::task::{Endpoint, GangRow, TaskRow};

mod delta;

pub use delta::{DeltaKey, delta_supersedes};

/// The entry of one transaction.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The request or batch that caused it: how a worker finds its own commit again after an unknown result.
    #[n(0)]
    pub request: RequestId,
    /// Who caused it: `user/<name>`, `scheduler/<shard>`, `controller`, `gateway`, `node/<name>`.
    #[n(1)]
    pub actor: String,
    /// What was done, as the name of the transaction.
    #[n(2)]
    pub action: String,
    /// Wall time of the writer, milliseconds since 1970; for people only.
    #[n(3)]
    pub at_ms: i64,
    /// What has changed.
    #[n(4)]
    pub deltas: Vec<Delta>,
}

/// The name of a job with that of its user. No two living jobs of a cell share it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobName {
    /// Whose job it is.
    #[n(0)]
    pub user: Name,
    /// Its own name.
    #[n(1)]
    pub job: Name,
}

/// The new value of one row; an older revision never overwrites a newer one.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delta {
    /// A node's row.
    #[n(0)]
    Node {
        /// The new row.
        #[n(0)]
        row: NodeRow,
    },
    /// A node was removed by an operator.
    #[n(1)]
    NodeRemoved {
        /// Which.
        #[n(0)]
        node: NodeId,
    },
    /// What is committed on a node.
    #[n(2)]
    NodeAlloc {
        /// Which node.
        #[n(0)]
        node: NodeId,
        /// The new value; its epoch is its revision.
        #[n(1)]
        alloc: NodeAlloc,
    },
    /// A job's row, with the spec where it is new or changed.
    #[n(3)]
    Job {
        /// The new row.
        #[n(0)]
        row: JobRow,
        /// The spec of `row.spec_version`, where this transaction wrote it.
        #[n(1)]
        spec: Option<Box<JobSpec>>,
    },
    /// A job was forgotten, some time after its end.
    #[n(4)]
    JobRemoved {
        /// Which.
        #[n(0)]
        job: JobId,
        /// Its name, by which a watcher asks for it: no row has it any more. Entries of older versions lack it.
        #[n(1)]
        name: Option<JobName>,
    },
    /// A task's row.
    #[n(5)]
    Task {
        /// The new row.
        #[n(0)]
        row: TaskRow,
    },
    /// A task's row was removed with its job, or after it shrank.
    #[n(6)]
    TaskRemoved {
        /// Which.
        #[n(0)]
        task: TaskId,
        /// The revision at which it was removed.
        #[n(1)]
        revision: u64,
    },
    /// An endpoint, published or changed.
    #[n(7)]
    Endpoint {
        /// The new value.
        #[n(0)]
        endpoint: Endpoint,
        /// The revision of the task's row that it follows from.
        #[n(1)]
        revision: u64,
    },
    /// An endpoint, withdrawn.
    #[n(8)]
    EndpointWithdrawn {
        /// Whose job.
        #[n(0)]
        user: Name,
        /// Which job.
        #[n(1)]
        job: Name,
        /// Which task.
        #[n(2)]
        task: TaskId,
        /// The revision of the task's row that it follows from.
        #[n(3)]
        revision: u64,
    },
    /// A gang's row.
    #[n(9)]
    Gang {
        /// The new row.
        #[n(0)]
        row: GangRow,
    },
    /// What is known of a node's real load.
    #[n(11)]
    NodeLoad {
        /// Which node.
        #[n(0)]
        node: NodeId,
        /// The new value.
        #[n(1)]
        load: NodeLoad,
    },
    /// The settings of the cell have changed: who goes by them reads them again.
    #[n(10)]
    CellSettings {
        /// The revision of the settings.
        #[n(0)]
        revision: u64,
    },
}
