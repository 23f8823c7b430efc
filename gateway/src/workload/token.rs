//! The tokens of tasks: signed claims (RFC 7519). The subject is a SPIFFE ID, so they are JWT-SVIDs too.

use borough_model::TaskRow;
use borough_model::job::{IdentitySpec, JobSpec};
use jsonwebtoken::Header;
use serde::Serialize;

use super::issuer::IssuerNames;
use super::keyring::{ALGORITHM, SigningKey};

/// The claims of a token. Times are seconds since 1970.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WorkloadClaims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
    cell: &'a str,
    user: &'a str,
    job: &'a str,
    index: u32,
    incarnation: u64,
}

/// An attempt that may have tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentifiedTask<'a> {
    pub(crate) row: &'a TaskRow,
    pub(crate) spec: &'a JobSpec,
}

/// When a token is made, and what tells it from others.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    /// The cell's time, milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// Different for each.
    pub(crate) id: String,
}

/// The claims of an identity of a task's attempt.
pub(crate) fn claims<'a>(
    issuer: &'a IssuerNames,
    cell: &'a str,
    task: IdentifiedTask<'a>,
    identity: &'a IdentitySpec,
    issue: Issue,
) -> WorkloadClaims<'a> {
    let IdentifiedTask { row, spec } = task;
    let iat = issue.now_ms.div_euclid(1_000);
    let lasts = i64::try_from(identity.ttl_ms / 1_000).unwrap_or(i64::MAX);
    WorkloadClaims {
        iss: &issuer.issuer,
        sub: issuer.spiffe_id(&spec.user, &spec.name, row.id.index),
        aud: &identity.audience,
        iat,
        nbf: iat,
        exp: iat.saturating_add(lasts),
        jti: issue.id,
        cell,
        user: spec.user.as_str(),
        job: spec.name.as_str(),
        index: row.id.index,
        incarnation: row.incarnation.0,
    }
}

/// Signs claims.
pub(crate) fn sign(
    claims: &WorkloadClaims<'_>,
    signing: &SigningKey,
) -> Result<String, jsonwebtoken::errors::Error> {
    let header = Header { kid: Some(signing.id.clone()), ..Header::new(ALGORITHM) };
    jsonwebtoken::encode(&header, claims, &signing.key)
}
