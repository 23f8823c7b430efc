//! Raises the limit of open files of this process.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The assumed limit of a process without one.
const UNLIMITED: u64 = 1 << 20;

/// The limit of open files of this process, raised as far as possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFiles {
    before: Rlimit,
    /// Descriptors that this process may have.
    pub(crate) most: u64,
}

impl OpenFiles {
    /// Raises the soft limit to the hard one.
    pub(crate) fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: before.maximum, ..before };
        let now = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => raised,
            Err(error) => {
                tracing::warn!(%error, "the limit of open files stays as it is");
                before
            }
        };
        Self { before, most: now.current.unwrap_or(UNLIMITED) }
    }

    /// Gives a child process the limit that this process started with: a task must not inherit a gateway's limit.
    pub(crate) fn restore(self, child: u32) {
        let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
        if let Err(error) = prlimit(pid, Resource::Nofile, self.before) {
            tracing::warn!(%error, child, "a child process keeps the raised limit of open files");
        }
    }
}
