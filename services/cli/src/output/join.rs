//! Join tokens and identities of nodes.

use borough_proto::v1;
use serde::Serialize;

use super::Foreign;
use super::table::Tabular;
use super::text::time;

/// How a node joins, and what it has since.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeJoinView {
    pub(crate) node: Foreign,
    pub(crate) token: Option<JoinTokenView>,
    pub(crate) identity: Option<NodeIdentityView>,
}

/// A join token, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JoinTokenView {
    pub(crate) by: Foreign,
    pub(crate) made_ms: i64,
    pub(crate) expires_ms: i64,
    /// 0: no agent has used it.
    pub(crate) used_ms: i64,
}

/// The identity of a node, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeIdentityView {
    pub(crate) renewed_ms: i64,
    pub(crate) expires_ms: i64,
}

impl From<v1::NodeJoin> for NodeJoinView {
    fn from(join: v1::NodeJoin) -> Self {
        Self {
            node: join.node.into(),
            token: join.token.map(|token| JoinTokenView {
                by: token.by.into(),
                made_ms: token.made_ms,
                expires_ms: token.expires_ms,
                used_ms: token.used_ms,
            }),
            identity: join.identity.map(|identity| NodeIdentityView {
                renewed_ms: identity.renewed_ms,
                expires_ms: identity.expires_ms,
            }),
        }
    }
}

impl Tabular for NodeJoinView {
    const PLURAL: &'static str = "joins";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["NODE", "TOKEN", "EXPIRES", "BY", "IDENTITY RENEWED", "EXPIRES"], vec!["MADE"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let none = || "-".to_owned();
        let token = |shown: fn(&JoinTokenView) -> String| self.token.as_ref().map_or_else(none, shown);
        let identity =
            |shown: fn(&NodeIdentityView) -> String| self.identity.as_ref().map_or_else(none, shown);
        let state = |token: &JoinTokenView| {
            if token.used_ms == 0 { "open".to_owned() } else { format!("used {}", time(token.used_ms)) }
        };
        let row = vec![
            self.node.to_string(),
            token(state),
            token(|token| time(token.expires_ms)),
            token(|token| token.by.to_string()),
            identity(|identity| time(identity.renewed_ms)),
            identity(|identity| time(identity.expires_ms)),
        ];
        (row, vec![token(|token| time(token.made_ms))])
    }
}
