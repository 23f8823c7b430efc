//! The terminal of the view: whether one is there, its keys, and its restoring however the program ends.

use std::io::{self, IsTerminal as _};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Size;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Events that wait for the view at most. Nobody types faster.
const EVENTS_MAX: usize = 64;

/// Refuses what the view cannot be drawn on, and says what gives the same as text.
pub(super) fn terminal_check(printer: &Printer) -> Result<(), Failure> {
    let refuse = |reason: &str| {
        let message = format!("borough top draws on a terminal, and {reason}");
        Failure::new(Code::Usage, message).with_hint(
            "as text: borough cell status, borough node list -o wide, borough job list -o wide, borough job status JOB",
        )
    };
    if printer.is_machine() {
        return Err(refuse("not in the format of -o"));
    }
    if !io::stdout().is_terminal() {
        return Err(refuse("standard output is none"));
    }
    if !io::stdin().is_terminal() {
        return Err(refuse("standard input is none"));
    }
    let kind = std::env::var("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        return Err(refuse("this one cannot move its cursor (TERM)"));
    }
    Ok(())
}

/// The screen of the view. Dropping it restores the terminal, and so does a panic, before its message.
pub(super) struct TopTerminal {
    /// Absent only while it is dropped.
    screen: Option<DefaultTerminal>,
}

impl TopTerminal {
    pub(super) fn enter() -> Result<Self, Failure> {
        Ok(Self { screen: Some(ratatui::try_init().map_err(|error| broken(&error))?) })
    }

    pub(super) fn size(&self) -> io::Result<Size> {
        self.screen.as_ref().map_or_else(|| Ok(Size::default()), |screen| screen.size())
    }

    /// Draws on the screen.
    pub(super) fn draw(&mut self, paint: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        match &mut self.screen {
            Some(screen) => screen.draw(paint).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Drop for TopTerminal {
    fn drop(&mut self) {
        // A terminal that has gone needs no restoring. The library would write about it to standard error, and panic
        // if that has gone as well.
        if ratatui::try_restore().is_err() {
            std::mem::forget(self.screen.take());
        }
    }
}

/// The failure of a terminal that has gone, or refuses.
pub(super) fn broken(error: &io::Error) -> Failure {
    Failure::new(Code::Failed, format!("cannot use the terminal: {error}"))
}

/// Keys and sizes from a thread of its own: a read of the terminal cannot be cancelled. The end of the channel is that
/// of the terminal.
pub(super) fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The signals that would end this process with the terminal left as the view needs it.
pub(super) struct EndSignals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(Code::Failed, format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::process::Command;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    #[test]
    #[ignore = "a fault on a terminal, which the other test starts"]
    fn a_fault_on_the_screen() {
        let _terminal = TopTerminal::enter().unwrap();
        panic!("a fault of the view");
    }

    /// A fault behind an open screen would leave a terminal that echoes nothing, and a message that nobody sees.
    #[test]
    fn a_fault_restores_the_terminal_before_its_message() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let own = |file: &File| file.try_clone().unwrap();
        let name = "command::top::terminal::tests::a_fault_on_the_screen";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env("TERM", "xterm")
            .env_remove("RUST_BACKTRACE")
            .stdin(own(&slave))
            .stdout(own(&slave))
            .stderr(own(&slave))
            .spawn()
            .unwrap();
        assert!(!child.wait().unwrap().success());
        let after = tcgetattr(&slave).unwrap();
        assert_eq!(before.local_modes, after.local_modes, "the terminal echoes keys again");
        drop(slave);
        let mut written = Vec::new();
        // The other end is closed, which a terminal reports as an error.
        let _end = File::from(master).read_to_end(&mut written);
        let written = String::from_utf8_lossy(&written);
        let place = |text: &str| written.find(text).unwrap_or_else(|| panic!("no {text:?} in {written:?}"));
        let order = ["\u{1b}[?1049h", "\u{1b}[?1049l", "a fault of the view"].map(place);
        assert!(order.is_sorted(), "{order:?} in {written:?}");
    }
}
