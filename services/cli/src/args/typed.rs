//! The options of a command line that say where it goes and for whom. Each command that the program names takes them
//! over, so that it does what is meant when it is pasted.

use std::ffi::OsString;

use clap::Args as _;

use super::dev::DevArguments;
use super::usage::word_shown;

/// The options that commands take over. Those of the environment hold for a pasted command anyhow.
const KEPT: [&str; 9] = [
    "--context",
    "--dir",
    "--gateway",
    "--token-file",
    "--tls-ca",
    "--tls-cert",
    "--tls-key",
    "--cell",
    "--user",
];
/// Each of them says where to connect: a command has one of them.
const PLACES: [&str; 3] = ["--context", "--dir", "--gateway"];
/// The option of verbs on a federation.
const HOME: &str = "--federation";

/// The nouns and verbs that ask a cell.
const ASKING: [&str; 13] = [
    "audit",
    "auth",
    "cell",
    "event",
    "federation",
    "job",
    "name",
    "node",
    "quota",
    "rollout",
    "task",
    "top",
    "why",
];
/// Verbs of them that ask none.
const LOCAL: [&str; 6] =
    ["auth ca ", "auth issuer ", "auth token ", "job init ", "job validate ", "node token "];
/// What asks the home of a federation.
const ASKING_HOME: [&str; 9] = [
    "federation job ",
    "cell members",
    "cell join",
    "cell leave",
    "cell cordon",
    "cell uncordon",
    "cell drain",
    "cell rename-endpoint",
    "cell label",
];
/// What ends a command within a text.
const ENDS: [&str; 6] = [" && ", "; ", ", ", "`", "\n", ")"];

/// An option with its value, as a shell takes both.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypedOption {
    name: &'static str,
    value: String,
}

/// What stands before a command in an answer, if none begins the line.
const BEGINS: [&str; 5] = [": ", "; ", "&& ", "`", "("];

/// Whether the command behind this text is one of an administrator, who has a credential of their own.
fn is_of_another(before: &str) -> bool {
    before.rsplit('\n').next().unwrap_or_default().contains("administrator")
}

fn is_within_word(last: char) -> bool {
    matches!(last, '/' | '-' | '"' | '\'') || last.is_alphanumeric()
}

/// The options of a command line that other commands take over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypedOptions {
    options: Vec<TypedOption>,
    home: Option<TypedOption>,
    /// The options of a `dev`, each as a shell takes it, with its value.
    dev: Vec<TypedDevOption>,
}

/// An option of `borough dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypedDevOption {
    name: String,
    text: String,
}

/// The options behind `dev` in a line; none if the line is of another verb. Commands of `dev` take them over, so that
/// the next start does what this one did, and what the command adds.
fn dev_options(words: &[String]) -> Vec<TypedDevOption> {
    let is_value = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        before.is_some_and(|before| KEPT.contains(&before.as_str()))
    };
    let verb = words.iter().enumerate().find(|(at, word)| !word.starts_with('-') && !is_value(*at));
    let Some((at, _)) = verb.filter(|(_, word)| *word == "dev") else { return Vec::new() };
    let known = DevArguments::augment_args(clap::Command::new("dev"));
    let mut rest = words.iter().skip(at.saturating_add(1)).peekable();
    let mut options = Vec::new();
    while let Some(word) = rest.next() {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let option = name
            .strip_prefix("--")
            .and_then(|long| known.get_arguments().find(|one| one.get_long() == Some(long)));
        let Some(option) = option.filter(|_| name != "--remove") else { continue };
        let next = if option.get_action().takes_values() && value.is_none() {
            rest.next_if(|next| !next.starts_with("--")).map(String::as_str)
        } else {
            None
        };
        let value = value.or(next).map(word_shown);
        let text = value.map_or_else(|| name.to_owned(), |value| format!("{name} {value}"));
        options.push(TypedDevOption { name: name.to_owned(), text });
    }
    options
}

impl TypedOptions {
    /// Those of a line, also of one that is wrong otherwise.
    pub(crate) fn of(line: &[OsString]) -> Self {
        let words = line.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.take_while(|word| word != "--").collect();
        let value = |name: &str| {
            let at = |(at, word): (usize, &String)| match word.strip_prefix(name) {
                Some("") => words.get(at.saturating_add(1)).filter(|next| !next.starts_with("--")).cloned(),
                Some(rest) => rest.strip_prefix('=').map(str::to_owned),
                None => None,
            };
            words.iter().enumerate().find_map(at).map(|value| word_shown(&value))
        };
        let option = |name: &'static str| Some(TypedOption { name, value: value(name)? });
        let dev = dev_options(&words);
        // The federation of a `dev` is none that its commands ask.
        let home = option(HOME).filter(|_| dev.is_empty());
        Self { options: KEPT.into_iter().filter_map(option).collect(), home, dev }
    }

    /// Those that ask another cell.
    pub(crate) fn of_cell(cell: &str) -> Self {
        let options = vec![TypedOption { name: "--cell", value: cell.to_owned() }];
        Self { options, ..Self::default() }
    }

    /// A text in which each command that asks a cell has the options.
    pub(crate) fn completed(&self, text: &str) -> String {
        // `/usr/bin/borough ` and `myborough ` are other words, and what somebody typed stays as it is.
        self.completed_where(text, |before| !before.ends_with(is_within_word) && !is_of_another(before))
    }

    /// An error in which each command to run has the options. One that it speaks of, such as the verb that has no such
    /// option, stays as it is.
    pub(crate) fn completed_error(&self, text: &str) -> String {
        let begins =
            |before: &str| BEGINS.iter().chain(&[", or ", "see "]).any(|begin| before.ends_with(begin));
        self.completed_where(text, |before| begins(before) && !is_of_another(before))
    }

    /// An answer in which each command of ours has the options. What others wrote, such as the command of a task, stays
    /// in its column.
    pub(crate) fn completed_answer(&self, text: &str) -> String {
        let begins = |before: &str| {
            let line = before.rsplit('\n').next().unwrap_or_default();
            line.trim_start().is_empty() || BEGINS.iter().any(|begin| line.ends_with(begin))
        };
        self.completed_where(text, begins)
    }

    fn completed_where(&self, text: &str, is_command: impl Fn(&str) -> bool) -> String {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("borough ") {
            let end = ENDS.iter().filter_map(|end| behind.find(end)).min().unwrap_or(behind.len());
            let (command, after) = behind.split_at(end);
            done.push_str(before);
            let is_command = is_command(&done);
            done.push_str("borough ");
            done.push_str(&if is_command { self.command_completed(command) } else { command.to_owned() });
            rest = after;
        }
        done + rest
    }

    /// A command, without the name of the program.
    fn command_completed(&self, command: &str) -> String {
        let padded = format!("{command} ");
        let first = command.split(' ').next().unwrap_or_default();
        let is_dev = first == "dev";
        let asks = is_dev || ASKING.contains(&first) || KEPT.contains(&first);
        let is_local = LOCAL.iter().any(|local| padded.starts_with(local)) || padded.contains(" --help ");
        if !asks || is_local {
            return command.to_owned();
        }
        let has = |name: &str| {
            padded.starts_with(&format!("{name} "))
                || padded.contains(&format!(" {name} "))
                || padded.contains(&format!("{name}="))
        };
        let asks_home = ASKING_HOME.iter().any(|asking| padded.contains(asking));
        let has_place = PLACES.iter().any(|place| has(place));
        let is_missing = |option: &&TypedOption| {
            let is_double = has(option.name) || (has_place && PLACES.contains(&option.name));
            // The home of a federation is no cell of its members, and a list of cells is of all.
            let is_other = (asks_home || padded.starts_with("cell list ")) && option.name == "--cell";
            !is_double && !is_other && (!is_dev || option.name == "--dir")
        };
        let missing = self.options.iter().filter(is_missing);
        let missing: String = missing.map(|TypedOption { name, value }| format!("{name} {value} ")).collect();
        let behind = if is_dev { self.dev_of(&padded) } else { self.home_of(&padded, command) };
        format!("{missing}{}{behind}", command.trim_end())
    }

    /// The options of the `dev` that was typed, behind a command of it.
    fn dev_of(&self, padded: &str) -> String {
        let is_missing = |option: &&TypedDevOption| {
            !padded.contains(&format!(" {} ", option.name)) && !padded.contains(" --remove ")
        };
        let missing = self.dev.iter().filter(is_missing);
        missing.map(|option| format!(" {}", option.text)).collect()
    }

    /// The option of the home, behind a command that asks one.
    fn home_of(&self, padded: &str, command: &str) -> String {
        let asks = ASKING_HOME.iter().any(|asking| padded.contains(asking)) && !padded.contains(HOME);
        let end = if command.ends_with(' ') { " " } else { "" };
        let home = self.home.as_ref().filter(|_| asks);
        home.map_or_else(|| end.to_owned(), |home| format!(" {} {}{end}", home.name, home.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &[&str], text: &str) -> String {
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        TypedOptions::of(&line).completed(text)
    }

    #[test]
    fn each_command_of_a_text_gets_the_options_once() {
        let line = ["borough", "--dir", "my cell", "why", "nope", "--user=bob"];
        assert_eq!(
            completed(&line, "borough job list --ended"),
            "borough --dir 'my cell' --user bob job list --ended"
        );
        assert_eq!(
            completed(&line, "borough --dir 'my cell' task logs a/0; borough --cell b job logs a"),
            "borough --user bob --dir 'my cell' task logs a/0; borough --dir 'my cell' --user bob --cell b job logs a"
        );
        assert_eq!(
            completed(&line, "start one with `borough dev`, or give --gateway"),
            "start one with `borough --dir 'my cell' dev`, or give --gateway"
        );
        let both = completed(&line, "borough job stop a && borough job purge a");
        assert_eq!(both.matches("--user bob job").count(), 2, "{both}");
        for same in
            ["borough job run --help", "borough context list", "borough job init -", "no borough there"]
        {
            assert_eq!(completed(&line, same), same);
        }
    }

    /// Otherwise whoever pastes the command gets a cell without them.
    #[test]
    fn a_command_of_dev_keeps_the_options_of_the_start() {
        let line = [
            "borough",
            "--dir",
            "d",
            "dev",
            "--cells",
            "p",
            "--federation",
            "--issuer=a.json",
            "--card",
            "gpu=0",
        ];
        assert_eq!(
            completed(
                &line,
                "to start them too: borough dev --cells p,q; to forget: borough node remove p-1"
            ),
            "to start them too: borough --dir d dev --cells p,q --federation --issuer a.json --card gpu=0; to forget: \
             borough --dir d node remove p-1"
        );
        assert_eq!(completed(&line, "borough dev --remove"), "borough --dir d dev --remove");
        assert_eq!(completed(&line, "borough cell members"), "borough --dir d cell members");
        assert_eq!(completed(&["borough", "job", "list", "--cell", "dev"], "borough dev"), "borough dev");
    }

    #[test]
    fn an_answer_keeps_what_others_wrote() {
        let line = ["borough", "--dir", "d", "why", "web"].map(OsString::from);
        let typed = TypedOptions::of(&line);
        assert_eq!(
            typed.completed_answer("task 0: waits\n  borough rollout status a/b\nfailing (borough why a/b)"),
            "task 0: waits\n  borough --dir d rollout status a/b\nfailing (borough --dir d why a/b)"
        );
        assert_eq!(
            typed.completed_answer("a/b: no task runs yet: borough job status a/b"),
            "a/b: no task runs yet: borough --dir d job status a/b"
        );
        for same in ["command  borough job list", "\"borough job list\"", "x/borough job list"] {
            assert_eq!(typed.completed_answer(same), same);
        }
        let of_another = "an administrator gives it: borough auth grant user/ann --allow run_jobs";
        assert_eq!(typed.completed(of_another), of_another);
        assert_eq!(typed.completed("no job \"borough job list\""), "no job \"borough job list\"");
    }

    #[test]
    fn an_error_keeps_the_verb_that_it_speaks_of() {
        let line = ["borough", "--dir", "d", "job", "list", "--fast"].map(OsString::from);
        let typed = TypedOptions::of(&line);
        for same in ["borough job list has no option --fast", "--dir stands before borough job list"] {
            assert_eq!(typed.completed_error(same), same);
        }
        assert_eq!(
            typed.completed_error("job a/b is stopped; to run it again: borough job run FILE"),
            "job a/b is stopped; to run it again: borough --dir d job run FILE"
        );
    }

    #[test]
    fn a_command_says_once_where_to_connect() {
        let line = ["borough", "--context", "prod", "job", "list"];
        assert_eq!(completed(&line, "borough --gateway g:1 job list"), "borough --gateway g:1 job list");
        assert_eq!(completed(&line, "borough job list"), "borough --context prod job list");
        assert_eq!(completed(&["borough", "job", "list"], "borough job list"), "borough job list");
        let behind = ["borough", "task", "exec", "web/0", "--", "ls", "--dir", "x"];
        assert_eq!(completed(&behind, "borough why web/0"), "borough why web/0");
    }

    #[test]
    fn a_command_on_a_federation_keeps_its_home() {
        let line = ["borough", "federation", "job", "status", "web", "--federation", "home"];
        assert_eq!(
            completed(&line, "borough federation job undo web, or run another; borough --cell b why web"),
            "borough federation job undo web --federation home, or run another; borough --cell b why web"
        );
        assert_eq!(completed(&line, "borough cell members"), "borough cell members --federation home");
        let of_part = ["borough", "--cell", "a", "job", "scale", "web", "3"];
        let scale = "borough federation job scale web 3";
        assert_eq!(completed(&of_part, scale), scale, "the cell is no home");
    }
}
