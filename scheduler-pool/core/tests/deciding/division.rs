//! How jobs, and slices of large jobs, are divided among the queues of several workers.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator};
use borough_model::{JobId, TaskId};
use borough_scheduler_core::{
    OpenQueue, PLAN_SEED, PendingReason, ScoringProfile, ShardDivision, Snapshot, plan, shard_of,
};
use proptest::prelude::*;

use crate::place::stored_cell;
use crate::stored::{StoredCell, name, node, spec};

const LARGE: JobId = JobId(7);

fn queue(shard: u32) -> OpenQueue {
    OpenQueue { shard, ..OpenQueue::default() }
}

fn divided(stored: &mut StoredCell, division: ShardDivision) -> Snapshot {
    let mut snapshot = Snapshot::divided(stored.settings.clone(), division);
    stored.journal_apply(&mut snapshot);
    snapshot
}

/// The tasks of each queue.
fn queues(snapshot: &mut Snapshot, shards: u32, now_ms: i64) -> Vec<BTreeSet<TaskId>> {
    let of = |shard| snapshot.pending_in(&queue(shard), now_ms, usize::MAX);
    (0..shards).map(of).map(|queue| queue.tasks.iter().map(|pending| pending.task).collect()).collect()
}

#[test]
fn a_large_job_is_shared_out_among_the_queues() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.job_submit(LARGE, &spec("ann", "large", 95, 100, 64));
    stored.job_submit(JobId(8), &spec("ann", "small", 10, 100, 64));
    let mut snapshot = divided(&mut stored, ShardDivision { shards: 4, slice_tasks: 10 });
    let queues = queues(&mut snapshot, 4, stored.now_ms);
    let large = |tasks: &BTreeSet<TaskId>| tasks.iter().filter(|task| task.job == LARGE).count();
    let first = shard_of(LARGE, 4) as usize;
    let shares: Vec<usize> = (0..4).map(|place| large(&queues[(first + place) % 4])).collect();
    // Ten slices: the first queue has the first, fifth and ninth, the second has the one of five tasks at the end.
    assert_eq!(shares, [30, 25, 20, 20]);
    let small: Vec<usize> =
        (0..4).filter(|&shard| queues[shard].iter().any(|task| task.job != LARGE)).collect();
    assert_eq!(small, [shard_of(JobId(8), 4) as usize], "a small job belongs to one queue");
    for (shard, tasks) in (0..).zip(&queues) {
        let counted: u64 = snapshot.queue_reasons(&queue(shard)).into_values().sum();
        assert_eq!(counted, tasks.len() as u64);
    }
}

#[test]
fn a_gang_and_a_job_with_rules_between_its_tasks_belong_to_one_queue() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut gang = spec("ann", "gang", 40, 100, 64);
    gang.min_member = 40;
    stored.job_submit(JobId(1), &gang);
    let mut apart = spec("ann", "apart", 40, 100, 64);
    apart.labels.insert("app".to_owned(), "apart".to_owned());
    let own = Constraint {
        attribute: "app".to_owned(),
        operator: ConstraintOperator::In,
        values: vec!["apart".to_owned()],
        preference: None,
    };
    let (kind, attribute) = (AffinityKind::Apart, "rack".to_owned());
    apart.affinity = vec![Affinity { kind, attribute, jobs: vec![own], preference: None }];
    stored.job_submit(JobId(2), &apart);
    let mut snapshot = divided(&mut stored, ShardDivision { shards: 4, slice_tasks: 10 });
    let queues = queues(&mut snapshot, 4, stored.now_ms);
    for job in [JobId(1), JobId(2)] {
        let of_job = |tasks: &BTreeSet<TaskId>| tasks.iter().filter(|task| task.job == job).count();
        let shares: Vec<usize> = queues.iter().map(of_job).filter(|&tasks| tasks > 0).collect();
        assert_eq!(shares, [40], "{job}");
    }
}

#[test]
fn a_divided_job_is_parked_only_as_a_whole_and_comes_back() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.job_submit(LARGE, &spec("ann", "large", 30, 64_000, 64));
    let mut snapshot = divided(&mut stored, ShardDivision { shards: 2, slice_tasks: 10 });
    let first = queue(shard_of(LARGE, 2));
    let pending = snapshot.pending_in(&first, stored.now_ms, usize::MAX);
    assert_eq!(pending.tasks.len(), 20);
    let outcome = plan(snapshot.tables(), &pending, stored.now_ms, PLAN_SEED);
    snapshot.remember(&outcome, stored.now_ms);
    assert!(snapshot.pending_in(&first, stored.now_ms, usize::MAX).tasks.is_empty());
    let reasons = snapshot.queue_reasons(&first);
    assert_eq!(reasons.get(&PendingReason::Turn), None, "{reasons:?}");
    assert_eq!(reasons.values().sum::<u64>(), 30, "all of it is parked: one shape fits nowhere");
    stored.node_put(node(90, 640, 1024));
    stored.journal_apply(&mut snapshot);
    let shares = queues(&mut snapshot, 2, stored.now_ms).iter().map(BTreeSet::len).collect::<BTreeSet<_>>();
    assert_eq!(shares, BTreeSet::from([10, 20]));
}

/// A worker that holds both queues of a job does not lose the second one while the first has nothing to place.
#[test]
fn a_queue_without_open_tasks_does_not_park_the_slices_of_others() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    (0..4).for_each(|number| stored.node_put(node(100 + number, 64, 256)));
    stored.job_submit(LARGE, &spec("ann", "large", 20, 100, 64));
    let mut snapshot = divided(&mut stored, ShardDivision { shards: 2, slice_tasks: 10 });
    let first = shard_of(LARGE, 2);
    let own = snapshot.pending_in(&queue(first), stored.now_ms, usize::MAX);
    let outcome = plan(snapshot.tables(), &own, stored.now_ms, PLAN_SEED);
    assert_eq!(outcome.placements.len(), 10);
    stored.commit(&outcome);
    stored.journal_apply(&mut snapshot);
    assert!(snapshot.pending_in(&queue(first), stored.now_ms, usize::MAX).tasks.is_empty());
    assert_eq!(snapshot.pending_in(&queue(1 - first), stored.now_ms, usize::MAX).tasks.len(), 10);
}

proptest! {
    /// However a cell is divided, and divided again, each task that waits is in exactly one queue.
    #[test]
    fn each_waiting_task_is_in_one_queue(
        jobs in prop::collection::vec((1..70_u32, 0..3_u32), 1..8),
        slice_tasks in 1..30_u32,
        divisions in prop::collection::vec(1..6_u32, 1..4),
    ) {
        let mut stored = stored_cell(ScoringProfile::BEST_FIT);
        let mut wanted = BTreeMap::new();
        for (id, &(count, kind)) in (1..).zip(&jobs) {
            let mut spec = spec(["ann", "bob"][id as usize % 2], &format!("job-{id}"), count, 100, 64);
            if kind == 1 {
                spec.scheduler = Some(name("gpu"));
            }
            stored.job_submit(JobId(id), &spec);
            if kind != 1 {
                wanted.insert(JobId(id), count);
            }
        }
        let mut snapshot = divided(&mut stored, ShardDivision { shards: 3, slice_tasks });
        for shards in divisions {
            snapshot.divide(&name("default"), shards);
            let mut seen: BTreeMap<JobId, u32> = BTreeMap::new();
            for task in queues(&mut snapshot, shards, stored.now_ms).into_iter().flatten() {
                *seen.entry(task.job).or_default() += 1;
            }
            prop_assert_eq!(&seen, &wanted);
        }
    }
}
