//! The user of a task: one without privileges, assumed for good before any part of the task is executed.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, fchown, fstat};
use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::termios::isatty;
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};

/// The user and group of a task. Neither needs an entry in `/etc/passwd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUser {
    /// The user's number; never 0.
    pub uid: u32,
    /// The group's number; never 0.
    pub gid: u32,
}

impl TaskUser {
    /// Makes the calling process, which must have one thread only, this user's: no other group, no privilege, and none
    /// to be gained by executing a program (`no_new_privs`). Its pipes and its terminal become the user's, so that a
    /// program can open `/dev/stdout` and `/dev/tty`.
    ///
    /// # Errors
    /// The first step that the kernel refuses, or [`io::ErrorKind::InvalidInput`] for root. The caller must then
    /// execute nothing.
    pub fn assume(self) -> io::Result<()> {
        if self.uid == 0 || self.gid == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a task's user is never root"));
        }
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
            stream_give(stream, uid, gid);
        }
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        set_no_new_privs(true)?;
        let is_it = (getuid(), geteuid(), getgid(), getegid()) == (uid, uid, gid, gid);
        // A kernel that reports success and does nothing: no task may run as root.
        if is_it { Ok(()) } else { Err(io::Error::other("the user did not change")) }
    }
}

/// Gives a pipe or a terminal to the user. A shared device such as `/dev/null` stays as it is.
fn stream_give(stream: BorrowedFd<'_>, uid: Uid, gid: Gid) {
    let is_own = match fstat(stream).map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(FileType::Fifo) => true,
        Ok(FileType::CharacterDevice) => isatty(stream),
        _ => false,
    };
    if is_own {
        // If it is refused, the stream works anyway: it is open.
        let _ = fchown(stream, Some(uid), Some(gid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_no_tasks_user() {
        for (uid, gid) in [(0, 65_534), (65_534, 0), (0, 0)] {
            let refused = TaskUser { uid, gid }.assume().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
