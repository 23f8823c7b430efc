//! Whose turn it is: the queueing policies, by example and against a slow re-statement.

use std::collections::BTreeMap;

use borough_model::queue::QueueSpec;
use borough_model::{JobId, TaskId};
use borough_scheduler_core::{CellSettings, PLAN_SEED, Plan, Queueing, WaitReason, explain, plan};
use proptest::prelude::*;

use crate::reference;
use crate::stored::{StoredCell, node, spec};

fn stored_cell(queueing: Queueing) -> StoredCell {
    let settings = CellSettings { queueing, ..CellSettings::default() };
    StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() }
}

fn queue(path: &str, weight: u32, guaranteed_per_mille: u32, limit_per_mille: u32) -> QueueSpec {
    QueueSpec { path: path.to_owned(), weight, guaranteed_per_mille, limit_per_mille }
}

fn hierarchy(queues: &[QueueSpec]) -> Queueing {
    Queueing { queues: queues.to_vec(), .."hierarchical".parse().expect("a policy") }
}

/// Plans and commits batches of `limit` tasks until nothing more is placed. Returns how many tasks each user has.
fn filled(stored: &mut StoredCell, limit: usize) -> BTreeMap<String, usize> {
    let mut snapshot = stored.snapshot(0);
    loop {
        let queue = snapshot.pending(&|_| true, stored.now_ms, limit);
        let outcome: Plan = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
        snapshot.remember(&outcome, stored.now_ms);
        if limit == usize::MAX {
            reference::plan_checked(stored, &queue, &outcome);
        }
        if outcome.placements.is_empty() && !queue.more {
            break;
        }
        stored.commit(&outcome);
        for delta in stored.journal.drain(..) {
            snapshot.apply(&delta);
        }
    }
    counts(stored)
}

fn counts(stored: &StoredCell) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for task in stored.tasks.values().filter(|task| task.node.is_some()) {
        *counts.entry(stored.jobs[&task.id.job].0.user.to_string()).or_default() += 1;
    }
    counts
}

fn shares(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|&(user, count)| (user.to_owned(), count)).collect()
}

/// The example of the paper: 9 processors and 18 GB; ann's tasks need <1, 4>, bob's <3, 1>.
#[test]
fn dominant_shares_are_even_as_in_the_papers_example() {
    for limit in [2, 20, usize::MAX] {
        let mut stored = stored_cell("drf".parse().expect("a policy"));
        stored.node_put(node(0, 9, 18));
        stored.job_submit(JobId(1), &spec("ann", "memory", 20, 1000, 4096));
        stored.job_submit(JobId(2), &spec("bob", "processor", 20, 3000, 1024));
        assert_eq!(filled(&mut stored, limit), shares(&[("ann", 3), ("bob", 2)]), "batches of {limit}");
    }
}

#[test]
fn users_share_by_their_weights_and_what_nobody_else_wants() {
    let mut stored = stored_cell("fair-share:ann=3".parse().expect("a policy"));
    stored.node_put(node(0, 80, 800));
    stored.job_submit(JobId(1), &spec("ann", "a", 100, 1000, 1));
    stored.job_submit(JobId(2), &spec("bob", "b", 100, 1000, 1));
    stored.job_submit(JobId(3), &spec("eve", "e", 4, 1000, 1));
    assert_eq!(filled(&mut stored, 8), shares(&[("ann", 57), ("bob", 19), ("eve", 4)]));
}

#[test]
fn first_come_first_served_whoever_they_are_and_no_job_blocks_those_behind() {
    let mut stored = stored_cell("fifo".parse().expect("a policy"));
    stored.node_put(node(0, 10, 10));
    for (number, user, cpu) in [(1, "zoe", 6000), (2, "bob", 50_000), (3, "ann", 5000), (4, "bob", 4000)] {
        stored.now_ms += 1;
        stored.job_submit(JobId(number), &spec(user, &format!("job-{number}"), 1, cpu, 1));
    }
    assert_eq!(filled(&mut stored, usize::MAX), shares(&[("zoe", 1), ("bob", 1)]));
}

#[test]
fn queues_get_what_they_are_guaranteed_then_by_weight_and_never_beyond_their_limits() {
    let queues = [
        queue("research", 1, 500, 1000),
        queue("research/vision", 1, 400, 1000),
        queue("research/text", 3, 0, 1000),
        queue("ops", 9, 0, 200),
        queue("default", 1, 100, 1000),
    ];
    let mut stored = stored_cell(hierarchy(&queues));
    stored.node_put(node(0, 100, 1000));
    for (number, user, queue) in [
        (1, "ann", Some("research/vision")),
        (2, "bob", Some("research/text")),
        (3, "ops", None),
        (4, "eve", None),
    ] {
        let mut job = spec(user, "job", 100, 1000, 1);
        job.queue = queue.map(str::to_owned);
        stored.job_submit(JobId(number), &job);
    }
    // Ops takes its limit. Of the other 80, research and default are guaranteed 50 and 10. The smaller share gets the
    // rest, so default gets up to 40. Inside research, vision gets its 40 first, and text the rest up to 40.
    let counts = filled(&mut stored, 10);
    assert_eq!(counts["ops"], 20, "{counts:?}");
    assert_eq!(counts.values().sum::<usize>(), 100);
    assert!((49..=50).contains(&(counts["ann"] + counts["bob"])) && counts["ann"] == 40, "{counts:?}");
    let why = explain(&stored.snapshot(0), JobId(3), 50, stored.now_ms);
    let limited =
        WaitReason::QueueLimit { queue: "ops".to_owned(), share_per_mille: 200, limit_per_mille: 200 };
    assert_eq!(why.waits, [limited]);
    assert!(why.to_string().contains("queue ops has 20% of the cell and may have 20%"), "{why}");
}

/// Many jobs of few users in small batches: those that have waited longest have lanes of their own, and none is lost.
#[test]
fn jobs_that_waited_longest_are_placed_with_the_others_of_their_user() {
    let mut stored = stored_cell("drf".parse().expect("a policy"));
    stored.node_put(node(0, 1000, 1000));
    for number in 1..=90 {
        stored.now_ms += 1;
        let user = ["ann", "bob"][number as usize % 2];
        stored.job_submit(JobId(number), &spec(user, &format!("job-{number}"), 5, 1000, 1));
    }
    assert_eq!(filled(&mut stored, 64), shares(&[("ann", 225), ("bob", 225)]));
}

#[test]
fn a_task_beyond_a_limit_delays_no_other() {
    let mut stored = stored_cell(hierarchy(&[queue("ops", 1, 0, 300)]));
    stored.node_put(node(0, 10, 1000));
    stored.job_submit(JobId(1), &spec("ops", "large", 1, 4000, 1));
    stored.job_submit(JobId(2), &spec("ops", "small", 5, 1000, 1));
    let mut gang = spec("ops", "gang", 4, 1000, 1);
    gang.min_member = 4;
    stored.job_submit(JobId(3), &gang);
    assert_eq!(filled(&mut stored, 16), shares(&[("ops", 3)]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each collected task belongs to a user with the smallest dominant share, counted with the tasks collected before.
    #[test]
    fn every_turn_is_that_of_the_smallest_share(
        users in prop::collection::vec((1..5u32, 1..12u32, 1..6u64, 1..6u64, 0..6u32), 1..6),
        weighted in any::<bool>(),
        limit in 1..40usize,
    ) {
        let names = ["ann", "bob", "eve", "kim", "zoe"];
        let weights: Vec<String> =
            names.iter().zip(&users).map(|(name, user)| format!("{name}={}", user.0)).collect();
        let policy = if weighted { format!("fair-share:{}", weights.join(",")) } else { "drf".to_owned() };
        let mut stored = stored_cell(policy.parse().expect("a policy"));
        stored.node_put(node(0, 60, 40));
        for (number, (name, &(_, count, cores, gib, resident))) in (0u64..).zip(names.iter().zip(&users)) {
            let resident = spec(name, "standing", resident, cores * 300, gib * 100);
            stored.job_submit(JobId(100 + number), &resident);
            let waiting = spec(name, "waiting", count, cores * 1000, gib * 1024);
            stored.job_submit(JobId(number), &waiting);
        }
        let mut snapshot = stored.snapshot(0);
        let queue = snapshot.pending(&|job| job.0 >= 100, stored.now_ms, usize::MAX);
        stored.commit(&plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED));
        let mut snapshot = stored.snapshot(0);
        let queue = snapshot.pending(&|job| job.0 < 100, stored.now_ms, limit);

        let share = |held: (u64, u64)| (held.0 as f64 / 60_000.0).max(held.1 as f64 / 40_960.0);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut left: Vec<u32> = Vec::new();
        for (number, &(_, count, cores, gib, _)) in (0u64..).zip(&users) {
            let resident = stored.tasks.values().filter(|task| task.id.job == JobId(100 + number) && task.node.is_some());
            let resident = resident.count() as u64;
            held.push((resident * cores * 300, resident * gib * 100));
            left.push(count);
        }
        let weight = |user: usize| if weighted { f64::from(users[user].0) } else { 1.0 };
        // What waited longest is beside the turns: the last sixteenth of a batch.
        let turns = if queue.more && limit >= 16 { limit - limit / 16 } else { queue.tasks.len() };
        for task in queue.tasks.iter().take(turns) {
            let TaskId { job, .. } = task.task;
            let user = usize::try_from(job.0).expect("small");
            let least = (0..users.len()).filter(|&other| left[other] > 0);
            let least = least.map(|other| share(held[other]) / weight(other)).fold(f64::MAX, f64::min);
            prop_assert!(share(held[user]) / weight(user) <= least + 3e-6, "{user} {held:?} {left:?}");
            let (_, _, cores, gib, _) = users[user];
            held[user] = (held[user].0 + cores * 1000, held[user].1 + gib * 1024);
            left[user] -= 1;
        }
    }
}
