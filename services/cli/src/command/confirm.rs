//! The question before a destructive change. Each such verb asks here, so that every question names its context.

use borough_client::Client;
use sha2::{Digest as _, Sha256};

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
        if global.yes || global.dry_run || self.unattended == Unattended::Proceed || is_attended() {
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
    if global.dry_run {
        return Ok(());
    }
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

/// More objects than anybody reads in a list, to be ended at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManyObjects<'m> {
    /// In the imperative: `stop 57 jobs`.
    pub(crate) what: &'m str,
    pub(crate) names: &'m [String],
}

impl ManyObjects<'_> {
    /// The code that confirms this change of these objects of a cell, and of no others: the start of a SHA-256.
    fn code(&self, cell: &str) -> String {
        let mut names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let mut digest = Sha256::new();
        for text in [cell, self.what].into_iter().chain(names) {
            digest.update(text);
            // No name has it, so that no two lists are one text.
            digest.update([0]);
        }
        hex::encode(&digest.finalize()[..4])
    }

    /// Whether the code that was given, if any, confirms the change.
    fn judge(&self, given: Option<&str>, cell: &str) -> Result<Confirmed, Failure> {
        let code = self.code(cell);
        let message = match given {
            Some(given) if given.eq_ignore_ascii_case(&code) => return Ok(Confirmed::ByCode),
            Some(given) => {
                format!("--confirm {given:?} was for other objects, or another change; nothing was changed")
            }
            None if is_attended() => return Ok(Confirmed::NotYet),
            None => format!("cannot {} without a code: nobody sees all of them in the list", self.what),
        };
        let hint = format!("if it is what you want, repeat the command with --confirm {code}");
        Err(Failure::new(Code::Usage, message).with_hint(hint))
    }
}

/// Whether a change of many objects has been confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confirmed {
    ByCode,
    NotYet,
}

/// Has somebody type the number of the objects. A script gives the code that an earlier run has printed: it confirms
/// exactly these objects, so a selector that has come to choose others changes nothing.
pub(crate) fn confirm_many(
    global: &Global,
    client: &Client,
    many: ManyObjects<'_>,
    printer: &Printer,
) -> Result<(), Failure> {
    // A code that the change would refuse is refused here too.
    if global.dry_run && global.confirm.is_none() {
        return Ok(());
    }
    if many.judge(global.confirm.as_deref(), client.cell())? == Confirmed::ByCode {
        return Ok(());
    }
    let place = connect::place(global, client)?.unwrap_or_else(|| format!("cell {}", client.cell()));
    let count = many.names.len().to_string();
    if printer.ask_text(&format!("{} Type {count} to go on:", question(&place, many.what)))? == count {
        return Ok(());
    }
    let hint = format!("type {count}, the number of objects, to make the change");
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
    fn a_code_confirms_one_change_of_these_objects_only() {
        let names = |count: usize| (0..count).map(|number| format!("ann/j{number}")).collect::<Vec<_>>();
        let (some, more) = (names(21), names(22));
        let stop = ManyObjects { what: "stop 21 jobs", names: &some };
        let code = stop.code("alpha");
        assert_eq!(code.len(), 8);
        assert_eq!(stop.judge(Some(&code.to_uppercase()), "alpha").unwrap(), Confirmed::ByCode);
        let purge = ManyObjects { what: "purge 21 jobs", ..stop };
        for (other, cell) in
            [(stop, "beta"), (purge, "alpha"), (ManyObjects { names: &more, ..stop }, "alpha")]
        {
            let refused = other.judge(Some(&code), cell).unwrap_err();
            assert_eq!(refused.code(), Code::Usage);
            assert!(refused.message().contains("was for other objects"), "{refused:?}");
            let wanted = format!("--confirm {}", other.code(cell));
            assert!(refused.hint().unwrap().ends_with(&wanted), "{refused:?}");
        }
        let mut turned = some.clone();
        turned.reverse();
        assert_eq!(ManyObjects { names: &turned, ..stop }.code("alpha"), code, "their order does not matter");
    }

    #[test]
    fn a_question_names_its_context() {
        let place = "context \"prod\", cell alpha";
        assert_eq!(
            question(place, "stop job alice/web"),
            "context \"prod\", cell alpha: stop job alice/web?"
        );
    }
}
