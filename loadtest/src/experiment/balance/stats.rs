//! Results from the curves: values for programs, a table for people, and a test of the published claims about two of
//! the policies.

use serde_json::{Value, json};

use super::sample::{Curve, Nodes};
use super::work::BalanceWorkload;
use crate::result::{Stats, StatsSet as _, stats_named};

/// Policies are compared up to this point, where all of them still place nearly everything.
const COMPARED_PERCENT: f64 = 80.0;

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// The values of a policy.
pub(super) fn stats(work: &BalanceWorkload, policy: &str, curve: &Curve) -> Stats {
    let at = |percent: f64| curve.at(percent).map(|(.., nodes)| *nodes).unwrap_or_default();
    let (half, most, end) = (at(50.0), at(COMPARED_PERCENT), at(f64::INFINITY));
    let refused = |percent: f64| curve.at(percent).map_or(0, |&(_, refused, _)| refused);
    let stats = [
        ("policy", json!(policy)),
        ("about", json!(work.about)),
        ("nodes", json!(work.nodes.len())),
        ("tasks_arrived", json!(work.arriving.len())),
        ("tasks_refused_80", json!(refused(COMPARED_PERCENT))),
        ("tasks_refused_end", json!(refused(f64::INFINITY))),
        ("load_deviation_mean", rounded(curve.mean_until(COMPARED_PERCENT, |nodes| nodes.load.deviation))),
        ("cpu_deviation_50", rounded(half.cpu.deviation)),
        ("cpu_deviation_80", rounded(most.cpu.deviation)),
        ("memory_deviation_50", rounded(half.memory.deviation)),
        ("memory_deviation_80", rounded(most.memory.deviation)),
        ("load_mean_80", rounded(most.load.mean)),
        ("load_deviation_80", rounded(most.load.deviation)),
        ("skew_mean_80", rounded(most.skew_mean)),
        ("nodes_empty_percent_50", rounded(half.empty)),
        ("cpu_percent_end", rounded(end.cpu_of_cell)),
        ("memory_percent_end", rounded(end.memory_of_cell)),
        ("gpu_percent_end", rounded(end.gpu_of_cell)),
        ("stranded_cpu_percent_80", rounded(most.stranded_cpu)),
        ("stranded_memory_percent_80", rounded(most.stranded_memory)),
        ("stranded_cpu_percent_end", rounded(end.stranded_cpu)),
        ("stranded_memory_percent_end", rounded(end.stranded_memory)),
        ("nodes_scored_per_decision", rounded(curve.nodes_scored_per_decision)),
    ];
    stats_named(stats)
}

type Column = (&'static str, fn(&Nodes) -> f64);

/// A table with a row per policy, the most even first.
pub(super) fn table(curves: &[(&str, Curve)]) -> (Vec<String>, Vec<Vec<String>>) {
    let at_80: [Column; 5] = [
        ("load", |nodes| nodes.load.mean),
        ("± load", |nodes| nodes.load.deviation),
        ("± cpu", |nodes| nodes.cpu.deviation),
        ("± memory", |nodes| nodes.memory.deviation),
        ("cpu - memory", |nodes| nodes.skew_mean),
    ];
    let at_end: [Column; 5] = [
        ("cpu at end", |nodes| nodes.cpu_of_cell),
        ("memory at end", |nodes| nodes.memory_of_cell),
        ("gpu at end", |nodes| nodes.gpu_of_cell),
        ("stranded cpu", |nodes| nodes.stranded_cpu),
        ("stranded memory", |nodes| nodes.stranded_memory),
    ];
    let mut header = vec!["policy".to_owned(), "mean ± load to 80 %".to_owned()];
    header.extend(at_80.iter().chain(&at_end).map(|(name, _)| (*name).to_owned()));
    let even = |curve: &Curve| curve.mean_until(COMPARED_PERCENT, |nodes| nodes.load.deviation);
    let mut ordered: Vec<&(&str, Curve)> = curves.iter().collect();
    ordered.sort_by(|(_, left), (_, right)| even(left).total_cmp(&even(right)));
    let row = |(policy, curve): &&(&str, Curve)| {
        let of = |point: Option<&(f64, u64, Nodes)>, columns: &[Column]| -> Vec<String> {
            let nodes = point.map(|(.., nodes)| *nodes).unwrap_or_default();
            columns.iter().map(|(_, stat)| format!("{:.1}", stat(&nodes))).collect()
        };
        let mut row = vec![(*policy).to_owned(), format!("{:.2}", even(curve))];
        row.extend(of(curve.at(COMPARED_PERCENT), &at_80));
        row.extend(of(curve.end(), &at_end));
        row
    };
    (header, ordered.iter().map(row).collect())
}

/// Tests a published claim: the policies of 58 and of MRWS load nodes more evenly than Kubernetes' default and than
/// chance. Two measures are compared, as means until 80 % have arrived. One is the standard deviation of load over
/// nodes, the other is the difference between a node's processors and its memory.
pub(super) fn claims(curves: &[(&str, Curve)]) -> Stats {
    let of = |policy: &str, stat: fn(&Nodes) -> f64| {
        let (_, curve) = curves.iter().find(|(name, _)| *name == policy)?;
        Some(curve.mean_until(COMPARED_PERCENT, stat))
    };
    let measures: [Column; 2] =
        [("load_deviation", |nodes| nodes.load.deviation), ("skew", |nodes| nodes.skew_mean)];
    let mut stats = Stats::new();
    for policy in ["dynamic-weight", "fahp"] {
        for other in ["kubernetes", "random"] {
            for (name, stat) in measures {
                let Some((own, others)) = of(policy, stat).zip(of(other, stat)) else { continue };
                let key = format!("{policy}_over_{other}_{name}").replace('-', "_");
                stats.insert(key.clone(), rounded(own / others.max(1e-9)));
                stats.set(format!("{key}_more_even"), json!(own < others));
            }
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::balance::sample::MeanSpread;

    fn curve(deviation: f64) -> Curve {
        let mut curve = Curve::default();
        let nodes = Nodes { load: MeanSpread { mean: 50.0, deviation }, skew_mean: 1.0, ..Nodes::default() };
        curve.sampled(50.0, 0, &nodes);
        curve
    }

    #[test]
    fn a_claim_is_held_against_both_others() {
        let curves = [("fahp", curve(2.0)), ("kubernetes", curve(1.0)), ("random", curve(4.0))];
        let claims = claims(&curves);
        assert_eq!(claims["fahp_over_kubernetes_load_deviation_more_even"], json!(false));
        assert_eq!(claims["fahp_over_random_load_deviation"], json!(0.5));
        assert_eq!(claims["fahp_over_random_load_deviation_more_even"], json!(true));
        assert!(!claims.contains_key("dynamic_weight_over_random_skew"));
    }

    #[test]
    fn the_most_even_policy_comes_first() {
        let (header, rows) = table(&[("random", curve(4.0)), ("fahp", curve(2.0))]);
        assert_eq!(rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["fahp", "random"]);
        assert!(rows.iter().all(|row| row.len() == header.len()));
    }
}
