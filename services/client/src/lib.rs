//! The client library of Borough: one handle per caller over a list of gateways.
//!
//! What it takes off its callers: it connects and reconnects, goes on to the next gateway where one does not answer,
//! repeats what is safe to repeat (every call is: reads change nothing, and a mutation carries its request id), keeps
//! a deadline over all attempts of a call, decodes the details of refusals, and resumes watches without gaps or
//! repetition. What it leaves to them: the meaning of answers, which are the messages of `borough/v1` as they are.

mod call;
mod cell;
mod config;
mod error;
mod job;
mod node;
mod pool;
mod retry;
mod task;
mod watch;

#[cfg(test)]
mod tests;

pub use call::{Client, ItemStream};
pub use config::{ClientConfig, ClientToken, Transport};
pub use error::{ClientError, FieldViolation, GatewayRefusal, Precondition};
pub use retry::RetryPolicy;
pub use task::{LogQuery, TaskRef};
pub use watch::{CellItem, EndpointItem};

pub use job::JobRef;
pub use node::DrainMode;
