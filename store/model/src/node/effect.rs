//! The effect of a task's transition on the commitment of its node.

use crate::id::NodeId;
use crate::resource::Resources;

/// What an attempt takes of a node, or releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityShare {
    pub node: NodeId,
    pub resources: Resources,
    pub ports: Vec<u16>,
}

/// The effect on the node's commitment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CapacityEffect {
    #[default]
    Keep,
    /// The attempt takes this of the node: see [`NodeAlloc`](super::NodeAlloc).
    Take(CapacityShare),
    /// The attempt releases its share.
    Release {
        share: CapacityShare,
        /// Wall time (milliseconds since 1970) until which its ports cool down; absent: they were never used.
        ports_cool_until_ms: Option<i64>,
    },
    /// The share is promised to the attempt; its ports are assigned.
    Promise(CapacityShare),
    /// The promised share is taken. The node refuses this while victims still use it: the hold is not confirmed then.
    Fulfil(CapacityShare),
    /// The promised share is no longer wanted; its ports were never used.
    Forgo(CapacityShare),
    /// The attempt keeps its place and its ports, and takes `resources` from now on in place of its share.
    Resize {
        /// What it has taken so far.
        share: CapacityShare,
        resources: Resources,
    },
    /// A lost attempt is over. Its share was released when its node was lost; its ports were kept back and begin to
    /// cool down.
    Cool {
        share: CapacityShare,
        /// Wall time, milliseconds since 1970.
        ports_cool_until_ms: i64,
    },
}

impl CapacityEffect {
    /// The share that it concerns, if any.
    pub fn share(&self) -> Option<&CapacityShare> {
        match self {
            Self::Keep => None,
            Self::Take(share)
            | Self::Release { share, .. }
            | Self::Cool { share, .. }
            | Self::Resize { share, .. }
            | Self::Promise(share)
            | Self::Fulfil(share)
            | Self::Forgo(share) => Some(share),
        }
    }

    /// Returns true if the attempt is no longer part of the node's commitment afterwards.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Release { .. } | Self::Forgo(_) => true,
            Self::Keep
            | Self::Take(_)
            | Self::Promise(_)
            | Self::Fulfil(_)
            | Self::Resize { .. }
            | Self::Cool { .. } => false,
        }
    }
}
