//! Asks the user a question on the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::{Printer, line_shown};
use crate::exit::{Code, Failure};

/// The answer of an empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preset {
    Yes,
    No,
}

/// Returns true if somebody can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Printer {
    /// Asks on standard error and reads one line. The end of the input is a no.
    pub(crate) fn ask(&self, question: &str, preset: Preset) -> Result<bool, Failure> {
        let choice = if preset == Preset::Yes { "[Y/n]" } else { "[y/N]" };
        let line = ask_line(&format!("{} {choice}", line_shown(question)))?;
        Ok(line.is_some_and(|line| answer(&line, preset)))
    }

    /// Asks on standard error and returns the line without the blanks around it. The end of the input is an empty one.
    pub(crate) fn ask_text(&self, question: &str) -> Result<String, Failure> {
        let line = ask_line(&line_shown(question))?;
        Ok(line.map(|line| line.trim().to_owned()).unwrap_or_default())
    }
}

/// The line that answers, if the input has not ended.
fn ask_line(question: &str) -> Result<Option<String>, Failure> {
    let failed = |error: io::Error| Failure::new(Code::Failed, format!("cannot ask: {error}"));
    let mut err = io::stderr().lock();
    // In one piece: what is typed meanwhile would be shown in the middle of it.
    err.write_all(format!("{question} ").as_bytes()).and_then(|()| err.flush()).map_err(failed)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok((read > 0).then_some(line))
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
