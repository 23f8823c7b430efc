//! Shows progress during a wait: one moving line on a terminal, otherwise a line per change, at most one a second.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Printer, line_shown};

/// A wait with its progress.
pub(crate) struct Progress<'p> {
    printer: &'p Printer,
    bar: Option<ProgressBar>,
    last: String,
    rate: ProgressRate,
    clock: Arc<dyn Clock>,
}

/// Time between two lines: a job of thousands of tasks changes hundreds of times a second.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Limits the lines to one a second. A newer state replaces one that waits; the same one may come again to be written.
#[derive(Debug, Default)]
struct ProgressRate {
    written_at: Option<Duration>,
    waiting: Option<String>,
}

impl ProgressRate {
    /// The line to write at `now`, if the state is `text`.
    fn next(&mut self, text: &str, now: Duration) -> Option<String> {
        if self.written_at.is_some_and(|at| now.saturating_sub(at) < LINE_INTERVAL) {
            self.waiting = Some(text.to_owned());
            return None;
        }
        self.written_at = Some(now);
        self.waiting = None;
        Some(text.to_owned())
    }
}

impl<'p> Progress<'p> {
    /// Shows nothing with `--quiet`.
    pub(crate) fn new(printer: &'p Printer) -> Self {
        let moving = printer.moving && !printer.is_quiet() && std::io::stderr().is_terminal();
        let bar = moving.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::default_spinner());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let clock = SystemClock::shared();
        Self { printer, bar, last: String::new(), rate: ProgressRate::default(), clock }
    }

    /// Shows the present state. The same text twice is shown once.
    pub(crate) fn show(&mut self, text: &str) {
        // A state that was not written since it came too soon is written once it lasts.
        if self.last == text && self.rate.waiting.is_none() {
            return;
        }
        text.clone_into(&mut self.last);
        match &self.bar {
            Some(bar) => bar.set_message(line_shown(text).into_owned()),
            None => {
                if let Some(line) = self.rate.next(text, self.clock.monotonic()) {
                    self.printer.remark(&line);
                }
            }
        }
    }

    /// The last state, at the end of what was waited for. People read it in the answer; with an answer for programs it
    /// is the last remark. No earlier state is written after it.
    pub(crate) fn end(&mut self, text: &str) {
        self.reached();
        if self.printer.is_machine() {
            self.show(text);
        }
    }

    /// The answer follows. No earlier state is written any more.
    pub(crate) fn reached(&mut self) {
        self.rate = ProgressRate::default();
    }

    /// One of a few steps: each gets a line.
    pub(crate) fn step(&mut self, text: &str) {
        self.rate = ProgressRate::default();
        self.show(text);
    }

    /// The last state; empty before the first one.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    /// A remark that stays on the screen.
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
        // The final state is shown in any case.
        if let Some(line) = self.rate.waiting.take() {
            self.printer.remark(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_overtaken_within_a_second_are_not_written_but_the_last_one_is() {
        let mut rate = ProgressRate::default();
        let at = Duration::from_millis;
        assert_eq!(rate.next("a", at(0)).as_deref(), Some("a"));
        assert_eq!(rate.next("b", at(300)), None);
        assert_eq!(rate.next("c", at(900)), None);
        assert_eq!(rate.next("d", at(1_000)).as_deref(), Some("d"));
        assert_eq!(rate.waiting, None);
        assert_eq!(rate.next("e", at(1_100)), None);
        assert_eq!(rate.waiting.as_deref(), Some("e"), "what is written at the end");
        assert_eq!(rate.next("e", at(2_000)).as_deref(), Some("e"), "a state that lasts");
    }
}
