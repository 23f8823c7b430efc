//! How a daemon job serves the nodes of its cell: the part of it in the row of the job.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The counts of a daemon job. Every daemon job has them, and no other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct DaemonCounts {
    /// Tasks below the count that are dead, since the job does not serve their nodes any more.
    #[n(0)]
    pub withdrawn: u32,
    /// Nodes that match and have no task, since the quota had no room for it.
    #[n(1)]
    pub unadmitted: u32,
    /// How often the controller has given tasks to nodes. Each time is decided by the rows after the time before. 0: it
    /// has not looked at the nodes yet.
    #[n(2)]
    pub steps: u64,
    /// Nodes that match and get a task with the next steps.
    #[n(3)]
    pub left: u32,
}
