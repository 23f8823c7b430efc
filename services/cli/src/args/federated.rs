//! Arguments of the verbs on federated jobs.

use clap::{Args, Subcommand};

use super::file::FileArguments;
use super::list::{ListArguments, WatchArguments};
use super::member::FederationHome;
use super::number::timeout;
use super::{JobTarget, number};

/// What makes a job a federated one.
const RUN_NOTES: &str = "The job file has a `federation` part, such as {split: free} or {cells: [a, b]}: borough explain \
    federation. The command waits until every task has a cell and is healthy there, and for batch work until it has ended. \
    A changed task reaches one cell after the other; each rolls it out as its own job. The file of a version that has \
    failed or was taken back brings it again.\n\n\
    Exit codes: 0: done; 1: it failed, or the wait ran out.\n\n\
    Examples:\n  \
    borough federation job run web.yaml\n  \
    borough federation job status web";

/// How a script reads it.
const PLAN_NOTES: &str = "The federation asks each cell how many tasks its own scheduler would place now, and promises \
    nothing.\n\n\
    Exit codes: 0: no change; 1: something would change; 2: the job file would be refused.";

/// What becomes of tasks.
const FORGET_NOTES: &str = "The federation forgets the job, and tells no cell. Its tasks go on as jobs of their cells, and \
    borough job stop ends them there.";

/// When a person decides.
const APPROVE_NOTES: &str = "A stage with `approve: true` in federation.rollout.stages waits for this once it has proved \
    itself. So does one in which no cell could show that the version works.";

/// When an undo is over.
const UNDO_NOTES: &str = "The cells that have the newest version go back to the last one that all stages have proved, and \
    the command waits until they have. Cells that do not have it keep what they run.";

/// What moves.
const REBALANCE_NOTES: &str = "Without a rebalance, tasks stay where they are as long as they may. The command shows what would \
    move, and asks. A task begins in its new cell before it ends in its old one.\n\n\
    Exit codes with --dry-run: 0: nothing would move; 1: something would.";

/// Why a flag is needed.
const STOP_NOTES: &str = "A job that has tasks in several cells needs --all-cells. A cell that is silent stops its tasks \
    when it is back.";

/// The verbs below `borough federation`.
#[derive(Debug, Subcommand)]
pub enum FederationVerb {
    /// Run and watch jobs whose tasks a federation divides among its cells
    #[command(subcommand)]
    Job(FederatedVerb),
}

/// Verbs on federated jobs.
#[derive(Debug, Subcommand)]
pub enum FederatedVerb {
    /// Check a job file, and ask no gateway
    Validate(FileArguments),
    /// Run the job of a file in the cells of a federation, or change it
    #[command(after_help = RUN_NOTES)]
    Run(FederatedRun),
    /// Show what `run` would do: which cells would have how many tasks, and why
    #[command(after_help = PLAN_NOTES)]
    Plan(FederatedPlan),
    /// List the federated jobs
    List(FederatedList),
    /// Show a federated job: what each cell has of it, and why
    #[command(visible_alias = "why")]
    Status(FederatedStatusArguments),
    /// Change how many tasks a federated job has in all cells together
    Scale(FederatedScale),
    /// Divide the tasks of a federated job among the cells again, although nothing has changed
    #[command(after_help = REBALANCE_NOTES)]
    Rebalance(FederatedRebalance),
    /// Stop a federated job in its cells
    #[command(after_help = STOP_NOTES)]
    Stop(FederatedStop),
    /// Let no further cell get the newest version
    Pause(FederatedTarget),
    /// Go on with a paused version
    Resume(FederatedTarget),
    /// Let the stage after the present one get the newest version
    #[command(after_help = APPROVE_NOTES)]
    Approve(FederatedTarget),
    /// Take the newest version back in the cells that have it
    #[command(after_help = UNDO_NOTES)]
    Undo(FederatedUndo),
    /// Forget a federated job; its tasks go on in their cells
    #[command(after_help = FORGET_NOTES)]
    Forget(FederatedTarget),
    /// List the versions of a federated job
    History(FederatedTarget),
}

/// One federated job.
#[derive(Clone, Debug, Args)]
pub struct FederatedTarget {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub job: JobTarget,
    #[command(flatten)]
    pub home: FederationHome,
}

/// Whether a verb waits.
#[derive(Clone, Copy, Debug, Args)]
pub struct FederatedWait {
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Wait at most so long
    #[arg(long, value_parser = timeout, default_value = "10m", value_name = "TIME", conflicts_with = "detach")]
    pub timeout: std::time::Duration,
}

/// `federation job run`.
#[derive(Clone, Debug, Args)]
pub struct FederatedRun {
    #[command(flatten)]
    pub file: FileArguments,
    #[command(flatten)]
    pub home: FederationHome,
    #[command(flatten)]
    pub wait: FederatedWait,
    /// Change the job only if it is at this revision, as `status` shows it
    #[arg(long, value_name = "REVISION", value_parser = number::whole(1..=u32::MAX))]
    pub check_revision: Option<u32>,
}

/// `federation job plan`.
#[derive(Clone, Debug, Args)]
pub struct FederatedPlan {
    #[command(flatten)]
    pub file: FileArguments,
    #[command(flatten)]
    pub home: FederationHome,
}

/// `federation job list`.
#[derive(Clone, Debug, Args)]
pub struct FederatedList {
    /// List the jobs of every user
    #[arg(short, long, visible_alias = "all")]
    pub all_users: bool,
    /// Also list those that are stopped
    #[arg(long, visible_alias = "ended")]
    pub stopped: bool,
    #[command(flatten)]
    pub home: FederationHome,
    #[command(flatten)]
    pub list: ListArguments,
}

/// `federation job status`.
#[derive(Clone, Debug, Args)]
pub struct FederatedStatusArguments {
    #[command(flatten)]
    pub target: FederatedTarget,
    #[command(flatten)]
    pub watching: WatchArguments,
}

/// `federation job scale`.
#[derive(Clone, Debug, Args)]
pub struct FederatedScale {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub job: JobTarget,
    /// Tasks in all cells together
    #[arg(value_parser = number::whole(0..=borough_model::job::COUNT_MAX), value_name = "COUNT")]
    pub count: u32,
    #[command(flatten)]
    pub home: FederationHome,
    #[command(flatten)]
    pub wait: FederatedWait,
}

/// `federation job rebalance`.
#[derive(Clone, Debug, Args)]
pub struct FederatedRebalance {
    #[command(flatten)]
    pub target: FederatedTarget,
    /// Move only tasks that do not run and have no room in their cell
    #[arg(long)]
    pub stuck: bool,
    #[command(flatten)]
    pub wait: FederatedWait,
}

/// `federation job undo`.
#[derive(Clone, Debug, Args)]
pub struct FederatedUndo {
    #[command(flatten)]
    pub target: FederatedTarget,
    #[command(flatten)]
    pub wait: FederatedWait,
}

/// `federation job stop`.
#[derive(Clone, Debug, Args)]
pub struct FederatedStop {
    #[command(flatten)]
    pub target: FederatedTarget,
    /// Stop it in every cell, although it has tasks in several
    #[arg(long)]
    pub all_cells: bool,
    #[command(flatten)]
    pub wait: FederatedWait,
}
