//! How an agent joins: it exchanges a join token for an identity, and opens its sessions by that.
//!
//! The layer in front of the services knows of a secret of a node only what kind it is ([`NodeClaim`]). Here the store
//! is asked whether it counts, by the time of the cell. Until then the connection has shown nothing.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::Name;
use borough_model::audit::AuditedCall;
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_store::StoreResult;
use borough_store::join::{
    JoinProof, JoinRefused, JoinedNode, NodeJoin, SecretDigest, join_head, node_join, node_join_read,
};
use borough_store::journal::{Change, ChangeSet};
use http::Extensions;
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Code, Request, Response, Status};

use super::joined::ProvenIdentity;
use crate::auth::{NodeClaim, Principal};
use crate::call::{CallAbout, CallTrace};
use crate::cell::{CellContext, Cells};
use crate::connection::{ConnectionKind, ConnectionMark};
use crate::status::{
    name_read, status_connections_exhausted, status_from_field, status_from_store, status_unavailable,
    status_with,
};

/// The method by which agents join, as the audit names it.
const METHOD: &str = "AgentService/JoinNode";
/// Claims that the store is asked about at the same time. Whoever makes them has shown nothing yet.
const PROOFS_MAX: usize = 64;

/// Decides over what nodes claim.
pub(crate) struct JoinGate {
    cells: Arc<Cells>,
    proofs: Semaphore,
}

/// A node that an agent speaks for.
struct ClaimedNode<'a> {
    cell: &'a Arc<CellContext>,
    name: Name,
}

impl JoinGate {
    pub(crate) fn new(cells: Arc<Cells>) -> Self {
        Self { cells, proofs: Semaphore::new(PROOFS_MAX) }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.proofs.acquire().await.map_err(|_| status_unavailable("GATEWAY_ENDING", "the gateway is ending"))
    }

    fn node<'a>(
        &'a self,
        extensions: &Extensions,
        cell: &str,
        node: &str,
    ) -> Result<ClaimedNode<'a>, Status> {
        if let Some(trace) = extensions.get::<Arc<CallTrace>>() {
            trace.is_about(CallAbout::new(cell, None, format!("node/{node}")));
        }
        Ok(ClaimedNode { cell: self.cells.get(cell)?, name: name_read("node", node)? })
    }

    /// Refuses a session of an agent whose credential is not for this node. Returns what an identity proves; `None`:
    /// it is another credential, which holds by itself.
    pub(crate) async fn session_prove(
        &self,
        extensions: &Extensions,
        cell: &str,
        node: &str,
    ) -> Result<Option<ProvenIdentity>, Status> {
        // The authentication layer has set it. Without it, the caller is unknown.
        let principal = extensions.get::<Principal>();
        let principal = principal.ok_or_else(|| Status::unauthenticated("the call has no valid token"))?;
        let claim = match principal {
            Principal::Claimed(claim) => *claim,
            other => return other.session_check(cell, node).map(|()| None),
        };
        let ClaimedNode { cell, name } = self.node(extensions, cell, node)?;
        let NodeClaim::Identity(shown) = claim else {
            let text = "a join token opens no session; give it to the agent as --join-token-file";
            return Err(status_with(Code::PermissionDenied, "NODE_NOT_JOINED", text, Default::default()));
        };
        let turn = self.turn().await?;
        let (join, head) = join_read(cell, &name).await.map_err(|error| status_from_store(&error))?;
        drop(turn);
        let proven = join.proven(shown, cell.clock.wall_ms());
        let joined = proven.map_err(|refused| refused_status(cell, &name, refused))?;
        connection_prove(extensions)?;
        Ok(Some(ProvenIdentity { joined, head }))
    }

    /// Gives a node an identity for what its agent shows.
    pub(crate) async fn join(
        &self,
        request: Request<v1::JoinNodeRequest>,
    ) -> Result<Response<v1::JoinNodeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let ClaimedNode { cell, name } = self.node(&extensions, &message.cell, &message.node)?;
        let proof = match extensions.get::<Principal>() {
            Some(Principal::Claimed(NodeClaim::JoinToken(token))) => JoinProof::Token(*token),
            Some(Principal::Claimed(NodeClaim::Identity(shown))) => JoinProof::Identity(*shown),
            _ => {
                let text = "the credential of this call is neither a join token nor the identity of a node";
                return Err(status_with(Code::PermissionDenied, "NODE_NOT_JOINED", text, Default::default()));
            }
        };
        let wanted = digest_read("identity_digest", &message.identity_digest)?;
        let call = extensions.get::<Arc<CallTrace>>().map(|trace| trace.call(METHOD));
        let turn = self.turn().await?;
        let joined = joined_write(cell, &name, proof, wanted, call.as_ref()).await;
        drop(turn);
        let joined = joined.map_err(|error| status_from_store(&error))?;
        let joined = joined.map_err(|refused| refused_status(cell, &name, refused))?;
        connection_prove(&extensions)?;
        cell.joined.renewed(&name, joined);
        tracing::info!(cell = %cell.name, node = %name, ?proof, "a node has got an identity");
        Ok(Response::new(v1::JoinNodeResponse { renew_after_ms: joined.renew_after_ms }))
    }
}

/// Counts the connection as one of an agent, from now on.
fn connection_prove(extensions: &Extensions) -> Result<(), Status> {
    let mark = extensions.get::<ConnectionMark>();
    let admitted = mark.is_none_or(|mark| mark.authenticate(ConnectionKind::Agent));
    if admitted { Ok(()) } else { Err(status_connections_exhausted()) }
}

/// The row of a node name, and the count of ended identities at the same time.
pub(super) async fn join_read(cell: &CellContext, name: &Name) -> StoreResult<(NodeJoin, i64)> {
    let space = &cell.space;
    let read = cell.db.run("node_join_read", Idempotency::ReadOnly, |tx, _| async move {
        futures::try_join!(node_join_read(&tx, space, name), join_head(&tx, space))
    });
    read.await
}

async fn joined_write(
    cell: &CellContext,
    name: &Name,
    proof: JoinProof,
    wanted: SecretDigest,
    call: Option<&AuditedCall>,
) -> StoreResult<Result<JoinedNode, JoinRefused>> {
    let actor = format!("node/{name}");
    let at_ms = cell.clock.wall_ms();
    let change = &Change { request: cell.request_id(), actor, action: "node_join", at_ms };
    let space = &cell.space;
    let written = cell.db.run("node_join", Idempotency::Natural, |tx, _| async move {
        let mut changes = ChangeSet::begin(&tx, space, change).await?;
        let joined = node_join(&tx, &changes, name, proof, wanted).await?;
        if joined.is_ok() {
            call.into_iter().for_each(|call| changes.call_push(call.clone()));
            changes.append(&tx)?;
        }
        Ok(joined)
    });
    written.await
}

pub(super) fn refused_status(cell: &CellContext, node: &Name, refused: JoinRefused) -> Status {
    let again = format!("borough node join-token issue {node} --to FILE --cell {}", cell.name);
    let end = format!("borough node join-token revoke {node} --identity --cell {}", cell.name);
    let next = match refused {
        JoinRefused::TokenUsed => format!("if another machine has used it, end what it got: {end}"),
        JoinRefused::IdentityRenewed => format!("end it for both, {end}, and join again: {again}"),
        JoinRefused::TokenUnknown
        | JoinRefused::TokenExpired
        | JoinRefused::IdentityUnknown
        | JoinRefused::IdentityExpired => format!("an administrator makes another: {again}"),
    };
    let text = format!("node {node} of cell {}: {refused}; {next}", cell.name);
    let facts = [("node".to_owned(), node.to_string()), ("cell".to_owned(), cell.name.to_string())];
    status_with(Code::PermissionDenied, "NODE_NOT_JOINED", text, facts.into())
}

pub(crate) fn digest_read(field: &str, bytes: &[u8]) -> Result<SecretDigest, Status> {
    let digest = bytes.try_into().map(SecretDigest);
    digest.map_err(|_| {
        let accepted = "the SHA-256 digest of the secret, 32 bytes";
        status_from_field(&FieldRefused::new(field, format!("{} bytes", bytes.len()), accepted))
    })
}
