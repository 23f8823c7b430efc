//! The client library of Borough: one handle per caller over a list of gateways.
//!
//! The library connects and reconnects, and uses the next gateway if one does not answer. It repeats failed calls:
//! reads change nothing, and a mutation carries its request id, so every call is safe to repeat. It enforces a deadline
//! over all tries of a call, decodes the details of refusals, and resumes watches and logs without gaps or repetition.
//! Answers are the messages of `borough/v1`; their meaning is up to the caller.

mod access;
mod audit;
mod builder;
mod call;
mod cell;
mod config;
mod error;
mod federated;
mod in_task;
mod job;
mod join;
mod log;
mod member;
mod merged;
mod node;
mod outage;
mod page;
mod pool;
mod quota;
mod retry;
mod task;
mod usage;
mod wait;
mod watch;

#[cfg(test)]
mod tests;

pub use access::{AccessQuestion, IdentityKeyRotation};
pub use builder::{JobBuilder, JobSpecRefused};
pub use call::{Client, ItemStream};
pub use cell::EndpointListFilter;
pub use config::{ClientConfig, ClientToken};
pub use error::{ClientError, FieldViolation, GatewayRefusal, Precondition};
pub use federated::FederatedFilter;
pub use in_task::{InTask, NotInTask};
pub use join::JoinTokenRequest;
pub use log::{LogEvent, LogFollower, LogQuery, LogWait};
pub use member::MemberChange;
pub use outage::GatewayAbsence;
pub use retry::RetryPolicy;
pub use task::{TaskFilter, TaskRef};
pub use wait::{JobGoal, SeenJob, ServiceProgress, WaitError, WaitOutcome, count_with_surge};
pub use watch::{CellItem, EndpointItem, TaskAddress};

pub use job::{ExpectedJob, JobFilter, JobRef, LabelChange};
pub use node::{DrainMode, NodeFilter};
