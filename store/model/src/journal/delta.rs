//! The row of a delta, and which of two deltas of a row is newer.

use super::Delta;
use crate::id::{FederatedJobId, GangId, JobId, MemberId, MergedServiceId, NodeId, TaskId};

/// The row of a delta. A cache keeps one value per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeltaKey {
    Node(NodeId),
    NodeAlloc(NodeId),
    Job(JobId),
    Task(TaskId),
    Endpoint(TaskId),
    Gang(GangId),
    /// A node's measured load.
    NodeLoad(NodeId),
    CellSettings,
    MergedService(MergedServiceId),
    Member(MemberId),
    FederatedJob(FederatedJobId),
}

impl Delta {
    /// The row that it changes.
    pub fn key(&self) -> DeltaKey {
        match self {
            Self::Node { row } => DeltaKey::Node(row.id),
            Self::NodeRemoved { node, .. } => DeltaKey::Node(*node),
            Self::NodeAlloc { node, .. } => DeltaKey::NodeAlloc(*node),
            Self::Job { row, .. } => DeltaKey::Job(row.id),
            Self::JobRemoved { job, .. } => DeltaKey::Job(*job),
            Self::Task { row } => DeltaKey::Task(row.id),
            Self::TaskRemoved { task, .. } => DeltaKey::Task(*task),
            Self::Endpoint { endpoint, .. } => DeltaKey::Endpoint(endpoint.task),
            Self::EndpointWithdrawn { task, .. } => DeltaKey::Endpoint(*task),
            Self::Gang { row } => DeltaKey::Gang(row.id),
            Self::NodeLoad { node, .. } => DeltaKey::NodeLoad(*node),
            Self::CellSettings { .. } => DeltaKey::CellSettings,
            Self::MergedService { row } => DeltaKey::MergedService(row.id),
            Self::MergedServiceRemoved { id, .. } => DeltaKey::MergedService(*id),
            Self::Member { row } => DeltaKey::Member(row.id),
            Self::MemberRemoved { id, .. } => DeltaKey::Member(*id),
            Self::FederatedJob { row } => DeltaKey::FederatedJob(row.id),
            Self::FederatedJobRemoved { id, .. } => DeltaKey::FederatedJob(*id),
        }
    }

    /// The revision of its row. The removal of a node, a job, a merged service, a member cell or a federated
    /// job is above every revision, since their ids are never used again.
    pub fn revision(&self) -> u64 {
        match self {
            Self::Node { row } => row.revision,
            Self::NodeRemoved { .. }
            | Self::JobRemoved { .. }
            | Self::MergedServiceRemoved { .. }
            | Self::MemberRemoved { .. }
            | Self::FederatedJobRemoved { .. } => u64::MAX,
            Self::NodeAlloc { alloc, .. } => alloc.epoch,
            Self::NodeLoad { load, .. } => load.revision,
            Self::Job { row, .. } => row.revision,
            Self::Task { row } => row.revision,
            Self::TaskRemoved { revision, .. }
            | Self::Endpoint { revision, .. }
            | Self::EndpointWithdrawn { revision, .. }
            | Self::CellSettings { revision } => *revision,
            Self::Gang { row } => row.revision,
            Self::MergedService { row } => row.revision,
            Self::Member { row } => row.revision,
            Self::FederatedJob { row } => row.revision,
        }
    }
}
