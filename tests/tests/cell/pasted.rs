//! Commands that the program names do what is meant when they are pasted: they keep the options of the line.

use std::process::Stdio;

use borough_tests::{Ran, TestCell, options};

/// Pastes a command of an answer into a shell.
async fn paste(cell: &TestCell, command: &str) -> Ran {
    let program = env!("CARGO_BIN_EXE_borough-under-test");
    let line = command.replacen("borough ", &format!("{program} "), 1);
    let output = tokio::process::Command::new("sh")
        .args(["-c", &line])
        // Without the options of the line it would ask no cell.
        .env_remove("BOROUGH_DIR")
        .env_remove("BOROUGH_USER")
        .env("XDG_CONFIG_HOME", cell.root())
        .env("XDG_STATE_HOME", cell.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    Ran::new(line, &output.await.expect("a shell"))
}

fn behind(ran: &Ran, word: &str) -> String {
    let found = ran.stderr.lines().find_map(|line| line.strip_prefix(word)).map(str::to_owned);
    found.unwrap_or_else(|| panic!("no {word:?} in {}", ran.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_plan_names_the_command_that_does_exactly_this() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let text = "function(env) {name: 'pasted', task: {command: ['sleep', '600'], environment: {ENV: env}, resources: {cpu: \
                '10m'}}}";
    let (file, dir) = (cell.file("my job.jsonnet", text), cell.root().display().to_string());
    let line = ["--user", "bob", "--dir", &dir, "job", "plan", &file, "--tla-str", "env=a b"];
    let planned = cell.borough(&line).await.ended(1);
    let command = behind(&planned, "to do exactly this: ");
    paste(&cell, &command).await.ended(0).prints("1/1 healthy");
    let again = cell.borough(&line).await.ended(0);
    again.prints("bob/pasted: no change");
    // A change of it has its revision beside the rest.
    let other = ["--user", "bob", "--dir", &dir, "job", "plan", &file, "--tla-str", "env=it's"];
    let planned = cell.borough(&other).await.ended(1);
    paste(&cell, &behind(&planned, "to do exactly this: ")).await.ended(0);
    cell.borough(&other).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_hint_asks_the_cell_of_the_line_it_answers() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let dir = cell.root().display().to_string();
    let unknown = cell.borough(&["--dir", &dir, "--user", "bob", "why", "nope"]).await.ended(3);
    let hint = behind(&unknown, "hint: ");
    assert_eq!(hint, format!("borough --dir {dir} --user bob job list --ended"));
    paste(&cell, &hint).await.ended(0);
    // A list that is empty has hints too, and a wrong command line has them already.
    let none = cell.borough(&["--dir", &dir, "--user", "bob", "job", "list"]).await.ended(0);
    let hint = behind(&none, "hint: ");
    assert_eq!(hint.matches("borough --dir ").count(), hint.matches("borough ").count(), "{hint}");
    let wrong = cell.borough(&["--dir", &dir, "task", "logs", "talk"]).await.ended(2);
    let hint = behind(&wrong, "hint: ");
    assert_eq!(hint.matches("--dir ").count(), hint.matches("borough ").count(), "{hint}");
    cell.finish().await;
}
