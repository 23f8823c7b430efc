//! Verbs on jobs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::JobTarget;

/// Verbs on jobs.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Write a commented job file to start from
    Init {
        /// Where to; it must not exist yet
        #[arg(default_value = "job.yaml")]
        file: PathBuf,
    },
    /// Check a job file without asking a cell
    Validate(FileArguments),
    /// Show what `run` would change and where tasks would go; ends with 0 for no change, 1 for a change, 255 for an error
    Plan(FileArguments),
    /// Submit a job file and wait until the job is up (a service) or over (a batch job)
    Run(RunArguments),
    /// Show one job with its tasks, or every job
    #[command(visible_alias = "list")]
    Status {
        /// [USER/]JOB; all jobs where absent
        target: Option<JobTarget>,
        /// List the jobs of every user
        #[arg(short, long)]
        all: bool,
        /// List also jobs that are over
        #[arg(short, long)]
        ended: bool,
    },
    /// Change the number of tasks
    Scale {
        /// [USER/]JOB
        target: JobTarget,
        /// How many tasks; 0 is legal
        count: u32,
        /// Do not wait until the tasks are up
        #[arg(short, long)]
        detach: bool,
        /// How long to wait, such as 30s or 5m
        #[arg(long, value_parser = duration, value_name = "TIME")]
        timeout: Option<Duration>,
    },
    /// Stop a job: withdraw its endpoints and end its tasks
    Stop(StopArguments),
    /// Every job that had this name, and their specs, newest first
    History {
        /// [USER/]JOB
        target: JobTarget,
    },
}

/// A job file.
#[derive(Clone, Debug, Args)]
pub struct FileArguments {
    /// Job file: .yaml, .yml, .json or .jsonnet; `-` reads YAML from standard input
    pub file: PathBuf,
    /// Variable for std.extVar in a Jsonnet file
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub ext_str: Vec<(String, String)>,
    /// Argument of the function a Jsonnet file is
    #[arg(long, value_parser = pair, value_name = "KEY=VALUE")]
    pub tla_str: Vec<(String, String)>,
}

/// `job run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// What to run.
    #[command(flatten)]
    pub file: FileArguments,
    /// Do not wait for the job
    #[arg(short, long)]
    pub detach: bool,
    /// How long to wait, such as 30s or 5m; the job itself goes on
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
    /// Refuse unless the job's revision is still this, as `job plan` showed it
    #[arg(long, value_name = "REVISION")]
    pub check_revision: Option<u64>,
}

/// `job stop`.
#[derive(Clone, Debug, Args)]
pub struct StopArguments {
    /// [USER/]JOB
    pub target: JobTarget,
    /// Do not wait for the end of the tasks
    #[arg(short, long)]
    pub detach: bool,
    /// How long to wait, such as 30s or 5m
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
}

/// A duration as in job files.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    crate::jobfile::duration_ms(text).map(Duration::from_millis)
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("accepted: KEY=VALUE".to_owned()),
    }
}
