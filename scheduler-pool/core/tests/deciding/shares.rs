//! Queues by example: shares inside guarantees, and the limits of those that a queue is in.

use std::collections::BTreeMap;

use borough_model::JobId;
use borough_model::queue::QueueSpec;
use borough_scheduler_core::{CellSettings, PLAN_SEED, Queueing, Snapshot, plan};

use crate::stored::{StoredCell, node, spec};

fn queue(path: &str, guaranteed_per_mille: u32, limit_per_mille: u32) -> QueueSpec {
    QueueSpec { path: path.to_owned(), weight: 1, guaranteed_per_mille, limit_per_mille }
}

/// A cell of a hundred cores with these queues, and a hundred tasks of one core in each of some.
fn stored_cell(queues: &[QueueSpec], waiting: &[&str]) -> StoredCell {
    let queueing = Queueing { queues: queues.to_vec(), .."hierarchical".parse().expect("a policy") };
    let settings = CellSettings { queueing, ..CellSettings::default() };
    let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
    stored.node_put(node(0, 100, 1_000));
    for (number, path) in (1..).zip(waiting) {
        let mut job = spec("ann", &format!("job-{number}"), 100, 1_000, 1);
        job.queue = Some((*path).to_owned());
        stored.job_submit(JobId(number), &job);
    }
    stored
}

/// Plans and commits some batches. Returns how many tasks each job has.
fn counts(stored: &mut StoredCell, batches: usize, limit: usize) -> BTreeMap<JobId, usize> {
    let mut snapshot: Snapshot = stored.snapshot(0);
    stored.journal.clear();
    for _ in 0..batches {
        let queue = snapshot.pending(&|_| true, stored.now_ms, limit);
        let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
        snapshot.remember(&outcome, stored.now_ms);
        stored.commit(&outcome);
        stored.journal_apply(&mut snapshot);
    }
    let mut counts = BTreeMap::new();
    for task in stored.tasks.values().filter(|task| task.node.is_some()) {
        *counts.entry(task.id.job).or_default() += 1;
    }
    counts
}

#[test]
fn below_their_guarantees_queues_have_as_large_a_part_of_them() {
    let mut stored =
        stored_cell(&[queue("large", 600, 1_000), queue("small", 200, 1_000)], &["large", "small"]);
    let counts = counts(&mut stored, 1, 40);
    // Three to one. A sixteenth of a batch is for jobs that have nothing in it yet. Here every job has.
    let (large, small) = (counts[&JobId(1)], counts[&JobId(2)]);
    assert!((27..=30).contains(&large) && large + small == 38, "{counts:?}");
}

#[test]
fn the_limit_of_a_queue_is_that_of_all_that_are_in_it() {
    let queues = [
        queue("research", 0, 300),
        queue("research/vision", 0, 1_000),
        queue("research/text", 0, 1_000),
        queue("ops", 0, 1_000),
    ];
    let mut stored = stored_cell(&queues, &["research/vision", "research/text", "ops"]);
    let counts = counts(&mut stored, 12, 16);
    assert_eq!(counts[&JobId(1)] + counts[&JobId(2)], 30, "{counts:?}");
    assert_eq!(counts[&JobId(3)], 70, "{counts:?}");
}

/// Ann's first two jobs fit nowhere and her third does. Bob does not get her turns for them.
#[test]
fn an_unschedulable_task_costs_its_user_no_turn() {
    let settings = CellSettings::default();
    let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
    stored.node_put(node(0, 2, 1_000));
    for (number, user, count, cpu_millis) in
        [(1, "ann", 1, 50_000), (2, "ann", 1, 60_000), (3, "ann", 1, 1_000), (4, "bob", 3, 1_000)]
    {
        stored.now_ms += 1;
        stored.job_submit(JobId(number), &spec(user, &format!("job-{number}"), count, cpu_millis, 1));
    }
    assert_eq!(counts(&mut stored, 1, usize::MAX), BTreeMap::from([(JobId(3), 1), (JobId(4), 1)]));
}
