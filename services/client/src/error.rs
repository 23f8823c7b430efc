//! What can go wrong with a call, in the terms of who called: not reached, not in time, refused and why.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No gateway could be reached or all of them were unavailable. Check the addresses and that a gateway runs; the
    /// call may be repeated.
    #[error("no gateway answered at {} ({attempts} attempts)", gateways.join(", "))]
    Unreachable {
        /// The addresses that were tried.
        gateways: Vec<String>,
        /// How often, over all of them.
        attempts: u32,
        /// The last failure.
        #[source]
        source: Option<Box<Status>>,
    },
    /// The call was not over in time. A mutation may or may not have had its effect: look, or repeat it under the
    /// same request id.
    #[error("{method} did not end within {} s", deadline.as_secs_f64())]
    Deadline {
        /// The call.
        method: &'static str,
        /// The time it had.
        deadline: Duration,
    },
    /// The gateway refused. Its message says what would be accepted.
    #[error("{0}")]
    Refused(Box<GatewayRefusal>),
    /// An answer lacks a field it must have: client and gateway are of different versions.
    #[error("the answer to {method} lacks `{field}`: client and gateway are of different versions")]
    Incomplete {
        /// The call.
        method: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A gateway address is no address. Correct it.
    #[error("gateway address {address:?} {problem}; accepted: HOST:PORT or http://HOST:PORT")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No gateway address was given. Give at least one.
    #[error("no gateway address was given")]
    NoGateway,
    /// The token file cannot be read. Its owner is who may use the cell.
    #[error("cannot read the token file {path:?}")]
    TokenFile {
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
    /// The token is empty or has characters that no token has.
    #[error("the token is empty or has characters other than visible ASCII")]
    TokenText,
}

/// A gateway's refusal, with the details it came with.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRefusal {
    /// The gRPC code.
    pub code: Code,
    /// One sentence for people.
    pub message: String,
    /// The machine-readable reason, such as `JOB_CHANGED`; empty where none came.
    pub reason: String,
    /// Facts that go with the reason.
    pub metadata: BTreeMap<String, String>,
    /// Fields of the request that cannot be taken.
    pub fields: Vec<FieldViolation>,
    /// Conditions that are not met.
    pub preconditions: Vec<Precondition>,
    /// When to ask again, where the gateway said.
    pub retry_after: Option<Duration>,
}

/// A field of a request that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// The field's path, such as `spec.task.ports[0].number`.
    pub field: String,
    /// What is wrong with it and what would be accepted.
    pub description: String,
}

/// A condition that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Its kind.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// What is wrong.
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

    /// The gRPC code, where a gateway gave one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// The refusal, where it is one.
    pub fn refusal(&self) -> Option<&GatewayRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}
