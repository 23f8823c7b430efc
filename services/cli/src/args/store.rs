//! Verbs on stores: they open the store themselves, without a gateway.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::role::store::StoreLocation;

/// Verbs on stores.
#[derive(Debug, Subcommand)]
pub enum StoreVerb {
    /// Recompute every counter and index of the cells in a store, and compare; ends with 1 where something is wrong
    Check(StoreCheckArguments),
    /// Write a cell to a file, as of one position, while others use it
    Export(StoreExportArguments),
    /// Make a cell of an exported one; repeated after an interruption it goes on
    Import(StoreImportArguments),
    /// Open an embedded store whose log has lost acknowledged commits, and give these up for good
    AcceptLoss(StoreAcceptLossArguments),
    /// Measure commits and reads of a store, in keys of their own that are removed afterwards
    Bench(StoreBenchArguments),
}

/// Which store.
#[derive(Clone, Debug, Args)]
pub struct StoreArgument {
    /// Store, as embedded:DIRECTORY (in use by nobody else) or fdb:CLUSTER_FILE
    #[arg(long, env = "BOROUGH_STORE", value_name = "LOCATION")]
    pub store: StoreLocation,
}

/// `store check`; the cell is that of every verb, or every cell of the store.
#[derive(Clone, Debug, Args)]
pub struct StoreCheckArguments {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgument,
    /// Expect besides that nothing is under way: whatever is not wanted has ended
    #[arg(long)]
    pub settled: bool,
}

/// `store export`; the cell is that of every verb.
#[derive(Clone, Debug, Args)]
pub struct StoreExportArguments {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgument,
    /// Write to this file, for its owner alone (mode 0600); - is standard output. Nothing may have the name, not even a
    /// symbolic link, unless --overwrite is given
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Replace what has the name of the file. A symbolic link is replaced itself, and never followed
    #[arg(long)]
    pub overwrite: bool,
    /// Close the cell here first, so that the file has its last state: for a move
    #[arg(long)]
    pub close: bool,
}

/// `store import`; the cell of every verb is the name it is given.
#[derive(Clone, Debug, Args)]
pub struct StoreImportArguments {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgument,
    /// The file
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Replace a cell of the name that has moved away from here, or is half imported from another file
    #[arg(long)]
    pub replace: bool,
}

/// `store accept-loss`.
#[derive(Clone, Debug, Args)]
pub struct StoreAcceptLossArguments {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgument,
}

/// `store bench`.
#[derive(Clone, Debug, Args)]
pub struct StoreBenchArguments {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgument,
    /// How long each figure is measured, such as 2s
    #[arg(long, default_value = "2s", value_parser = super::job::duration, value_name = "TIME")]
    pub time: std::time::Duration,
    /// Transactions at a time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
}
