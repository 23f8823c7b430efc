//! Every command that a page of the documentation shows exists, with its options.

use std::path::{Path, PathBuf};

use super::*;

/// The pages: the README, and everything below `docs/`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The code of a page: its spans, which may go over the end of a line, and its indented and fenced lines.
fn code(page: &str) -> Vec<String> {
    let (mut spans, mut prose, mut fenced) = (Vec::new(), String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            spans.push(line.trim().to_owned());
        } else {
            // A paragraph ends its spans, so that a lone backquote harms no other.
            prose.push_str(if line.is_empty() { "\n" } else { line });
            prose.push(' ');
        }
    }
    for paragraph in prose.split('\n') {
        spans.extend(paragraph.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    spans
}

/// The commands of this program in a piece of code: with its name, or from the noun on as in tables.
fn commands(code: &str, program: &Command) -> Vec<Vec<String>> {
    let parts = code.split(['|', ';', '>', '#', '(', ')']).flat_map(|part| part.split("&&"));
    let mut found = Vec::new();
    for (at, part) in parts.enumerate() {
        let mut words: Vec<String> = part.split_whitespace().map(str::to_owned).collect();
        // Variables for the command stand before it.
        let first = words.iter().position(|word| !word.contains('=') && word != "$").unwrap_or(words.len());
        words.drain(..first);
        let group = |word: &String| {
            program.find_subcommand(word).is_some_and(|command| command.get_subcommands().next().is_some())
        };
        match words.as_slice() {
            [first, ..] if first == "borough" => found.push(words.split_off(1)),
            // Without the name of the program, a sentence of a message may begin with a noun too.
            [first, verb, rest @ ..]
                if at == 0 && group(first) && is_verb(verb) && !rest.iter().any(|word| is_verb(word)) =>
            {
                found.push(words);
            }
            _ => {}
        }
    }
    found
}

fn is_verb(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Why these words are no command: the first one that the program does not know.
fn unknown(words: &[String], program: &Command) -> Option<String> {
    let global: Vec<&Arg> = program.get_arguments().collect();
    let mut command = program;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            return None;
        }
        let named = word.trim_matches(['[', ']', ',', '"', '.']);
        let option = named.strip_prefix("--").map(|long| long.split(['=', '[']).next().unwrap_or_default());
        if let Some(long) = option {
            let mut known = command.get_arguments().chain(global.iter().copied());
            let Some(argument) = known.find(|argument| argument.get_long() == Some(long)) else {
                if ["help", "version"].contains(&long) {
                    continue;
                }
                return Some(format!("--{long} of {}", command.get_name()));
            };
            if argument.get_action().takes_values() && !named.contains('=') {
                words.next();
            }
            continue;
        }
        if command.get_subcommands().next().is_none() || !is_verb(named) || named.starts_with('-') {
            // Arguments follow, or a placeholder stands for the verb.
            if !word.starts_with('-') && command.get_subcommands().next().is_some() {
                return None;
            }
            continue;
        }
        match command.find_subcommand(named) {
            Some(sub) => command = sub,
            None => return Some(format!("{named} of {}", command.get_name())),
        }
    }
    None
}

#[test]
fn every_command_of_every_page_exists() {
    let mut program = Arguments::command();
    program.build();
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for code in code(&text) {
            for words in commands(&code, &program) {
                seen += 1;
                if let Some(unknown) = unknown(&words, &program) {
                    wrong.push(format!("{}: {unknown}, in: {code}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "pages show what does not exist:\n{}", wrong.join("\n"));
    assert!(seen > 100, "{seen} commands were found in all pages");
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let mut program = Arguments::command();
    program.build();
    let found = |page: &str| {
        let commands = code(page).into_iter().flat_map(|code| commands(&code, &program));
        commands.filter_map(|words| unknown(&words, &program)).collect::<Vec<_>>()
    };
    assert_eq!(found("Run `borough task list web`, or `task list`."), ["list of task", "list of task"]);
    assert_eq!(
        found("Text\n\n    $ A=b borough --cell alpha job plan x.yaml --weit 3 # no\n"),
        ["--weit of plan"]
    );
    assert_eq!(found("A span over `borough job\nstopp web`."), ["stopp of job"]);
    assert_eq!(found("```sh\nborough job run x && borough jobs\n```\n"), ["jobs of borough"]);
    let fine = "`borough VERB --help`, `job status JOB`, `borough task exec web/0 -- ls --all`, `borough.v1`, `a job`, \
        `borough node token [NODE] --to FILE`, `borough store check --store fdb:x`, `node \"alpha-1\"`, `job`, \
        `cell alpha is closed`, `no space left (store error 9001)`";
    assert!(found(fine).is_empty(), "{:?}", found(fine));
}
