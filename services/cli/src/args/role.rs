//! Arguments of the control roles: `borough gateway`, `borough scheduler` and `borough controller`.

use std::net::SocketAddr;
use std::path::PathBuf;

use borough_model::Name;
use clap::Args;

use super::connections::ConnectionArguments;
use super::number::whole;
use super::store_location::{EmbeddedArguments, StoreLocation};

/// Milliseconds without a heartbeat after which another worker or controller takes over.
pub(crate) const LEASE_MS: u64 = 5_000;

/// Options of every control role.
#[derive(Clone, Debug, Args)]
pub struct StoreArguments {
    /// Use fdb:CLUSTER_FILE, or embedded:DIRECTORY (one process at a time)
    #[arg(long, env = "BOROUGH_STORE", hide_env_values = true, value_name = "LOCATION")]
    pub store: StoreLocation,
    #[command(flatten)]
    pub embedded: EmbeddedArguments,
    /// Serve these cells, with commas between; the role makes missing ones
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES")]
    pub cells: Vec<Name>,
    /// With --tls-ca: the list of revoked certificates; the role reads it again when it changes [default: none]
    #[arg(long, env = "BOROUGH_TLS_CRL", hide_env_values = true, value_name = "FILE", requires = "tls_ca")]
    pub tls_crl: Option<PathBuf>,
    /// Answer unencrypted on other addresses than loopback: only inside a network that nobody else can read
    #[arg(long, conflicts_with = "tls_ca")]
    pub plaintext: bool,
    /// For tests of the system: inject the faults the store's contract allows, from this seed
    #[arg(long, hide = true, value_name = "SEED")]
    pub inject_faults: Option<u64>,
}

/// Arguments of `borough gateway`; the token file is that of every verb.
#[derive(Clone, Debug, Args)]
pub struct GatewayArguments {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Answer gRPC here. Beyond loopback it needs --tls-ca, --tls-cert and --tls-key
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Answer HTTP here: names, health and metrics
    #[arg(long, default_value = "127.0.0.1:7401", value_name = "ADDR")]
    pub http_listen: SocketAddr,
    /// Accept the node tokens in this file, to which `borough node token` adds [default: none]
    #[arg(long, env = "BOROUGH_NODE_TOKENS", hide_env_values = true, value_name = "FILE")]
    pub node_tokens: Option<PathBuf>,
    /// Accept tokens of users from the issuer in this file; repeat for more [default: none]
    #[arg(
        long = "issuer",
        env = "BOROUGH_ISSUERS",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "FILE"
    )]
    pub issuers: Vec<PathBuf>,
    /// Publish this address to the other gateways [default: that of --listen]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    #[command(flatten)]
    pub connections: ConnectionArguments,
}

/// Arguments of `borough scheduler`.
#[derive(Clone, Debug, Args)]
pub struct SchedulerArguments {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Run this many workers in this process
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1..=64_u32))]
    pub workers: u32,
    /// Divide the jobs of a scheduler among at least this many workers. More take part while much waits
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1..=1024_u32))]
    pub shards: u32,
    /// Serve these schedulers of the cell, with commas between
    #[arg(long, default_value = "default", value_delimiter = ',', value_name = "NAMES")]
    pub scheduler: Vec<Name>,
    /// Take over a shard after this many milliseconds without a heartbeat of its worker
    #[arg(long, default_value_t = LEASE_MS, value_name = "MS", value_parser = whole(1_000..=60_000_u64))]
    pub lease_ms: u64,
    /// Answer HTTP here: health and metrics
    #[arg(long, default_value = "127.0.0.1:7402", value_name = "ADDR")]
    pub http_listen: SocketAddr,
}

/// Arguments of `borough controller`.
#[derive(Clone, Debug, Args)]
pub struct ControllerArguments {
    #[command(flatten)]
    pub store: StoreArguments,
    /// Answer HTTP here: health and metrics
    #[arg(long, default_value = "127.0.0.1:7403", value_name = "ADDR")]
    pub http_listen: SocketAddr,
}
