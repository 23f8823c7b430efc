//! Answers, errors and progress on terminals of 80 and 200 columns, and in pipes, as a screen reader gets them.

use std::collections::BTreeMap;

use borough_kv::exercise::not_exercised;
use borough_tests::{Ran, TerminalProgram, TerminalSize, TestCell, TestTerminal, options, until};

const NARROW: TerminalSize = TerminalSize { columns: 80, rows: 24 };
const WIDE: TerminalSize = TerminalSize { columns: 200, rows: 50 };

/// What a terminal showed until a verb ended.
struct Shown {
    /// With wrapped lines joined, and without the spaces at their ends.
    text: String,
    escapes: String,
}

/// Whether the environment refuses colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colors {
    Allowed,
    Refused,
}

/// Runs a verb on a terminal to its end.
async fn shown(cell: &TestCell, size: TerminalSize, colors: Colors, verb: &[&str]) -> Shown {
    let mut environment = BTreeMap::from([
        ("BOROUGH_DIR".to_owned(), cell.root().display().to_string()),
        ("BOROUGH_USER".to_owned(), "tester".to_owned()),
    ]);
    if colors == Colors::Refused {
        environment.insert("NO_COLOR".to_owned(), "1".to_owned());
    }
    let program = options!().program.display().to_string();
    let line = std::iter::once(program.as_str()).chain(verb.iter().copied()).map(str::to_owned).collect();
    let terminal = TestTerminal::start(&TerminalProgram { line, environment, size }, &cell.control_records());
    terminal.shows(&["ended with "]).await;
    let text = terminal.transcript();
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    let lines = lines.take_while(|line| !line.starts_with("ended with "));
    Shown { text: lines.collect(), escapes: terminal.picture_colored() }
}

/// Runs a verb with pipes, and with colours allowed.
async fn piped(cell: &TestCell, line: &[&str]) -> Ran {
    let mut command = cell.command(line);
    let output = command.env_remove("NO_COLOR").output().await.unwrap();
    Ran::new(line.join(" "), &output)
}

/// Returns true if a picture has a colour. Tmux writes the default colour as 39 and 49.
fn is_colored(picture: &str) -> bool {
    let colors = (31..38).map(|color| format!("{color}m"));
    picture.contains("38;5;") || colors.into_iter().any(|color| picture.contains(&color))
}

/// The text without the ages, which grow between two commands: `2s ago`.
fn ageless(text: &str) -> String {
    let words = text.split_inclusive(' ');
    let is_age = |word: &str| word.ends_with("s ") && word.trim_end_matches("s ").parse::<u32>().is_ok();
    words.map(|word| if is_age(word) { "AGE " } else { word }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_and_errors_are_the_same_text_at_80_columns_at_200_and_in_a_pipe() {
    if !TestTerminal::is_available() {
        return not_exercised("answers on a terminal", "tmux is not installed");
    }
    let cell = TestCell::start(options!()).await;
    cell.run("served.yaml", crate::SERVICE).await;
    let verbs: [&[&str]; 6] = [
        &["job", "list", "-o", "wide"],
        &["job", "status", "served"],
        &["task", "status", "served"],
        &["name", "list", "served"],
        &["job", "status", "nothing"],
        &["job", "scale", "served", "many"],
    ];
    for verb in verbs {
        let plain = piped(&cell, verb).await;
        let text = format!("{}{}", plain.stdout, plain.stderr);
        assert!(!text.contains(['\u{1b}', '\r']), "{verb:?} in a pipe: {text:?}");
        let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        for size in [NARROW, WIDE] {
            let on_terminal = shown(&cell, size, Colors::Allowed, verb).await;
            assert_eq!(ageless(&on_terminal.text), ageless(&text), "{verb:?} at {size:?}");
        }
    }
    let status = ["job", "status", "served"];
    let colored = shown(&cell, NARROW, Colors::Allowed, &status).await;
    assert!(is_colored(&colored.escapes), "{:?}", colored.escapes);
    let refused = shown(&cell, NARROW, Colors::Refused, &status).await;
    let option = shown(&cell, NARROW, Colors::Allowed, &["--no-color", "job", "status", "served"]).await;
    for plain in [refused, option] {
        assert!(!is_colored(&plain.escapes) && plain.text.contains("running"), "{:?}", plain.escapes);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn progress_moves_on_a_terminal_only() {
    if !TestTerminal::is_available() {
        return not_exercised("progress on a terminal", "tmux is not installed");
    }
    let cell = TestCell::start(options!()).await;
    let file = cell.file("served.yaml", crate::SERVICE);
    let plain = piped(&cell, &["job", "run", &file]).await.ended(0);
    let written = format!("{}{}", plain.stdout, plain.stderr);
    assert!(!written.contains(['\u{1b}', '\r']), "{written:?}");
    assert!(plain.stderr.contains("submitted to cell alpha"), "{}", plain.stderr);
    for size in [NARROW, WIDE] {
        let again = shown(&cell, size, Colors::Refused, &["job", "run", &file]).await;
        assert!(!is_colored(&again.escapes), "{:?}", again.escapes);
    }
    cell.finish().await;
}

/// A context of the cell, for commands that name it: only there does every destructive verb ask.
async fn context(cell: &TestCell, home: &std::path::Path) -> BTreeMap<String, String> {
    let name = "production-in-the-north-of-europe";
    let config = home.display().to_string();
    let (gateway, token) = (cell.grpc(), cell.root().join("token").display().to_string());
    let add = ["context", "add", name, "--gateway", &gateway, "--cell", "alpha", "--token-file", &token];
    cell.borough_with(&add, &[("XDG_CONFIG_HOME", &config)]).await.ended(0);
    let variables =
        [("XDG_CONFIG_HOME", config.as_str()), ("BOROUGH_CONTEXT", name), ("BOROUGH_USER", "tester")];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Runs a verb on a terminal, and answers its question. Returns all that was shown, with wrapped lines joined.
async fn answered(
    cell: &TestCell,
    environment: &BTreeMap<String, String>,
    size: TerminalSize,
    verb: &[&str],
    answer: &str,
) -> Vec<String> {
    let program = options!().program.display().to_string();
    let line = std::iter::once(program.as_str()).chain(verb.iter().copied()).map(str::to_owned).collect();
    let program = TerminalProgram { line, environment: environment.clone(), size };
    let terminal = TestTerminal::start(&program, &cell.control_records());
    // A narrow terminal wraps a long question, even within its end.
    let is_asked = |shown: &str| ["[y/N]", "to go on:"].iter().any(|end| shown.contains(end));
    let asks = || async { is_asked(&terminal.transcript()).then_some(()) };
    until(&format!("the question of {verb:?}"), asks).await;
    terminal.types(answer);
    terminal.press(&["Enter"]);
    terminal.shows(&["ended with "]).await;
    terminal
        .transcript()
        .lines()
        .map(|line| line.trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_question_before_a_change_is_whole_at_80_columns_and_at_200() {
    if !TestTerminal::is_available() {
        return not_exercised("questions on a terminal", "tmux is not installed");
    }
    let cell = TestCell::start(options!().nodes(1)).await;
    let home = tempfile::tempdir().unwrap();
    cell.run("served.yaml", crate::SERVICE).await;
    cell.run(
        "once.yaml",
        "name: once\nkind: batch\ntask: {command: [\"true\"], resources: {memory: 8MiB}}\n",
    )
    .await;
    let ended = |jobs: Vec<borough_proto::v1::Job>| jobs.iter().any(|job| job.name == "once");
    let filter = borough_client::JobFilter {
        states: vec![borough_proto::v1::JobState::Succeeded],
        ..borough_client::JobFilter::default()
    };
    until("the batch job to end", || async {
        ended(cell.client().job_list(&filter).await.unwrap()).then_some(())
    })
    .await;
    let node = cell.client().node_list().await.unwrap()[0].name.clone();
    let environment = context(&cell, home.path()).await;
    let place = "context \"production-in-the-north-of-europe\", cell alpha";
    let questions: [(&[&str], String); 9] = [
        (&["job", "stop", "served"], "stop job tester/served".to_owned()),
        (&["job", "restart", "served"], "restart the tasks of job tester/served, one at a time".to_owned()),
        (&["job", "restart", "served", "--task", "1"], "restart task 1 of job tester/served".to_owned()),
        (&["task", "stop", "served/0"], "stop task tester/served/0".to_owned()),
        (&["job", "purge", "once"], "forget job tester/once with its history and output".to_owned()),
        (
            &["job", "purge", "--all-ended"],
            "forget 1 ended job of tester with its history and output".to_owned(),
        ),
        (&["node", "remove", &node], format!("forget node {node}")),
        (&["node", "drain", &node], format!("move every task off node {node}")),
        (&["node", "drain", "--force", &node], format!("stop every task of node {node}")),
    ];
    for (verb, change) in &questions {
        for size in [NARROW, WIDE] {
            let shown = answered(&cell, &environment, size, verb, "n").await;
            let expected = [
                format!("{place}: {change}? [y/N] n"),
                format!("error: not confirmed; nothing was changed in {place}"),
                "hint: answer y to make the change, or give --yes".to_owned(),
            ];
            assert_eq!(shown.get(..3).unwrap_or_default(), expected, "{verb:?} at {size:?}: {shown:?}");
            assert!(
                shown.get(3).is_some_and(|line| line.starts_with("ended with 1, ")),
                "{verb:?}: {shown:?}"
            );
        }
    }
    // Nothing has changed, and a yes makes the change.
    cell.tasks_until("served", "still up", |tasks| borough_tests::is_up(tasks, 2)).await;
    let shown = answered(&cell, &environment, NARROW, &["job", "stop", "served"], "y").await;
    assert!(shown.iter().any(|line| line.starts_with("ended with 0, ")), "{shown:?}");
    cell.finish().await;
}

/// A verb with labels shows what it would change before it asks. A no changes nothing, and a yes changes all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_verb_with_labels_lists_what_it_changes_and_asks() {
    if !TestTerminal::is_available() {
        return not_exercised("questions on a terminal", "tmux is not installed");
    }
    let cell = TestCell::start(options!().nodes(1)).await;
    let home = tempfile::tempdir().unwrap();
    for number in 0..23 {
        let job = format!(
            "name: n{number:02}\nlabels: {{app: many}}\ntask: {{command: [sleep, '600'], resources: {{cpu: '999'}}}}\n"
        );
        let file = cell.file(&format!("n{number:02}.yaml"), &job);
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    }
    let environment = context(&cell, home.path()).await;
    let place = "context \"production-in-the-north-of-europe\", cell alpha";
    let stop = ["job", "stop", "-l", "app=many"];
    // They are more than it lists, so a yes is not enough.
    let no = answered(&cell, &environment, WIDE, &stop, "y").await;
    let mut expected = vec!["jobs with these labels:".to_owned()];
    expected.extend((0..20).map(|number| format!("  tester/n{number:02}")));
    expected.push("  and 3 more".to_owned());
    expected.push(format!("{place}: stop 23 jobs? Type 23 to go on: y"));
    expected.push(format!("error: not confirmed; nothing was changed in {place}"));
    assert_eq!(no.get(..expected.len()).unwrap_or_default(), expected, "{no:?}");
    let all = cell.borough(&["job", "list", "-l", "app=many", "-o", "json"]).await.ended(0).json();
    assert_eq!(all.as_array().map(Vec::len), Some(23));
    let yes = answered(&cell, &environment, WIDE, &stop, "23").await;
    assert!(yes.iter().any(|line| line.starts_with("ended with 0, ")), "{yes:?}");
    let left = cell.borough(&["job", "list", "-l", "app=many", "-o", "json"]).await.ended(0).json();
    assert_eq!(left.as_array().map(Vec::len), Some(0), "{left}");
    cell.finish().await;
}
