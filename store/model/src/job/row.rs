//! The row of a job: its desired state, and the counts that people ask for first.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::Rollout;
use crate::id::{JobId, Name, RequestId};

/// The present state of a job. Placements guard on its gate, which is a key of its own. Only a change that can make a
/// placement in flight wrong writes the gate ([`super::JobTransition::gate`]).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JobRow {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub user: Name,
    #[n(2)]
    pub name: Name,
    #[n(3)]
    pub state: JobState,
    /// Desired number of tasks. Their indexes are below it.
    #[n(4)]
    pub count: u32,
    /// The priority in force. It may differ from that of the first spec.
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
    /// The last rollout; absent: its spec was never changed in a way that concerns its tasks.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<Rollout>>,
}

/// Desired state and outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Admitted. None of its tasks is placed before the jobs that it waits for have ended.
    #[n(0)]
    Waiting,
    #[n(1)]
    Running,
    /// The controller ends its tasks.
    #[n(2)]
    Stopping,
    #[n(3)]
    Ended {
        #[n(0)]
        outcome: JobOutcome,
    },
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Ended { outcome: JobOutcome::Succeeded } => "over: succeeded",
            Self::Ended { outcome: JobOutcome::Failed } => "over: failed",
            Self::Ended { outcome: JobOutcome::Stopped } => "over: stopped",
            Self::Ended { outcome: JobOutcome::DependencyFailed } => {
                "over: a job that it waits for has failed"
            }
        })
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// Every task has ended with exit code 0.
    #[n(0)]
    Succeeded,
    /// Every task has ended, some of them otherwise.
    #[n(1)]
    Failed,
    /// Its owner has stopped it.
    #[n(2)]
    Stopped,
    /// It can never start, since a job that it waits for has failed.
    #[n(3)]
    DependencyFailed,
}
