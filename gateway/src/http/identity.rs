//! The public keys of cells over HTTP, for everybody who checks tokens: they need no token of their own.

use std::sync::Arc;

use serde_json::json;

use crate::cell::{CellContext, Cells};

/// The path of the keys (RFC 7517), below that of a cell.
const KEYS: &str = "/.well-known/jwks.json";
/// The path of the discovery document (OpenID Connect Discovery 1.0), below that of a cell.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublishedDocument {
    Keys,
    Discovery,
}

/// The document at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Json(String),
    /// There is no such cell, or the path names none of several.
    Absent,
    /// The store does not answer.
    Later,
}

/// The document that a path names, and its cell; empty: the only one of the gateway. `None`: it is no such path.
fn named(path: &str) -> Option<(PublishedDocument, &str)> {
    let documents = [(KEYS, PublishedDocument::Keys), (DISCOVERY, PublishedDocument::Discovery)];
    let (before, document) =
        documents.into_iter().find_map(|(end, document)| Some((path.strip_suffix(end)?, document)))?;
    if before.is_empty() {
        return Some((document, ""));
    }
    let cell = before.strip_prefix("/v1/cells/")?;
    (!cell.is_empty() && !cell.contains('/')).then_some((document, cell))
}

/// Answers a path; `None`: it is another one's.
pub(crate) async fn published(cells: &Cells, path: &str) -> Option<Published> {
    let (document, name) = named(path)?;
    let cell = match name {
        "" => cells.0.values().next().filter(|_| cells.0.len() == 1),
        name => cells.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, cell)| cell),
    };
    let Some(cell) = cell else { return Some(Published::Absent) };
    Some(match document {
        PublishedDocument::Keys => match cell.workload.keys.ring().await {
            Ok(ring) => Published::Json(format!("{}\n", ring.jwks)),
            Err(_) => Published::Later,
        },
        PublishedDocument::Discovery => Published::Json(discovery(cell)),
    })
}

fn discovery(cell: &Arc<CellContext>) -> String {
    let issuer = &cell.workload.names.issuer;
    let document = json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}{KEYS}"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "claims_supported": [
            "iss", "sub", "aud", "iat", "nbf", "exp", "jti", "cell", "user", "job", "index", "incarnation",
        ],
    });
    format!("{document}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_document_and_a_cell() {
        use PublishedDocument::{Discovery, Keys};
        for (path, expected) in [
            ("/.well-known/jwks.json", Some((Keys, ""))),
            ("/.well-known/openid-configuration", Some((Discovery, ""))),
            ("/v1/cells/alpha/.well-known/jwks.json", Some((Keys, "alpha"))),
            ("/v1/cells/alpha/.well-known/openid-configuration", Some((Discovery, "alpha"))),
            ("/v1/cells//.well-known/jwks.json", None),
            ("/v1/cells/a/b/.well-known/jwks.json", None),
            ("/v1/cells/alpha/names", None),
            ("/x/.well-known/jwks.json", None),
            ("/metrics", None),
        ] {
            assert_eq!(named(path), expected, "{path}");
        }
    }
}
