//! Verbs on jobs.

use std::path::PathBuf;
use std::time::Duration;

use borough_proto::v1::LabelMatch;
use clap::{Args, Subcommand};

use super::JobTarget;
use super::list::{ListArguments, TaskOrJobState, label_match, task_or_job_state};

/// Verbs on jobs.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Write a commented job file to start from
    Init {
        /// Write to this file, which must not exist
        #[arg(default_value = "job.yaml")]
        file: PathBuf,
    },
    /// Check a job file without asking a cell
    Validate(FileArguments),
    /// Print the JSON Schema of job files, for editors
    Schema,
    /// Show what `job run` would change, and where tasks would go
    #[command(after_help = "Exit codes: 0 no change, 1 change, 255 error")]
    Plan(FileArguments),
    /// Submit a job file, and wait until the service is up or the batch job is over
    Run(RunArguments),
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
        /// List only jobs with labels like this
        #[arg(short, long, value_parser = label_match, value_delimiter = ',', conflicts_with = "target")]
        #[arg(value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelMatch>,
        /// Show only tasks, or list only jobs, in these states, with commas between [default: all]
        #[arg(long, value_parser = task_or_job_state, value_name = "STATES", value_delimiter = ',')]
        state: Vec<TaskOrJobState>,
        #[command(flatten)]
        list: ListArguments,
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
    /// Show the output of every task of a job, each line under the name of its task
    Logs(JobLogArguments),
    /// List every job of this name with its specs, newest first
    History {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
    },
}

/// `job logs`.
#[derive(Clone, Debug, Args)]
pub struct JobLogArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    /// Stream new output, over restarts, moves and changes of gateways, until the job is over
    #[arg(short, long)]
    pub follow: bool,
    /// Show only this many lines from the end of each task [default: all]
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Show only what was written in the last while, such as 5m [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub since: Option<Duration>,
    /// Show when each line was written, by the clock of its node
    #[arg(long)]
    pub timestamps: bool,
    /// Show standard error only [default: both streams]
    #[arg(long, conflicts_with = "stdout")]
    pub stderr: bool,
    /// Show standard output only [default: both streams]
    #[arg(long)]
    pub stdout: bool,
    /// Begin with the last attempt of each task, with all that the cell knows, or show this one alone
    #[arg(long, value_name = "last|all|NUMBER", default_value = "last", value_parser = attempt)]
    pub attempt: AttemptChoice,
}

/// Which attempts of a task are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptChoice {
    /// The last one, and those that follow.
    Last,
    /// Every one that the cell knows, and those that follow.
    All,
    /// This one alone.
    Number(u64),
}

impl AttemptChoice {
    /// Returns true if `attempt` is shown, as far as the choice alone says.
    pub fn wants(self, attempt: u64) -> bool {
        !matches!(self, Self::Number(number) if number != attempt)
    }

    /// Returns true if no attempt after `done` is shown.
    pub fn is_past(self, done: u64) -> bool {
        matches!(self, Self::Number(number) if done >= number)
    }
}

fn attempt(text: &str) -> Result<AttemptChoice, String> {
    match (text, text.parse()) {
        ("last", _) => Ok(AttemptChoice::Last),
        ("all", _) => Ok(AttemptChoice::All),
        (_, Ok(number)) if number > 0 => Ok(AttemptChoice::Number(number)),
        _ => Err("accepted: last, all, or the number of an attempt from 1".to_owned()),
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
    /// Refuse unless the job still has this revision, as `job plan` showed it [default: any]
    #[arg(long, value_name = "REVISION")]
    pub check_revision: Option<u64>,
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

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("accepted: KEY=VALUE".to_owned()),
    }
}
