//! Sessions with node agents: what they report goes into the store, what the store wants goes to them.
//!
//! Per session two tasks: one routes what the agent sends (so that answers to logs and exec never wait for the store),
//! one follows reports and the notices of changed tasks ([`notice`]) and decides, by the pure rules of [`desired`],
//! what the agent is told. [`delivery`] cuts that into chunks within the agent's credit. [`failure`] knows which
//! sessions come to nothing. What sessions write is gathered: reports ([`report`]), arrivals and returns
//! ([`register_node`]) and leases ([`live`]) and loads ([`load`]) of all nodes share their commits, and go through the
//! fence of their session ([`borough_store::node::NodeWriter`]). [`write`] says what becomes of what is not written.

mod agent_session;
pub mod delivery;
#[cfg(test)]
mod delivery_test;
pub mod desired;
pub mod failure;
pub mod live;
pub mod load;
pub(crate) mod message;
pub mod metrics;
pub mod notice;
pub mod register;
pub mod registration;
pub mod registry;
pub mod report;
mod service;
pub mod tally;
pub mod write;

pub use service::AgentServer;
