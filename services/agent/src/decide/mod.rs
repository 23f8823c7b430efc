//! Every decision of the agent, as pure functions of its state.

pub(crate) mod alloc;
#[cfg(test)]
mod alloc_test;
pub(crate) mod cores;
mod desired;
pub(crate) mod environment;
mod exit;
pub(crate) mod health;
pub(crate) mod identity;
#[cfg(test)]
mod identity_test;
pub(crate) mod load;
pub(crate) mod pressure;
mod reconcile;
mod report;
#[cfg(test)]
mod report_test;
pub(crate) mod resize;
pub(crate) mod retention;
pub(crate) mod secret;
pub(crate) mod spec;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use desired::Desired;
pub(crate) use exit::REBOOTED;
pub use identity::TaskToken;
pub(crate) use reconcile::{Effect, parked, reconcile};
pub(crate) use report::{Sent, report_next};
pub use resize::{ResizeRecord, ResizeRefusal};
pub(crate) use state::AgentState;
pub use state::{AttemptState, ShimState};
