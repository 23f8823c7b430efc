//! Dry runs: what a change would do, or why it would be refused. The services of the methods make them, and the mark of
//! the caller keeps the change from its commit.

mod service;
mod words;

pub(crate) use service::DryRunServer;
