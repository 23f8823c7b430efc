//! Verbs on join tokens of nodes.

use std::path::PathBuf;
use std::time::Duration;

use borough_model::Name;
use borough_proto::bounds::{JOIN_TOKEN_MS, NODE_IDENTITY_MS};
use clap::{Args, Subcommand};

use super::list::ListArguments;
use super::number::time_within;

/// How the token is used.
const ISSUE_NOTES: &str = "Copy FILE to the machine, and start there: borough agent --node NODE --join-token-file FILE. \
    The agent gets an identity for the token, keeps it in its state directory, and renews it by itself.";

/// Verbs on join tokens.
#[derive(Debug, Subcommand)]
pub enum JoinTokenVerb {
    /// Make a token by which the agent of one node joins, once
    #[command(after_help = ISSUE_NOTES)]
    Issue(JoinTokenIssue),
    /// List the tokens and identities of nodes, without secrets
    List {
        #[command(flatten)]
        list: ListArguments,
    },
    /// Take back a token that no agent has used
    Revoke {
        /// The node's name
        node: Name,
        /// Also end the identity that the node has; its session ends within a minute
        #[arg(long)]
        identity: bool,
    },
}

/// `node join-token issue`.
#[derive(Clone, Debug, Args)]
pub struct JoinTokenIssue {
    /// The node's name; it need not exist yet
    pub node: Name,
    /// Write the token to this new file
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// For how long the token counts, from 1m to 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = expiry)]
    pub expires: Duration,
    /// End the identity if its agent does not renew it for this time, from 10s to 90d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = identity_lasts)]
    pub identity_lasts: Duration,
}

fn expiry(text: &str) -> Result<Duration, String> {
    time_within(text, &JOIN_TOKEN_MS, "1m to 7d")
}

fn identity_lasts(text: &str) -> Result<Duration, String> {
    time_within(text, &NODE_IDENTITY_MS, "10s to 90d")
}
