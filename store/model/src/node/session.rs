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
}
