//! What is wrong with a command line, in the words of this program. clap finds it; the texts here follow
//! `docs/messages.md`.

mod own;

use std::error::Error as _;
use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseIntError};

use borough_model::job::file::nearest;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Arguments;
use super::foreign_option::is_called;
use super::target::TargetError;
use crate::exit::{Code, Failure};

/// The failure for a wrong command line; `None` if the error is an answer, such as a help screen.
pub(crate) fn usage_failure(error: &clap::Error, line: &[OsString]) -> Option<Failure> {
    // Behind a word that is no verb, another may be one of another noun.
    let unknown = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            line.iter().position(|known| known.to_str() == Some(word))
        }
        _ => None,
    };
    let mut verb = verb_of(line.get(..unknown.unwrap_or(line.len())).unwrap_or(line));
    // `help` is a verb of every noun, and has no help of its own.
    if let Some(noun) = verb.strip_suffix(" help") {
        verb = noun.to_owned();
    }
    let what = UsageError { error, verb: &verb, line };
    let message = what.message()?;
    let hint = match what.target_error() {
        Some(TargetError::IsTask { job }) => Some(what.other_verb(job, line)),
        Some(TargetError::IsJob { job }) => Some(what.task_verb(job, line)),
        Some(TargetError::IsUserJob { user, job }) => Some(what.task_verb(&format!("{user}/{job}"), line)),
        Some(TargetError::NoName(_)) => None,
        None => what
            .terminal_options()
            .or_else(|| what.behind_verb())
            .or_else(|| what.dashed(line))
            .or_else(|| what.own_verb())
            .or_else(|| what.untaint())
            .or_else(|| what.own_option()),
    };
    Some(Failure::new(Code::Usage, message).with_hint(hint.unwrap_or_else(|| format!("{verb} --help"))))
}

/// A word as a shell takes it.
pub(crate) fn word_shown(word: &str) -> String {
    let is_plain = |each: char| each.is_ascii_alphanumeric() || "-_./:=,@%+".contains(each);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `borough job run`: the program with the verbs of the line.
fn verb_of(line: &[OsString]) -> String {
    let root = Arguments::screens();
    let mut command: &Command = &root;
    let mut verb = command.get_name().to_owned();
    for word in line.iter().skip(1) {
        let Some(word) = word.to_str() else { continue };
        if let Some(below) = command.find_subcommand(word).filter(|below| !below.is_hide_set()) {
            command = below;
            verb = format!("{verb} {word}");
        }
    }
    verb
}

/// Verbs that change one thing by its name, or several by their labels.
const NAMED_ONE: [&str; 1] = ["borough job scale"];

/// Characters of a refused word that a message repeats.
const VALUE_CHARACTERS_MAX: usize = 100;

/// A word as it was typed, in quotes. A long one is cut.
pub(crate) fn value_shown(value: &str) -> String {
    let cut: String = value.chars().take(VALUE_CHARACTERS_MAX).collect();
    if cut.len() == value.len() {
        format!("{value:?}")
    } else {
        format!("{cut:?}... ({} bytes)", value.len())
    }
}

struct UsageError<'e> {
    error: &'e clap::Error,
    verb: &'e str,
    line: &'e [OsString],
}

impl UsageError<'_> {
    fn message(&self) -> Option<String> {
        let verb = self.verb;
        if let Some(message) = self.single_dash() {
            return Some(message);
        }
        Some(match self.error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
            ErrorKind::InvalidSubcommand => {
                let word = self.text(ContextKind::InvalidSubcommand);
                // The words of other programs are far from ours.
                let meant = self.own_verb().map_or_else(|| meant(&word, &self.verbs()), |_| String::new());
                format!("{verb} has no verb {}{meant}", value_shown(&word))
            }
            ErrorKind::MissingSubcommand => {
                let known = self.texts(ContextKind::ValidSubcommand);
                let known: Vec<String> = known.into_iter().filter(|name| !name.starts_with("__")).collect();
                format!("{verb} needs a verb{}", accepted(&known))
            }
            ErrorKind::UnknownArgument if self.terminal_options().is_some() => {
                format!("{}; a terminal comes by itself", self.unknown())
            }
            ErrorKind::UnknownArgument => self.unknown(),
            ErrorKind::MissingRequiredArgument => {
                let missing: Vec<String> =
                    self.texts(ContextKind::InvalidArg).iter().map(|name| self.alternatives(name)).collect();
                // One that is needed in any case leaves no choice.
                let is_choice_of = |group: &&String| {
                    let has = |one: &String| group.split([' ', ',']).any(|word| word == one);
                    group.starts_with("one of ") && missing.iter().any(has)
                };
                let needed: Vec<&str> =
                    missing.iter().filter(|one| !is_choice_of(one)).map(String::as_str).collect();
                match self.all_alone(&needed) {
                    Some(noun) => format!("--all goes with --label; else name the {noun}"),
                    None => format!("{verb} needs {}", needed.join(" and ")),
                }
            }
            ErrorKind::ArgumentConflict => {
                let others =
                    [self.texts(ContextKind::PriorArg), self.texts(ContextKind::InvalidArg)].concat();
                let others: Vec<String> = others.iter().map(|name| named(name)).collect();
                match others.as_slice() {
                    [one, other] if one == other => format!("{one} is given twice; give it once"),
                    _ => format!("{} exclude each other; give one of them", others.join(" and ")),
                }
            }
            ErrorKind::InvalidValue => self.invalid(),
            ErrorKind::ValueValidation => self.refused(),
            ErrorKind::NoEquals => {
                let name = named(&self.text(ContextKind::InvalidArg));
                format!("{name} takes its value behind an equals sign: {name}=VALUE")
            }
            ErrorKind::TooManyValues => {
                let value = self.text(ContextKind::InvalidValue);
                format!(
                    "{}: {}; it takes no value",
                    named(&self.text(ContextKind::InvalidArg)),
                    value_shown(&value)
                )
            }
            ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
                format!("{} has a wrong number of values", named(&self.text(ContextKind::InvalidArg)))
            }
            ErrorKind::InvalidUtf8 => "the command line is not UTF-8".to_owned(),
            _ => format!("{verb} cannot be run like this"),
        })
    }

    /// What a verb could be told by name instead of by `--all`, which stands without `--label`.
    fn all_alone(&self, needed: &[&str]) -> Option<&'static str> {
        let is_all = |word: &OsString| word == "--all" || word == "-a";
        (needed == ["--label"] && self.line.iter().any(is_all)).then_some(())?;
        Some(if self.verb.starts_with("borough task ") { "tasks" } else { "jobs" })
    }

    /// An option that the verb does not have, or a word too many.
    fn unknown(&self) -> String {
        let (verb, word) = (self.verb, self.text(ContextKind::InvalidArg));
        if word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
            return self.negative(&word);
        }
        if self.behind_verb().is_some() {
            return format!("{} stands before the verb that has it, {verb}", named(&word));
        }
        if word.starts_with('-') {
            return format!("{verb} has no option {}{}", named(&word), self.options_meant());
        }
        if let Some(word) = self.without_dashes() {
            return format!(
                "{verb} takes its command behind --, and {} stands before it",
                value_shown(&word)
            );
        }
        let several = if NAMED_ONE.contains(&verb) { "; several at once: --label KEY=VALUE" } else { "" };
        format!("{verb} takes no further argument {}{several}", value_shown(&word))
    }

    /// The same line with the option behind the verb that has it, and before which it stands.
    fn behind_verb(&self) -> Option<String> {
        let is_unknown = self.error.kind() == ErrorKind::UnknownArgument;
        let option = is_unknown.then(|| named(&self.text(ContextKind::InvalidArg)))?;
        let root = Arguments::screens();
        let verbs = self.verb.split(' ').skip(1);
        let verb = verbs.clone().try_fold(&root, |command, word| command.find_subcommand(word))?;
        let mut options = verb.get_arguments();
        let takes_value = options.find(|own| is_called(own, &option))?.get_action().takes_values();
        let mut words: Vec<String> =
            self.line.iter().skip(1).map(|word| word_shown(&word.to_string_lossy())).collect();
        let last = verbs.last()?;
        let verb_at = words.iter().position(|word| word == last)?;
        let at = words.iter().position(|word| word.split('=').next() == Some(&option))?;
        if at > verb_at {
            return None;
        }
        let with_value = takes_value && !words.get(at)?.contains('=') && at + 1 < verb_at;
        let moved: Vec<String> = words.splice(at..=at + usize::from(with_value), []).collect();
        let behind = words.iter().position(|word| word == last)? + 1;
        words.splice(behind..behind, moved);
        Some(format!("borough {}", words.join(" ")))
    }

    /// A time such as `-1s`, which clap takes for options.
    fn negative(&self, beginning: &str) -> String {
        let words: Vec<_> = self.line.iter().map(|word| word.to_string_lossy()).collect();
        let at = words.iter().position(|word| word.starts_with(beginning));
        let option =
            at.and_then(|at| words.get(at.checked_sub(1)?)).filter(|before| before.starts_with("--"));
        let word = at.and_then(|at| words.get(at)).map_or(beginning, |word| &**word);
        format!(
            "{} takes nothing negative, such as {}",
            option.map_or(self.verb, |option| &**option),
            value_shown(word)
        )
    }

    /// A value that is none of a few words, or no value at all.
    fn invalid(&self) -> String {
        let (name, value) =
            (named(&self.text(ContextKind::InvalidArg)), self.text(ContextKind::InvalidValue));
        let known = self.texts(ContextKind::ValidValue);
        let accepted = accepted(&known);
        if value.is_empty() {
            return format!("{name} needs a value{accepted}");
        }
        format!("{name}: {}{}{accepted}", value_shown(&value), meant(&value, &known))
    }

    /// A value that its parser refuses.
    fn refused(&self) -> String {
        let (name, value) =
            (named(&self.text(ContextKind::InvalidArg)), self.text(ContextKind::InvalidValue));
        let (source, shown) = (self.error.source(), value_shown(&value));
        if let Some(wrong) = source.and_then(|source| source.downcast_ref::<ParseIntError>()) {
            return match wrong.kind() {
                IntErrorKind::PosOverflow => format!("{name}: {shown} is too large"),
                _ => format!("{name}: {shown} is no whole number; accepted: a number such as 0 or 12"),
            };
        }
        if source.is_some_and(|source| source.is::<AddrParseError>()) {
            return format!("{name}: {shown}; accepted: an IP address such as 10.0.0.5 or ::1");
        }
        let reason = source.map(ToString::to_string).unwrap_or_default();
        match reason.split_once(" is not in ") {
            Some((_, bounds)) => format!("{name}: {shown}; accepted: {}", bounds_text(bounds)),
            None if reason.starts_with("accepted: ") => format!("{name}: {shown}; {reason}"),
            None if reason.starts_with("user/NAME") => format!("{name}: {shown}; accepted: {reason}"),
            None if reason.starts_with(", ") => format!("{name}: {shown}{reason}"),
            None if reason.starts_with("has ") || reason.starts_with("is ") => {
                format!("{name}: {shown} {reason}")
            }
            None if reason.starts_with('"') || reason.contains(&shown) => format!("{name}: {reason}"),
            None => format!("{name}: {shown}: {reason}"),
        }
    }

    /// A missing argument, with the options that the usage names as its alternatives: `<JOB|--all-ended>`.
    fn alternatives(&self, name: &str) -> String {
        let usage = match self.error.get(ContextKind::Usage) {
            Some(ContextValue::StyledStr(usage)) => usage.to_string(),
            _ => String::new(),
        };
        // An option that is missing is needed itself, beside what it could stand for.
        let plain = if name.starts_with(['<', '[']) { named(name) } else { name.to_owned() };
        let groups = usage.split('<').filter_map(|part| part.split_once('>')).map(|(group, _)| group);
        let mut groups = groups.filter(|group| group.contains('|'));
        let group = groups.find(|group| group.split('|').any(|one| named(one) == plain));
        group.map_or_else(|| named(name), |group| named(&format!("<{group}>")))
    }

    /// What stands where a job or a task is expected.
    fn target_error(&self) -> Option<&TargetError> {
        self.error.source()?.downcast_ref::<TargetError>()
    }

    /// The commands for a job that was given to a verb on tasks: the same line with its first task. The verb on jobs of
    /// that name follows if there is one.
    fn task_verb(&self, job: &str, line: &[OsString]) -> String {
        let task = line_with(line, &self.text(ContextKind::InvalidValue), &format!("{job}/0"));
        let name = self.verb.rsplit(' ').next().unwrap_or_default();
        let root = Arguments::screens();
        let of_jobs = root.find_subcommand("job").and_then(|verbs| verbs.find_subcommand(name));
        match of_jobs {
            Some(_) => format!("{task}; borough job {name} {job}"),
            None => task,
        }
    }

    /// The same line with `--` before the word that the verb does not take, if it takes a command behind `--`.
    fn dashed(&self, line: &[OsString]) -> Option<String> {
        let word = self.without_dashes()?;
        let words: Vec<String> =
            line.iter().skip(1).map(|each| each.to_string_lossy().into_owned()).collect();
        // The task stands before the command, and may have its name.
        let at = words.iter().enumerate().filter(|(_, each)| **each == word).map(|(at, _)| at);
        let at = at.filter(|&at| at > 2).min()?;
        let (before, behind) = words.split_at(at);
        let shown =
            |words: &[String]| words.iter().map(|word| word_shown(word)).collect::<Vec<_>>().join(" ");
        Some(format!("borough {} -- {}", shown(before), shown(behind)))
    }

    /// The first word of a command that stands without `--`.
    fn without_dashes(&self) -> Option<String> {
        let word = self.text(ContextKind::InvalidArg);
        let takes_command =
            self.verb == "borough task exec" && self.error.kind() == ErrorKind::UnknownArgument;
        (takes_command && !word.starts_with('-')).then_some(word)
    }

    /// The command for a task that was given to a verb on jobs: the verb on tasks of that name, or the same line with
    /// the job of the task.
    fn other_verb(&self, job: &str, line: &[OsString]) -> String {
        let task = self.text(ContextKind::InvalidValue);
        // A federated job has its tasks in other cells than the one in use.
        if self.verb.starts_with("borough federation ") {
            return line_with(line, &task, job);
        }
        let name = self.verb.rsplit(' ').next().unwrap_or_default();
        let root = Arguments::screens();
        let verbs = root.find_subcommand("task");
        if verbs
            .and_then(|verbs| verbs.find_subcommand(name))
            .is_some_and(|verb| verb.get_positionals().next().is_some())
        {
            return format!("borough task {name} {task}");
        }
        line_with(line, &task, job)
    }

    /// The verbs below the one of the line.
    fn verbs(&self) -> Vec<String> {
        let root = Arguments::screens();
        let words = self.verb.split(' ').skip(1);
        let command = words.fold(&root, |command, word| command.find_subcommand(word).unwrap_or(command));
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        shown.flat_map(Command::get_name_and_visible_aliases).map(str::to_owned).collect()
    }

    /// The options that clap finds near. They stand as they are typed, without quotes.
    fn options_meant(&self) -> String {
        if self.own_option().is_some() || self.terminal_options().is_some() {
            return String::new();
        }
        let word = self.text(ContextKind::InvalidArg);
        let plain = |option: &str| named(option).trim_start_matches('-').to_owned();
        // What clap finds near may be far: `--tls-key` for `--task`.
        let is_near = |option: &String| nearest(&plain(&word), &[plain(option).as_str()]).is_some();
        let near: Vec<String> =
            self.texts(ContextKind::SuggestedArg).iter().map(|near| named(near)).filter(is_near).collect();
        if near.is_empty() { String::new() } else { format!(", did you mean {}?", near.join(" or ")) }
    }

    fn text(&self, kind: ContextKind) -> String {
        self.texts(kind).join(", ")
    }

    fn texts(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }
}

/// The line with another name instead of `name`.
fn line_with(line: &[OsString], name: &str, other: &str) -> String {
    let mut other = Some(other);
    let words = line.iter().skip(1).map(|word| {
        let word = word.to_string_lossy();
        let before = word.strip_suffix(name).filter(|before| before.is_empty() || before.ends_with('='));
        match before.and_then(|before| Some((before, other.take()?))) {
            Some((before, other)) => format!("{before}{other}"),
            None => word_shown(&word),
        }
    });
    std::iter::once("borough".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The known word that a wrong one may mean.
fn meant(word: &str, known: &[String]) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest(word, &known).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default()
}

fn accepted(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; accepted: {}", known.join(", ")) }
}

/// An option without its value, or the name of a value: `--timeout <TIME>` is `--timeout`, and `<FILE>` is `FILE`.
fn named(argument: &str) -> String {
    if let Some(options) = argument.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'))
        && options.contains('|')
    {
        let options: Vec<String> = options.split('|').map(named).collect();
        return format!("one of {}", options.join(", "));
    }
    let first = argument.split([' ', '=']).next().unwrap_or_default();
    let first = first.split("[=").next().unwrap_or_default();
    let first = first.trim_end_matches("...").replace("[/INDEX]", "");
    first.trim_matches(['<', '>', '[', ']']).trim_end_matches("...").to_owned()
}

/// `1..=255` as `1 to 255`, `16..` as `from 16`.
fn bounds_text(bounds: &str) -> String {
    match bounds.split_once("..") {
        Some((least, "")) => format!("a whole number from {least}"),
        Some((least, most)) => format!("a whole number, {least} to {}", most.trim_start_matches('=')),
        None => bounds.to_owned(),
    }
}
