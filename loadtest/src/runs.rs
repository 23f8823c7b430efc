//! Several runs of one benchmark: the median of each number, with the least and the most.

use serde_json::{Value, json};

use crate::result::{Stats, StatsSet as _};

/// One line for several runs. A number that is the same in all runs stands alone. Of any other, `NAME` is the median,
/// `NAME_min` and `NAME_max` are the spread. Lists, such as the events that are missing, contain what any run has.
pub(crate) fn runs_stats(runs: &[Stats]) -> Stats {
    let mut stats = Stats::new();
    stats.set("runs", json!(runs.len()));
    let mut names: Vec<&String> = Vec::new();
    for name in runs.iter().flat_map(|run| run.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let values: Vec<&Value> = runs.iter().filter_map(|run| run.get(name)).collect();
        let Some((&first, rest)) = values.split_first() else { continue };
        let mut numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
        if rest.iter().all(|value| *value == first) {
            stats.set(name, first.clone());
        } else if values.iter().all(|value| value.is_array()) {
            let mut all: Vec<Value> =
                values.iter().filter_map(|value| value.as_array()).flatten().cloned().collect();
            all.sort_by_key(Value::to_string);
            all.dedup();
            stats.set(name, Value::Array(all));
        } else if numbers.len() == values.len() {
            numbers.sort_by(f64::total_cmp);
            stats.set(name, number(median(&numbers)));
            stats.set(format!("{name}_min"), number(numbers.first().copied().unwrap_or_default()));
            stats.set(format!("{name}_max"), number(numbers.last().copied().unwrap_or_default()));
        } else {
            stats.set(name, first.clone());
        }
    }
    stats
}

/// The middle one of sorted numbers, or the mean of the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(at(middle.saturating_sub(1)), at(middle))
    } else {
        at(middle)
    }
}

/// Whole numbers without a fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, missing: &[&str]) -> Stats {
        let mut stats = Stats::new();
        stats.set("nodes", json!(5));
        stats.set("rate", json!(rate));
        if !missing.is_empty() {
            stats.set("events_missing", json!(missing));
        }
        stats
    }

    #[test]
    fn a_number_has_its_median_and_its_spread() {
        let runs = [run(3.0, &[]), run(1.5, &["b"]), run(2.0, &["a", "b"])];
        let stats = runs_stats(&runs);
        let of = |name: &str| stats.get(name).cloned().unwrap_or_default();
        assert_eq!((of("runs"), of("nodes")), (json!(3), json!(5)));
        assert_eq!((of("rate"), of("rate_min"), of("rate_max")), (json!(2), json!(1.5), json!(3)));
        assert_eq!(of("events_missing"), json!(["a", "b"]));
        assert!(!stats.contains_key("nodes_min"));
        assert_eq!(runs_stats(&runs[..2]).get("rate"), Some(&json!(2.25)));
    }
}
