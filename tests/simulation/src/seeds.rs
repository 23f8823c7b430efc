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

/// What runs must meet, if they are many enough to meet it.
#[derive(Clone, Copy, Debug)]
pub struct Coverage<'c> {
    /// Fewer runs need not meet all of it.
    pub runs_least: u64,
    pub events: &'c [&'c str],
}

/// Makes the runs of the test target `target`: `usual` of them, or `BOROUGH_SEEDS` from `BOROUGH_SEED` on. With
/// `BOROUGH_FIRST`, the first failure is the last run, and a line names the run and the broken rule.
///
/// The threads of a run may decide too what it meets, so seeds that met everything once may miss a rare event. Then
/// more runs follow, up to as many again.
///
/// # Panics
/// A run broke a rule: names the seed and the command of each. Or an event of `coverage` was never met.
pub fn runs_make(target: &str, usual: u64, coverage: Coverage<'_>, run: impl Fn(u64) -> Run + Sync) {
    let first = number("BOROUGH_SEED");
    let count = number("BOROUGH_SEEDS").unwrap_or_else(|| if first.is_some() { 1 } else { usual });
    let first = first.unwrap_or(0);
    let first_only = std::env::var_os("BOROUGH_FIRST").is_some();
    let expected = if count >= coverage.runs_least && !first_only { coverage.events } else { &[] };
    let next = AtomicU64::new(first);
    let (met, failed) = (Mutex::new(Met::new()), Mutex::new(Vec::new()));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let made = seed.saturating_sub(first);
        let is_over = made >= count.saturating_mul(2) || never_met(&met.lock(), expected).is_empty();
        if (made >= count && is_over) || (first_only && !failed.lock().is_empty()) {
            return;
        }
        let Run { met: own, wrong } = run(seed);
        met_add(&mut met.lock(), own);
        let Some(broken) = wrong.first() else { continue };
        if first_only {
            let rule = broken.split_once(": ").map_or("", |(rule, _)| rule);
            println!("FIRST {} {rule}", made.saturating_add(1));
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
    println!("{count} runs or more met {met:?}");
    assert!(failed.is_empty(), "{} runs failed\n{}", failed.len(), failed.join("\n"));
    let never = never_met(&met, expected);
    assert!(never.is_empty(), "never met: {never:?}; met {met:?}");
}

fn never_met<'a>(met: &Met, expected: &[&'a str]) -> Vec<&'a str> {
    let is_met = |what: &&str| met.get(*what).is_some_and(|times| *times > 0);
    expected.iter().copied().filter(|what| !is_met(what)).collect()
}

fn met_add(met: &mut Met, own: Met) {
    for (what, times) in own {
        let is_most = what.ends_with("_max");
        let known = met.entry(what).or_default();
        *known = if is_most { times.max(*known) } else { known.saturating_add(times) };
    }
}
