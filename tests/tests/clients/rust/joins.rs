//! The calls about join tokens and keys of identities.

use std::time::Duration;

use borough_client::{IdentityKeyRotation, JoinTokenRequest};
use borough_proto::v1::{IdentityKeyUse, PageRequest};
use serde_json::{Value, json};

use super::Stage;
use super::expect::Failed;
use super::step::holds;

impl Stage<'_> {
    /// Makes the call of a step about the join token of a node, and compares what it says.
    pub(super) async fn join(&self, step: &Value) -> Result<(), Failed> {
        let (client, node) = (self.client(), step["node"].as_str().unwrap_or_default());
        let join = match step["call"].as_str().unwrap_or_default() {
            "issue" => {
                let token = JoinTokenRequest {
                    node: node.to_owned(),
                    digest: [7; 32],
                    lasts: Duration::from_millis(step["lasts"].as_u64().unwrap_or(3_600_000)),
                    identity_lasts: Duration::ZERO,
                };
                Some(client.join_token_create(token).await?)
            }
            "list" => {
                let page = client.join_token_list_page(PageRequest::default()).await?;
                page.joins.into_iter().find(|join| join.node == node)
            }
            "revoke" => Some(client.join_token_revoke(node).await?),
            "end" => Some(client.node_identity_revoke(node).await?),
            other => return Err(Failed::otherwise(format!("no call {other:?}"))),
        };
        let is_open = join.and_then(|join| join.token).is_some_and(|token| token.used_ms == 0);
        expected(step, &json!({ "open": is_open }))
    }

    /// Makes the call of a step about the keys of identities, and compares what it says.
    pub(super) async fn keys(&self, step: &Value) -> Result<(), Failed> {
        let client = self.client();
        let keys = match step["call"].as_str().unwrap_or_default() {
            "list" => client.identity_key_list().await?,
            "rotate" => {
                let ahead = Duration::from_millis(step["ahead"].as_u64().unwrap_or_default());
                client.identity_keys_rotate(IdentityKeyRotation::Ahead(ahead)).await?
            }
            "withdraw" => client.identity_keys_rotate(IdentityKeyRotation::Withdraw).await?,
            other => return Err(Failed::otherwise(format!("no call {other:?}"))),
        };
        let next = keys.iter().any(|key| key.r#use() == IdentityKeyUse::Next);
        expected(step, &json!({"count": keys.len(), "next": next}))
    }
}

fn expected(step: &Value, found: &Value) -> Result<(), Failed> {
    let mut expected = step["expect"].as_object().into_iter().flatten();
    holds(expected.all(|(name, value)| found[name] == *value), || found.to_string())
}
