//! The files of the embedded engine: a commit log, and a checkpoint before it.
//!
//! Every batch is one record of the log, durable before it is visible unless its flush may wait. When the log has
//! grown, the changed rows go into the checkpoint in the background, and old segments of the log are removed. Opening
//! reads the checkpoint, then the log after it.

mod backend;
mod checkpoint;
mod cold;
#[cfg(test)]
mod crash;
mod directory;
pub mod disk;
#[cfg(test)]
mod disk_tests;
mod log;
mod marker;
mod open;
mod record;
mod recover;
mod segment;
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
