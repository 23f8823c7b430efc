//! Verbs on jobs.

use std::path::PathBuf;
use std::time::Duration;

use borough_proto::v1::TaskState;
use clap::{Args, Subcommand, ValueEnum};

use super::JobTarget;
use crate::jobfile::StarterKind;

/// Verbs on jobs.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Write a commented job file to start from
    Init {
        /// Write to this file, which must not exist
        #[arg(default_value = "job.yaml")]
        file: PathBuf,
        /// Write a short file for this kind of work [default: one with every field]
        #[arg(short, long, value_enum, value_name = "KIND")]
        kind: Option<StarterKind>,
    },
    /// Check a job file without asking a cell
    Validate(FileArguments),
    /// Print the JSON Schema of job files, for editors
    Schema,
    /// Show what `job run` would change, and where tasks would go
    #[command(after_help = "Exit codes: 0 no change, 1 change, 2 would be refused, 255 error")]
    Plan(FileArguments),
    /// Submit a job file, and wait until the service is up or the batch job is over
    Run(RunArguments),
    /// Edit the stored job in $VISUAL or $EDITOR, see the plan, and change the job after a yes
    #[command(after_help = EDIT_NOTES)]
    Edit(EditArguments),
    /// Show a job with its tasks, or list jobs
    #[command(visible_alias = "list")]
    Status {
        /// [USER/]JOB [default: list your jobs]
        #[arg(value_name = "JOB")]
        target: Option<JobTarget>,
        /// List the jobs of every user
        #[arg(short, long)]
        all: bool,
        /// List also jobs that are over
        #[arg(short, long)]
        ended: bool,
        /// List only jobs with this label; several times: with all of them
        #[arg(short, long, value_parser = pair, value_name = "KEY=VALUE", conflicts_with = "target")]
        label: Vec<(String, String)>,
        #[command(flatten)]
        tasks: TaskListArguments,
    },
    /// Change the number of tasks of a job, and wait until it has so many, all of them up
    Scale {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
        /// Number of tasks, from 0
        count: u32,
        /// Return at once, without waiting
        #[arg(short, long)]
        detach: bool,
        /// Stop waiting after this time, such as 30s or 5m [default: no limit]
        #[arg(long, value_parser = duration, value_name = "TIME")]
        timeout: Option<Duration>,
    },
    /// Stop a job: withdraw its endpoints, end its tasks, and wait for their end
    Stop(StopArguments),
    /// Restart the tasks of a job one at a time, the next one when the last one is healthy again
    #[command(after_help = RESTART_NOTES)]
    Restart(RestartArguments),
    /// Forget an ended job at once, with its history, instead of after the cell's retention
    #[command(after_help = PURGE_NOTES)]
    Purge(PurgeArguments),
    /// Set and remove labels of a job; no task restarts
    Label {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
        /// KEY=VALUE sets a label, KEY- removes it
        #[arg(required = true, value_parser = super::label::label, value_name = "LABEL")]
        labels: Vec<super::LabelArgument>,
    },
    /// List every job of this name with its specs, newest first
    History {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
    },
}

/// Which tasks of a job are listed.
#[derive(Clone, Debug, Default, Args)]
pub struct TaskListArguments {
    /// Show only tasks in these states, with commas between [default: all]
    #[arg(long, value_enum, value_name = "STATES", value_delimiter = ',', requires = "target")]
    pub state: Vec<ListedState>,
    /// Show at most this many tasks [default: all]
    #[arg(long, value_name = "N", requires = "target", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Go on behind the tasks of an earlier list, by the page that it named
    #[arg(long, value_name = "PAGE", requires = "target")]
    pub page: Option<String>,
}

/// A state of a task, as lists choose by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ListedState {
    Pending,
    Held,
    Assigned,
    Starting,
    Running,
    Stopping,
    Releasing,
    Lost,
    Dead,
}

impl From<ListedState> for TaskState {
    fn from(state: ListedState) -> Self {
        match state {
            ListedState::Pending => Self::Pending,
            ListedState::Held => Self::Held,
            ListedState::Assigned => Self::Assigned,
            ListedState::Starting => Self::Starting,
            ListedState::Running => Self::Running,
            ListedState::Stopping => Self::Stopping,
            ListedState::Releasing => Self::Releasing,
            ListedState::Lost => Self::Lost,
            ListedState::Dead => Self::Dead,
        }
    }
}

/// A job file.
#[derive(Clone, Debug, Args)]
pub struct FileArguments {
    /// Job file: .yaml, .yml, .json or .jsonnet; `-` reads YAML from standard input
    pub file: PathBuf,
    /// Set std.extVar of a Jsonnet file; repeat for more
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub ext_str: Vec<(String, String)>,
    /// Pass an argument to the function in a Jsonnet file; repeat for more
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub tla_str: Vec<(String, String)>,
}

/// `job run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub file: FileArguments,
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 30s or 5m; the job goes on [default: no limit]
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
    /// Report a failure when no further task of a service becomes healthy for this time [default: that of the job, 10m]
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub progress_deadline: Option<Duration>,
    /// Refuse unless the job still has this revision, as `job plan` showed it [default: any]
    #[arg(long, value_name = "REVISION")]
    pub check_revision: Option<u64>,
}

/// What `job edit` does with the text.
const EDIT_NOTES: &str = "The file has the fields that differ from their defaults. An unchanged file changes nothing. A \
    text that is not applied is kept, and the message tells where. If the job changes meanwhile, the edit is refused.";

/// `job edit`.
#[derive(Clone, Debug, Args)]
pub struct EditArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 30s or 5m; the job goes on [default: no limit]
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
}

/// `job stop`.
#[derive(Clone, Debug, Args)]
pub struct StopArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 30s or 5m; the stop goes on [default: no limit]
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
}

/// What `job restart` does with tasks that do not come back.
const RESTART_NOTES: &str = "A task that is not healthy in time, or dead for good, ends the command with code 1. The \
    tasks after it are left alone, and the message tells how to go on. So does Ctrl-C.";

/// `job restart`.
#[derive(Clone, Debug, Args)]
pub struct RestartArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    /// Restart only this task; several with commas between [default: all]
    #[arg(long, value_name = "INDEX", value_delimiter = ',', value_parser = index, conflicts_with = "from")]
    pub task: Vec<u32>,
    /// Begin with this task [default: 0]
    #[arg(long, value_name = "INDEX", value_parser = index)]
    pub from: Option<u32>,
    /// Stop if a task is not healthy again after this time, such as 30s or 5m
    #[arg(long, value_parser = duration, value_name = "TIME", default_value = "5m")]
    pub timeout: Duration,
}

/// What a purge leaves.
const PURGE_NOTES: &str = "All earlier jobs of the name are forgotten too. Their output is no longer shown. Agents \
    remove it from their disks within a day.";

/// `job purge`.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "borough job purge <JOB|--all-ended>")]
pub struct PurgeArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB", required_unless_present = "all_ended")]
    pub target: Option<JobTarget>,
    /// Purge every job of yours that has ended
    #[arg(long, conflicts_with = "target")]
    pub all_ended: bool,
}

/// Arguments of the process that evaluates a job file.
#[derive(Clone, Debug, Args)]
pub struct EvaluateArguments {
    /// Variable for std.extVar
    #[arg(long, value_parser = pair)]
    pub ext_str: Vec<(String, String)>,
    /// Argument of the function the file is
    #[arg(long, value_parser = pair)]
    pub tla_str: Vec<(String, String)>,
    /// The file
    pub file: PathBuf,
}

/// A duration as in job files.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    borough_model::job::file::duration_ms(text).map(Duration::from_millis)
}

/// The index of a task.
pub(super) fn index(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "accepted: the index of a task, from 0".to_owned())
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("accepted: KEY=VALUE".to_owned()),
    }
}
