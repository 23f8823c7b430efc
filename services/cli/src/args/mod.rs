//! The command line.

mod cluster;
mod job;
mod queue;
mod store;
mod taint;
mod target;
mod task;

pub use cluster::{
    CellSet, CellVerb, DrainArguments, EventFilter, EventVerb, NameVerb, NodeTokenArguments, NodeVerb,
};
pub use job::{FileArguments, JobVerb, RunArguments, StopArguments};
pub(crate) use job::{duration, pair};
pub use store::{
    StoreAcceptLossArguments, StoreArgument, StoreBenchArguments, StoreCheckArguments, StoreExportArguments,
    StoreImportArguments, StoreVerb,
};
pub use target::{JobTarget, TaskTarget, WhyTarget};
pub(crate) use task::signal_name;
pub use task::{ExecArguments, LogArguments, TaskVerb};

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::VERB_FAILED;
use crate::jobfile::EvaluateArguments;
use crate::role::agent::AgentArguments;
use crate::role::dev::DevArguments;
use crate::role::serve::{ControllerArguments, GatewayArguments, SchedulerArguments};

const EXIT_CODES: &str = "Exit codes: 0 done, 1 what was asked for did not come about, 2 wrong usage or job file, \
    3 no such thing, 4 refused, 5 no gateway answers or none in time, 6 not allowed, 7 not done yet (`node drain`), \
    74 a role without its store, 130 interrupted. \
    `job plan`: 0 no change, 1 change, 255 error. `store check`: 0 all is well, 1 not, 255 error. `task exec`: the command's own, 255 where it could not be run.";

/// A cluster manager: a cell of nodes runs the jobs you describe.
#[derive(Debug, Parser)]
#[command(name = "borough", version, about, after_help = EXIT_CODES, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true, infer_subcommands = false)]
pub struct Arguments {
    /// For every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Gateway as HOST:PORT, several with commas; default: those of the dev cell
    #[arg(long, global = true, env = "BOROUGH_GATEWAY", value_name = "ADDR", value_delimiter = ',')]
    pub gateway: Vec<String>,
    /// File with the token; default: that of the dev cell
    #[arg(long, global = true, env = "BOROUGH_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Directory of the dev cell [default: $XDG_STATE_HOME/borough/dev or ~/.local/state/borough/dev]
    #[arg(long, global = true, env = "BOROUGH_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Cell; default: the default cell of the dev directory
    #[arg(long, global = true, env = "BOROUGH_CELL", value_name = "NAME")]
    pub cell: Option<String>,
    /// On whose behalf; default: the login name
    #[arg(long, global = true, env = "BOROUGH_USER", value_name = "NAME")]
    pub user: Option<String>,
    /// How answers are written
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// Write without colours (also: NO_COLOR)
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Write answers only, no progress and no remarks
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for people
    Table,
    /// A table with more columns
    Wide,
    /// JSON: one object or list; streams write one object per line
    Json,
    /// YAML
    Yaml,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Describe, run, watch over and stop jobs
    #[command(subcommand)]
    Job(JobVerb),
    /// Look at and act on single tasks
    #[command(subcommand)]
    Task(TaskVerb),
    /// Say why tasks are not placed: which filter lost how many nodes, and what would fit
    Why {
        /// [USER/]JOB[/INDEX]
        target: WhyTarget,
    },
    /// Look at nodes and take them out of service
    #[command(subcommand)]
    Node(NodeVerb),
    /// Look at cells
    #[command(subcommand)]
    Cell(CellVerb),
    /// Look up the endpoints of tasks
    #[command(subcommand)]
    Name(NameVerb),
    /// What has happened
    #[command(subcommand)]
    Event(EventVerb),
    /// Check, copy and measure stores themselves, without a gateway
    #[command(subcommand)]
    Store(StoreVerb),
    /// Write the completion script of a shell to standard output
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run a whole system on this machine: control roles in one process, node agents beside it
    Dev(DevArguments),
    /// Run the agent of a node
    Agent(AgentArguments),
    /// Run a gateway: answers operators, load balancers and agents
    Gateway(GatewayArguments),
    /// Run scheduler workers
    Scheduler(SchedulerArguments),
    /// Run a controller: one leads, the others wait to
    Controller(ControllerArguments),
    /// Evaluates a job file in a bounded process: the program calls itself with this
    #[command(name = "__evaluate-jsonnet", hide = true)]
    EvaluateJsonnet(EvaluateArguments),
}

impl Verb {
    /// The code of a failure, where the verb has one of its own.
    pub fn failed_code(&self) -> Option<u8> {
        match self {
            Self::Job(JobVerb::Plan(_))
            | Self::Task(TaskVerb::Exec(_))
            | Self::Store(StoreVerb::Check(_)) => Some(VERB_FAILED),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
