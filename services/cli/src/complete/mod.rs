//! Completion in shells. The script of `borough completion SHELL` calls the program with the words of the line. The
//! program answers with the candidates for one of them. Verbs and options come from their definition, names from the
//! cell.

mod candidate;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, Command};
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{EnvCompleter, Shells};

use self::candidate::{Completed, candidates};
use crate::args::{Arguments, Global, word_shown};
use crate::exit::{Code, Failure};

/// The scripts set this variable to the name of their shell.
const VARIABLE: &str = "BOROUGH_COMPLETE";
/// The script of bash. That of the library loses what stands before `=` and `:`, where bash ends words.
const BASH: &str = include_str!("bash.sh");
/// Options with a value that say where to connect, as whom and for which cell.
const PLACE_OPTIONS: [&str; 6] = ["--context", "--gateway", "--token-file", "--dir", "--cell", "--user"];

/// Answers a script: `BOROUGH_COMPLETE=SHELL borough -- WORD...`. Returns `None` if the program was started otherwise.
pub(crate) fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    let shell = std::env::var(VARIABLE).ok().filter(|shell| !shell.is_empty())?;
    let [_, separator, words @ ..] = arguments else { return None };
    if separator != "--" {
        return None;
    }
    let shells = Shells::builtins();
    let shell = shells.completer(&shell)?;
    let screens = Arguments::screens();
    let line = TypedLine { global: global_of(words), object: object_of(words, &screens) };
    let mut command = completing("", screens, &Arc::new(line));
    let (directory, mut text) = (std::env::current_dir().ok(), Vec::new());
    let completed = shell.write_complete(&mut command, words.to_vec(), directory.as_deref(), &mut text);
    let written = completed.and_then(|()| std::io::stdout().write_all(&text));
    // A message would stand in the middle of the line that a person types.
    Some(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

/// The script that a shell evaluates.
pub(crate) fn script(shell: &str) -> Result<Vec<u8>, Failure> {
    let failed = |reason: String| Failure::new(Code::Failed, format!("cannot write the script: {reason}"));
    if shell == "bash" {
        let script = BASH.replace("VARIABLE", VARIABLE).replace("PROGRAM", &word_shown(&program()));
        return Ok(script.into_bytes());
    }
    let shells = Shells::builtins();
    let completer: &dyn EnvCompleter =
        shells.completer(shell).ok_or_else(|| failed(format!("no completion for {shell}")))?;
    let mut script = Vec::new();
    let written = completer.write_registration(VARIABLE, "borough", "borough", &program(), &mut script);
    written.map_err(|error| failed(error.to_string()))?;
    Ok(script)
}

/// How the script starts this program: by its path if it was started by one, else by its name.
fn program() -> String {
    let given = std::env::args_os().next().unwrap_or_default();
    let path = std::path::PathBuf::from(&given);
    let is_path = path.components().count() > 1;
    let path = if is_path { std::path::absolute(&path).unwrap_or(path) } else { path };
    path.to_string_lossy().into_owned()
}

/// The options of the line so far that say where to connect. A line that is not valid yet has none.
fn global_of(words: &[OsString]) -> Option<Global> {
    let mut line = vec![OsString::from("borough")];
    let mut words = words.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if PLACE_OPTIONS.contains(&text.as_ref()) {
            if let Some(value) = words.next_if(|value| !value.is_empty()) {
                line.extend([word.clone(), value.clone()]);
            }
        } else if text.split_once('=').is_some_and(|(option, _)| PLACE_OPTIONS.contains(&option)) {
            line.push(word.clone());
        }
    }
    line.extend(["cell", "list"].map(OsString::from));
    Arguments::read(line).ok().map(|arguments| arguments.global)
}

/// What the line says so far.
#[derive(Debug, Default)]
struct TypedLine {
    global: Option<Global>,
    /// What its verb is about, such as the job of `job list JOB`, if that is typed already.
    object: Option<String>,
}

/// The first word before the one that is being typed that is neither a verb, nor an option, nor the value of one.
fn object_of(words: &[OsString], screens: &Command) -> Option<String> {
    let (mut command, mut is_value) = (screens, false);
    let typed = words.len().saturating_sub(1);
    for word in words.iter().take(typed).skip(1) {
        let text = word.to_string_lossy();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if let Some(option) = text.strip_prefix('-') {
            let takes_value = |argument: &&Arg| {
                let is_it = option.strip_prefix('-') == argument.get_long()
                    || argument.get_short().is_some_and(|short| option == short.to_string());
                is_it && argument.get_action().takes_values()
            };
            let known = |command: &Command| command.get_arguments().any(|argument| takes_value(&argument));
            is_value = known(command) || known(screens);
        } else if let Some(below) = command.find_subcommand(text.as_ref()) {
            command = below;
        } else {
            return (!command.has_subcommands()).then(|| text.into_owned());
        }
    }
    None
}

/// The command with completers at the arguments that name something. `noun` is the first word of its line.
fn completing(noun: &str, command: Command, line: &Arc<TypedLine>) -> Command {
    let verb = command.get_name().to_owned();
    let complete = |argument: Arg| match Completed::of(noun, &verb, &argument) {
        None => argument,
        Some(completed) => {
            let line = Arc::clone(line);
            argument.add(ArgValueCompleter::new(move |current: &std::ffi::OsStr| {
                candidates(completed, &line, &current.to_string_lossy())
            }))
        }
    };
    command.mut_args(complete).mut_subcommands(|below| {
        let noun = if noun.is_empty() { below.get_name().to_owned() } else { noun.to_owned() };
        completing(&noun, below, line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(line: &str) -> Option<Global> {
        global_of(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_options_of_the_line_so_far_count() {
        let found = global("borough --gateway h:1 job stop --cell=beta --user bob w").unwrap();
        assert_eq!(found.gateway, ["h:1"]);
        assert_eq!((found.cell.as_deref(), found.user.as_deref()), (Some("beta"), Some("bob")));
        assert!(global("borough job stop --cell").is_some(), "a value that is not typed yet");
        assert_eq!(global("borough --context prod job list").unwrap().context.as_deref(), Some("prod"));
    }

    /// `job list` takes the states of jobs, and `job list JOB` those of tasks.
    #[test]
    fn the_states_of_a_list_are_those_of_what_it_shows() {
        let states = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let line = TypedLine { global: None, object: object_of(&words, &Arguments::screens()) };
            let found = candidates(Completed::TaskOrJobState, &line, "");
            let words = found.iter().map(|found| found.get_value().to_string_lossy().into_owned());
            words.collect::<Vec<_>>()
        };
        let (jobs, tasks) = (states("borough job list --state "), states("borough job list web --state "));
        assert!(jobs.contains(&"failed".to_owned()) && !jobs.contains(&"held".to_owned()), "{jobs:?}");
        let other = "dependency_failed".to_owned();
        assert!(jobs.contains(&other) && tasks.contains(&"held".to_owned()), "{tasks:?}");
        assert!(tasks.contains(&"failed".to_owned()) && !tasks.contains(&other), "{tasks:?}");
        let options = "borough --cell main job list --limit 3 -l a=b --all --output json --state ";
        assert_eq!(states(options), jobs);
    }

    /// The verbs whose argument of this kind is completed.
    fn verbs(line: &str, command: &Command, found: &mut Vec<(String, Completed)>) {
        let noun = line.split(' ').next().unwrap_or_default();
        for argument in command.get_arguments() {
            if let Some(completed) = Completed::of(noun, command.get_name(), argument) {
                found.push((line.to_owned(), completed));
            }
        }
        for below in command.get_subcommands() {
            verbs(&format!("{line}{} ", below.get_name()), below, found);
        }
    }

    /// Each line of verbs with what an argument of it names.
    fn all_verbs() -> Vec<(String, Completed)> {
        let mut found = Vec::new();
        verbs("", &Arguments::screens(), &mut found);
        found
    }

    fn lines_of(found: &[(String, Completed)], completed: Completed) -> Vec<&str> {
        let same = found.iter().filter(|(_, each)| *each == completed);
        same.map(|(line, _)| line.trim_end()).collect()
    }

    #[test]
    fn every_argument_that_names_something_is_completed() {
        let found = all_verbs();
        let of = |completed| lines_of(&found, completed);
        for line in
            ["job status", "job stop", "job scale", "job history", "name list", "name watch", "event list"]
        {
            let jobs = [of(Completed::Job), of(Completed::JobOrEnded)].concat();
            assert!(jobs.contains(&line), "{line}: {jobs:?}");
        }
        assert_eq!(of(Completed::JobOrTask), ["why"]);
        assert_eq!(of(Completed::EndedJob), ["job purge"]);
        for line in ["task status", "task logs"] {
            let all = of(Completed::TaskOrEnded);
            assert!(all.contains(&line), "{line}: {all:?}");
        }
        for line in ["task exec", "task restart", "task signal"] {
            assert!(of(Completed::Task).contains(&line), "{line}: {:?}", of(Completed::Task));
        }
        for line in ["job status", "job stop", "job scale", "job restart", "task list", "task stop"] {
            assert!(of(Completed::JobLabel).contains(&line), "{line}: {:?}", of(Completed::JobLabel));
        }
        for line in ["node list", "node cordon", "node uncordon", "node drain"] {
            assert!(of(Completed::NodeLabel).contains(&line), "{line}: {:?}", of(Completed::NodeLabel));
        }
        assert_eq!(of(Completed::AnyLabel), ["event list", "event watch"]);
        for line in ["node status", "node drain", "node cordon", "event watch"] {
            assert!(of(Completed::Node).contains(&line), "{line}: {:?}", of(Completed::Node));
        }
        for line in ["", "cell status", "cell set", "job stop"] {
            assert!(of(Completed::Cell).contains(&line), "{line}: {:?}", of(Completed::Cell));
        }
        let members = of(Completed::Member);
        for line in [
            "cell leave",
            "cell cordon",
            "cell uncordon",
            "cell label",
            "cell rename-endpoint",
            "cell members",
        ] {
            assert!(members.contains(&line), "{line}: {members:?}");
        }
        assert!(!members.contains(&"cell join"), "a new one has no name that is known");
        for line in ["", "context use", "context remove", "job stop"] {
            assert!(of(Completed::Context).contains(&line), "{line}: {:?}", of(Completed::Context));
        }
        assert_eq!(of(Completed::Field), ["explain"]);
        assert_eq!(of(Completed::NodeState), ["node list"]);
        assert_eq!(of(Completed::TaskState), ["task status", "task list"]);
        assert_eq!(of(Completed::TaskOrJobState), ["job status"]);
        assert_eq!(of(Completed::Signal), ["task signal"]);
        for line in ["quota set", "quota remove", "quota history"] {
            assert!(of(Completed::Band).contains(&line), "{line}: {:?}", of(Completed::Band));
        }
        assert_eq!(of(Completed::Role), ["auth grant", "auth revoke"]);
        assert_eq!(of(Completed::Profile), ["cell set"]);
        assert_eq!(of(Completed::Method), ["audit list"]);
        assert_eq!(of(Completed::Version), ["rollout undo"]);
        assert_eq!(of(Completed::KnownVersion), ["job history"]);
        assert_eq!(of(Completed::Helper), ["job logs", "task logs"]);
        assert_eq!(
            (of(Completed::Taint), of(Completed::NodeTaint)),
            (vec!["node taint"], vec!["node untaint"])
        );
    }

    #[test]
    fn the_jobs_of_a_federation_are_completed_by_its_home() {
        let found = all_verbs();
        let of = |completed| lines_of(&found, completed);
        for line in ["federation job scale", "federation job stop", "federation job undo"] {
            let all = of(Completed::FederatedJob);
            assert!(all.contains(&line), "{line}: {all:?}");
        }
        let stopped = ["federation job status", "federation job forget", "federation job history"];
        assert_eq!(of(Completed::FederatedOrStopped), stopped);
    }

    /// Words that the program knows by itself need no gateway.
    #[test]
    fn words_of_the_program_are_completed_without_a_gateway() {
        let line = TypedLine::default();
        let of = |completed, current: &str| {
            let found = candidates(completed, &line, current);
            found.iter().map(|each| each.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(Completed::Band, ""), ["batch", "monitoring", "production"]);
        assert_eq!(of(Completed::Role, "a"), ["admin"]);
        assert_eq!(of(Completed::Right, "read"), ["read"]);
        assert_eq!(of(Completed::Method, "StopJ"), ["StopJob"]);
        assert!(of(Completed::Profile, "").contains(&"best-fit".to_owned()));
        assert!(of(Completed::Version, "").is_empty() && of(Completed::Helper, "").is_empty());
    }
}
