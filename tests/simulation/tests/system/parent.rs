//! Every run is a process of its own: this test program again, asked for one seed.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::run::{Outcome, run};

/// Runs, unless told otherwise.
const SEEDS: u64 = 12;
/// The seed that a child runs.
const CHILD: &str = "BOROUGH_SYSTEM_CHILD";
/// Begins the line with a child's outcome.
const MARK: &str = "OUTCOME ";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// One run in a process of its own: its outcome, and all that it printed.
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

/// Asked for by [`child`] alone.
#[test]
#[ignore = "a run of one seed, which the other tests start"]
fn one_run() {
    let Some(seed) = number(CHILD) else { return };
    // A run is of no use once nobody waits for it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    borough_entropy::fix(seed);
    // A thread of its own: its hash seeds are taken after the line above.
    let outcome = std::thread::spawn(move || run(seed)).join().unwrap();
    println!("{MARK}{}", serde_json::to_string(&outcome).unwrap());
}

#[test]
fn whole_systems_keep_every_rule() {
    let first = number("BOROUGH_SEED");
    let count = number("BOROUGH_SEEDS").unwrap_or_else(|| if first.is_some() { 1 } else { SEEDS });
    let traced = std::env::var_os("BOROUGH_TRACE").is_some();
    let first = first.unwrap_or(0);
    let first_only = std::env::var_os("BOROUGH_FIRST").is_some();
    let next = AtomicU64::new(first);
    let (met, failed) = (Mutex::new(BTreeMap::<String, u64>::new()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + count || (first_only && !failed.lock().is_empty()) {
            return;
        }
        let (outcome, printed) = child(seed, traced);
        if traced {
            println!("{}", String::from_utf8_lossy(&printed));
        }
        for (what, times) in outcome.met {
            let mut met = met.lock();
            let known = met.entry(what.clone()).or_default();
            *known = if what.ends_with("_max") { times.max(*known) } else { *known + times };
        }
        if !outcome.wrong.is_empty() {
            let command = format!("BOROUGH_SEED={seed} cargo test -p borough-simulation --test system");
            let wrong: Vec<String> =
                outcome.wrong.iter().map(|(rule, what)| format!("{rule}: {what}")).collect();
            if first_only {
                println!("FIRST {} {}", seed - first + 1, outcome.wrong[0].0);
            }
            failed.lock().push(format!("seed {seed} ({command}):\n  {}", wrong.join("\n  ")));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (met, failed) = (met.into_inner(), failed.into_inner());
    println!("{count} runs met {met:?}");
    assert!(failed.is_empty(), "{} of {count} runs failed\n{}", failed.len(), failed.join("\n"));
    if count >= 20 && std::env::var_os("BOROUGH_INJECT").is_none() {
        coverage_check(&met);
    }
}

/// A run that meets nothing shows nothing.
fn coverage_check(met: &BTreeMap<String, u64>) {
    let injected =
        crate::plan::ALL.iter().filter(|name| !crate::plan::OFF.iter().any(|(off, _)| off == *name));
    // Operators do the last two in their own time.
    let injected =
        injected.filter(|name| !matches!(**name, "large_specs" | "request_repeated" | "shared_address"));
    let events = [
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
    ];
    let never: Vec<&str> = injected.copied().chain(events).filter(|what| !met.contains_key(*what)).collect();
    assert!(never.is_empty(), "never met: {never:?}; met {met:?}");
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
        // hyper writes the date of the real clock into its answers: bytes under way differ where a second ends.
        let met = |outcome: &Outcome| {
            let mut met = outcome.met.clone();
            met.remove("flight_bytes_max");
            met
        };
        assert_eq!(met(&first), met(&again));
    }
}
