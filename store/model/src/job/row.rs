//! The hot row of a job: what is wanted of it, and the counts people ask for first.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{JobId, Name, RequestId};

/// What a job is now. The gate that placements guard on is a key of its own: only what can make a placement in flight
/// wrong writes it ([`super::JobTransition::gate`]).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobRow {
    /// The job.
    #[n(0)]
    pub id: JobId,
    /// Whose it is.
    #[n(1)]
    pub user: Name,
    /// Its name.
    #[n(2)]
    pub name: Name,
    /// Desired state and outcome.
    #[n(3)]
    pub state: JobState,
    /// Desired number of tasks: those with an index below it.
    #[n(4)]
    pub count: u32,
    /// The priority in force (it may differ from the first spec's by a later change).
    #[n(5)]
    pub priority: u32,
    /// The spec version in force, from 1.
    #[n(6)]
    pub spec_version: u32,
    /// Counts every change of this row.
    #[n(7)]
    pub revision: u64,
    /// Wall time of submission, milliseconds since 1970.
    #[n(8)]
    pub submitted_ms: i64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(9)]
    pub changed_ms: i64,
    /// The request that last changed it.
    #[n(10)]
    pub request: RequestId,
    /// Tasks that have ended for good with exit code 0.
    #[n(11)]
    pub succeeded: u32,
    /// Tasks that have ended for good otherwise.
    #[n(12)]
    pub failed: u32,
}

/// Desired state and outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Admitted; not to be placed before the jobs it waits for have ended.
    #[n(0)]
    Waiting,
    /// To run.
    #[n(1)]
    Running,
    /// To stop: its tasks are being ended.
    #[n(2)]
    Stopping,
    /// Over.
    #[n(3)]
    Ended {
        /// How.
        #[n(0)]
        outcome: JobOutcome,
    },
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// Every task ended with exit code 0.
    #[n(0)]
    Succeeded,
    /// Every task ended, some otherwise.
    #[n(1)]
    Failed,
    /// It was stopped.
    #[n(2)]
    Stopped,
    /// It can never start, since a job it waits for failed.
    #[n(3)]
    DependencyFailed,
}
