//! The question before a destructive change. Each such verb asks here, so that every question names its context.

use borough_client::Client;

use crate::args::Global;
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{Preset, Printer, is_attended};

/// What a verb does if nobody can be asked, because it has no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unattended {
    /// It needs `--yes`.
    Refuse,
    Proceed,
}

/// What a verb is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent<'i> {
    /// In the imperative: `stop job alice/web`.
    what: &'i str,
    unattended: Unattended,
}

impl<'i> Intent<'i> {
    /// A change that can be made again in the other direction. In the dev cell of this machine it needs no question.
    pub(crate) fn stop(what: &'i str) -> Self {
        Self { what, unattended: Unattended::Proceed }
    }

    /// A change that nobody can take back, or that somebody must have looked at.
    pub(crate) fn forget(what: &'i str) -> Self {
        Self { what, unattended: Unattended::Refuse }
    }

    pub(crate) fn of(what: &'i str, unattended: Unattended) -> Self {
        Self { what, unattended }
    }

    /// Refuses what would need an answer where nobody can give one.
    pub(crate) fn possible(&self, global: &Global) -> Result<(), Failure> {
        if global.yes || self.unattended == Unattended::Proceed || is_attended() {
            return Ok(());
        }
        let message = format!("cannot ask whether to {}: standard input is no terminal", self.what);
        Err(Failure::new(Code::Usage, message).with_hint("repeat the command with --yes"))
    }
}

/// Asks on a terminal whether to make a change. `--yes` answers in advance.
pub(crate) fn confirm(
    global: &Global,
    client: &Client,
    intent: Intent<'_>,
    printer: &Printer,
) -> Result<(), Failure> {
    intent.possible(global)?;
    if global.yes || !is_attended() {
        return Ok(());
    }
    let place = match connect::place(global, client)? {
        Some(place) => place,
        None if intent.unattended == Unattended::Proceed => return Ok(()),
        None => format!("cell {}", client.cell()),
    };
    if printer.ask(&question(&place, intent.what), Preset::No)? {
        return Ok(());
    }
    let hint = "answer y to make the change, or give --yes";
    Err(Failure::new(Code::Failed, format!("not confirmed; nothing was changed in {place}")).with_hint(hint))
}

/// The one text of every question.
fn question(place: &str, change: &str) -> String {
    format!("{place}: {change}?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_its_context() {
        let place = "context \"prod\", cell alpha";
        assert_eq!(
            question(place, "stop job alice/web"),
            "context \"prod\", cell alpha: stop job alice/web?"
        );
    }
}
