//! Who is placed first, by example: priority, users in turn, submission, back-off, limits, shards.

use borough_model::{JobId, TaskId, TaskState};
use borough_scheduler_core::{PLAN_SEED, ScoringProfile, pending, plan, shard_of};

use crate::place::{planned, world};
use crate::world::{World, node, spec};

fn queued(world: &World, limit: usize) -> Vec<u64> {
    let mut snapshot = world.snapshot(0);
    let queue = pending(&mut snapshot, &|_| true, world.now_ms, limit);
    queue.tasks.iter().map(|pending| pending.task.job.0).collect()
}

#[test]
fn higher_priority_goes_first_and_users_take_turns() {
    let mut world = world(ScoringProfile::BestFit);
    let mut urgent = spec("ann", "urgent", 2, 100, 64);
    urgent.priority = 250;
    world.job_submit(JobId(1), &spec("ann", "many", 4, 100, 64));
    world.job_submit(JobId(2), &spec("bob", "few", 2, 100, 64));
    world.job_submit(JobId(3), &urgent);
    let order = queued(&world, usize::MAX);
    assert_eq!(order.get(..2), Some(&[3, 3][..]));
    let turns = order.get(2..6).expect("four turns");
    assert!(turns == [1, 2, 1, 2] || turns == [2, 1, 2, 1], "{order:?}");
    assert_eq!(order.get(6..), Some(&[1, 1][..]));
}

#[test]
fn the_older_job_of_a_user_goes_first() {
    let mut world = world(ScoringProfile::BestFit);
    world.job_submit(JobId(9), &spec("ann", "z-older", 1, 100, 64));
    world.now_ms += 5;
    world.job_submit(JobId(1), &spec("ann", "a-newer", 1, 100, 64));
    assert_eq!(queued(&world, usize::MAX), [9, 1]);
}

#[test]
fn a_task_in_back_off_waits_and_its_time_is_told() {
    let mut world = world(ScoringProfile::BestFit);
    world.node_put(node(0, 4, 4));
    world.job_submit(JobId(1), &spec("ann", "job", 1, 100, 64));
    world.commit(&planned(&world));
    let until_ms = world.now_ms + 500;
    world.task_end(TaskId { job: JobId(1), index: 0 }, None, |row| {
        (row.state, row.not_before_ms) = (TaskState::Pending, until_ms);
    });
    let mut snapshot = world.snapshot(0);
    let queue = pending(&mut snapshot, &|_| true, world.now_ms, 10);
    assert_eq!((queue.tasks.len(), queue.later_ms), (0, Some(until_ms)));
    let queue = pending(&mut snapshot, &|_| true, until_ms, 10);
    assert_eq!((queue.tasks.len(), queue.later_ms), (1, None));
}

#[test]
fn a_gang_is_not_cut_by_a_limit() {
    let mut world = world(ScoringProfile::BestFit);
    let mut gang = spec("ann", "gang", 8, 100, 64);
    gang.min_member = 6;
    world.job_submit(JobId(1), &gang);
    assert_eq!(queued(&world, 2).len(), 6);
    let mut urgent = spec("ann", "urgent", 1, 100, 64);
    urgent.priority = 250;
    world.job_submit(JobId(2), &urgent);
    assert_eq!(queued(&world, 3), [2], "it waits for a batch that it leads");
}

#[test]
fn every_user_gets_a_turn_when_users_outnumber_the_limit() {
    let mut world = world(ScoringProfile::BestFit);
    world.node_put(node(0, 1000, 1000));
    let users = 24u64;
    for user in 0..users {
        world.job_submit(JobId(user), &spec(&format!("user-{user}"), "job", 1000, 1, 0));
    }
    let mut snapshot = world.snapshot(0);
    world.journal.clear();
    let mut first_at: Vec<Option<usize>> = vec![None; 24];
    for batch in 0..200 {
        let queue = pending(&mut snapshot, &|_| true, world.now_ms, 4);
        let outcome = plan(&snapshot, &queue, world.now_ms, PLAN_SEED);
        for placement in &outcome.placements {
            let user = usize::try_from(placement.task.job.0).expect("small");
            first_at.get_mut(user).expect("a user").get_or_insert(batch);
        }
        world.commit(&outcome);
        world.journal_apply(&mut snapshot);
        snapshot.remember(&outcome, world.now_ms);
    }
    assert!(first_at.iter().all(Option::is_some), "{first_at:?}");
}

#[test]
fn shards_divide_the_jobs() {
    let mut world = world(ScoringProfile::BestFit);
    for job in 0..40 {
        world.job_submit(JobId(job), &spec("ann", &format!("job-{job}"), 1, 100, 64));
    }
    let mut snapshot = world.snapshot(0);
    let mut seen = 0;
    for shard in 0..3 {
        let queue = pending(&mut snapshot, &|job| shard_of(job, 3) == shard, world.now_ms, usize::MAX);
        assert!(queue.tasks.iter().all(|pending| shard_of(pending.task.job, 3) == shard));
        seen += queue.tasks.len();
    }
    assert_eq!(seen, 40);
}
