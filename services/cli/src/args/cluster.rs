//! Verbs on nodes, cells, names and events.

use clap::{Args, Subcommand};

use super::JobTarget;

/// Verbs on nodes.
#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// Every node
    List,
    /// Make the token of a node (or of every node of the cell), and enter it among those that gateways accept
    Token(NodeTokenArguments),
    /// One node with its tasks
    Status {
        /// The node's name
        node: String,
    },
    /// No new tasks: nothing is placed there after the answer
    Cordon {
        /// The node's name
        node: String,
    },
    /// Take new tasks again; ends a drain
    Uncordon {
        /// The node's name
        node: String,
    },
    /// Keep tasks away that do not tolerate it
    Taint {
        /// The node's name
        node: String,
        /// KEY[=VALUE]:EFFECT, the effect being no_schedule, prefer_no_schedule or no_execute
        #[arg(required = true, value_parser = super::taint::taint, value_name = "TAINT")]
        taints: Vec<borough_proto::v1::Taint>,
    },
    /// Take taints away
    Untaint {
        /// The node's name
        node: String,
        /// KEY[=VALUE][:EFFECT]
        #[arg(required = true, value_parser = super::taint::taint_match, value_name = "TAINT")]
        taints: Vec<borough_proto::v1::TaintMatch>,
    },
    /// Give a lost node to another agent, whose refusal names this command. Only if the machine of the recorded agent is
    /// gone for good: its tasks are replaced elsewhere, and would run twice if it still ran them
    Admit {
        /// The node's name
        node: String,
        /// The agent, as its refusal names it: DURABLE@MACHINE
        #[arg(long, value_name = "ID", value_parser = identity)]
        identity: String,
    },
    /// Cordon, and move the tasks elsewhere; waits until all of them run there
    ///
    /// A task that has no room elsewhere stays and runs on; the wait shows why.
    Drain(DrainArguments),
}

/// Arguments of `node drain`.
#[derive(Clone, Debug, clap::Args)]
pub struct DrainArguments {
    /// The node's name
    pub node: String,
    /// Do not wait
    #[arg(short, long)]
    pub detach: bool,
    /// How long to wait, such as 30s or 5m; the drain goes on, and the exit code is 7
    #[arg(long, value_parser = super::job::duration, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<std::time::Duration>,
    /// Stop all tasks that are left, also those with no room elsewhere: now, or after so long a wait
    #[arg(long, value_parser = super::job::duration, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "0s")]
    pub force: Option<std::time::Duration>,
}

/// `node token`; the cell is that of every verb.
#[derive(Clone, Debug, Args)]
pub struct NodeTokenArguments {
    /// The node's name [default: any node of the cell]
    pub node: Option<borough_model::Name>,
    /// Write the token to this new file, for --token-file of the node's agent
    #[arg(long, value_name = "FILE")]
    pub to: std::path::PathBuf,
    /// Add the token to this file, for --node-tokens of the gateways
    #[arg(long, value_name = "FILE")]
    pub accepted: std::path::PathBuf,
}

/// The identity of an agent, as refusals name it.
fn identity(text: &str) -> Result<String, String> {
    let identity: Result<borough_model::node::AgentIdentity, _> = text.parse();
    identity.map(|identity| identity.to_string()).map_err(|error| error.to_string())
}

/// Verbs on cells.
#[derive(Debug, Subcommand)]
pub enum CellVerb {
    /// Every cell
    List,
    /// One cell
    Status {
        /// The cell's name; default: the one in use
        name: Option<String>,
    },
    /// Change settings of a cell; what is not named stays
    Set {
        /// The cell's name; default: the one in use
        name: Option<String>,
        /// What is changed.
        #[command(flatten)]
        settings: CellSet,
    },
}

/// Settings of a cell.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub struct CellSet {
    /// By which scoring profile nodes are scored where a job names none, such as best-fit or kubernetes:spread=0.5
    #[arg(long)]
    pub profile: Option<String>,
    /// Node attributes and labels that name failure domains, from the widest to the narrowest, with commas between; "" for
    /// none
    #[arg(long, value_name = "KEYS")]
    pub failure_domains: Option<String>,
    /// How the tasks of one priority take turns: round-robin, fifo, drf, fair-share[:USER=WEIGHT,...], hierarchical
    #[arg(long)]
    pub queueing: Option<String>,
    /// All queues of the cell, in place of those before: PATH[:weight=N,guaranteed=PERCENT%,limit=PERCENT%], repeated
    #[arg(long = "queue", value_parser = super::queue::queue, value_name = "QUEUE", conflicts_with = "no_queues")]
    pub queues: Vec<borough_proto::v1::Queue>,
    /// No queues
    #[arg(long)]
    pub no_queues: bool,
    /// All rules by which the scheduler of a new job is chosen that names none, in place of those before: WORK=SCHEDULER,
    /// repeated; WORK is gang, band:monitoring, band:production, band:batch, band:best_effort, service or batch, and the
    /// first that is for a job decides
    #[arg(long = "scheduler", value_parser = super::queue::scheduler_rule, value_name = "RULE", conflicts_with = "no_schedulers")]
    pub schedulers: Vec<(String, String)>,
    /// No such rules: jobs that name no scheduler are of default
    #[arg(long)]
    pub no_schedulers: bool,
    /// For how long after its start a task is left alone by preemption, such as 5m; 0s: not at all
    #[arg(long, value_parser = super::job::duration, value_name = "TIME")]
    pub fresh_start: Option<std::time::Duration>,
    /// Queues take back what they are guaranteed from those that have more, by evictions (with --queueing hierarchical)
    #[arg(long, conflicts_with = "no_reclaim")]
    pub reclaim: bool,
    /// They wait for it
    #[arg(long)]
    pub no_reclaim: bool,
    /// Nodes declared lost per minute at most
    #[arg(long, value_name = "NODES")]
    pub lost_per_minute: Option<u32>,
    /// How long jobs are kept after their end, such as 12h
    #[arg(long, value_parser = super::job::duration, value_name = "TIME")]
    pub job_retention: Option<std::time::Duration>,
    /// How long entries of the journal are kept at least
    #[arg(long, value_parser = super::job::duration, value_name = "TIME")]
    pub journal_retention: Option<std::time::Duration>,
    /// Bytes of the journal that are kept at most, however young they are, such as 1GiB
    #[arg(long, value_parser = bytes, value_name = "BYTES")]
    pub journal_bytes: Option<u64>,
}

fn bytes(text: &str) -> Result<u64, String> {
    borough_model::resource::bytes_parse(text).map_err(|error| error.to_string())
}

/// Verbs on names.
#[derive(Debug, Subcommand)]
pub enum NameVerb {
    /// The endpoints of a job, or of all of your jobs
    List {
        /// [USER/]JOB
        target: Option<JobTarget>,
        /// Of every user
        #[arg(short, long, conflicts_with = "target")]
        all: bool,
    },
    /// The endpoints of a job, or of all of your jobs, and every change
    Watch {
        /// [USER/]JOB
        target: Option<JobTarget>,
    },
}

/// Verbs on events.
#[derive(Debug, Subcommand)]
pub enum EventVerb {
    /// The newest events
    List {
        /// Which.
        #[command(flatten)]
        filter: EventFilter,
        /// How many at most
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Every change from now on
    Watch {
        /// Which.
        #[command(flatten)]
        filter: EventFilter,
    },
}

/// Which events.
#[derive(Clone, Debug, Default, Args)]
pub struct EventFilter {
    /// Of this job: [USER/]JOB
    #[arg(long, value_name = "JOB")]
    pub job: Option<JobTarget>,
    /// Of this node
    #[arg(long, value_name = "NODE", conflicts_with = "job")]
    pub node: Option<String>,
}
