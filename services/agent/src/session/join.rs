//! How an agent proves its node: by a credential that it was given, or by an identity that it gets for a join token and
//! renews.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use borough_kv::secret::{Secret, SecretError};
use borough_proto::v1;
use borough_proto::v1::agent_service_client::AgentServiceClient;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use super::SessionError;
use crate::config::AgentConfig;
use crate::disk::NodeIdentityFiles;

/// How long a gateway may take to give an identity.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a renewal that failed is tried again.
const RENEW_AGAIN: Duration = Duration::from_secs(5);
/// Why a gateway refuses what a node shows.
const NOT_JOINED: &str = "NODE_NOT_JOINED";

/// What the agent shows to gateways.
#[derive(Clone)]
pub(crate) enum SessionCredential {
    /// What its operator gave to it; nothing, if its certificate proves the node.
    Given(Option<Secret>),
    Joins(NodeJoining),
}

/// An agent that joins by a token.
#[derive(Clone)]
pub(crate) struct NodeJoining {
    files: NodeIdentityFiles,
    token: PathBuf,
    cell: String,
    node: String,
}

/// Shows a secret with a request.
pub(super) fn show<T>(request: &mut Request<T>, secret: &Secret) -> Result<(), SessionError> {
    let value = format!("Bearer {}", secret.expose()).parse().map_err(|_| SessionError::Token)?;
    request.metadata_mut().insert("authorization", value);
    Ok(())
}

impl SessionCredential {
    pub(crate) fn of(config: &AgentConfig) -> Self {
        let Some(token) = &config.join_token else { return Self::Given(config.token.clone()) };
        Self::Joins(NodeJoining {
            files: NodeIdentityFiles::new(&config.state_dir),
            token: token.clone(),
            cell: config.cell.clone(),
            node: config.node.clone(),
        })
    }

    /// What opens the next session. An agent that has not joined does so now, and one that does not know whether its
    /// last renewal was done repeats it.
    pub(super) async fn ready(&self, channel: &Channel) -> Result<Option<Secret>, SessionError> {
        let joining = match self {
            Self::Given(token) => return Ok(token.clone()),
            Self::Joins(joining) => joining,
        };
        let files = &joining.files;
        let current = files.current().map_err(SessionError::Identity)?;
        let next = files.next().map_err(SessionError::Identity)?;
        match (current, next) {
            (Some(current), None) => return Ok(Some(current)),
            (Some(current), Some(_)) => match joining.exchange(channel, &current).await {
                Err(SessionError::Join(status)) if is_not_joined(&status) => {
                    // Its operator may have given it another token.
                    let Ok(token) = Secret::read(&joining.token) else {
                        return Err(SessionError::Join(status));
                    };
                    joining.exchange(channel, &token).await?;
                }
                exchanged => drop(exchanged?),
            },
            (None, _) => {
                let token = Secret::read(&joining.token).map_err(SessionError::Identity)?;
                joining.exchange(channel, &token).await?;
                tracing::info!(node = joining.node, "the node has joined; its join token counts no more");
            }
        }
        files.current().map_err(SessionError::Identity)
    }

    /// The error of a session that a gateway has not opened. If it does not know the identity, and the operator has put
    /// a token beside it, the agent joins by the token, and the next session uses that.
    pub(super) async fn joined_again(&self, channel: &Channel, status: Status) -> SessionError {
        if let Self::Joins(joining) = self
            && is_not_joined(&status)
            && let Ok(token) = Secret::read(&joining.token)
            && joining.exchange(channel, &token).await.is_ok()
        {
            tracing::info!(node = joining.node, "the node has joined again; its join token counts no more");
            return SessionError::Closed;
        }
        SessionError::Status(Box::new(status))
    }

    /// Renews the identity when it is due, for as long as the session lasts.
    pub(super) async fn renewals(&self, channel: Channel, first: Duration) {
        let Self::Joins(joining) = self else { return std::future::pending().await };
        let _: Infallible = joining.renewals(channel, first).await;
    }
}

fn is_not_joined(status: &Status) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == NOT_JOINED)
}

impl NodeJoining {
    /// Exchanges `shown` for the next identity, and takes it into use. Returns after which time it is renewed.
    async fn exchange(&self, channel: &Channel, shown: &Secret) -> Result<Duration, SessionError> {
        let next = self.files.next_ensure().map_err(SessionError::Identity)?;
        let message = v1::JoinNodeRequest {
            cell: self.cell.clone(),
            node: self.node.clone(),
            identity_digest: next.digest().to_vec().into(),
        };
        let mut request = Request::new(message);
        request.set_timeout(JOIN_TIMEOUT);
        show(&mut request, shown)?;
        let answer = AgentServiceClient::new(channel.clone()).join_node(request).await;
        let answer = answer.map_err(|status| SessionError::Join(Box::new(status)))?.into_inner();
        self.files.next_use().map_err(SessionError::Identity)?;
        Ok(Duration::from_millis(answer.renew_after_ms))
    }

    async fn renewals(&self, channel: Channel, first: Duration) -> Infallible {
        let mut wait = first;
        loop {
            tokio::time::sleep(wait).await;
            wait = match self.renew(&channel).await {
                Ok(next) => {
                    tracing::info!(node = self.node, "the identity of the node is renewed");
                    next
                }
                Err(error) => {
                    let cause = error.cause();
                    tracing::warn!(node = self.node, %error, cause, "the identity of the node is not renewed yet");
                    RENEW_AGAIN
                }
            };
        }
    }

    async fn renew(&self, channel: &Channel) -> Result<Duration, SessionError> {
        let missing = || SecretError::Text { path: self.token.clone() };
        let current = self.files.current().and_then(|current| current.ok_or_else(missing));
        self.exchange(channel, &current.map_err(SessionError::Identity)?).await
    }
}
