//! Verbs on the audit.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::list::ListArguments;

/// What the audit has.
const AUDIT_NOTES: &str = "The audit has each call that changed something or was refused, and each command in a task. \
    Calls that only read are in it when a right was missing. It never has what a call contains. A change is in it in \
    the same transaction; a refusal follows within seconds.";

/// How a file is checked.
const VERIFY_NOTES: &str = "The program checks that no call was changed and that none is missing between the first and \
    the last of the file. Keep the last hash where nobody who can write to the store can write: whoever can replace \
    every chunk can make another chain, and only a hash that was kept elsewhere shows it.";

/// Verbs on the audit.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// List calls that changed something or were refused, the newest first
    #[command(after_help = AUDIT_NOTES)]
    List {
        #[command(flatten)]
        filter: AuditFilterArguments,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Write the whole audit to a file, or what has come since the last time, and check it
    #[command(after_help = VERIFY_NOTES)]
    Export {
        /// The file. If it is there already, the calls since are appended
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Check that nobody has changed the audit: that of the cell, or an exported file
    #[command(after_help = VERIFY_NOTES)]
    Verify {
        /// An exported file [default: the audit of the cell]
        file: Option<PathBuf>,
        /// A hash that must be in the chain: one that was kept elsewhere
        #[arg(long, value_name = "HASH")]
        hash: Option<String>,
    },
}

/// Which calls.
#[derive(Clone, Debug, Default, Args)]
pub struct AuditFilterArguments {
    /// Show only calls by this user or in that name, or by operator, node or nobody
    #[arg(long, value_name = "WHO")]
    pub by: Option<String>,
    /// Show only calls of this method, such as StopJob
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Show only calls about this, such as job/ann, job/ann/web or node/n1
    #[arg(long, value_name = "OBJECT")]
    pub object: Option<String>,
    /// Show only calls that were done, or only those that were refused
    #[arg(long, value_enum, value_name = "OUTCOME")]
    pub outcome: Option<AuditOutcomeWord>,
    /// Show only calls that are no older than this, such as 15m or 7d
    #[arg(long, value_name = "TIME", value_parser = super::number::ago)]
    pub since: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditOutcomeWord {
    Done,
    Refused,
}
