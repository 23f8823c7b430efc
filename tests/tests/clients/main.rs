//! The suite of the clients: what `tests/clients/README.md` says, for the client of each language.
//!
//! Each test starts a cell, an encrypted gateway and a proxy, and the runner of one language, which prints a line for
//! each scenario. To repeat one scenario: `BOROUGH_SCENARIOS=watch-over-a-trim cargo test -p borough-tests --test
//! clients rust`.

#![expect(clippy::print_stderr, reason = "a failing test prints what it saw")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod rust;
mod toolchain;
mod world;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use borough_kv::exercise::not_exercised;
use serde_json::Value;

use crate::toolchain::Toolchain;
use crate::world::World;

/// Scenarios to carry out, with commas between; absent: all.
const SELECT: &str = "BOROUGH_SCENARIOS";
/// For all scenarios of one language, with what its runner makes first.
const LIMIT: Duration = Duration::from_secs(900);

fn scenarios_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/scenarios.json")
}

/// The scenarios to carry out.
fn scenarios() -> Vec<Value> {
    let file = std::fs::read(scenarios_file()).unwrap();
    let all: Value = serde_json::from_slice(&file).unwrap();
    let chosen = std::env::var(SELECT).ok();
    let chosen: Option<Vec<&str>> = chosen.as_ref().map(|chosen| chosen.split(',').collect());
    let is_chosen = |scenario: &&Value| {
        let name = scenario["name"].as_str().unwrap();
        chosen.as_ref().is_none_or(|chosen| chosen.contains(&name))
    };
    let found: Vec<Value> = all["scenarios"].as_array().unwrap().iter().filter(is_chosen).cloned().collect();
    assert!(!found.is_empty(), "no scenario is of these names");
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust() {
    let world = World::start("rust").await;
    let mut failed = Vec::new();
    for scenario in scenarios() {
        if let Err(problem) = rust::carry_out(&world.facts, &scenario).await {
            failed.push(format!("{}: {problem}", scenario["name"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn python() {
    passes(&toolchain::PYTHON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn go() {
    passes(&toolchain::GO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn typescript() {
    passes(&toolchain::TYPESCRIPT).await;
}

/// Starts the runner of a language and checks that every scenario has passed.
async fn passes(language: &Toolchain) {
    if let Err(missing) = language.found() {
        let subject = format!("the client in {}", language.name);
        not_exercised(&subject, &format!("{missing} is not on this machine"));
        return;
    }
    let world = World::start(language.name).await;
    let file = world.file();
    let names: Vec<String> =
        scenarios().iter().map(|scenario| scenario["name"].as_str().unwrap().to_owned()).collect();
    let mut runner = tokio::process::Command::new(language.runner());
    runner.arg(&file).arg(scenarios_file()).args(&names);
    // Everything that it starts ends with it.
    runner
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = runner.spawn().unwrap();
    let _group = world::Group::of(&child);
    let output =
        tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("the runner ends").unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let verdicts: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let passed = |name: &String| {
        verdicts.iter().any(|verdict| verdict["scenario"] == name.as_str() && verdict["ok"] == true)
    };
    let failed: Vec<&String> = names.iter().filter(|name| !passed(name)).collect();
    if !failed.is_empty() || !output.status.success() {
        eprintln!("{printed}\n{}", String::from_utf8_lossy(&output.stderr));
        panic!("{}: of {} scenarios, these have not passed: {failed:?}", language.name, names.len());
    }
}
