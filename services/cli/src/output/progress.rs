//! What is shown while waiting: one moving line on a terminal, a new line per change otherwise.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Printer;

/// A wait that is shown.
pub(crate) struct Progress<'p> {
    printer: &'p Printer,
    bar: Option<ProgressBar>,
    last: String,
}

impl<'p> Progress<'p> {
    /// Shows nothing where people want quiet.
    pub(crate) fn new(printer: &'p Printer) -> Self {
        let moving = !printer.is_quiet() && std::io::stderr().is_terminal();
        let bar = moving.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::default_spinner());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { printer, bar, last: String::new() }
    }

    /// How things stand now. The same text twice is shown once.
    pub(crate) fn stand(&mut self, text: &str) {
        if self.last == text {
            return;
        }
        text.clone_into(&mut self.last);
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => self.printer.remark(text),
        }
    }

    /// How things stood last; empty before the first time.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    /// Something that is to stay on the screen.
    pub(crate) fn remark(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.printer.remark(text)),
            None => self.printer.remark(text),
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
