//! Runs the shim's program: starts and adopts the shims of attempts, notices what they write, cleans up after dead
//! ones, and runs commands beside their tasks.

mod exec;
mod starter;
mod watch;

pub(crate) use exec::exec_command;
pub(crate) use starter::{RETRY_PAUSE, Starter, shim_adopt};
pub(crate) use watch::DirectoryWatch;
