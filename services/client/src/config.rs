//! What a client must know before its first call.

use std::path::PathBuf;
use std::time::Duration;

use borough_proto::connect::Connector;

use crate::error::ClientError;
use crate::retry::RetryPolicy;

/// Where the gateways are, who asks, and how patient the caller is.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Addresses as `host:port` or `http://host:port`, tried in order and in rotation.
    pub gateways: Vec<String>,
    /// How the connection is protected.
    pub transport: Transport,
    /// How the connection is made: TCP, unless a simulation says otherwise.
    pub connector: Connector,
    /// What proves the caller, where anything does.
    pub token: Option<ClientToken>,
    /// On whose behalf calls are made.
    pub user: String,
    /// The cell that calls are about until [`crate::Client::with_cell`] names another.
    pub cell: String,
    /// How long one call may take, with all its attempts. Streams: how long until they are open.
    pub deadline: Duration,
    /// How long one connection may take to be made.
    pub connect_timeout: Duration,
    /// When and how often a call is repeated.
    pub retry: RetryPolicy,
    /// Attempts in a row without any message before a watch gives up; absent: it never does.
    pub watch_attempts_max: Option<u32>,
}

impl ClientConfig {
    /// The defaults for `gateways`: plain HTTP/2, no token, ten seconds per call, watches that never give up.
    pub fn new(gateways: Vec<String>, user: impl Into<String>, cell: impl Into<String>) -> Self {
        Self {
            gateways,
            transport: Transport::Plaintext,
            connector: Connector::default(),
            token: None,
            user: user.into(),
            cell: cell.into(),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            retry: RetryPolicy::default(),
            watch_attempts_max: None,
        }
    }
}

/// How the connection is protected. TLS will be a variant here, with its roots and the caller's own certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// HTTP/2 with prior knowledge, unencrypted: for loopback only.
    #[default]
    Plaintext,
}

/// What proves the caller: sent as `authorization: Bearer ...` with every call.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientToken {
    /// The token itself.
    Value(String),
    /// A file that holds it, read once per client; surrounding white space is not part of it.
    File(PathBuf),
}

impl std::fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // A secret has no place in logs.
            Self::Value(_) => f.write_str("Value(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl ClientToken {
    /// The token's text.
    pub(crate) fn text_read(&self) -> Result<String, ClientError> {
        let text = match self {
            Self::Value(text) => text.trim().to_owned(),
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(|source| ClientError::TokenFile { path: path.clone(), source })?
                .trim()
                .to_owned(),
        };
        let sendable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if sendable { Ok(text) } else { Err(ClientError::TokenText) }
    }
}
