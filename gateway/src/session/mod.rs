//! Sessions with node agents: what they report goes into the store, what the store wants goes to them.
//!
//! Per session two tasks: one routes what the agent sends (so that answers to logs and exec never wait for the store),
//! one follows reports and the journal and decides, by the pure rules of [`desired`], what the agent is told.

mod course;
pub mod desired;
pub mod live;
pub(crate) mod message;
pub mod registry;
pub mod report;
mod service;

pub use service::AgentRoom;
