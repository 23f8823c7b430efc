//! The configuration of a client.

use std::path::PathBuf;
use std::time::Duration;

use borough_proto::connect::Connector;
use borough_proto::file::file_begin_read;

use crate::error::ClientError;
use crate::retry::RetryPolicy;

/// Where a client connects, for whom, and its time limits.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Addresses as `host:port` or `http://host:port`, tried in order and in rotation; with a connector for TLS,
    /// `https://host:port`.
    pub gateways: Vec<String>,
    /// Connects to gateways: by TCP, unless one for TLS or a simulation replaces it.
    pub connector: Connector,
    pub token: Option<ClientToken>,
    /// Where the token is from, for errors, such as `the file /etc/token`. Absent: as the token itself says.
    pub token_source: Option<String>,
    /// The user of the calls.
    pub user: String,
    /// The cell of the calls until [`crate::Client::with_cell`] names another.
    pub cell: String,
    /// The time limit of one call with all its tries. For a stream: until it is open.
    pub deadline: Duration,
    /// The time limit of one connection.
    pub connect_timeout: Duration,
    /// When and how often a call is retried.
    pub retry: RetryPolicy,
    /// A watch gives up if no gateway has answered it for so long; absent: it never does.
    pub watch_patience: Option<Duration>,
}

impl ClientConfig {
    /// The defaults for `gateways`: plain HTTP/2, no token, ten seconds per call, watches that never give up.
    pub fn new(gateways: Vec<String>, user: impl Into<String>, cell: impl Into<String>) -> Self {
        Self {
            gateways,
            connector: Connector::default(),
            token: None,
            token_source: None,
            user: user.into(),
            cell: cell.into(),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            retry: RetryPolicy::default(),
            watch_patience: None,
        }
    }
}

/// The secret that proves who the caller is: sent as `authorization: Bearer ...` with every call.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientToken {
    Value(String),
    /// A file that contains it, read once per client. Surrounding white space does not count.
    File(PathBuf),
}

impl std::fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Logs must not show a secret.
            Self::Value(_) => f.write_str("Value(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl ClientConfig {
    /// Where the token is from, as errors say it; `None` without a token.
    pub(crate) fn token_named(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        Some(self.token_source.clone().unwrap_or_else(|| token.source()))
    }
}

/// The most bytes of a token: it is sent with every call.
const TOKEN_BYTES_MAX: usize = 8_192;

impl ClientToken {
    fn source(&self) -> String {
        match self {
            Self::Value(_) => "the caller".to_owned(),
            Self::File(path) => format!("the file {}", path.display()),
        }
    }

    /// The token's text.
    ///
    /// # Errors
    /// The file cannot be read, or has no token.
    pub fn text(&self) -> Result<String, ClientError> {
        self.text_read(&self.source())
    }

    /// Reads the token's text. `source` is what errors call it.
    pub(crate) fn text_read(&self, source: &str) -> Result<String, ClientError> {
        let text = match self {
            Self::Value(text) => text.trim().to_owned(),
            // One byte more tells a token that is too long.
            Self::File(path) => file_begin_read(path, TOKEN_BYTES_MAX as u64 + 1)
                .map_err(|source| ClientError::TokenFile { path: path.clone(), source })?
                .trim()
                .to_owned(),
        };
        let refused = |problem| ClientError::TokenText { token: source.to_owned(), problem };
        if text.is_empty() {
            return Err(refused("is empty"));
        }
        if text.len() > TOKEN_BYTES_MAX {
            return Err(refused("has more than 8,192 bytes"));
        }
        if text.lines().count() > 1 {
            return Err(refused("has several lines"));
        }
        let sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if sendable { Ok(text) } else { Err(refused("has other characters")) }
    }
}
