//! `borough top` in a real terminal, driven by keys.

use std::process::{Command, Stdio};

use borough_kv::exercise::not_exercised;
use borough_shim::process::ProcessId;
use borough_tests::{TerminalProgram, TerminalSize, TestCell, TestTerminal, descendants_of, options, until};
use rustix::process::Signal;

const SMALL: TerminalSize = TerminalSize { columns: 80, rows: 24 };
const LARGE: TerminalSize = TerminalSize { columns: 200, rows: 50 };
const NOWHERE: &str = crate::example!("nowhere.yaml");

/// Returns false, and reports it, on a machine without tmux.
fn has_tmux(subject: &str) -> bool {
    let is_there = TestTerminal::is_available();
    if !is_there {
        not_exercised(subject, "tmux is not installed");
    }
    is_there
}

/// `top` in a terminal of 80 columns.
fn top(cell: &TestCell, environment: &[[&str; 2]]) -> TestTerminal {
    let own = [["BOROUGH_DIR", &cell.root().display().to_string()], ["BOROUGH_USER", "tester"]];
    let environment =
        own.iter().chain(environment).map(|[name, value]| ((*name).to_owned(), (*value).to_owned()));
    let program = options!().program.display().to_string();
    let line = [program.as_str(), "top", "--interval", "500ms"].map(str::to_owned).to_vec();
    let program = TerminalProgram { line, environment: environment.collect(), size: SMALL };
    TestTerminal::start(&program, &cell.control_records())
}

/// Returns true if something is red, green or yellow.
fn is_colored(picture: &str) -> bool {
    picture.contains("38;5;")
}

/// Waits until the program has ended with `code` and left the terminal as it was.
async fn ended(terminal: &TestTerminal, code: u8) {
    let shown = terminal.shows(&[&format!("ended with {code}, terminal:")]).await;
    assert!(shown.contains("terminal:icanon echo"), "the terminal is not restored\n{shown}");
    assert!(!terminal.is_full_screen(), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn top_leads_from_jobs_to_tasks_output_and_why() {
    if !has_tmux("the screens of top") {
        return;
    }
    let cell = TestCell::start(options!()).await;
    cell.run("served.yaml", crate::SERVICE).await;
    cell.borough(&["job", "run", "-d", NOWHERE]).await.ended(0);
    let terminal = top(&cell, &[["NO_COLOR", "1"]]);
    let jobs = terminal.shows(&["tester/nowhere", "tester/served", "2/2", "0/1", "nodes 2/2 ready"]).await;
    assert!(terminal.is_full_screen(), "{jobs}");
    // Agents report their load and their tasks' use every few seconds.
    terminal.shows(&["100m of", "allocated", "in use ("]).await;
    assert!(!is_colored(&terminal.picture_colored()), "{:?}", terminal.picture_colored());
    // Sorted by the state of its tasks, and filtered.
    terminal.press(&["s"]);
    terminal.shows(&["by STATE"]).await;
    terminal.types("/served");
    terminal.press(&["Enter"]);
    let filtered = terminal.shows(&["1 of 2 rows", "> tester/served", "filter: served"]).await;
    assert!(!filtered.contains("tester/nowhere"), "{filtered}");
    terminal.press(&["Enter"]);
    terminal.shows(&["tasks of tester/served", "> 0 ", "  1 ", "healthy", "50m", "alpha-"]).await;
    terminal.press(&["Enter"]);
    terminal.shows(&["output of tester/served/0", "out Serving HTTP on"]).await;
    // A resize changes no content.
    terminal.resize(LARGE);
    terminal.press(&["q"]);
    terminal.shows(&["tasks of tester/served", "RESTARTS", "STARTED", "LAST EXIT"]).await;
    terminal.resize(SMALL);
    terminal.press(&["3"]);
    terminal.shows(&["> tester/nowhere"]).await;
    terminal.press(&["w"]);
    terminal.shows(&["why tester/nowhere", "refused by:"]).await;
    // A node leads to its tasks.
    terminal.press(&["2"]);
    terminal.shows(&["> alpha-1", "alpha-2", "ready"]).await;
    terminal.press(&["Enter"]);
    terminal.shows(&["tasks on alpha-1", "tester/served/"]).await;
    terminal.press(&["1"]);
    terminal.shows(&["-- cells", "> alpha"]).await;
    terminal.press(&["?"]);
    terminal.shows(&["reverse the order"]).await;
    terminal.press(&["Escape"]);
    terminal.shows(&["-- cells", "> alpha"]).await;
    terminal.press(&["q"]);
    ended(&terminal, 0).await;
    drop(terminal);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn top_outlives_a_gateway_and_leaves_the_terminal_as_it_was() {
    if !has_tmux("top without a gateway") {
        return;
    }
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["job", "run", "-d", NOWHERE]).await.ended(0);
    let terminal = top(&cell, &[]);
    terminal.shows(&["tester/nowhere", "0/1"]).await;
    assert!(is_colored(&terminal.picture_colored()), "{:?}", terminal.picture_colored());
    cell.control_kill();
    terminal.shows(&["disconnected for", "retrying", "tester/nowhere"]).await;
    cell.control_start().await;
    until("an answer after the change of the gateway", || async {
        let picture = terminal.picture();
        let is_connected = !picture.contains("disconnected") && picture.contains("tester/nowhere");
        is_connected.then_some(())
    })
    .await;
    let below = descendants_of(terminal.shell());
    let program = below.iter().copied().find_map(ProcessId::find).expect("top runs");
    program.signal(Signal::TERM).unwrap();
    let shown = terminal.shows(&["interrupted by a signal"]).await;
    assert!(!shown.contains("panicked"), "{shown}");
    ended(&terminal, 130).await;
    drop(terminal);
    cell.finish().await;
}

#[test]
fn top_refuses_what_is_no_terminal_and_names_what_gives_text() {
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(options!().program);
        let child =
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = child.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let printed = refused(&["top"]);
    assert!(printed.contains("borough top draws on a terminal, and standard output is none"), "{printed}");
    assert!(printed.contains("as text: borough cell status"), "{printed}");
    assert!(refused(&["top", "-o", "json"]).contains("not in the format of -o"));
    assert!(refused(&["top", "--interval", "1h"]).contains("accepted: 500ms to 60s"));
}
