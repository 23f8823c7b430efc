//! `JobService`: admitting, planning, scaling, stopping and showing jobs.

mod admit;
mod after;
mod daemon;
mod expected;
mod list;
mod need;
mod plan;
mod priority;
mod purge;
mod rehearsal;
mod service;
mod usage;

#[cfg(test)]
mod tests;

pub use list::{job_counts, job_message, job_message_of};
pub use plan::{explanation_message, scheduler_named};
pub use service::JobServer;
