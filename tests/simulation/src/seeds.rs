//! Runs many seeds, as many at once as there are processors, and adds up the events that they met.

#![expect(clippy::print_stdout, reason = "a test says what its runs met")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How often each event was met, by name. Names that end with `_max` have the maximum over all runs.
pub type Met = BTreeMap<String, u64>;

/// The result of one run.
#[derive(Debug, Default)]
pub struct Run {
    pub met: Met,
    /// Broken rules: the rule, a colon, and what broke it.
    pub wrong: Vec<String>,
}

/// The number in an environment variable, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Makes the runs of the test target `target` and returns what they met, with how many they were: `usual` of them, or
/// `BOROUGH_SEEDS` from `BOROUGH_SEED` on. With `BOROUGH_FIRST`, the first failure is the last run, and a line names
/// the run and the broken rule.
///
/// # Panics
/// A run broke a rule. Names the seed and the command of each.
pub fn runs_make(target: &str, usual: u64, run: impl Fn(u64) -> Run + Sync) -> (u64, Met) {
    let first = number("BOROUGH_SEED");
    let count = number("BOROUGH_SEEDS").unwrap_or_else(|| if first.is_some() { 1 } else { usual });
    let first = first.unwrap_or(0);
    let first_only = std::env::var_os("BOROUGH_FIRST").is_some();
    let next = AtomicU64::new(first);
    let (met, failed) = (Mutex::new(Met::new()), Mutex::new(Vec::new()));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first.saturating_add(count) || (first_only && !failed.lock().is_empty()) {
            return;
        }
        let Run { met: own, wrong } = run(seed);
        met_add(&mut met.lock(), own);
        let Some(broken) = wrong.first() else { continue };
        if first_only {
            let rule = broken.split_once(": ").map_or("", |(rule, _)| rule);
            println!("FIRST {} {rule}", seed.saturating_sub(first).saturating_add(1));
        }
        let command = format!("BOROUGH_SEED={seed} cargo test -p borough-simulation --test {target}");
        failed.lock().push(format!("seed {seed} ({command}):\n  {}", wrong.join("\n  ")));
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (met, failed) = (met.into_inner(), failed.into_inner());
    println!("{count} runs met {met:?}");
    assert!(failed.is_empty(), "{} of {count} runs failed\n{}", failed.len(), failed.join("\n"));
    (count, met)
}

fn met_add(met: &mut Met, own: Met) {
    for (what, times) in own {
        let is_most = what.ends_with("_max");
        let known = met.entry(what).or_default();
        *known = if is_most { times.max(*known) } else { known.saturating_add(times) };
    }
}

/// Fails if the runs did not meet everything that they should.
///
/// # Panics
/// An event of `expected` was never met.
pub fn coverage_check<'a>(met: &Met, expected: impl IntoIterator<Item = &'a str>) {
    let is_met = |what: &&str| met.get(*what).is_some_and(|times| *times > 0);
    let never: Vec<&str> = expected.into_iter().filter(|what| !is_met(what)).collect();
    assert!(never.is_empty(), "never met: {never:?}; met {met:?}");
}
