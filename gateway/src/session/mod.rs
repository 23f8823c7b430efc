//! Sessions with node agents. The gateway writes their reports into the store, and sends them what the store wants.
//!
//! A session has two tasks. One routes the agent's messages, so that answers to logs and exec never wait for the store.
//! The other follows reports and the notices of changed tasks ([`notice`]), and decides the agent's commands by the
//! pure rules of [`desired`]. Commands are cut into chunks within the agent's credit ([`delivery`]). Sessions that fail
//! are counted ([`failure`]). [`silence`] decides how often agents report and when a session is silent.
//!
//! All sessions share the commits of their writes: reports ([`report`]), registrations and returns ([`registration`]),
//! leases ([`live`]) and loads ([`load`]). [`batch`] says what happens if one fails. Every write passes the fence of
//! its session ([`borough_store::node::NodeWriter`]). [`mod@write`] decides what a failed write means.

pub mod address;
mod agent_session;
pub mod batch;
pub mod delivery;
#[cfg(test)]
mod delivery_test;
pub mod desired;
pub mod failure;
mod identity;
pub(crate) mod join;
pub(crate) mod joined;
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
pub mod silence;
pub mod silent;
pub mod tally;
pub mod write;

pub use service::AgentServer;
