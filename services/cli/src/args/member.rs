//! Arguments of the verbs on member cells, and of `borough federation`.

use std::net::SocketAddr;
use std::path::PathBuf;

use borough_model::Name;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::federated::{FederatedWait, FederationVerb};
use super::label::{LabelArgument, label};
use super::list::{LabelConditions, WatchArguments, label_conditions};
use super::role::StoreArguments;

/// How a federation reaches a cell, with examples.
pub(super) const JOIN_NOTES: &str = "The federation looks at the cell every 5 s with the token CELL.token of the \
    directory that `borough federation --credentials` names. The cell itself stores nothing and does not notice.\n\n\
    Examples:\n  \
    borough cell join eu1 --at gw1.eu1.example.com:7400,gw2.eu1.example.com:7400 --label region=eu\n  \
    borough cell members";

/// What leaves, and what stays.
pub(super) const LEAVE_NOTES: &str =
    "The jobs of the cell go on. The federation forgets where the cell is, and what it saw.";

/// How a cell is emptied.
pub(super) const DRAIN_CELL_NOTES: &str = "The federated tasks of the cell go to other cells, as far as those have room. \
    They are healthy there before they end here. Jobs that the cell has of its own stay. The command waits until the cell \
    has none left, or shows what keeps them. borough cell uncordon ends a drain.";

/// The two uses of `borough federation`.
pub(super) const FEDERATION_NOTES: &str = "Without a verb it runs a federation process, which looks at the member cells and \
    divides jobs among them; one leads, the others wait. Then also give --token-file with the operator's token, and --cells \
    with the home.";

/// The home that is meant unless another one is named.
pub(crate) const FEDERATION_HOME: &str = "federation";

/// Which federation is meant.
#[derive(Clone, Debug, Args)]
pub struct FederationHome {
    /// Ask the federation that has its home in this cell of the gateway [default: that of the dev cell, or federation]
    #[arg(long, env = "BOROUGH_FEDERATION", hide_env_values = true, value_name = "HOME")]
    pub federation: Option<Name>,
}

/// One member cell.
#[derive(Clone, Debug, Args)]
pub struct MemberTarget {
    /// The name of the cell
    #[arg(value_name = "CELL")]
    pub member: Name,
    #[command(flatten)]
    pub home: FederationHome,
}

/// Member cells by their names.
#[derive(Clone, Debug, Args)]
pub struct MemberTargets {
    /// The names of the cells
    #[arg(value_name = "CELL", required = true)]
    pub members: Vec<Name>,
    #[command(flatten)]
    pub home: FederationHome,
}

/// `cell join`.
#[derive(Clone, Debug, Args)]
pub struct MemberJoin {
    #[command(flatten)]
    pub target: MemberTarget,
    /// Reach it at these gateways, with commas between, tried in this order
    #[arg(long, required = true, value_delimiter = ',', value_name = "HOST:PORT")]
    pub at: Vec<String>,
    /// Say where the cell is and what it is, such as region=eu; repeat for more
    #[arg(short, long, value_parser = label, value_name = "KEY=VALUE")]
    pub label: Vec<LabelArgument>,
}

/// `cell rename-endpoint`.
#[derive(Clone, Debug, Args)]
pub struct MemberAddress {
    #[command(flatten)]
    pub target: MemberTarget,
    /// Reach it at these gateways from now on, with commas between, instead of all from before
    #[arg(long, required = true, value_delimiter = ',', value_name = "HOST:PORT")]
    pub at: Vec<String>,
}

/// `cell label`.
#[derive(Clone, Debug, Args)]
pub struct MemberLabelArguments {
    #[command(flatten)]
    pub target: MemberTarget,
    /// KEY=VALUE sets a label, KEY- removes it
    #[arg(required = true, value_parser = label, value_name = "LABEL")]
    pub changes: Vec<LabelArgument>,
}

/// `cell members`.
#[derive(Clone, Debug, Args)]
pub struct MemberList {
    /// Show this cell alone
    #[arg(value_name = "CELL", conflicts_with = "label")]
    pub member: Option<Name>,
    #[command(flatten)]
    pub home: FederationHome,
    /// List only cells with labels like this
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
    #[command(flatten)]
    pub watching: WatchArguments,
}

/// `cell drain`.
#[derive(Clone, Debug, Args)]
pub struct MemberDrain {
    #[command(flatten)]
    pub target: MemberTarget,
    #[command(flatten)]
    pub wait: FederatedWait,
}

/// Arguments of `borough federation`: a verb, or those of a process.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct FederationArguments {
    #[command(subcommand)]
    pub verb: Option<FederationVerb>,
    #[command(flatten)]
    pub process: GivenProcess,
}

/// The arguments of a federation process, unless a verb stands in their place. Arguments that consist of others cannot
/// be optional by the derivation of the parser: it then never sees them.
#[derive(Clone, Debug)]
pub struct GivenProcess(pub Option<FederationProcess>);

impl FromArgMatches for GivenProcess {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // Required of a process, and of nothing else.
        let is_given = matches.contains_id("credentials");
        is_given.then(|| FederationProcess::from_arg_matches(matches)).transpose().map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for GivenProcess {
    fn augment_args(command: Command) -> Command {
        FederationProcess::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        FederationProcess::augment_args_for_update(command)
    }
}

/// Arguments of a federation process.
#[derive(Clone, Debug, Args)]
pub struct FederationProcess {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Read the token for each member cell from CELL.token in this directory, or else from default.token
    #[arg(long, value_name = "DIR")]
    pub credentials: PathBuf,
    /// Answer HTTP here: health and metrics
    #[arg(long, default_value = "127.0.0.1:7406", value_name = "ADDR")]
    pub http_listen: SocketAddr,
}
