//! Options of kubectl, nomad and docker, and the options of this program that do the same.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::Arguments;
use super::usage::word_shown;

/// Options that take a value there or here: the word behind them is none of the verb.
const VALUED: [&str; 9] = [
    "--tail",
    "--since",
    "--timeout",
    "--deadline",
    "--lines",
    "--attempt",
    "--signal",
    "-s",
    "--grace-period",
];
/// Options that are read with their verb, or mean something else here.
const OF_VERB: [&str; 9] = ["-a", "-f", "--follow", "-p", "--previous", "-i", "-t", "-it", "-ti"];

/// Options that a verb has under another name: the verb, the name that was typed, the verb that has it, and its name
/// there.
const RENAMED: [(&str, &str, &str, &str); 12] = [
    ("rollout undo", "--to-revision", "rollout undo", "--to"),
    ("rollout undo", "--revision", "rollout undo", "--to"),
    ("rollout undo", "--version", "rollout undo", "--to"),
    ("rollout history", "--revision", "job history", "--version"),
    ("rollout history", "--version", "job history", "--version"),
    ("rollout status", "--watch", "rollout status", "--wait"),
    ("rollout status", "-w", "rollout status", "--wait"),
    ("job logs", "--lines", "job logs", "--tail"),
    ("job logs", "-n", "job logs", "--tail"),
    ("job logs", "-c", "job logs", "--helper"),
    ("job logs", "--container", "job logs", "--helper"),
    ("task logs", "-n", "task logs", "--tail"),
];

/// An option as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForeignOption<'w> {
    name: &'w str,
    value: Option<&'w str>,
}

impl<'w> ForeignOption<'w> {
    /// Reads `word`, and its value from the words behind it if that stands apart.
    pub(super) fn read(word: &'w str, behind: &mut impl Iterator<Item = &'w str>) -> Self {
        match word.split_once('=') {
            Some((name, value)) => Self { name, value: Some(value) },
            None if VALUED.contains(&word) => Self { name: word, value: behind.next() },
            None => Self { name: word, value: None },
        }
    }

    pub(super) fn signal(self) -> Option<&'w str> {
        self.value.filter(|_| matches!(self.name, "-s" | "--signal"))
    }
}

/// `command` with those of the options that its verb has under the same name.
pub(super) fn carried(command: &str, options: &[ForeignOption<'_>]) -> String {
    let root = Arguments::screens();
    let verb = verb_of(&root, command);
    let mut line = command.to_owned();
    for ForeignOption { name, value } in options.iter().filter(|option| !OF_VERB.contains(&option.name)) {
        let Some(own) = verb.get_arguments().find(|own| is_called(own, name)) else { continue };
        let needs_value = own.get_action().takes_values()
            && own.get_num_args().is_none_or(|values| values.min_values() > 0);
        let between = if own.is_require_equals_set() { '=' } else { ' ' };
        if let Some(value) = value.filter(|_| own.get_action().takes_values()) {
            line = format!("{line} {name}{between}{}", word_shown(value));
        } else if value.is_none() && !needs_value {
            line = format!("{line} {name}");
        }
    }
    line
}

/// The verb with which a command begins.
fn verb_of<'c>(root: &'c Command, command: &str) -> &'c Command {
    command.split(' ').fold(root, |verb, word| verb.find_subcommand(word).unwrap_or(verb))
}

/// Whether an option has this name, such as `--tail` or `-f`.
pub(super) fn is_called(option: &Arg, name: &str) -> bool {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    [long.as_deref(), short.as_deref()].contains(&Some(name))
}

/// The same line with the option that this program has for `option`, which `verb` lacks.
pub(super) fn renamed(verb: &str, option: &str, line: &[OsString]) -> Option<String> {
    let (_, name, own_verb, own) =
        RENAMED.iter().find(|(of, name, ..)| verb.strip_prefix("borough ") == Some(of) && *name == option)?;
    let words = line.iter().skip(1).map(|word| word.to_string_lossy());
    let words = words.map(|word| match word.strip_prefix(name) {
        Some("") => (*own).to_owned(),
        Some(value) => format!("{own} {}", word_shown(value.trim_start_matches('='))),
        None => word_shown(&word),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    Some(format!("borough {}", line.replacen(verb.strip_prefix("borough ")?, own_verb, 1)))
}

/// A word such as the `-detach` of nomad, which was taken for letters of single options, with the option that it means.
/// `wrong`: the option or the value of which the parser speaks.
pub(super) fn single_dash(verb: &str, wrong: &str, line: &[OsString]) -> Option<String> {
    let root = Arguments::screens();
    let of = verb_of(&root, verb.strip_prefix("borough ")?);
    let wrong = wrong.trim_start_matches('-');
    let words = line.iter().filter_map(|word| word.to_str());
    let mut typed = words.filter_map(|word| {
        let name = word.strip_prefix('-')?.split('=').next()?;
        let is_word = name.len() > 2 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        (is_word && !name.starts_with('-') && word.contains(wrong)).then_some(name)
    });
    let name = typed.next()?;
    let has = of.get_arguments().any(|own| own.get_long() == Some(name));
    let meant = if has { format!(", did you mean --{name}?") } else { String::new() };
    Some(format!("{verb} has no option -{name}{meant}"))
}
