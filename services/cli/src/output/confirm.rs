//! Asks the user before a verb goes on.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::{Printer, line_shown};
use crate::exit::{Code, Failure};

/// What a verb does if nobody can be asked, because it has no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unattended {
    /// It needs `--yes`.
    Refuse,
    Proceed,
}

/// The answer of an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preset {
    Yes,
    No,
}

/// What a verb is about to do.
pub(crate) struct Intent<'i> {
    /// In the imperative: `purge job alice/web`.
    pub(crate) what: &'i str,
    pub(crate) cell: &'i str,
    /// Whether `--yes` has answered in advance.
    pub(crate) yes: bool,
    pub(crate) unattended: Unattended,
}

/// Returns true if somebody can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Intent<'_> {
    /// Refuses what would need an answer where nobody can give one.
    pub(crate) fn possible(&self) -> Result<(), Failure> {
        if self.yes || self.unattended == Unattended::Proceed || is_attended() {
            return Ok(());
        }
        let message = format!("cannot ask whether to {}: standard input is no terminal", self.what);
        Err(Failure::new(Code::Usage, message).with_hint("repeat the command with --yes"))
    }
}

impl Printer {
    /// Asks whether to go on. Fails if the answer is no.
    pub(crate) fn confirm(&self, intent: &Intent<'_>) -> Result<(), Failure> {
        intent.possible()?;
        if intent.yes || !is_attended() {
            return Ok(());
        }
        let question = question(intent, self.context.as_deref());
        if self.ask(&question, Preset::No)? {
            return Ok(());
        }
        Err(Failure::new(Code::Failed, "nothing was changed"))
    }

    /// Asks on standard error and reads one line. The end of the input is a no.
    pub(crate) fn ask(&self, question: &str, preset: Preset) -> Result<bool, Failure> {
        let choice = if preset == Preset::Yes { "[Y/n]" } else { "[y/N]" };
        let failed = |error: io::Error| Failure::new(Code::Failed, format!("cannot ask: {error}"));
        let mut err = io::stderr().lock();
        write!(err, "{} {choice} ", line_shown(question)).and_then(|()| err.flush()).map_err(failed)?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).map_err(failed)?;
        Ok(read > 0 && answer(&line, preset))
    }
}

/// The one text of every question: what happens, and where.
fn question(intent: &Intent<'_>, context: Option<&str>) -> String {
    let context = context.map(|name| format!(" of context {name:?}")).unwrap_or_default();
    format!("{} in cell {}{context}?", intent.what, intent.cell)
}

/// Only a clear yes is one.
fn answer(line: &str, preset: Preset) -> bool {
    match line.trim().to_ascii_lowercase().as_str() {
        "" => preset == Preset::Yes,
        "y" | "yes" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_the_change_the_cell_and_the_context() {
        let unattended = Unattended::Proceed;
        let intent = Intent { what: "stop job alice/web", cell: "alpha", yes: false, unattended };
        assert_eq!(question(&intent, None), "stop job alice/web in cell alpha?");
        let named = "stop job alice/web in cell alpha of context \"prod\"?";
        assert_eq!(question(&intent, Some("prod")), named);
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        for yes in ["y", "Y\n", " yes \r\n"] {
            assert!(answer(yes, Preset::No), "{yes:?}");
        }
        for no in ["n\n", "no", "yo", "ja", "y y"] {
            assert!(!answer(no, Preset::Yes), "{no:?}");
        }
        assert!(answer("\n", Preset::Yes) && !answer("\n", Preset::No));
    }
}
