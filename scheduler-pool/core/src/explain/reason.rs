//! Why tasks wait, in one word each: what they are counted by.

use super::{Explanation, FilterStep, WaitReason};

/// The reason of tasks that may be tried: all others are known to fit nowhere.
pub const PENDING_TURN: &str = "turn";

/// Every reason that tasks are counted by.
pub const PENDING_REASONS: [&str; 17] = [
    PENDING_TURN,
    "gang",
    "no_nodes",
    "recovering",
    "lost",
    "cordoned",
    "draining",
    "taint",
    "constraint",
    "affinity",
    "spread",
    "ports",
    "devices",
    "within",
    "capacity",
    "room",
    "other",
];

impl FilterStep {
    /// Its kind, one of [`PENDING_REASONS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Recovering => "recovering",
            Self::Lost => "lost",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Taint { .. } => "taint",
            Self::Constraint { .. } => "constraint",
            Self::Affinity { .. } | Self::Kept { .. } => "affinity",
            Self::Spread { .. } => "spread",
            Self::PortFixed { .. } | Self::PortsDynamic { .. } => "ports",
            Self::Device { .. } => "devices",
            Self::Within { .. } => "within",
            Self::Capacity { .. } => "capacity",
            Self::Free { .. } => "room",
        }
    }
}

impl Explanation {
    /// The reason that counts: that too few of a gang fit, or the filter that most nodes were lost to.
    pub fn reason(&self) -> &'static str {
        if self
            .waits
            .iter()
            .any(|wait| matches!(wait, WaitReason::Gang { .. } | WaitReason::GangMembers { .. }))
        {
            return "gang";
        }
        let most = self.lost.iter().max_by_key(|loss| loss.nodes);
        match most {
            Some(loss) => loss.filter.kind(),
            None if self.nodes == 0 => "no_nodes",
            None => "other",
        }
    }
}
