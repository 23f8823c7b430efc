//! `TaskService`: requests about single tasks.

mod away;
mod condition;
mod exec;
mod explain;
mod list;
mod log;
mod message;
mod service;
mod session;
mod slot;

pub use message::{job_found, task_found, task_message};
pub use service::TaskServer;
