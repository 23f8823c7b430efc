//! How administrators let nodes join: they make join tokens, list them, and take them back. `crate::session` has what
//! agents do with them.

use borough_kv::Idempotency;
use borough_proto::bounds::{JOIN_TOKEN_MS, NODE_IDENTITY_DEFAULT_MS, NODE_IDENTITY_MS};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_store::join::{
    JoinRevoked, JoinTokenSpec, NodeJoin, NodeJoinLine, join_revoke, join_token_create, node_joins_page,
};
use tonic::{Request, Response, Status};

use crate::cell::{Asked, Cells, KeyedRequest, keyed_run};
use crate::page::PagedList;
use crate::session::join::digest_read;
use crate::status::{name_read, status_from_field, status_from_store};

fn time_read(
    field: &str,
    given: u64,
    range: std::ops::RangeInclusive<u64>,
    accepted: &str,
) -> Result<i64, Status> {
    let within =
        Some(given).filter(|given| range.contains(given)).and_then(|given| i64::try_from(given).ok());
    within.ok_or_else(|| status_from_field(&FieldRefused::new(field, given.to_string(), accepted)))
}

/// Makes the join token of a node name.
pub(crate) async fn token_create(
    cells: &Cells,
    request: Request<v1::CreateJoinTokenRequest>,
) -> Result<Response<v1::CreateJoinTokenResponse>, Status> {
    let (cell, caller, message) = cells.admit_change(request)?;
    let name = name_read("name", &message.name)?;
    let identity = match message.identity_lasts_ms {
        0 => NODE_IDENTITY_DEFAULT_MS,
        given => given,
    };
    let spec = JoinTokenSpec {
        digest: digest_read("token_digest", &message.token_digest)?,
        lasts_ms: time_read("lasts_ms", message.lasts_ms, JOIN_TOKEN_MS, "60000 to 604800000")?,
        identity_lasts_ms: time_read(
            "identity_lasts_ms",
            identity,
            NODE_IDENTITY_MS,
            "10000 to 7776000000, or 0",
        )?,
    };
    let (keyed, node) = (KeyedRequest::new(&caller, "join_token_create", &message).beyond_changes(), &name);
    let created = keyed_run(cell, &keyed, |tx, changes| async move {
        Ok((join_token_create(&tx, &changes, node, spec).await?, changes))
    });
    let (join, _) = created.await.map_err(|error| status_from_store(&error))?;
    let join = Some(join_message(&NodeJoinLine { node: name, join }));
    Ok(Response::new(v1::CreateJoinTokenResponse { join }))
}

/// Lists join tokens and identities.
pub(crate) async fn tokens_list(
    cells: &Cells,
    request: Request<v1::ListJoinTokensRequest>,
) -> Result<Response<v1::ListJoinTokensResponse>, Status> {
    let Asked { cell, message } = cells.admit_read(request)?;
    let list = PagedList::new(&cell.name, "joins");
    let page = list.request(message.page.as_ref())?;
    let after = page.after.as_deref().map(|after| name_read("page.page", after)).transpose()?;
    let (space, after) = (&cell.space, after.as_ref());
    let read = cell.db.run("node_joins", Idempotency::ReadOnly, |tx, _| async move {
        node_joins_page(&tx, space, after, page.limit).await
    });
    let lines = read.await.map_err(|error| status_from_store(&error))?;
    let next = lines.last().filter(|_| lines.len() == page.limit);
    let next_page = next.map(|line| list.token(line.node.as_str())).unwrap_or_default();
    Ok(Response::new(v1::ListJoinTokensResponse {
        joins: lines.iter().map(join_message).collect(),
        next_page,
    }))
}

/// Takes back a join token, and ends an identity if it is asked to.
pub(crate) async fn token_revoke(
    cells: &Cells,
    request: Request<v1::RevokeJoinTokenRequest>,
) -> Result<Response<v1::RevokeJoinTokenResponse>, Status> {
    let (cell, caller, message) = cells.admit_change(request)?;
    let name = name_read("name", &message.name)?;
    let what = if message.identity { JoinRevoked::Identity } else { JoinRevoked::Token };
    let (keyed, node) = (KeyedRequest::new(&caller, "join_revoke", &message).beyond_changes(), &name);
    let revoked = keyed_run(cell, &keyed, |tx, changes| async move {
        Ok((join_revoke(&tx, &changes, node, what).await?, changes))
    });
    let (join, _) = revoked.await.map_err(|error| status_from_store(&error))?;
    let join = Some(join_message(&NodeJoinLine { node: name, join }));
    Ok(Response::new(v1::RevokeJoinTokenResponse { join }))
}

fn join_message(line: &NodeJoinLine) -> v1::NodeJoin {
    let NodeJoin { token, identity } = &line.join;
    v1::NodeJoin {
        node: line.node.to_string(),
        token: token.as_ref().map(|token| v1::JoinToken {
            expires_ms: token.expires_ms,
            made_ms: token.made_ms,
            by: token.by.clone(),
            used_ms: token.used.as_ref().map_or(0, |used| used.at_ms),
        }),
        identity: identity.as_ref().map(|identity| v1::NodeIdentity {
            renewed_ms: identity.renewed_ms,
            expires_ms: identity.expires_ms(),
        }),
    }
}
