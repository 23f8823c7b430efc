//! How nodes join the cell: join tokens, and the identities that agents get for them.

use std::time::Duration;

use borough_proto::v1::node_service_client::NodeServiceClient;
use borough_proto::v1::{
    CreateJoinTokenRequest, ListJoinTokensRequest, ListJoinTokensResponse, NodeJoin, PageRequest,
    RevokeJoinTokenRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

/// A join token that its caller has made, and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTokenRequest {
    /// The name of the node; it need not exist yet.
    pub node: String,
    /// The SHA-256 digest of the token.
    pub digest: [u8; 32],
    /// For how long it counts.
    pub lasts: Duration,
    /// For how long an identity counts after each renewal.
    pub identity_lasts: Duration,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Client {
    /// Makes the join token of a node, instead of the one that it had.
    ///
    /// # Errors
    /// As for every call.
    pub async fn join_token_create(&self, token: JoinTokenRequest) -> Result<NodeJoin, ClientError> {
        let message = CreateJoinTokenRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: token.node,
            token_digest: token.digest.to_vec().into(),
            lasts_ms: millis(token.lasts),
            identity_lasts_ms: millis(token.identity_lasts),
        };
        let answer = self.call("CreateJoinToken", message, rpc!(NodeServiceClient.create_join_token)).await?;
        present("CreateJoinToken", "join", answer.join)
    }

    /// One page of the join tokens and identities of nodes, by name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn join_token_list_page(
        &self,
        page: PageRequest,
    ) -> Result<ListJoinTokensResponse, ClientError> {
        let message = ListJoinTokensRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            page: Some(page),
        };
        self.call("ListJoinTokens", message, rpc!(NodeServiceClient.list_join_tokens)).await
    }

    /// Takes back a join token that no agent has used. Returns what the node had.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the node has none, `FAILED_PRECONDITION` if it was used.
    pub async fn join_token_revoke(&self, node: &str) -> Result<NodeJoin, ClientError> {
        let message = RevokeJoinTokenRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: node.to_owned(),
            identity: false,
        };
        let answer = self.call("RevokeJoinToken", message, rpc!(NodeServiceClient.revoke_join_token)).await?;
        present("RevokeJoinToken", "join", answer.join)
    }

    /// Ends the identity of a node, and takes back its join token. Returns what the node had.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the node has neither.
    pub async fn node_identity_revoke(&self, node: &str) -> Result<NodeJoin, ClientError> {
        let message = RevokeJoinTokenRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: node.to_owned(),
            identity: true,
        };
        let answer = self.call("RevokeJoinToken", message, rpc!(NodeServiceClient.revoke_join_token)).await?;
        present("RevokeJoinToken", "join", answer.join)
    }
}
