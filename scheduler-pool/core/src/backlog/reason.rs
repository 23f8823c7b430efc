//! Why tasks wait, in one word each. Metrics count them by it.

use crate::filter::{FilterReason, Requirement};
use crate::plan::{GangCause, UnplacedCause};
use crate::tables::HardRule;

/// Why tasks have no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingReason {
    /// They wait for their turn. Tasks with any other reason are unschedulable.
    Turn,
    /// Too few members of their gang fit.
    Gang,
    /// The cell has no nodes.
    NoNodes,
    /// Most nodes are back after a loss, and first end what they still run.
    Recovering,
    /// Most nodes are lost.
    Lost,
    /// An operator keeps new tasks away from most nodes.
    Cordoned,
    /// An operator empties most nodes.
    Draining,
    /// Most nodes have a taint without a toleration.
    Taint,
    /// Most nodes do not meet a hard constraint.
    Constraint,
    /// A hard affinity refuses most nodes, their own or that of another job.
    Affinity,
    /// The limit of a spread refuses most nodes.
    Spread,
    /// Most nodes have too few free ports.
    Ports,
    /// Most nodes have free devices of the kind, but not those that the selector accepts.
    Devices,
    /// No socket or NUMA domain of most nodes has enough free.
    Within,
    /// Most nodes are too small even when empty.
    Capacity,
    /// Most nodes have too little free.
    FreeCapacity,
    /// Something else.
    Other,
}

impl PendingReason {
    /// Every reason.
    pub const ALL: [Self; 17] = [
        Self::Turn,
        Self::Gang,
        Self::NoNodes,
        Self::Recovering,
        Self::Lost,
        Self::Cordoned,
        Self::Draining,
        Self::Taint,
        Self::Constraint,
        Self::Affinity,
        Self::Spread,
        Self::Ports,
        Self::Devices,
        Self::Within,
        Self::Capacity,
        Self::FreeCapacity,
        Self::Other,
    ];

    /// The reason's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Gang => "gang",
            Self::NoNodes => "no_nodes",
            Self::Recovering => "recovering",
            Self::Lost => "lost",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Taint => "taint",
            Self::Constraint => "constraint",
            Self::Affinity => "affinity",
            Self::Spread => "spread",
            Self::Ports => "ports",
            Self::Devices => "devices",
            Self::Within => "within",
            Self::Capacity => "capacity",
            Self::FreeCapacity => "room",
            Self::Other => "other",
        }
    }

    /// The reason of an unplaced task: too few members of its gang fit, or the filter that refused most nodes.
    pub(super) fn of(cause: &UnplacedCause, requirement: &Requirement) -> Self {
        if cause.gang.iter().any(|gang| matches!(gang, GangCause::Short { .. })) {
            return Self::Gang;
        }
        match cause.census.refused_most() {
            Some(reason) => Self::of_filter(reason, requirement),
            None if cause.census.nodes == 0 => Self::NoNodes,
            None => Self::Other,
        }
    }

    fn of_filter(reason: FilterReason, requirement: &Requirement) -> Self {
        match reason {
            FilterReason::Recovering => Self::Recovering,
            FilterReason::Lost => Self::Lost,
            FilterReason::Cordoned => Self::Cordoned,
            FilterReason::Draining => Self::Draining,
            FilterReason::Taint(_) => Self::Taint,
            FilterReason::Constraint(_) => Self::Constraint,
            FilterReason::Rule(number) => match requirement.rules.rules.get(usize::from(number)) {
                Some(HardRule::Skew { .. } | HardRule::Cap { .. }) => Self::Spread,
                _ => Self::Affinity,
            },
            FilterReason::PortFixed(_) | FilterReason::PortCooling(_) | FilterReason::PortsDynamic => {
                Self::Ports
            }
            FilterReason::CardSelector(_) => Self::Devices,
            FilterReason::Capacity(_) | FilterReason::Missing(_) | FilterReason::CardNever(_) => {
                Self::Capacity
            }
            FilterReason::Free(_) | FilterReason::CardBusy(_) => Self::FreeCapacity,
            FilterReason::Within => Self::Within,
        }
    }
}
