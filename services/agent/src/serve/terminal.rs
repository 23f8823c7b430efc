//! A pseudo terminal: its controlling end, read and written without blocking.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use borough_proto::v1;
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::ready::{Ready, ready};

/// Bytes of one read.
const CHUNK_BYTES: usize = 4096;

/// The controlling end of a terminal.
#[derive(Debug)]
pub(super) struct Terminal(Ready);

impl Terminal {
    /// A new terminal of this size, with the end for a command.
    ///
    /// # Errors
    /// The system has none left.
    pub(super) fn open(size: v1::WindowSize) -> io::Result<(Self, OwnedFd)> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = PathBuf::from(ptsname(&ours, Vec::new())?.to_string_lossy().into_owned());
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or(0);
        let theirs = OpenOptions::new().read(true).write(true).custom_flags(flags).open(name)?;
        ioctl_fionbio(&ours, true)?;
        let terminal = Self(ready(ours)?);
        terminal.resize(size);
        Ok((terminal, theirs.into()))
    }

    /// Sets the size of the terminal.
    pub(super) fn resize(&self, size: v1::WindowSize) {
        let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let size =
            Winsize { ws_row: cells(size.rows), ws_col: cells(size.columns), ws_xpixel: 0, ws_ypixel: 0 };
        // A failure only affects the layout of output.
        let _ = tcsetwinsize(self.0.get_ref(), size);
    }

    /// What the command has written; `None` once it has closed its end.
    pub(super) async fn read(&self) -> Option<bytes::Bytes> {
        let mut buffer = [0; CHUNK_BYTES];
        loop {
            let mut ready = self.0.readable().await.ok()?;
            match rustix::io::read(self.0.get_ref(), &mut buffer) {
                Ok(0) => return None,
                Ok(length) => return Some(bytes::Bytes::copy_from_slice(buffer.get(..length)?)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                // A closed terminal returns an input error.
                Err(_) => return None,
            }
        }
    }

    /// Writes input. Input to a closed terminal is lost.
    pub(super) async fn write(&self, mut data: &[u8]) {
        while !data.is_empty() {
            let Ok(mut ready) = self.0.writable().await else { return };
            match rustix::io::write(self.0.get_ref(), data) {
                Ok(length) => data = data.get(length..).unwrap_or_default(),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
