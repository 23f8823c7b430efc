//! Verbs on rollouts.

use clap::{Args, Subcommand};

use super::number::whole;
use super::{JobTarget, WaitArguments};

/// Verbs on rollouts.
#[derive(Debug, Subcommand)]
pub enum RolloutVerb {
    /// Show the last rollout of a job: its version, its state, and how many tasks have it
    Status {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
        /// Wait until it is over or its canaries wait for their promotion, and fail if it fails
        #[arg(short, long)]
        wait: bool,
    },
    /// Replace no further tasks. The time without progress stands still
    Pause {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
    },
    /// Go on with a paused rollout
    Resume {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
    },
    /// Replace the job's own tasks as well, since its canaries are good, and wait for that
    Promote {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
        #[command(flatten)]
        wait: WaitArguments,
    },
    /// Go back to an earlier version of a job by a rollout, and wait for it
    Undo(UndoArguments),
}

/// `rollout undo`.
#[derive(Debug, Args)]
pub struct UndoArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    /// Go back to this version; `rollout status` lists them [default: the newest one that differs]
    #[arg(long, value_name = "VERSION", value_parser = whole(1..=u32::MAX))]
    pub to: Option<u32>,
    #[command(flatten)]
    pub wait: WaitArguments,
}

impl RolloutVerb {
    pub(super) fn target(&self) -> &JobTarget {
        match self {
            Self::Status { target, .. }
            | Self::Pause { target }
            | Self::Resume { target }
            | Self::Promote { target, .. } => target,
            Self::Undo(arguments) => &arguments.target,
        }
    }
}
