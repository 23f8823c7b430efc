//! Who a caller may be, and which services are for whom.

use std::sync::Arc;

use borough_model::Name;
use borough_model::access::Identity;
use borough_model::job::Band;
use borough_proto::bounds::{JOIN_TOKEN_LABEL, NODE_IDENTITY_LABEL};
use borough_proto::tls::CertificateName;
use borough_store::join::SecretDigest;
use tonic::Status;

use super::TokenDigest;
use crate::connection::PeerCertificate;

/// The one service that a node's token admits to. Only agents call it.
pub const AGENT_SERVICE: &str = borough_proto::v1::agent_service_server::SERVICE_NAME;
/// The refusal when a node's token is used for any other service.
pub(crate) const NODE_TOKEN_ONLY: &str =
    "this is the token of a node, which opens sessions of agents and nothing else; use an operator's token";

/// The nodes for which a token opens sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGrant {
    pub cell: Name,
    /// Absent: any node of the cell.
    pub node: Option<Name>,
}

impl std::fmt::Display for NodeGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node {node} of cell {}", self.cell),
            None => write!(f, "nodes of cell {}", self.cell),
        }
    }
}

/// Who a token proves the caller to be. Services read it from the extensions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// May make every call.
    Operator,
    /// An agent of one of these nodes.
    Node(Arc<[NodeGrant]>),
    /// An agent that shows a secret which the store must know: `crate::join` proves it.
    Claimed(NodeClaim),
    /// A person or a program, which may do what the grants of a cell say.
    User(Arc<Identity>),
}

/// A secret of a node, by its digest. It proves nothing until the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeClaim {
    /// Opens no session: it is exchanged for an identity.
    JoinToken(SecretDigest),
    Identity(SecretDigest),
}

impl NodeClaim {
    /// What the text of a token claims; `None`: it is no secret of a node that joins.
    pub(super) fn of(token: &[u8], digest: TokenDigest) -> Option<Self> {
        let has = |label: &str| {
            let bits = token.strip_prefix(label.as_bytes()).and_then(|rest| rest.strip_prefix(b"-"));
            bits.is_some_and(|bits| bits.len() == 64 && bits.iter().all(u8::is_ascii_hexdigit))
        };
        let digest = SecretDigest(digest);
        if has(JOIN_TOKEN_LABEL) {
            Some(Self::JoinToken(digest))
        } else {
            has(NODE_IDENTITY_LABEL).then_some(Self::Identity(digest))
        }
    }
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operator => f.write_str("operator"),
            Self::Node(_) | Self::Claimed(_) => f.write_str("node"),
            Self::User(identity) => write!(f, "user/{}", identity.user),
        }
    }
}

impl Principal {
    /// Returns true if it may run jobs in a band without a quota or a right of that band.
    pub(crate) fn is_free_in(&self, band: Band) -> bool {
        !matches!(self, Self::User(_)) || band <= Band::Batch
    }

    /// Refuses a session of an agent that the token does not cover.
    pub(crate) fn session_check(&self, cell: &str, node: &str) -> Result<(), Status> {
        let grants = match self {
            Self::Operator => return Ok(()),
            Self::Node(grants) => grants,
            Self::Claimed(_) => {
                return Err(Status::permission_denied("the identity of the node is not proven"));
            }
            Self::User(identity) => return Err(not_a_node(identity)),
        };
        let is_for = |grant: &NodeGrant| {
            grant.cell.as_str() == cell && grant.node.as_ref().is_none_or(|only| only.as_str() == node)
        };
        if grants.iter().any(is_for) {
            return Ok(());
        }
        let for_which = grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(Status::permission_denied(format!(
            "this token is for {for_which}, and not for node {node:?} of cell {cell:?}; mint one with `borough node token`"
        )))
    }
}

fn not_a_node(identity: &Identity) -> Status {
    Status::permission_denied(format!(
        "this credential is of user {}, which is no node; mint a node's token with `borough node token`",
        identity.user
    ))
}

/// What a certificate proves its holder to be; `None`: nothing that admits to a call.
pub(crate) fn certified(certificate: &PeerCertificate) -> Option<Principal> {
    match certificate.name.as_ref().ok()? {
        CertificateName::Operator => Some(Principal::Operator),
        CertificateName::Node { cell, node } => {
            let grant = NodeGrant { cell: cell.clone(), node: Some(node.clone()) };
            Some(Principal::Node([grant].into()))
        }
        CertificateName::User(identity) => Some(Principal::User(Arc::new(identity.clone()))),
        CertificateName::Gateway | CertificateName::Control => None,
    }
}

/// The service that the path of a gRPC call names.
fn service_of(path: &str) -> Option<&str> {
    path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service)
}

/// Returns true if the path of a gRPC call is one of agents.
pub(super) fn is_of_agents(path: &str) -> bool {
    service_of(path) == Some(AGENT_SERVICE)
}

/// Refuses a service that is not for this kind of principal.
pub(super) fn covers(principal: &Principal, path: &str) -> Result<(), Status> {
    match (principal, service_of(path)) {
        (Principal::User(identity), Some(AGENT_SERVICE)) => Err(not_a_node(identity)),
        (Principal::Operator | Principal::User(_), _)
        | (Principal::Node(_) | Principal::Claimed(_), Some(AGENT_SERVICE)) => Ok(()),
        (Principal::Node(_) | Principal::Claimed(_), _) => Err(Status::permission_denied(NODE_TOKEN_ONLY)),
    }
}
