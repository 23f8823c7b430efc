//! Verbs on rollouts.

use clap::{Args, Subcommand};

use super::number::whole;
use super::{JobLabels, JobTarget, WaitArguments};

/// Verbs on rollouts.
#[derive(Debug, Subcommand)]
pub enum RolloutVerb {
    /// Show the last rollout of a job: its version, its state, and how many tasks have it
    #[command(override_usage = "borough rollout status [OPTIONS] <JOB|--label>")]
    #[command(mut_arg("label", |label| label.help("Instead of a name: each of your jobs with labels like this")))]
    Status {
        #[command(flatten)]
        choice: RolloutChoice,
        /// Wait until it is over or its canaries wait for their promotion, and fail if it fails
        #[arg(short, long, conflicts_with = "label")]
        wait: bool,
    },
    /// List the versions of a job, newest first: when, by whom, what differs, and which were rolled out
    History {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
    },
    /// Replace no further tasks. The time without progress stands still
    #[command(override_usage = "borough rollout pause [OPTIONS] <JOB|--label>")]
    Pause(RolloutChoice),
    /// Go on with a paused rollout
    #[command(override_usage = "borough rollout resume [OPTIONS] <JOB|--label>")]
    Resume(RolloutChoice),
    /// Replace the job's own tasks as well, since its canaries are good, and wait for that
    #[command(override_usage = "borough rollout promote [OPTIONS] <JOB|--label>")]
    Promote {
        #[command(flatten)]
        choice: RolloutChoice,
        /// Promote only this version: refuse if another one has come since you looked
        #[arg(long, value_name = "VERSION", value_parser = whole(1..=u32::MAX), requires = "target")]
        check_version: Option<u32>,
        #[command(flatten)]
        wait: WaitArguments,
    },
    /// Go back to an earlier version of a job by a rollout, and wait for it
    #[command(override_usage = "borough rollout undo [OPTIONS] <JOB|--label>")]
    Undo(UndoArguments),
}

/// The rollout of one job, or those of jobs with labels.
#[derive(Clone, Debug, Args)]
pub struct RolloutChoice {
    /// [USER/]JOB
    #[arg(value_name = "JOB", required_unless_present = "label", conflicts_with_all = ["label", "all"])]
    pub target: Option<JobTarget>,
    #[command(flatten)]
    pub labels: JobLabels,
}

/// `rollout undo`.
#[derive(Debug, Args)]
pub struct UndoArguments {
    #[command(flatten)]
    pub choice: RolloutChoice,
    /// Go back to this version; `rollout status` lists them [default: the newest one that differs]
    #[arg(long, value_name = "VERSION", value_parser = whole(1..=u32::MAX), conflicts_with = "label")]
    pub to: Option<u32>,
    #[command(flatten)]
    pub wait: WaitArguments,
}

impl RolloutVerb {
    pub(super) fn target(&self) -> Option<&JobTarget> {
        match self {
            Self::History { target } => Some(target),
            Self::Status { choice, .. }
            | Self::Pause(choice)
            | Self::Resume(choice)
            | Self::Promote { choice, .. } => choice.target.as_ref(),
            Self::Undo(arguments) => arguments.choice.target.as_ref(),
        }
    }
}
