//! Runs every seed in a process of its own: this test program again, with one seed.

use std::process::{Command, Stdio};

use borough_simulation::seeds::{Coverage, Run, number, runs_make};

use crate::run::{Outcome, run};

/// Seeds that a run without arguments tries.
const SEEDS: u64 = 12;
/// So many meet all of [`EVENTS`].
const COVERING_SEEDS: u64 = 100;
/// The seed that a child runs.
const CHILD: &str = "BOROUGH_SYSTEM_CHILD";
/// The first word of the line with a child's outcome.
const MARK: &str = "OUTCOME ";
/// Events that must happen in some run.
const EVENTS: &[&str] = &[
    "placed",
    "returned",
    "published",
    "shrunk",
    "lost",
    "cordoned",
    "drained",
    "job_submit",
    "job_stop",
    "job_end",
    "task_move",
    "task_stop",
    "task_restart",
    "rollout_replace",
    "rollout_replaced_healthy",
    "rollout_done",
    "rollout_canaries",
    "rollout_promote",
    "rollout_fail",
    "rollout_reverts",
    "resize_ordered",
    "resize_in_force",
    "rollout pause ok",
    "rollout undo ok",
    "Lost",
    "Releasing",
    "Dead",
    "connect_refused",
    "watch published",
    "submit ok",
    "submit refused",
    "scale ok",
    "stop ok",
    "drain ok",
    "taint ok",
    "label ok",
    "nodes_serve",
    "daemon_placed",
    "daemon_on_cordoned",
    "alloc_placed",
    "alloc_left_healthy",
];

/// One run in a process of its own: its outcome, and its output.
fn child(seed: u64, traced: bool) -> (Outcome, Vec<u8>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "parent::one_run", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, seed.to_string()).stdin(Stdio::null());
    if traced {
        command.env("BOROUGH_TRACE", "1");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let outcome = text.lines().find_map(|line| line.split_once(MARK)?.1.parse::<serde_json::Value>().ok());
    let outcome = outcome.and_then(|value| serde_json::from_value(value).ok());
    let outcome = outcome.unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(12).collect();
        let what =
            format!("{}: {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join("\n    "));
        Outcome { seed, wrong: vec![("panic".to_owned(), what)], ..Outcome::default() }
    });
    (outcome, output.stdout)
}

/// Called by [`child`] alone.
#[test]
#[ignore = "a run of one seed, which the other tests start"]
fn one_run() {
    let Some(seed) = number(CHILD) else { return };
    // A run is useless once nobody waits for it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    borough_entropy::fix(seed);
    // In a thread of its own, which takes its hash seeds after the line above.
    let outcome = std::thread::spawn(move || run(seed)).join().unwrap();
    println!("{MARK}{}", serde_json::to_string(&outcome).unwrap());
}

#[test]
fn whole_systems_keep_every_rule() {
    let traced = std::env::var_os("BOROUGH_TRACE").is_some();
    // Operators do these in their own time.
    let in_their_time =
        |name: &&&str| !matches!(**name, "large_specs" | "request_repeated" | "shared_address");
    let injected = crate::plan::ALL.iter().filter(in_their_time);
    let expected: Vec<&str> = match std::env::var_os("BOROUGH_INJECT") {
        None => injected.chain(EVENTS).copied().collect(),
        Some(_) => Vec::new(),
    };
    let coverage = Coverage { runs_least: COVERING_SEEDS, events: &expected };
    runs_make("system", SEEDS, coverage, |seed| {
        let (outcome, printed) = child(seed, traced);
        if traced {
            println!("{}", String::from_utf8_lossy(&printed));
        }
        let wrong = outcome.wrong.iter().map(|(rule, what)| format!("{rule}: {what}"));
        Run { wrong: wrong.collect(), met: outcome.met }
    });
}

/// The same seed is the same run: every message, entry and process, at the same time.
#[test]
fn a_seed_is_one_run_byte_for_byte() {
    for seed in [3, 4] {
        let ((first, one), (again, other)) = (child(seed, true), child(seed, true));
        assert!(first.lines > 1_000, "the run did something: {:?}", first.wrong);
        let (one, other) = (String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
        for (number, (left, right)) in one.lines().zip(other.lines()).enumerate() {
            assert!(
                left == right || left.starts_with("test result") || left.contains(MARK),
                "seed {seed}, line {number}:\n{left}\n{right}"
            );
        }
        assert_eq!((first.digest, first.lines, &first.wrong), (again.digest, again.lines, &again.wrong));
        // hyper writes the date of the real clock into its answers, so the bytes in flight differ at the end of a
        // second.
        let met = |outcome: &Outcome| {
            let mut met = outcome.met.clone();
            met.remove("flight_bytes_max");
            met
        };
        assert_eq!(met(&first), met(&again));
    }
}
