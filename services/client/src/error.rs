//! Errors of calls: the gateway was not reached, did not answer in time, or refused with a reason.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use borough_proto::v1::DryRunResponse;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No gateway could be reached, or all of them were unavailable. Check the addresses and that a gateway runs; the
    /// call may be repeated.
    #[error("no gateway answered at {} (attempts: {attempts})", gateways.join(", "))]
    Unreachable {
        /// The addresses that were tried.
        gateways: Vec<String>,
        /// The number of tries, over all of them.
        attempts: u32,
        #[source]
        source: Option<Box<Status>>,
    },
    /// The call was not over in time. A mutation may have had its effect: check, or repeat it under the same request
    /// id.
    #[error("the gateway at {} did not answer within {} s ({method})", gateways.join(", "), deadline.as_secs_f64())]
    Deadline {
        method: &'static str,
        deadline: Duration,
        gateways: Vec<String>,
        /// Whether the call would have changed something.
        changes: bool,
    },
    /// Something answers at the address that is not the gRPC port of a gateway. Correct the address.
    #[error("{} is {what}; accepted: the gRPC port of a gateway", gateways.join(", "))]
    NotGateway {
        gateways: Vec<String>,
        /// What answers there, as far as its answer shows.
        what: &'static str,
    },
    /// The gateway accepts no call with this token, or without one. Give another one.
    #[error("the gateway at {} {}", gateways.join(", "), token_refused(token.as_deref(), refusal))]
    TokenRefused {
        gateways: Vec<String>,
        /// Where the token is from; absent: none was sent.
        token: Option<String>,
        refusal: Box<GatewayRefusal>,
    },
    /// The gateway refused. Its message says what would be accepted.
    #[error("{0}")]
    Refused(Box<GatewayRefusal>),
    /// The client makes dry runs: the gateway has checked the change, and nothing has changed.
    #[error("a dry run of {method}: nothing has changed")]
    DryRun {
        method: &'static str,
        /// What the change would do.
        answer: Box<DryRunResponse>,
    },
    /// An answer lacks a required field: client and gateway have different versions.
    #[error("the answer to {method} lacks `{field}`: client and gateway are of different versions")]
    Incomplete { method: &'static str, field: &'static str },
    /// A gateway address is invalid. Correct it.
    #[error(
        "gateway address {address:?} {problem}; accepted: HOST:PORT or {scheme}://HOST:PORT, with a port from 1 to 65535"
    )]
    Address {
        address: String,
        problem: String,
        /// The scheme that an address may have: `https` of encrypted connections, else `http`.
        scheme: &'static str,
    },
    /// No gateway address was given. Give at least one.
    #[error("no gateway address was given")]
    NoGateway,
    /// The token file cannot be read. Run as the user who owns it.
    #[error("cannot read the token file {path:?}")]
    TokenFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The token is empty or has invalid characters. Correct it where it is from.
    #[error("the token of {token} {problem}; accepted: one line of visible ASCII characters")]
    TokenText {
        /// Where the token is from.
        token: String,
        problem: &'static str,
    },
}

fn token_refused(token: Option<&str>, refusal: &GatewayRefusal) -> String {
    // Of a token that somebody has signed, and of a certificate, the gateway says what is wrong.
    let why = match refusal.reason.as_str() {
        "TOKEN_REFUSED" | "CERTIFICATE_REFUSED" => format!(": {}", refusal.message),
        _ => String::new(),
    };
    match token {
        Some(token) => format!("does not accept the token of {token}{why}"),
        None if why.is_empty() => "needs a token, and none is given".to_owned(),
        None => format!("needs a token or another certificate{why}"),
    }
}

/// Reasons of a refusal for want of an agent: its node does not answer, or is lost.
const REASONS_SILENT: [&str; 2] = ["NODE_SILENT", "NODE_LOST"];
/// The reason if the agent may only have lost its connection.
const REASON_AWAY: &str = "AGENT_AWAY";
/// The reason if no federation process has answered.
const REASON_FEDERATION_SILENT: &str = "FEDERATION_SILENT";

/// Returns true if a gateway knows that the node of a task does not answer. Another try at once helps no more.
pub(crate) fn node_silent(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| REASONS_SILENT.contains(&info.reason.as_str()))
}

/// Returns true if no federation process has answered the gateway, which has waited for one.
pub(crate) fn federation_silent(status: &Status) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == REASON_FEDERATION_SILENT)
}

/// The refusal of a status that says that the agent of a task's node is away.
pub(crate) fn agent_away(status: &Status) -> Option<GatewayRefusal> {
    let refusal = (status.code() == Code::Unavailable).then(|| GatewayRefusal::from_status(status))?;
    refusal.is_agent_away().then_some(refusal)
}

/// A gateway's refusal, with its details.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRefusal {
    pub code: Code,
    /// One sentence for people.
    pub message: String,
    /// The machine-readable reason, such as `JOB_CHANGED`; empty if none came.
    pub reason: String,
    /// Facts about the reason.
    pub metadata: BTreeMap<String, String>,
    /// The invalid fields of the request.
    pub fields: Vec<FieldViolation>,
    /// Conditions that are not met.
    pub preconditions: Vec<Precondition>,
    /// When to ask again, if the gateway set it.
    pub retry_after: Option<Duration>,
}

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// The field's path, such as `spec.task.ports[0].number`.
    pub field: String,
    /// What is wrong with it, and what would be accepted.
    pub description: String,
}

/// A condition that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    pub kind: String,
    pub subject: String,
    pub description: String,
}

impl std::fmt::Display for GatewayRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() {
            return write!(f, "{}", self.code.description());
        }
        f.write_str(&self.message)
    }
}

impl GatewayRefusal {
    /// Returns true if the agent of a task's node does not answer. The metadata names the `node` and the `task`.
    pub fn is_agent_away(&self) -> bool {
        self.reason == REASON_AWAY || self.is_node_silent()
    }

    /// Returns true if the gateway knows that the node of a task is silent or lost.
    pub(crate) fn is_node_silent(&self) -> bool {
        REASONS_SILENT.contains(&self.reason.as_str())
    }

    /// Decodes a status with its details.
    pub(crate) fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let fields = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        let unmet = details.precondition_failure().map(|failure| failure.violations.as_slice());
        Self {
            code: status.code(),
            message: status.message().to_owned(),
            reason: info.map(|info| info.reason.clone()).unwrap_or_default(),
            metadata: info.map(|info| info.metadata.clone().into_iter().collect()).unwrap_or_default(),
            fields: fields
                .iter()
                .map(|violation| FieldViolation {
                    field: violation.field.clone(),
                    description: violation.description.clone(),
                })
                .collect(),
            preconditions: unmet
                .unwrap_or_default()
                .iter()
                .map(|violation| Precondition {
                    kind: violation.r#type.clone(),
                    subject: violation.subject.clone(),
                    description: violation.description.clone(),
                })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
        }
    }
}

impl ClientError {
    /// The refusal of a status.
    pub(crate) fn refused(status: &Status) -> Self {
        Self::Refused(Box::new(GatewayRefusal::from_status(status)))
    }

    /// The gRPC code, if a gateway returned one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refusal) | Self::TokenRefused { refusal, .. } => Some(refusal.code),
            _ => None,
        }
    }

    /// The refusal of the gateway that answered, if the agent of a task's node does not answer.
    pub fn agent_away(&self) -> Option<GatewayRefusal> {
        match self {
            Self::Refused(refusal) => refusal.is_agent_away().then(|| (**refusal).clone()),
            Self::Unreachable { source: Some(status), .. } => agent_away(status),
            _ => None,
        }
    }

    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&GatewayRefusal> {
        match self {
            Self::Refused(refusal) | Self::TokenRefused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }
}
