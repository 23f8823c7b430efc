//! Answers, errors and progress on terminals of 80 and 200 columns, and in pipes, as a screen reader gets them.

use std::collections::BTreeMap;

use borough_kv::exercise::not_exercised;
use borough_tests::{Ran, TerminalProgram, TerminalSize, TestCell, TestTerminal, options};

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
            assert_eq!(on_terminal.text, text, "{verb:?} at {size:?}");
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
