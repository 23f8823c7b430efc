//! Verbs on stores: they open the store themselves, without a gateway.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::store_location::StoreLocation;

/// The exit codes of `store check`, and its use of a global option.
const CHECK_NOTES: &str = "Exit codes: 0 all agree, 1 violations, 255 error\n\
    With --cell it checks this cell [default: all of the store]";

/// Verbs on stores.
#[derive(Debug, Subcommand)]
pub enum StoreVerb {
    /// Recompute every counter and index of the cells in a store, and compare
    #[command(after_help = CHECK_NOTES)]
    Check(StoreCheckArguments),
    /// Write a cell to a file as of one position, while it is in use
    #[command(after_help = "Also give --cell")]
    Export(StoreExportArguments),
    /// Make a cell of an exported file; repeat it after an interruption to go on
    #[command(after_help = "With --cell the cell gets this name [default: its name in the file]")]
    Import(StoreImportArguments),
    /// Give up acknowledged commits that the log of an embedded store has lost, for good
    AcceptLoss(StoreAcceptLossArguments),
    /// Measure commits and reads of a store, in scratch keys that it removes
    Bench(StoreBenchArguments),
}

/// Which store.
#[derive(Clone, Debug, Args)]
pub struct StoreArgument {
    /// Open embedded:DIRECTORY (in use by no process) or fdb:CLUSTER_FILE
    #[arg(long, env = "BOROUGH_STORE", hide_env_values = true, value_name = "LOCATION")]
    pub store: StoreLocation,
}

/// `store check`; the cell is that of every verb, or every cell of the store.
#[derive(Clone, Debug, Args)]
pub struct StoreCheckArguments {
    #[command(flatten)]
    pub store: StoreArgument,
    /// Also expect that nothing is under way: every unwanted task has ended
    #[arg(long)]
    pub settled: bool,
}

/// `store export`; the cell is that of every verb.
#[derive(Clone, Debug, Args)]
pub struct StoreExportArguments {
    #[command(flatten)]
    pub store: StoreArgument,
    /// Write to this new file of mode 0600; - is standard output
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Replace an existing file or symbolic link of this name; never follow a link
    #[arg(long)]
    pub overwrite: bool,
    /// Close the cell first, so that the file has its last state: for a move
    #[arg(long)]
    pub close: bool,
}

/// `store import`; the cell of every verb is the name it is given.
#[derive(Clone, Debug, Args)]
pub struct StoreImportArguments {
    #[command(flatten)]
    pub store: StoreArgument,
    /// Read the export from this file
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Replace a cell of this name that has moved away, or that another file left half imported
    #[arg(long)]
    pub replace: bool,
}

/// `store accept-loss`.
#[derive(Clone, Debug, Args)]
pub struct StoreAcceptLossArguments {
    #[command(flatten)]
    pub store: StoreArgument,
}

/// `store bench`.
#[derive(Clone, Debug, Args)]
pub struct StoreBenchArguments {
    #[command(flatten)]
    pub store: StoreArgument,
    /// Measure each operation for this time
    #[arg(long, default_value = "2s", value_parser = super::number::timeout, value_name = "TIME")]
    pub time: std::time::Duration,
    /// Run this many transactions at a time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = super::number::whole(1..=1024_u32))]
    pub clients: u32,
}
