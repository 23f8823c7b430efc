//! The session of a node's agent: by whom a gateway may write for the node.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The session in force of a node's agent. A registration writes it; whatever a gateway writes for the node afterwards
/// reads it with a conflict, so that a session that another has followed changes nothing. Never in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct NodeSession {
    /// The session, new with each connection; 0: none.
    #[n(0)]
    pub session: u64,
    /// The gateway that holds it, as other gateways reach it.
    #[n(1)]
    pub gateway: String,
    /// The process of the agent that opened it; 0: it did not say.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub instance: u64,
    /// The last processes of the agent that later ones took over from, the newest last. Such a process does not come
    /// back by itself: one that does is a copy.
    #[n(3)]
    #[cbor(default)]
    #[serde(default)]
    pub superseded: Vec<u64>,
}
