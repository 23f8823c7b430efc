//! How explanations group tasks and order changes, by example.

use borough_model::job::{Constraint, ConstraintOperator};
use borough_model::{JobId, TaskId, TaskState};
use borough_scheduler_core::{NearestFit, ScoringProfile, WaitReason, explain, explain_job};

use crate::place::{planned, stored_cell};
use crate::stored::{node, spec};

#[test]
fn a_task_that_backs_off_is_explained_apart_from_its_job() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    stored.job_submit(JobId(1), &spec("ann", "job", 3, 1_000, 64));
    stored.commit(&planned(&stored));
    let until_ms = stored.now_ms + 60_000;
    for index in 0..3 {
        stored.task_end(TaskId { job: JobId(1), index }, None, |row| {
            row.state = TaskState::Pending;
            (row.not_before_ms, row.failures) = if index == 1 { (until_ms, 2) } else { (0, 0) };
        });
    }
    let explanation = explain_job(&stored.snapshot(0), JobId(1), stored.now_ms);
    let indexes: Vec<&[u32]> = explanation.iter().map(|(indexes, _)| indexes.as_slice()).collect();
    assert_eq!(indexes, [&[0, 2][..], &[1][..]]);
    assert!(matches!(explanation[0].1.waits[..], [WaitReason::Turn { .. }]), "{}", explanation[0].1);
    assert_eq!(explanation[1].1.waits, [WaitReason::BackOff { until_ms, failures: 2 }]);
}

#[test]
fn the_change_that_lets_in_most_nodes_comes_first() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for (number, cores, rack) in [(0, 2, "a"), (1, 8, "b"), (2, 8, "b")] {
        let mut row = node(number, cores, 8);
        row.labels.insert("rack".to_owned(), rack.to_owned());
        stored.node_put(row);
    }
    let mut job = spec("ann", "job", 1, 4_000, 64);
    job.constraints = vec![Constraint {
        attribute: "rack".to_owned(),
        operator: ConstraintOperator::In,
        values: vec!["a".to_owned()],
        preference: None,
    }];
    stored.job_submit(JobId(1), &job);
    let explanation = explain(&stored.snapshot(0), JobId(1), 0, stored.now_ms);
    let nodes = explanation.nearest.iter().map(|nearest| match nearest {
        NearestFit::Without { nodes, .. } | NearestFit::Resource { nodes, .. } => *nodes,
        other => panic!("{other:?}"),
    });
    assert_eq!(nodes.collect::<Vec<u32>>(), [2, 1], "{explanation}");
}
