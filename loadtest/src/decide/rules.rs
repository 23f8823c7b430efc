//! Workloads of tasks with rules about other tasks: the shapes of scheduler_perf's affinity and topology_spreading.

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, JobKind, Spread};
use borough_scheduler_core::CellSettings;

use super::workload::{DecideCell, MIB, Maker, amounts, constraint};

fn maker(seed: u64) -> Maker {
    let mut maker = Maker::new(seed);
    (0..5_000).for_each(|_| maker.node(4, 32, 0));
    maker
}

fn rule(kind: AffinityKind, attribute: &str, jobs: Vec<Constraint>) -> Vec<Affinity> {
    vec![Affinity { kind, attribute: attribute.to_owned(), jobs, preference: None }]
}

fn green() -> Constraint {
    constraint("color", ConstraintOperator::In, &["green".to_owned()])
}

/// One job whose tasks each need a node of their own.
pub(super) fn anti_affinity(seed: u64) -> DecideCell {
    let mut maker = maker(seed);
    maker.job(JobKind::Batch, 3_000, amounts(100, 500 * MIB), |spec| {
        spec.labels.insert("color".to_owned(), "green".to_owned());
        spec.affinity = rule(AffinityKind::Apart, "node.name", vec![green()]);
    });
    maker.done(CellSettings::default())
}

/// One job whose tasks must all be in one zone, which contains every node.
pub(super) fn affinity(seed: u64) -> DecideCell {
    let mut maker = maker(seed);
    maker.job(JobKind::Batch, 10_000, amounts(100, 500 * MIB), |spec| {
        spec.labels.insert("color".to_owned(), "green".to_owned());
        spec.affinity = rule(AffinityKind::Near, "os", vec![green()]);
    });
    maker.done(CellSettings::default())
}

/// Forty jobs of as many users. No task may share a node with another user's.
pub(super) fn anti_affinity_users(seed: u64) -> DecideCell {
    let mut maker = maker(seed);
    let anybody = constraint("job.user", ConstraintOperator::Exists, &[]);
    for _ in 0..40 {
        maker.job(JobKind::Batch, 50, amounts(100, 500 * MIB), |spec| {
            spec.labels.insert("color".to_owned(), "green".to_owned());
            spec.affinity = rule(AffinityKind::Apart, "node.name", vec![green(), anybody.clone()]);
        });
    }
    maker.done(CellSettings::default())
}

/// One job that keeps within a skew of five over three zones.
pub(super) fn spreading(seed: u64) -> DecideCell {
    let mut maker = maker(seed);
    maker.job(JobKind::Batch, 10_000, amounts(100, 500 * MIB), |spec| {
        spec.spread = vec![Spread { max_skew: Some(5), ..Spread::preferred("zone".to_owned(), 1) }];
    });
    maker.done(CellSettings::default())
}

/// One job of a task for each of 4,000 nodes, within a skew of one over nodes: as many domains as tasks.
pub(super) fn inclusion(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..4_000).for_each(|_| maker.node(4, 32, 0));
    maker.job(JobKind::Batch, 4_000, amounts(100, 500 * MIB), |spec| {
        spec.spread = vec![Spread { max_skew: Some(1), ..Spread::preferred("node.name".to_owned(), 1) }];
    });
    maker.done(CellSettings::default())
}
