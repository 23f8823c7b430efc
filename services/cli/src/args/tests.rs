//! The command line as people type it.

use std::collections::BTreeSet;

use super::*;

/// Columns that a line of a help screen may take.
const COLUMNS_MAX: usize = 100;

fn parsed(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::read(line.split_whitespace())
}

/// The command lines of a command and of all below it.
fn lines(line: &str, command: &Command, found: &mut Vec<String>) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    found.push(line.to_owned());
    for sub in command.get_subcommands() {
        lines(&format!("{line} {}", sub.get_name()), sub, found);
    }
}

#[test]
fn the_help_on_another_name_of_a_verb_has_that_name() {
    let usage = |line: &str| {
        let help = Arguments::read(line.split(' ')).unwrap_err().to_string();
        help.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default().to_owned()
    };
    assert_eq!(usage("borough job list --help"), "Usage: borough job list [OPTIONS] [JOB]");
    assert_eq!(usage("borough job status --help"), "Usage: borough job status [OPTIONS] [JOB]");
    assert_eq!(usage("borough --user bob task list --help"), usage("borough task list --help"));
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

/// An argument with the id of a global option sets that option too, for every part of the program.
#[test]
fn no_argument_of_a_verb_sets_a_global_option() {
    fn check(command: &Command, globals: &BTreeSet<String>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_global_set()) {
            let id = argument.get_id().as_str();
            assert!(!globals.contains(id), "{}: {id}", command.get_name());
        }
        command.get_subcommands().for_each(|sub| check(sub, globals));
    }
    let root = Arguments::command();
    let globals = root.get_arguments().filter(|argument| argument.is_global_set());
    let globals = globals.map(|argument| argument.get_id().to_string()).collect();
    check(&root, &globals);
}

/// A line of each verb, as the documentation has it.
const LINES: [&str; 84] = [
    "borough job init",
    "borough job init --kind gpu train.yaml",
    "borough job schema",
    "borough job validate web.yaml",
    "borough job plan web.jsonnet --ext-str a=b --tla-str c=d",
    "borough job run web.yaml --detach",
    "borough job run web.yaml --timeout 30s --check-revision 7",
    "borough job run web.yaml --check-revision j00000000000000a1@7",
    "borough job status",
    "borough job status alice/web",
    "borough job status -a -e",
    "borough job list",
    "borough job list --label team=web -l tier=front",
    "borough job scale web 5",
    "borough job stop web --timeout 1m",
    "borough job history web",
    "borough job purge alice/web",
    "borough job purge --all-ended",
    "borough job label web team=shop tier-",
    "borough job restart web --task 0,2 --timeout 1m -y",
    "borough job restart alice/web --from 3",
    "borough job edit alice/web --yes --timeout 1m",
    "borough rollout status web --wait",
    "borough rollout history web",
    "borough rollout pause web",
    "borough rollout resume alice/web",
    "borough rollout undo web --to 3 --detach",
    "borough task status web",
    "borough task logs web/0 -f --tail 10 --stderr",
    "borough task logs alice/web/0 --previous",
    "borough task logs web/0 --attempt 3",
    "borough task exec web/0 -- sh -c ls",
    "borough task signal web/0 HUP",
    "borough task restart web/0",
    "borough task stop web/0 --timeout 30s",
    "borough task stop alice/web/0 --detach",
    "borough why web/0",
    "borough explain",
    "borough explain task.resources.cpu --recursive",
    "borough node list -o wide",
    "borough node status alpha-1",
    "borough node cordon alpha-1",
    "borough node uncordon alpha-1",
    "borough node drain alpha-1 --detach",
    "borough node label alpha-1 tier=db old-",
    "borough node remove alpha-1",
    "borough cell list",
    "borough federation job scale web 3 -d",
    "borough federation job validate web.yaml",
    "borough federation job list --all --ended",
    "borough federation job undo web --timeout 30s",
    "borough node status",
    "borough cell cordon beta gamma",
    "borough cell status alpha",
    "borough name list web",
    "borough name list --all",
    "borough name watch",
    "borough event list --job web --limit 5",
    "borough event watch --node alpha-1 -o json",
    "borough store check --store embedded:/var/lib/borough/store",
    "borough store check --store fdb:/etc/foundationdb/fdb.cluster --cell alpha --settled -o json",
    "borough store export --store embedded:a --cell alpha --to alpha.export --close",
    "borough store export --store embedded:a --cell alpha --to -",
    "borough store import --store embedded:b --from alpha.export --cell beta --replace",
    "borough store bench --store embedded:a --time 500ms --clients 8",
    "borough context list",
    "borough context add prod --gateway h:1,h:2 --cell alpha --token-file /etc/token",
    "borough context add prod --gateway h:1 --token-variable PROD_TOKEN --replace",
    "borough context use prod",
    "borough context use --none",
    "borough context remove prod",
    "borough --context prod job stop web --yes",
    "borough auth whoami",
    "borough auth can-i StopJob --owner bob --as user/ann --group web",
    "borough auth who-can read",
    "borough auth grants user/ann",
    "borough auth grant group/web --role runner --allow read --deny exec_any_task",
    "borough auth revoke user/ann --all",
    "borough auth token ann --group web --key issuer.key --to ann.token --expires 1h",
    "borough auth ca issue alpha/n1 --ca ca --to n1 --renew",
    "borough --tls-ca ca.pem --tls-cert cert.pem --tls-key key.pem node list",
    "borough top --interval 500ms",
    "borough completion bash",
    "borough --gateway h:1,h:2 --cell beta --user bob --no-color -q cell list",
];

#[test]
fn every_verb_of_the_documentation_is_there() {
    for line in LINES {
        assert!(parsed(line).is_ok(), "{line}: {}", parsed(line).unwrap_err());
    }
}

#[test]
fn global_options_are_explained_in_the_first_screen_only() {
    let global: Vec<Arg> =
        Arguments::command().get_arguments().filter(|one| one.is_global_set()).cloned().collect();
    let global: BTreeSet<String> =
        global.iter().filter_map(Arg::get_long).map(|long| format!("--{long}")).collect();
    assert_eq!(global.len(), 15, "{global:?}");
    let mut found = Vec::new();
    lines("borough", &Arguments::screens(), &mut found);
    assert!(found.len() > 40, "{}", found.len());
    for line in &found {
        let screen = parsed(&format!("{line} --help")).unwrap_err().to_string();
        let explained =
            screen.lines().filter(|line| line.starts_with(' ') && line.trim_start().starts_with('-'));
        let options =
            explained.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        let shown: BTreeSet<&str> = options.filter(|option| global.contains(*option)).collect();
        match line.as_str() {
            "borough" => assert_eq!(shown.len(), global.len(), "{screen}"),
            _ => {
                assert!(shown.is_empty(), "{line} shows {shown:?}\n{screen}");
                assert!(screen.trim_end().ends_with(GLOBAL_OPTIONS_ELSEWHERE), "{line}\n{screen}");
            }
        }
        let long = screen.lines().find(|text| text.chars().count() > COLUMNS_MAX);
        assert_eq!(long, None, "{line} has a line of more than {COLUMNS_MAX} columns");
    }
}

#[test]
fn global_options_are_accepted_by_every_verb() {
    for line in ["borough --cell beta job list -o json", "borough job list --cell beta --output json"] {
        let global = parsed(line).unwrap().global;
        assert_eq!((global.cell.as_deref(), global.output), (Some("beta"), OutputFormat::Json), "{line}");
    }
}

#[test]
fn a_variable_that_is_set_to_nothing_counts_as_unset() {
    let all_empty = |_: &OsStr| Some(OsString::new());
    let command = empty_variables_ignored(Arguments::command(), &all_empty);
    let read = |command: &Command| {
        let read =
            command.get_arguments().filter(|argument| argument.get_env().is_some_and(|name| name != "="));
        read.map(|argument| argument.get_id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(read(&command), ["context"], "an empty context is none");
    let of_gateway = |command: &Command| read(command.find_subcommand("gateway").unwrap());
    assert!(of_gateway(&command).is_empty());
    let all_set = |_: &OsStr| Some(OsString::from("a"));
    let command = empty_variables_ignored(Arguments::command(), &all_set);
    assert!(read(&command).len() > 5 && !of_gateway(&command).is_empty());
}

/// Wrong command lines. `golden/usage.txt` has the answers.
const WRONG_LINES: [&str; 61] = [
    "borough --watch job list",
    "borough --timeout 5s job --yes run a.yaml",
    "borough --state=failed task list web -o wide",
    "borough job scale web -1",
    "borough job scale web many",
    "borough job run",
    "borough job run a.yaml --timeout 5",
    "borough job run a.yaml --detach --timeout 5s",
    "borough job run a.yaml b.yaml",
    "borough job stop Web",
    "borough task logs web",
    "borough task exec web/0",
    "borough task signal web/0 NOPE",
    "borough store check --store /var/lib/borough",
    "borough store import --store embedded:a",
    "borough context use",
    "borough context add prod --token-variable c0ffee",
    "borough jobs list",
    "borough cell list -o xml",
    "borough cell list -o",
    "borough job run a.yaml --detatch",
    "borough node drain n1 --force 5m",
    "borough gateway --connections-max 3",
    "borough job list --quiet --quiet",
    "borough job restart web --task 1 --from 2",
    "borough job restart web --timeout 5",
    "borough job restart web --task one",
    "borough job edit web --detach --timeout 5s",
    "borough job purge",
    "borough job purge web --all-ended",
    "borough node label alpha-1 tier",
    "borough job label web",
    "borough job label web a=b,c=d",
    "borough job run a.yaml --timeout -1s",
    "borough job list --limit -1",
    "borough run web.yaml",
    "borough --context prod apply -f web.yaml",
    "borough job delete web",
    "borough get nodes",
    "borough describe node n1",
    "borough node untaint n1 .k",
    "borough job lst",
    "borough job lis",
    "borough job help nope",
    "borough auth grant user/ann --role runnr",
    "borough task list --task 1",
    "borough quota set ann --band batch --memory 5",
    "borough federation job status ft/0",
    "borough job stop --all",
    "borough task stop --all",
    "borough job label lg a=b --all",
    "borough job logs lg --since 2099-01-01T00:00:00Z",
    "borough dev --task-ports 300-200",
    "borough job run -detach web.yaml",
    "borough job stop -purge web",
    "borough job restart -on-error=fail web",
    "borough rollout undo app --to-revision=2",
    "borough rollout history app --revision 2",
    "borough rollout status app --watch",
    "borough job logs web -n 3",
    "borough node taint n1 dedicated-",
];

#[test]
fn wrong_usage_ends_with_2_and_says_what_would_be_right() {
    let said = |line: &str| {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let error = parsed(line).expect_err(line);
        let failure = usage_failure(&error, &words).expect(line);
        assert_eq!(failure.code().number(), 2, "{line}");
        format!("{} | {}", failure.message(), failure.hint().unwrap_or_default())
    };
    let all: Vec<String> = WRONG_LINES.iter().map(|line| format!("{line}\n  {}", said(line))).collect();
    expect_test::expect_file!["golden/usage.txt"].assert_eq(&format!("{}\n", all.join("\n")));
}

#[test]
fn help_on_help_is_the_help_of_the_noun() {
    for noun in ["job", "task"] {
        let of = |line: &str| parsed(line).expect_err(line);
        let (help, again) = (of(&format!("borough {noun} help")), of(&format!("borough {noun} help --help")));
        assert_eq!(again.kind(), clap::error::ErrorKind::DisplayHelp);
        assert_eq!(again.to_string(), help.to_string());
    }
    assert!(parsed("borough job stop help").is_ok(), "a job may have this name");
}

/// The rows of the table of exit codes in a text: each code with its meaning.
fn exit_rows(text: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let (code, meaning) = line.trim().trim_matches('|').trim().split_once([' ', '|'])?;
        code.parse::<u8>().ok()?;
        Some((code.to_owned(), meaning.trim_matches(['|', ' ']).to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_exit_codes_of_the_help_are_those_of_the_documentation() {
    let page = include_str!("../../../../docs/cli.md");
    let (_, page) = page.split_once("## Exit codes").unwrap();
    let (page, _) = page.split_once("## Output").unwrap();
    let (documented, helped) = (exit_rows(page), exit_rows(EXIT_CODES));
    assert_eq!(documented.len(), 11, "{documented:?}");
    for (code, meaning) in &helped {
        let (_, known) = documented.iter().find(|(known, _)| known == code).expect(code);
        // The page says more of what single verbs do.
        let whole = matches!(code.as_str(), "2" | "3" | "4" | "5" | "6" | "7");
        let first = meaning.split([':', ';', ',']).next().unwrap_or_default();
        assert!(known.starts_with(if whole { meaning } else { first }), "{code}: {meaning}; {known}");
    }
    let unhelped: Vec<&str> = documented
        .iter()
        .map(|(code, _)| code.as_str())
        .filter(|code| !helped.iter().any(|(known, _)| known == code))
        .collect();
    assert_eq!(unhelped, ["255"], "`job plan` and the like have it in their own help");
}

#[test]
fn failures_of_plan_and_exec_have_their_own_code() {
    let numbers = |line| parsed(line).unwrap().verb.failure_numbers();
    assert_eq!(numbers("borough job plan web.yaml"), FailureNumbers::Plan);
    assert_eq!(numbers("borough federation job plan web.yaml"), FailureNumbers::Plan);
    assert_eq!(numbers("borough task exec web/0 -- ls"), FailureNumbers::One);
    assert_eq!(numbers("borough store check --store embedded:a"), FailureNumbers::One);
    assert_eq!(numbers("borough store export --store embedded:a --to -"), FailureNumbers::Table);
    assert_eq!(numbers("borough job run web.yaml"), FailureNumbers::Table);
}

#[test]
fn events_of_a_time_are_all_listed_unless_the_user_says_how_many() {
    let minute = Some(std::time::Duration::from_secs(60));
    assert_eq!([events_limit(None, None), events_limit(None, minute)], [100, EVENTS_MAX]);
    assert_eq!(events_limit(Some(7), minute), 7);
}

/// Who has no quota may not run everything.
#[test]
fn the_help_of_a_quota_says_what_holds_without_one() {
    let mut root = Arguments::screens();
    let set = root.find_subcommand_mut("quota").and_then(|verbs| verbs.find_subcommand_mut("set")).unwrap();
    let help = set.render_help().to_string();
    assert!(
        help.contains("Nothing limits a user without a quota in a band. But once the cell has grants"),
        "{help}"
    );
}

/// Each long option of a command and of those below it that people see.
fn options_of(command: &clap::Command, found: &mut std::collections::BTreeSet<String>) {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    found.extend(shown.filter_map(clap::Arg::get_long).map(|name| format!("--{name}")));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.for_each(|below| options_of(below, found));
}

#[test]
fn every_option_stands_in_the_documentation() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let text: String = pages.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut options = std::collections::BTreeSet::new();
    options_of(&Arguments::screens(), &mut options);
    options_of(&Arguments::command(), &mut options);
    let is_there = |option: &String| {
        let ends = |rest: &str| !rest.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric());
        text.match_indices(option.as_str()).any(|(at, _)| text.get(at + option.len()..).is_some_and(ends))
    };
    let missing: Vec<_> = options.iter().filter(|option| !is_there(option)).collect();
    assert!(missing.is_empty(), "in no page of docs: {missing:?}");
}

#[test]
fn a_federation_process_and_a_verb_of_federations_are_two_things() {
    let process = |line: &str| {
        let Verb::Federation(arguments) = Arguments::read(line.split_whitespace()).unwrap().verb else {
            panic!("another verb")
        };
        assert!(arguments.verb.is_some() || arguments.process.0.is_some(), "{line}");
        arguments.process.0
    };
    let of = "borough federation --store embedded:home --cells home --credentials tokens --token-file t";
    let given = process(of).unwrap();
    assert_eq!((given.credentials, given.http_listen.port()), ("tokens".into(), 7_406));
    assert!(process("borough federation job list").is_none());
}
