//! The session of a node's agent: the gateway that may write for the node.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The session in force of a node's agent. A registration writes it. Every later write of a gateway for the node reads
/// it with a conflict, so that a session with a successor changes nothing. Never in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeSession {
    /// The session, new with each connection; 0: none.
    #[n(0)]
    pub session: u64,
    /// The gateway that holds it, by its address for other gateways.
    #[n(1)]
    pub gateway: String,
    /// The process of the agent that opened it; 0: the agent did not identify itself.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub instance: u64,
    /// The agent's last superseded processes, the newest last. Such a process does not come back by itself: one that
    /// does is a copy.
    #[n(3)]
    #[cbor(default)]
    #[serde(default)]
    pub superseded: Vec<u64>,
}
