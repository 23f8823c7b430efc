//! Failed writes of sessions on behalf of their nodes, and why they failed.

use std::sync::Arc;

use borough_store::{StoreError, error_chain};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tonic::{Code, Status};

use super::metrics::EndKind;
use crate::status::{status_from_store, status_unavailable, status_with};

/// Why something was not written for a node.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotWritten {
    /// Another session of the node's agent is in force. End the session.
    #[error("another session of the node's agent has taken over")]
    Superseded,
    /// The transaction refuses its content. End the session with the reason.
    #[error("{}", error_chain(&**.0))]
    Refused(Arc<StoreError>),
    /// The store does not take it now. Try again later.
    #[error("the store does not take it now: {}", error_chain(&**.0))]
    Later(Arc<StoreError>),
}

impl NotWritten {
    /// The kind of end for the agent's session.
    pub fn kind(&self) -> EndKind {
        match self {
            Self::Superseded => EndKind::Superseded,
            Self::Refused(_) => EndKind::Refused,
            Self::Later(_) => EndKind::Gateway,
        }
    }

    /// The status that ends the agent's session.
    pub fn status(&self) -> Status {
        match self {
            Self::Superseded => {
                status_with(Code::Aborted, "SESSION_SUPERSEDED", self.to_string(), Default::default())
            }
            Self::Refused(error) => status_from_store(error),
            Self::Later(_) => status_unavailable("STORE_BUSY", self.to_string()),
        }
    }
}

/// The label of a counter: what was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct What {
    what: &'static str,
}

/// Counters of what gateways did not write for nodes. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SessionMetrics {
    refused: Family<What, Counter>,
    superseded: Family<What, Counter>,
}

impl SessionMetrics {
    /// Shows the counters in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_gateway");
        let help =
            "What agents sent and a transaction refused for its content, set aside; its session was ended";
        registry.register("session_refused", help, self.refused.clone());
        let help = "Writes for nodes that did not happen, since another session of the agent is in force";
        registry.register("session_superseded", help, self.superseded.clone());
    }

    /// Counts one `what` (such as `report`) that was set aside.
    pub fn refused(&self, what: &'static str) {
        self.refused.get_or_create(&What { what }).inc();
    }

    /// Counts one `what` of a session that is not in force.
    pub fn superseded(&self, what: &'static str) {
        self.superseded.get_or_create(&What { what }).inc();
    }
}
