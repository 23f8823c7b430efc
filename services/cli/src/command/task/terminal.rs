//! The caller's terminal in raw mode, restored however the command ends.

use std::io;

use borough_proto::v1::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal in raw mode; dropping this restores it, also while a panic unwinds.
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Puts standard input into raw mode: every key goes to the command, Ctrl-C among them.
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that has gone needs no restoring.
        let _restored = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of the terminal behind standard output.
pub(super) fn size() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(WindowSize { rows: u32::from(size.ws_row), columns: u32::from(size.ws_col) })
}
