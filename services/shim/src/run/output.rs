//! The task's output: two pipes, read into log files.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::clock;
use crate::log::{LogWriter, OutputStream};
use crate::spec::LogLimits;

/// Bytes of one read: few, since a shim must be small.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks read from one pipe before the other one gets its turn.
const CHUNKS_MAX: usize = 16;

/// One stream: the reading end of its pipe, and its log.
#[derive(Debug)]
pub(super) struct Output {
    /// Closed once every writer has gone.
    pub pipe: Option<OwnedFd>,
    log: LogWriter,
}

impl Output {
    /// A new pipe into the attempt's log. The second value is the end for the task.
    ///
    /// # Errors
    /// The kernel has no pipe left.
    pub(super) fn new(
        attempt: &Path,
        stream: OutputStream,
        limits: LogLimits,
    ) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&ours, true)?;
        Ok((Self { pipe: Some(ours), log: LogWriter::new(attempt.to_owned(), stream, limits) }, theirs))
    }

    /// Reads what is there. Returns true if there may be more.
    pub(super) fn take(&mut self) -> bool {
        let mut chunk = [0; CHUNK_BYTES];
        for _ in 0..CHUNKS_MAX {
            let Some(pipe) = &self.pipe else { return false };
            match read(pipe, &mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    self.log.time_set(clock::wall_ms());
                    self.log.append(chunk.get(..length).unwrap_or_default());
                }
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => {}
                Err(_) => self.pipe = None,
            }
        }
        self.pipe.is_some()
    }
}
