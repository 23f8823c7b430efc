//! The question before a destructive change. Each such verb asks here, so that every question names its context.

use borough_client::Client;

use crate::args::Global;
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Asks on a terminal whether to make a change, such as `stop job alice/web`. A script, `--yes` and the dev cell of
/// this machine go without a question.
pub(crate) fn confirm(
    global: &Global,
    client: &Client,
    change: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    if global.yes || !printer.can_ask() {
        return Ok(());
    }
    let Some(place) = connect::place(global, client)? else { return Ok(()) };
    let answer = printer.ask(&question(&place, change))?;
    if is_yes(&answer) {
        return Ok(());
    }
    let hint = "answer y to make the change, or give --yes";
    Err(Failure::new(Code::Failed, format!("not confirmed; nothing was changed in {place}")).with_hint(hint))
}

/// The one text of every question.
fn question(place: &str, change: &str) -> String {
    format!("{place}: {change}? [y/N] ")
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_its_context_and_only_a_yes_is_one() {
        let place = "context \"prod\", cell alpha";
        assert_eq!(
            question(place, "stop job alice/web"),
            "context \"prod\", cell alpha: stop job alice/web? [y/N] "
        );
        for (answer, yes) in [("y\n", true), ("YES", true), ("", false), ("n", false), ("yy", false)] {
            assert_eq!(is_yes(answer), yes, "{answer}");
        }
    }
}
