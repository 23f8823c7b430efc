//! Why tasks are stopped, and what follows.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Why a task is being stopped. It decides what follows its exit.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Its job is stopped: dead.
    #[n(0)]
    JobStopped,
    /// Its job shrank below its index: dead.
    #[n(1)]
    JobShrunk,
    /// Its owner restarts it: pending.
    #[n(2)]
    Restart,
    /// Its probes failed: pending, counted as a failure.
    #[n(3)]
    Unhealthy,
    /// Its node is drained: pending.
    #[n(4)]
    Drained,
    /// A task of higher priority preempts it: pending.
    #[n(5)]
    Preempted,
    /// Its spec changed: pending.
    #[n(6)]
    Updated,
    /// Its node has a taint that it does not tolerate, or no longer tolerates: pending.
    #[n(7)]
    Tainted,
    /// The operator shuts the cell down: pending, until it is started again.
    #[n(8)]
    Shutdown,
    /// Its daemon job does not serve its node any more: dead.
    #[n(9)]
    NodeLeft,
    /// The alloc that it is in ends, or leaves its node: pending, and placed where the alloc goes.
    #[n(10)]
    AllocLeft,
    /// It ran beside the tasks that its owner wants, for a rollout or a move that is over: dead.
    #[n(11)]
    SurgeOver,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::JobStopped,
        Self::JobShrunk,
        Self::Restart,
        Self::Unhealthy,
        Self::Drained,
        Self::Preempted,
        Self::Updated,
        Self::Tainted,
        Self::Shutdown,
        Self::NodeLeft,
        Self::AllocLeft,
        Self::SurgeOver,
    ];

    /// Returns true if the task is dead after this stop; otherwise it is pending.
    pub fn is_final(self) -> bool {
        match self {
            Self::JobStopped | Self::JobShrunk | Self::NodeLeft | Self::SurgeOver => true,
            Self::Restart
            | Self::Unhealthy
            | Self::Drained
            | Self::Preempted
            | Self::Updated
            | Self::Tainted
            | Self::Shutdown
            | Self::AllocLeft => false,
        }
    }

    /// Returns true if the task moves for the sake of its node, of another task or of the cell. It ran well itself.
    pub fn is_move(self) -> bool {
        matches!(self, Self::Drained | Self::Preempted | Self::Tainted | Self::Shutdown | Self::AllocLeft)
    }

    /// Why the attempt was ended, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::JobStopped => "its job was stopped",
            Self::JobShrunk => "its job no longer has this task",
            Self::Restart => "it was to be restarted",
            Self::Unhealthy => "its health check failed",
            Self::Drained => "its node was drained",
            Self::Preempted => "a task of higher priority took its place",
            Self::Updated => "its spec was changed",
            Self::Tainted => "its node has a taint that it does not tolerate",
            Self::Shutdown => "its cell was shut down",
            Self::NodeLeft => "its daemon job no longer serves its node",
            Self::AllocLeft => "its alloc ends or leaves the node",
            Self::SurgeOver => "it was a canary, or ran beside the others for a change that is over",
        }
    }

    /// The text with what an agent knows besides. [`Self::of_text`] finds the stop in it.
    pub fn text_with(self, more: &str) -> String {
        format!("{}: {more}", self.text())
    }

    /// The stop whose text this is, alone or with more behind it.
    pub fn of_text(text: &str) -> Option<Self> {
        let is_of = |stop: &Self| {
            text.strip_prefix(stop.text()).is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
        };
        // Rows of earlier versions have this text.
        let shrunk = || (text == "its job was scaled down").then_some(Self::JobShrunk);
        Self::ALL.into_iter().find(is_of).or_else(shrunk)
    }
}
