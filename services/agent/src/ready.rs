//! Waits on file descriptors that tokio has no type for: terminals, inotify, process handles.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// A descriptor whose readiness can be awaited.
pub(crate) type Ready = AsyncFd<OwnedFd>;

/// Registers a descriptor with the runtime.
///
/// # Errors
/// The kernel refuses to watch it.
#[expect(
    deprecated,
    reason = "its successor is unsafe, for descriptors that may be closed under it; an owned one is not"
)]
pub(crate) fn ready(descriptor: OwnedFd) -> io::Result<Ready> {
    AsyncFd::new(descriptor)
}
