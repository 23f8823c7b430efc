//! Which tasks are placed first, by example: priority, users taking turns, submission, back-off, limits, shards.

use std::collections::BTreeMap;

use borough_model::{JobId, TaskId, TaskState};
use borough_scheduler_core::{
    OpenQueue, PLAN_SEED, PendingReason, ScoringProfile, ShardDivision, Snapshot, plan, shard_of,
};

use crate::place::{planned, stored_cell};
use crate::stored::{StoredCell, node, spec};

fn queued(stored: &StoredCell, limit: usize) -> Vec<u64> {
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, limit);
    queue.tasks.iter().map(|pending| pending.task.job.0).collect()
}

#[test]
fn higher_priority_goes_first_and_users_take_turns() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut urgent = spec("ann", "urgent", 2, 100, 64);
    urgent.priority = 250;
    stored.job_submit(JobId(1), &spec("ann", "many", 4, 100, 64));
    stored.job_submit(JobId(2), &spec("bob", "few", 2, 100, 64));
    stored.job_submit(JobId(3), &urgent);
    let order = queued(&stored, usize::MAX);
    assert_eq!(order.get(..2), Some(&[3, 3][..]));
    let turns = order.get(2..6).expect("four turns");
    assert!(turns == [1, 2, 1, 2] || turns == [2, 1, 2, 1], "{order:?}");
    assert_eq!(order.get(6..), Some(&[1, 1][..]));
}

#[test]
fn the_older_job_of_a_user_goes_first() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.job_submit(JobId(9), &spec("ann", "z-older", 1, 100, 64));
    stored.now_ms += 5;
    stored.job_submit(JobId(1), &spec("ann", "a-newer", 1, 100, 64));
    assert_eq!(queued(&stored, usize::MAX), [9, 1]);
}

#[test]
fn a_task_in_back_off_waits_and_its_time_is_told() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.job_submit(JobId(1), &spec("ann", "job", 1, 100, 64));
    stored.commit(&planned(&stored));
    let until_ms = stored.now_ms + 500;
    stored.task_end(TaskId { job: JobId(1), index: 0 }, None, |row| {
        (row.state, row.not_before_ms) = (TaskState::Pending, until_ms);
    });
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, 10);
    assert_eq!((queue.tasks.len(), queue.later_ms), (0, Some(until_ms)));
    let queue = snapshot.pending(&|_| true, until_ms, 10);
    assert_eq!((queue.tasks.len(), queue.later_ms), (1, None));
}

#[test]
fn a_gang_is_not_cut_by_a_limit() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut gang = spec("ann", "gang", 8, 100, 64);
    gang.min_member = 6;
    stored.job_submit(JobId(1), &gang);
    assert_eq!(queued(&stored, 2).len(), 6);
    let mut urgent = spec("ann", "urgent", 1, 100, 64);
    urgent.priority = 250;
    stored.job_submit(JobId(2), &urgent);
    assert_eq!(queued(&stored, 3), [2], "it waits for a batch that it leads");
    assert_eq!(queued(&stored, 16).len(), 7);
    let mut many = spec("bob", "many", 100, 100, 64);
    many.priority = 250;
    stored.now_ms += 1;
    stored.job_submit(JobId(3), &many);
    let order = queued(&stored, 16);
    assert_eq!((order.len(), order.get(15..)), (21, Some(&[1; 6][..])), "it has waited longest of all");
}

/// A stream of urgent tasks alone exceeds each batch. Every other task is still planned within the bound that
/// [`borough_scheduler_core::Snapshot::pending_in`] states.
#[test]
fn nothing_starves_beside_a_stream_of_more_urgent_work() {
    const LIMIT: usize = 64;
    for (jobs, tasks, gang) in [(1, 1, 1), (40, 1, 1), (3, 20, 1), (5, 9, 4), (2, 90, 80)] {
        let mut stored = stored_cell(ScoringProfile::BEST_FIT);
        for number in 0..300 {
            stored.node_put(node(number, 1000, 1000));
        }
        for job in 0..jobs {
            let mut late = spec("ann", &format!("patient-{job}"), tasks, 100, 64);
            (late.priority, late.min_member) = (50, gang);
            stored.job_submit(JobId(job), &late);
        }
        let mut snapshot = Snapshot::new(stored.settings.clone());
        let of_gang = |tasks: u32| if gang > 1 { 1 + (tasks - gang).div_ceil(4) } else { 0 };
        let bound = match gang {
            1 => (jobs as usize * tasks as usize).div_ceil(LIMIT / 16) + 1,
            _ => jobs as usize * of_gang(tasks) as usize + 1,
        };
        let mut batches = 0;
        loop {
            batches += 1;
            stored.now_ms += 10;
            let mut urgent = spec("bob", &format!("urgent-{batches}"), 200, 10, 1);
            urgent.priority = 250;
            stored.job_submit(JobId(1000 + batches as u64), &urgent);
            stored.journal_apply(&mut snapshot);
            let queue = snapshot.pending(&|_| true, stored.now_ms, LIMIT);
            let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
            stored.commit(&outcome);
            stored.journal_apply(&mut snapshot);
            snapshot.remember(&outcome, stored.now_ms);
            if (0..jobs).all(|job| stored.resident(JobId(job)).count() == tasks as usize) {
                break;
            }
            assert!(batches < bound, "{jobs} jobs of {tasks} tasks wait after {batches} batches");
        }
    }
}

#[test]
fn every_user_gets_a_turn_when_users_outnumber_the_limit() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 1000, 1000));
    let users = 24u64;
    for user in 0..users {
        stored.job_submit(JobId(user), &spec(&format!("user-{user}"), "job", 1000, 1, 0));
    }
    let mut snapshot = stored.snapshot(0);
    stored.journal.clear();
    let mut first_at: Vec<Option<usize>> = vec![None; 24];
    for batch in 0..200 {
        let queue = snapshot.pending(&|_| true, stored.now_ms, 4);
        let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
        for placement in &outcome.placements {
            let user = usize::try_from(placement.task.job.0).expect("small");
            first_at.get_mut(user).expect("a user").get_or_insert(batch);
        }
        stored.commit(&outcome);
        stored.journal_apply(&mut snapshot);
        snapshot.remember(&outcome, stored.now_ms);
    }
    assert!(first_at.iter().all(Option::is_some), "{first_at:?}");
}

#[test]
fn shards_divide_the_jobs() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for job in 0..40 {
        stored.job_submit(JobId(job), &spec("ann", &format!("job-{job}"), 1, 100, 64));
    }
    let mut snapshot = Snapshot::divided(stored.settings.clone(), ShardDivision::of(3));
    stored.journal_apply(&mut snapshot);
    let mut seen = 0;
    for shard in 0..3 {
        let own = OpenQueue { shard, ..OpenQueue::default() };
        let queue = snapshot.pending_in(&own, stored.now_ms, usize::MAX);
        assert!(queue.tasks.iter().all(|pending| shard_of(pending.task.job, 3) == shard));
        let counted = snapshot.queue_reasons(&own).into_values().sum::<u64>();
        assert_eq!(usize::try_from(counted), Ok(queue.tasks.len()));
        seen += queue.tasks.len();
    }
    assert_eq!(seen, 40);
}

#[test]
fn each_scheduler_has_its_own_queue() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut named = spec("ann", "gpu-job", 2, 100, 64);
    named.scheduler = Some(crate::stored::name("gpu"));
    let mut default = spec("ann", "plain", 1, 100, 64);
    default.scheduler = Some(crate::stored::name("default"));
    stored.job_submit(JobId(1), &named);
    stored.job_submit(JobId(2), &default);
    stored.job_submit(JobId(3), &spec("ann", "silent", 1, 100, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    stored.journal_apply(&mut snapshot);
    let jobs = |snapshot: &mut Snapshot, queue: &OpenQueue| -> Vec<u64> {
        let queue = snapshot.pending_in(queue, 1_000_000, 10);
        queue.tasks.iter().map(|pending| pending.task.job.0).collect()
    };
    let gpu = OpenQueue::of(&crate::stored::name("gpu"), 0);
    assert_eq!(jobs(&mut snapshot, &gpu), [1, 1]);
    assert_eq!(jobs(&mut snapshot, &OpenQueue::of(&crate::stored::name("default"), 0)), [2, 3]);
    // The next version of the spec names another.
    let mut moved = named.clone();
    moved.scheduler = None;
    let mut row = snapshot.tables().job(JobId(1)).expect("the job").clone();
    (row.spec_version, row.revision) = (row.spec_version + 1, row.revision + 1);
    snapshot.job_upsert(&row.into(), Some(&moved));
    assert_eq!(jobs(&mut snapshot, &gpu), [0u64; 0]);
    assert_eq!(jobs(&mut snapshot, &OpenQueue::default()).len(), 4);
    let reasons = [snapshot.queue_reasons(&OpenQueue::default()), snapshot.queue_reasons(&gpu)];
    assert_eq!(reasons, [BTreeMap::from([(PendingReason::Turn, 4)]), BTreeMap::new()]);
}
