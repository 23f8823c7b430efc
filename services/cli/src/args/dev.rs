//! Arguments of `borough dev`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use borough_model::Name;
use clap::Args;

use super::agent::{card, ports};
use super::connections::ConnectionArguments;
use super::names::ZoneArguments;
use super::number::{delay, whole};
use super::store_location::{EmbeddedArguments, StoreLocation};

/// The ports of tasks: below the range that the kernel uses for outgoing connections.
const TASK_PORTS: &str = "20000-31999";

/// Arguments of `borough dev`.
#[derive(Clone, Debug, Args)]
pub struct DevArguments {
    /// Run this many nodes in each cell
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = whole(0..=30_u32))]
    pub nodes: u32,
    /// Run this many scheduler workers for each cell
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = whole(1..=64_u32))]
    pub schedulers: u32,
    /// Serve these schedulers of each cell, with commas between
    #[arg(long, default_value = "default", value_delimiter = ',', value_name = "NAMES")]
    pub scheduler: Vec<Name>,
    /// Run these cells, with commas between; the first is the default
    #[arg(long, default_value = "alpha,beta", value_delimiter = ',', value_name = "NAMES")]
    pub cells: Vec<Name>,
    /// Run a federation as well, with its home in a further cell of this name, without nodes. For each member cell it
    /// reads a token from federation/CELL.token in the directory; without that file it takes the token of `dev` itself
    #[arg(long, value_name = "HOME", num_args = 0..=1, default_missing_value = super::member::FEDERATION_HOME)]
    pub federation: Option<Name>,
    /// Keep nothing: use a new directory, and remove it at the end
    #[arg(long)]
    pub ephemeral: bool,
    /// Remove what `dev` made in the directory, and exit: kills the agents and tasks that an ended `dev` left there;
    /// works on a damaged store too
    #[arg(long, conflicts_with_all = ["ephemeral", "store"])]
    pub remove: bool,
    /// Answer gRPC on this port of 127.0.0.1; 0: any, the last one if it is free [default: the last one; at first 7400]
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX))]
    pub port: Option<u16>,
    /// Answer HTTP on this port of 127.0.0.1; 0: any, the last one if it is free [default: the last one; at first 7401]
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX))]
    pub http_port: Option<u16>,
    /// Answer DNS on this port of 127.0.0.1; 0: any [default: the last one; at first 7453, or any]
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX))]
    pub dns_port: Option<u16>,
    /// Answer the catalogue of names on this port of 127.0.0.1; 0: any [default: the last one; at first 7404, or any]
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX))]
    pub names_port: Option<u16>,
    /// Answer xDS on this port of 127.0.0.1; 0: any [default: the last one; at first 7405, or any]
    #[arg(long, value_name = "PORT", value_parser = whole(0..=u16::MAX))]
    pub xds_port: Option<u16>,
    #[command(flatten)]
    pub zone: ZoneArguments,
    /// Share these TCP ports out among the nodes for their tasks, as FIRST-LAST
    #[arg(long, default_value = TASK_PORTS, value_name = "RANGE", value_parser = ports)]
    pub task_ports: RangeInclusive<u16>,
    /// Offer this device on each node, as `borough agent --card` does; repeat for more
    #[arg(long = "card", value_name = "KIND=ID[,model=MODEL][,memory=AMOUNT]", value_parser = card_text)]
    pub cards: Vec<String>,
    /// Accept tokens of users from the issuer in this file; repeat for more [default: none]
    #[arg(long = "issuer", value_name = "FILE")]
    pub issuers: Vec<PathBuf>,
    /// For tests of the system: an argument of every node's agent, or of one node's as NODE:ARGUMENT; may be given
    /// again
    #[arg(long, value_name = "ARGUMENT", hide = true, allow_hyphen_values = true)]
    pub agent_argument: Vec<String>,
    /// Declare a node lost after this many silent milliseconds
    #[arg(long, default_value_t = 30_000, value_name = "MS", value_parser = whole(500..=u64::from(u32::MAX)))]
    pub lost_after_ms: u64,
    /// Keep new tasks away while less than this part of the directory's disk is left [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = whole(0..=100_u8))]
    pub disk_low: Option<u8>,
    /// Give tasks this time to end when `dev` is interrupted, such as 30s; then send SIGKILL
    #[arg(long, default_value = "60s", value_parser = delay, value_name = "TIME")]
    pub stop_timeout: Duration,
    /// Keep the cells in fdb:CLUSTER_FILE; what else `dev` keeps is in the directory all the same [default: an embedded
    /// store in the directory]
    #[arg(long, value_name = "LOCATION")]
    pub store: Option<StoreLocation>,
    #[command(flatten)]
    pub embedded: EmbeddedArguments,
    /// For tests of the system: inject the faults the store's contract allows, from this seed
    #[arg(long, hide = true, value_name = "SEED")]
    pub inject_faults: Option<u64>,
    #[command(flatten)]
    pub connections: ConnectionArguments,
}

/// A card as it is written, where it can be read.
fn card_text(text: &str) -> Result<String, String> {
    card(text).map(|_| text.to_owned())
}
