//! What the embedded engine keeps on a disk: a commit log, and a checkpoint behind it.
//!
//! Every batch is one record of the log, durable before it is seen. When the log has grown, the rows it changed go
//! into the checkpoint in the background and the log's old segments go away. Opening reads the checkpoint, then the
//! log after it.

mod backend;
mod checkpoint;
#[cfg(test)]
mod crash;
pub mod disk;
#[cfg(test)]
mod disk_tests;
mod log;
mod marker;
mod open;
mod record;
mod recover;
#[cfg(test)]
mod shutdown_tests;
mod space;
#[cfg(test)]
mod space_tests;
#[cfg(test)]
mod tests;
mod worker;

pub use marker::LogLoss;
pub use open::{OpenError, OpenOptions};
pub(super) use open::{OpenedEngine, store_open};
