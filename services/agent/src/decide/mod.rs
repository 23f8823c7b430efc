//! Every decision of the agent, as pure functions of its state.

pub mod cores;
mod desired;
pub mod environment;
mod exit;
pub mod health;
pub mod load;
pub mod pressure;
mod reconcile;
mod report;
#[cfg(test)]
mod report_test;
pub mod retention;
pub mod spec;
mod state;
#[cfg(test)]
mod tests;

pub use desired::Desired;
pub(crate) use exit::REBOOTED;
pub use reconcile::{Effect, parked, reconcile};
pub use report::{Sent, report_next};
pub use state::{AgentState, AttemptState, ShimState};
