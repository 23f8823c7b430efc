//! A question to the federation process that leads: what would become of a job if its owner ran it now.
//!
//! Only that process may call the cells, and owners only reach gateways. So the question and its answer pass each other
//! in the store of the home. Both are gone once the gateway has read the answer.

use minicbor::{Decode, Encode};

use super::job::FederatedJob;
use super::part::FederatedPart;
use super::row::{FederatedStatus, RebalancedTasks};

/// Questions that may be open in a home at a time.
pub const FEDERATED_QUESTIONS_MAX: usize = 64;

/// A question, and its answer once there is one.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FederatedQuestion {
    /// The job as its owner would run it.
    #[n(0)]
    pub spec: FederatedJob,
    /// Time of the federation's home, milliseconds since 1970.
    #[n(1)]
    pub asked_ms: i64,
    #[n(2)]
    pub answer: Option<FederatedAnswer>,
    /// The job is to be rebalanced as it is. Absent: its owner runs it.
    #[n(3)]
    pub rebalance: Option<RebalancedTasks>,
}

/// How the federation would divide a job. Nothing of it is promised to a cell.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FederatedAnswer {
    /// What each cell would have, by cell.
    #[n(0)]
    pub parts: Vec<FederatedPart>,
    #[n(1)]
    pub status: FederatedStatus,
}
