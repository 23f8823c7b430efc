//! Why an agent cannot start or continue. A lost gateway ends no agent: it connects again.

use std::io;
use std::path::PathBuf;

/// Why an agent ends.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent has locked the state directory. End it, or use another directory.
    #[error("another agent is running on {}", path.display())]
    Locked { path: PathBuf },
    /// Another agent of the same identity runs on this host: the state directory was copied. End that agent, or remove
    /// the copied identity file, so that this agent gets an identity of its own.
    #[error("another agent of identity {identity} is running on this host: {} was copied; remove it to make this agent \
             another one, under another node name", path.display())]
    IdentityTaken {
        /// The durable id of both agents.
        identity: borough_model::node::DurableId,
        /// The file that was copied.
        path: PathBuf,
    },
    /// The state directory is a copy of one whose tasks still run on this host. Use the directory that was copied. Or
    /// remove the copied attempts and identity, so that this agent gets an identity of its own.
    #[error("{} is a copy: attempt {attempt} runs from {}. Start the agent on that directory; or remove `attempts` and \
             `identity` from the copy to make this agent another one, under another node name", path.display(), of.display())]
    Copied {
        path: PathBuf,
        /// An attempt that runs elsewhere.
        attempt: String,
        /// The directory that its shim works in.
        of: PathBuf,
    },
    /// The state directory has attempts of another node, which this one would end. Use another directory, or run the
    /// agent of that node.
    #[error("{} is of {known} and has {attempts} of its attempts; accepted: an agent of {known}, or another state \
             directory for {own}", path.display())]
    OtherNode {
        path: PathBuf,
        /// The node whose attempts it has, and the node of this agent.
        known: String,
        own: String,
        attempts: usize,
    },
    /// The state directory was written by a newer version, or is not one. Use the version that wrote it.
    #[error("{} holds format {found:?}; this version knows {known:?} and leaves it alone", path.display())]
    Format {
        path: PathBuf,
        /// The content of its format file.
        found: String,
        /// The format that this version writes.
        known: &'static str,
    },
    /// The state directory cannot be used. See the cause.
    #[error("cannot use {}", path.display())]
    State {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The agent cannot read a fact about the machine that it needs. See the cause.
    #[error("cannot read {what}")]
    Machine {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// An invalid setting. Correct it.
    #[error("{setting}: {problem}")]
    Setting { setting: &'static str, problem: String },
}
