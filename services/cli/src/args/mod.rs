//! The command line: the arguments of every verb and role, as values.

mod agent;
mod audit;
mod auth;
mod ca;
mod cluster;
mod connections;
mod context;
mod dev;
mod explain;
mod federated;
mod file;
mod foreign_noun;
mod foreign_option;
mod foreign_verb;
mod job;
mod join;
mod label;
mod list;
mod log;
mod member;
mod merged;
mod named;
mod names;
mod number;
mod queue;
mod quota;
mod role;
mod rollout;
mod store;
mod store_location;
mod taint;
mod target;
mod task;
mod task_user;
mod top;
mod typed;
mod usage;

pub use agent::AgentArguments;
pub use audit::{AuditFilterArguments, AuditOutcomeWord, AuditVerb};
pub use auth::{
    AuthVerb, CanIArguments, GrantArguments, GrantEntries, IssuerArguments, KeysVerb, LoginArguments,
    RevokeArguments, UserTokenArguments,
};
pub use ca::{CaIssueArguments, CaVerb};
pub use cluster::{
    CellSet, CellVerb, DrainArguments, EventFilter, EventVerb, NameVerb, NodeChoice, NodeTokenArguments,
    NodeVerb, OversellFactor,
};
pub(crate) use cluster::{EVENTS_MAX, events_limit};
pub use connections::ConnectionArguments;
pub use context::{ContextAddArguments, ContextVerb, OptionSource, OptionSources};
pub use dev::DevArguments;
pub use explain::ExplainArguments;
pub use federated::{
    FederatedList, FederatedPlan, FederatedRebalance, FederatedRun, FederatedScale, FederatedStatusArguments,
    FederatedStop, FederatedTarget, FederatedUndo, FederatedVerb, FederatedWait, FederationVerb,
};
pub use file::FileArguments;
pub(crate) use foreign_noun::is_kind;
pub(crate) use job::RESTART_TIMEOUT;
pub use job::{
    EditArguments, EvaluateArguments, JobChoice, JobLogArguments, JobVerb, PurgeArguments, RestartArguments,
    RestartFrom, RunArguments, ScaleArguments, ScaleChoice, ScaleWord, StopArguments, WaitArguments,
};
pub use join::{JoinTokenIssue, JoinTokenVerb};
pub(crate) use label::label_change;
pub use label::{LabelArgument, NameOrChange};
pub use list::{
    JobLabels, LabelConditions, ListArguments, NodeStateOrCondition, ShownJobLabels, TaskOrJobState,
    TaskStateOrCondition, WatchArguments,
};
pub(crate) use list::{
    condition_value, conditions_of, job_state_names, node_state_names, task_state_names, task_states_apart,
};
pub use log::{AttemptChoice, LogShowArguments};
pub(crate) use member::FEDERATION_HOME;
use member::FEDERATION_NOTES;
pub use member::{
    FederationArguments, FederationHome, FederationProcess, GivenProcess, MemberAddress, MemberDrain,
    MemberJoin, MemberLabelArguments, MemberList, MemberTarget, MemberTargets,
};
pub(crate) use merged::shares_changed;
pub use merged::{JobSharePart, ServiceSet, ServiceTarget};
pub(crate) use named::NamedTarget;
pub use names::{NamesArguments, ZoneArguments};
pub(crate) use quota::band_names;
pub use quota::{LimitAmount, LimitBorrow, LimitParent, LimitTime, QuotaSet, QuotaTarget, QuotaVerb};
pub(crate) use role::LEASE_MS;
pub use role::{ControllerArguments, GatewayArguments, SchedulerArguments, StoreArguments};
pub use rollout::{RolloutChoice, RolloutVerb, UndoArguments};
pub use store::{
    StoreAcceptLossArguments, StoreArgument, StoreBenchArguments, StoreCheckArguments, StoreExportArguments,
    StoreImportArguments, StoreVerb,
};
pub(crate) use store_location::EMBEDDED;
pub use store_location::StoreLocation;
pub(crate) use taint::taint_match;
pub use target::{JobTarget, TaskTarget, WhyArguments, WhyTarget};
pub(crate) use task::signal_names;
pub use task::{ExecArguments, LogArguments, TaskStopArguments, TaskVerb};
pub use task_user::{TaskUserArguments, TaskUserChoice};
pub use top::TopArguments;
pub(crate) use typed::TypedOptions;
pub(crate) use usage::{usage_failure, value_shown, word_shown};

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use borough_proto::tls::TlsFiles;
use clap::{Arg, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::exit::FailureNumbers;

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed: a job failed, or a wait ran out
    2  wrong usage, or an invalid job file or export
    3  no such job, task, attempt, node, cell, context or store
    4  refused: a condition is not met, another request was first, a limit is reached, or a file or context is there already
    5  no gateway could be reached, or none answered in time
    6  not allowed: no token, a wrong one, or one without this right
    7  not done yet: the wait of `node drain` or `cell drain` ran out, and the drain goes on
   74  a role: its store has stopped; start the role again
  130  interrupted
`job plan`, `store check` and `task exec` have codes of their own: see their --help.";

/// A global option that the control roles cannot do without.
const TOKEN_FILE_NEEDED: &str = "Also give --token-file with the operator's token";

/// Stands below every screen but the first.
const GLOBAL_OPTIONS_ELSEWHERE: &str = "Global options: see `borough --help`";

/// Run jobs on the nodes of a cell.
#[derive(Debug, Parser)]
#[command(name = "borough", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true, infer_subcommands = false)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

impl Arguments {
    /// Reads a command line, the first word of which is the program's name.
    ///
    /// # Errors
    /// The command line is wrong, or it asks for help or for the version.
    pub fn read(line: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
        let mut command = alias_usage(Self::screens(), &line);
        let matches = command.try_get_matches_from_mut(help_once(&command, &line))?;
        let mut arguments = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        arguments.global.sources = OptionSources::of(&matches);
        Ok(arguments)
    }

    /// The definition with the global options in the first help screen only. Every verb accepts them all the same.
    pub(crate) fn screens() -> Command {
        let mut command = empty_variables_ignored(Self::command(), &|name| std::env::var_os(name));
        // clap hands global options down when it builds: only then can they be hidden below.
        command.build();
        command.mut_subcommands(global_options_hide)
    }
}

/// The definition without the variables that are set to nothing: scripts set `BOROUGH_CELL=` to unset it. Only for a
/// context is the empty text a value, "none".
fn empty_variables_ignored(root: Command, variable: &dyn Fn(&OsStr) -> Option<OsString>) -> Command {
    let is_empty = |argument: &Arg| {
        let value = argument.get_env().and_then(variable);
        argument.get_id() != "context" && value.is_some_and(|value| value.is_empty())
    };
    // No variable has this name.
    let read = |argument: Arg| if is_empty(&argument) { argument.env("=").hide_env(true) } else { argument };
    root.mut_args(read).mut_subcommands(|verb| empty_variables_ignored(verb, variable))
}

/// The definition with the usage of the verb as it was typed: `job list` is another name of `job status`.
fn alias_usage(root: Command, line: &[OsString]) -> Command {
    let mut words = line.iter().skip(1).filter_map(|word| word.to_str());
    let Some(noun) = words.find_map(|word| root.find_subcommand(word)) else { return root };
    let is_verb = |word: &&str| noun.find_subcommand(word).is_some();
    let Some((word, verb)) = words.find(is_verb).and_then(|word| Some((word, noun.find_subcommand(word)?)))
    else {
        return root;
    };
    let (noun, own) = (noun.get_name().to_owned(), verb.get_name().to_owned());
    if own == word {
        return root;
    }
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replacen(&format!(" {own}"), &format!(" {word}"), 1);
    root.mut_subcommand(noun, |noun| noun.mut_subcommand(own, |verb| verb.override_usage(usage)))
}

/// `job help --help` asks for help on jobs, as `job help` does: `help` itself has none.
fn help_once<'l>(root: &Command, line: &'l [OsString]) -> &'l [OsString] {
    let Some(([_, before @ .., word], [last])) = line.split_last().map(|(last, line)| (line, [last])) else {
        return line;
    };
    let noun = before.iter().try_fold(root, |command, word| command.find_subcommand(word));
    let is_help = word == "help" && ["--help", "-h"].iter().any(|option| last == option);
    let is_verb = noun.is_some_and(|noun| noun.find_subcommand(word).is_some());
    if is_help && is_verb { line.get(..line.len() - 1).unwrap_or(line) } else { line }
}

fn global_options_hide(command: Command) -> Command {
    let own = command.get_after_help().map(|own| format!("{own}\n\n")).unwrap_or_default();
    let hide = |argument: Arg| {
        let hidden = argument.is_hide_set() || argument.is_global_set();
        // Else `-1` is an unknown option, and the refusal does not name the argument.
        let is_number = argument.get_action().takes_values();
        argument.hide(hidden).allow_negative_numbers(is_number)
    };
    let command = command.after_help(format!("{own}{GLOBAL_OPTIONS_ELSEWHERE}"));
    command.mut_args(hide).mut_subcommands(global_options_hide)
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Connect as this context says; "" for none [default: that of `borough context use`]
    #[arg(long, global = true, env = "BOROUGH_CONTEXT", hide_env_values = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Ask these gateways, HOST:PORT with commas between [default: those of the dev cell]
    #[arg(long, global = true, env = "BOROUGH_GATEWAY", hide_env_values = true)]
    #[arg(value_name = "ADDR", value_delimiter = ',')]
    pub gateway: Vec<String>,
    /// Read the token from this file [default: that of the dev cell]
    #[arg(long, global = true, env = "BOROUGH_TOKEN_FILE", hide_env_values = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: TlsArguments,
    /// Use the dev cell in this directory [default: borough/dev in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, global = true, env = "BOROUGH_DIR", hide_env_values = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Use this cell [default: the default cell of the dev directory]
    #[arg(long, global = true, env = "BOROUGH_CELL", hide_env_values = true, value_name = "NAME")]
    pub cell: Option<String>,
    /// Act for this user [default: the login name]
    #[arg(long, global = true, env = "BOROUGH_USER", hide_env_values = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Write answers as table, wide, json or yaml
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    #[arg(hide_possible_values = true)]
    pub output: OutputFormat,
    /// Write without colours, as with NO_COLOR in the environment
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Write answers only, without progress and remarks
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Make destructive changes without asking
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// Confirm a change of many objects with the code that an earlier run has printed
    #[arg(long, global = true, value_name = "CODE")]
    pub confirm: Option<String>,
    /// Ask the cell what a change would do, and change nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Where the values of these options come from.
    #[arg(skip)]
    pub sources: OptionSources,
}

/// Certificates, of every verb and role.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArguments {
    /// Encrypt, and trust the certificates that this authority has signed [default: no encryption]
    #[arg(long, global = true, env = "BOROUGH_TLS_CA", hide_env_values = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Show this certificate to the other side [default: none]
    #[arg(
        long,
        global = true,
        env = "BOROUGH_TLS_CERT",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_ca"
    )]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, which only you may read
    #[arg(
        long,
        global = true,
        env = "BOROUGH_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_ca"
    )]
    pub tls_key: Option<PathBuf>,
}

impl TlsArguments {
    /// The files of the side that connects; `None` without encryption.
    pub fn files(&self) -> Option<TlsFiles> {
        let authorities = self.tls_ca.clone()?;
        let (certificate, key) = (self.tls_cert.clone(), self.tls_key.clone());
        Some(TlsFiles { authorities, certificate, key, revoked: None })
    }
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
    /// Check, plan, run, show, scale, stop and purge jobs
    #[command(subcommand)]
    Job(JobVerb),
    /// Show, pause, resume, promote and take back the rollout of a changed job
    #[command(subcommand)]
    Rollout(RolloutVerb),
    /// Show tasks and their output, run commands in them, signal, restart and stop them
    #[command(subcommand)]
    Task(TaskVerb),
    /// Explain why tasks are not placed, or fail: which filters refused nodes, what would fit, how attempts ended
    #[command(override_usage = "borough why [OPTIONS] <JOB[/INDEX]...|--label>")]
    Why(WhyArguments),
    /// Explain the fields of a job file: their types, units, bounds, defaults and meaning
    Explain(ExplainArguments),
    /// Show nodes, label them, take them out of service, remove them, and make their tokens
    #[command(subcommand)]
    Node(NodeVerb),
    /// Show cells, and change their settings
    #[command(subcommand)]
    Cell(CellVerb),
    /// Show and set how much users may have admitted
    #[command(subcommand)]
    Quota(QuotaVerb),
    /// Show and give rights: who may do what in a cell
    #[command(subcommand)]
    Auth(AuthVerb),
    /// Show who has changed what and who was refused, and check that nobody has changed that record
    #[command(subcommand)]
    Audit(AuditVerb),
    /// Keep ways to cells under names, and choose one
    #[command(subcommand)]
    Context(ContextVerb),
    /// Look up and watch the endpoints of tasks
    #[command(subcommand)]
    Name(NameVerb),
    /// List and watch what happens in a cell
    #[command(subcommand)]
    Event(EventVerb),
    /// Show cells, nodes, jobs and tasks on the whole terminal: what is allocated and what is in use
    Top(TopArguments),
    /// Check, export, import and measure stores, without a gateway
    #[command(subcommand)]
    Store(StoreVerb),
    /// Write the completion script of a shell to standard output. It asks the cell for names
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Run a whole system on this machine: the control roles in one process, and node agents
    Dev(DevArguments),
    /// Run the agent of a node
    #[command(
        after_help = "Also give --gateway, --token-file with the node's token, and --cell: an agent has no \
        defaults for them"
    )]
    Agent(AgentArguments),
    /// Run a gateway, which answers operators, load balancers and agents
    #[command(after_help = TOKEN_FILE_NEEDED)]
    Gateway(GatewayArguments),
    /// Run scheduler workers
    #[command(after_help = TOKEN_FILE_NEEDED)]
    Scheduler(SchedulerArguments),
    /// Run a controller; one leads a cell, the others wait
    #[command(after_help = TOKEN_FILE_NEEDED)]
    Controller(ControllerArguments),
    /// Run jobs over several cells, or run the federation process that divides them
    #[command(after_help = FEDERATION_NOTES)]
    Federation(FederationArguments),
    /// Run a name service, which shows the endpoints of jobs to load balancers: DNS, HTTP and xDS
    Names(NamesArguments),
    /// Evaluate a job file in a bounded process. The program calls itself with this
    #[command(name = "__evaluate-jsonnet", hide = true)]
    EvaluateJsonnet(EvaluateArguments),
}

impl Verb {
    /// Returns true if all that the verb changes is in a cell, and a gateway makes the change.
    pub fn takes_dry_run(&self) -> bool {
        match self {
            Self::Job(verb) => matches!(
                verb,
                JobVerb::Run(_)
                    | JobVerb::Edit(_)
                    | JobVerb::Scale(_)
                    | JobVerb::Stop(_)
                    | JobVerb::Restart(_)
                    | JobVerb::Purge(_)
                    | JobVerb::Label { .. }
            ),
            Self::Rollout(verb) => !matches!(verb, RolloutVerb::Status { .. } | RolloutVerb::History { .. }),
            Self::Task(verb) => {
                matches!(verb, TaskVerb::Signal { .. } | TaskVerb::Restart { .. } | TaskVerb::Stop(_))
            }
            Self::Node(NodeVerb::JoinToken(verb)) => !matches!(verb, JoinTokenVerb::List { .. }),
            Self::Node(verb) => {
                !matches!(verb, NodeVerb::List { .. } | NodeVerb::Status { .. } | NodeVerb::Token(_))
            }
            Self::Cell(verb) => {
                !matches!(verb, CellVerb::List { .. } | CellVerb::Status { .. } | CellVerb::Members(_))
            }
            Self::Quota(verb) => matches!(verb, QuotaVerb::Set(_) | QuotaVerb::Remove(_)),
            Self::Auth(verb) => matches!(
                verb,
                AuthVerb::Grant(_) | AuthVerb::Revoke(_) | AuthVerb::Keys(KeysVerb::Rotate { .. })
            ),
            Self::Name(verb) => matches!(verb, NameVerb::Set(_) | NameVerb::Remove { .. }),
            Self::Federation(FederationArguments { verb: Some(FederationVerb::Job(verb)), .. }) => !matches!(
                verb,
                FederatedVerb::Validate(_)
                    | FederatedVerb::Plan(_)
                    | FederatedVerb::List(_)
                    | FederatedVerb::Status(_)
                    | FederatedVerb::History(_)
            ),
            _ => false,
        }
    }

    /// With which numbers the verb fails.
    pub fn failure_numbers(&self) -> FailureNumbers {
        match self {
            Self::Job(JobVerb::Plan(_)) => FailureNumbers::Plan,
            Self::Federation(FederationArguments {
                verb: Some(FederationVerb::Job(FederatedVerb::Plan(_))),
                ..
            }) => FailureNumbers::Plan,
            Self::Task(TaskVerb::Exec(_)) | Self::Store(StoreVerb::Check(_)) => FailureNumbers::One,
            _ => FailureNumbers::Table,
        }
    }
}

#[cfg(test)]
mod tests;
