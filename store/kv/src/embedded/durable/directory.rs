//! One failed flush of the directory fails all later ones.
//!
//! The log and the checkpoint change names of one directory, in two threads. The machine reports a failed flush once,
//! to one of them, and the names of the other may be lost too. Its own flush would then succeed without making them
//! durable. A record of a segment without a name, or a checkpoint without one, would be lost with the power.

use std::io;

use parking_lot::Mutex;

/// The flushes of one directory in one opening of a store.
#[derive(Debug, Default)]
pub(super) struct DirectoryFlushes {
    /// Held while a flush runs, so that none ends between another one's failure and its report.
    failed: Mutex<bool>,
}

impl DirectoryFlushes {
    /// Runs a flush, unless one before it has failed.
    pub(super) fn run(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if *failed {
            return Err(io::Error::other("an earlier flush of the directory failed"));
        }
        // Whatever the error is, even that of a full disk.
        flush().map_err(|error| {
            *failed = true;
            io::Error::other(format!("flush of the directory: {error}"))
        })
    }
}
