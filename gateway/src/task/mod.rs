//! `TaskService`: requests about single tasks.

mod exec;
mod log;
mod message;
mod service;
mod session;
mod slot;

pub use message::{job_found, job_task_messages, task_found, task_message};
pub use service::TaskServer;
