//! Counts of one: no answer, remark or error says `1 nodes` or `1 tasks`.

use borough_tests::{TestCell, is_up, options};

/// Nouns and verbs that one thing does not have.
const PLURALS: [&str; 28] = [
    "are",
    "attempts",
    "cells",
    "changes",
    "commits",
    "cores",
    "devices",
    "domains",
    "endpoints",
    "entries",
    "errors",
    "events",
    "fields",
    "gangs",
    "have",
    "jobs",
    "lines",
    "members",
    "minutes",
    "nodes",
    "problems",
    "queues",
    "restarts",
    "roles",
    "rows",
    "seconds",
    "tasks",
    "workers",
];

/// A job that no node takes.
const LARGE: &str = "name: large\ntask: {command: [sleep, '600'], resources: {cpu: 900, memory: 8MiB}}\n";
/// A job with one task.
const ONE: &str = "name: one\ntask:\n  command: [sh, -c, 'echo one line; exec sleep 600']\n  resources: {memory: 8MiB}\n  \
                   grace: 1s\n";

/// Each `1 tasks` in a text.
fn wrong_counts(text: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(|each: char| !each.is_alphanumeric()).to_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.windows(2).filter_map(|pair| match pair {
        [number, noun] if number.trim_start_matches('(') == "1" => Some(bare(noun)),
        _ => None,
    });
    pairs.filter(|noun| PLURALS.contains(&noun.as_str())).map(|noun| format!("1 {noun}")).collect()
}

#[test]
fn a_wrong_count_is_found() {
    let text = "0/1 tasks up, 1 task left (1 nodes of 3), 11 jobs, 1 jobs; 1 ready";
    assert_eq!(wrong_counts(text), ["1 nodes", "1 jobs"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_of_a_kind_is_counted_in_the_singular() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let (one, large) = (cell.file("one.yaml", ONE), cell.file("large.yaml", LARGE));
    let node = cell.client().node_list().await.unwrap()[0].name.clone();
    let run = cell.borough(&["job", "run", &one]).await.ended(0);
    assert_eq!(wrong_counts(&format!("{}{}", run.stdout, run.stderr)), [""; 0], "{run:?}");
    cell.tasks_until("one", "up", |tasks| is_up(tasks, 1)).await;
    cell.borough(&["job", "run", "--detach", &large]).await.ended(0);
    let verbs: [&[&str]; 24] = [
        &["cell", "status"],
        &["cell", "list"],
        &["node", "list"],
        &["node", "status", &node],
        &["job", "list", "-o", "wide"],
        &["job", "status"],
        &["job", "status", "one"],
        &["job", "status", "large"],
        &["job", "validate", &one],
        &["job", "plan", &one],
        &["job", "history", "one"],
        &["job", "logs", "one"],
        &["job", "scale", "one", "1"],
        &["job", "restart", "one", "--task", "0"],
        &["task", "list"],
        &["task", "status", "one"],
        &["name", "list", "one"],
        &["why", "large"],
        &["event", "list"],
        &["node", "drain", &node, "--timeout", "1s"],
        &["node", "uncordon", &node],
        &["job", "stop", "large"],
        &["job", "stop", "one"],
        &["job", "purge", "--all-ended", "--yes"],
    ];
    for verb in verbs {
        let ran = cell.borough(verb).await;
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains(" --help"), "the test is wrong: {ran:?}");
        assert_eq!(wrong_counts(&text), [""; 0], "{verb:?}: {text}");
    }
    cell.finish().await;
}
