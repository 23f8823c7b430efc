//! Moves of attempts within the disruption budget, and rollout steps beside them.

use borough_model::job::UpdateSpec;
use borough_model::task::{Health, StopReason, TaskState};

use super::*;
use crate::task::{TaskMoves, moves_surge_begin, moves_surge_end, tasks_move};

impl World {
    async fn moves(&self, revision: u64, indexes: &[u32]) -> usize {
        let mut attempts = Vec::new();
        for index in indexes {
            attempts.push((task(*index), self.row(*index).await.unwrap().incarnation));
        }
        let moves = &[TaskMoves { job: JOB, revision, attempts }];
        self.change("task_move", async |tx, changes| {
            tasks_move(tx, changes, moves, StopReason::Drained).await
        })
        .await
        .unwrap()
    }

    async fn states(&self, count: u32) -> Vec<TaskState> {
        let mut states = Vec::new();
        for index in 0..count {
            states.push(self.row(index).await.unwrap().state);
        }
        states
    }
}

/// Two nodes are drained, or a leader follows another one: both moves were decided while every task was healthy.
#[tokio::test(start_paused = true)]
async fn moves_decided_by_one_state_end_together_no_more_than_the_budget() {
    let world = World::new().await;
    let mut job = spec(4, 100, "one");
    job.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    world.submit(&job).await.unwrap();
    for index in 0..4 {
        world.run(index).await;
    }
    let revision = world.job().await.revision;
    assert_eq!(world.moves(revision, &[0]).await, 1);
    assert_eq!(world.moves(revision, &[1, 2]).await, 1, "one of both");
    assert_eq!(world.moves(revision, &[2, 3]).await, 0);
    assert_eq!(world.job().await.revision, revision, "the row of a small job stays as it is");
    world.again(0).await;
    assert_eq!(world.moves(revision, &[2, 3]).await, 1);
    let stopping = world.states(4).await.into_iter().filter(|state| *state == TaskState::Stopping);
    assert_eq!(stopping.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_step_and_a_move_of_one_state_end_together_no_more_than_the_budget() {
    for is_rollout_first in [true, false] {
        let world = World::new().await;
        let mut job = spec(3, 100, "one");
        job.update = Some(UpdateSpec { unavailable_max: Some(1), ..UpdateSpec::default() });
        world.submit(&job).await.unwrap();
        for index in 0..3 {
            world.run(index).await;
        }
        world.submit(&JobSpec { update: job.update, ..spec(3, 100, "two") }).await.unwrap();
        let revision = world.job().await.revision;
        let (replaced, moved) = if is_rollout_first {
            let replaced = world.replace(revision, &[0]).await;
            (replaced, world.moves(revision, &[1]).await)
        } else {
            let moved = world.moves(revision, &[1]).await;
            (world.replace(revision, &[0]).await, moved)
        };
        assert_eq!((replaced, moved), if is_rollout_first { (1, 0) } else { (0, 1) });
    }
}

/// Its rows are too many to read again, so each step changes the row of the job.
#[tokio::test(start_paused = true)]
async fn of_a_large_job_no_two_steps_are_decided_by_one_state() {
    let world = World::new().await;
    world.submit(&spec(2_000, 1, "one")).await.unwrap();
    for index in 0..4 {
        world.run(index).await;
    }
    world.place(4).await;
    let revision = world.job().await.revision;
    assert_eq!(world.moves(revision, &[0]).await, 1);
    let later = world.job().await;
    assert_eq!((later.revision, later.moves.map(|moves| moves.steps)), (revision + 1, Some(1)));
    assert_eq!(world.moves(revision, &[1, 4]).await, 1, "the one that is not healthy");
    assert_eq!(world.states(5).await[1], TaskState::Running);
    assert_eq!(world.job().await.revision, revision + 1);
    world.submit(&spec(2_000, 1, "two")).await.unwrap();
    let rolling = world.job().await.revision;
    assert_eq!(world.moves(rolling, &[1]).await, 1);
    assert_eq!(world.replace(rolling, &[2]).await, 0, "a move was decided by the same state");
    assert_eq!(world.replace(rolling + 1, &[2]).await, 1);
    assert_eq!(world.moves(rolling + 1, &[3]).await, 0);
}

/// Nothing serves there, and nothing is waited for.
#[tokio::test(start_paused = true)]
async fn batch_work_and_what_a_stopped_job_still_runs_leave_at_once() {
    let world = World::new().await;
    let batch = JobSpec { kind: JobKind::Batch, ..spec(3, 100, "one") };
    world.submit(&batch).await.unwrap();
    for index in 0..3 {
        world.run(index).await;
    }
    let revision = world.job().await.revision;
    assert_eq!(world.moves(revision, &[0, 1]).await, 2);
    world.change("stop", async |tx, changes| job_stop(tx, changes, JOB).await).await.unwrap();
    assert_eq!(world.moves(revision, &[2]).await, 1);
    assert_eq!(world.row(2).await.unwrap().health, Health::Unknown);
}

impl World {
    async fn surge_begin(&self) {
        let revision = self.job().await.revision;
        self.change("task_surge_begin", async |tx, changes| {
            moves_surge_begin(tx, changes, JOB, revision, 1).await
        })
        .await
        .unwrap();
    }

    async fn surge_end(&self) {
        let revision = self.job().await.revision;
        self.change("task_surge_end", async |tx, changes| moves_surge_end(tx, changes, JOB, revision).await)
            .await
            .unwrap();
    }

    /// The count, how many tasks surge, and what is charged.
    async fn size(&self) -> (u32, u32, (u64, u64)) {
        let job = self.job().await;
        (job.count, job.surge(), self.charged().await)
    }
}

fn surging(command: &str) -> JobSpec {
    let update = UpdateSpec { surge_max: Some(1), unavailable_max: Some(0), ..UpdateSpec::default() };
    JobSpec { update: Some(update), ..spec(1, 100, command) }
}

#[tokio::test(start_paused = true)]
async fn a_further_task_surges_before_the_last_one_is_moved_and_the_count_goes_back() {
    let world = World::new().await;
    world.submit(&surging("one")).await.unwrap();
    world.run(0).await;
    assert_eq!(world.moves(world.job().await.revision, &[0]).await, 0, "none may be away");
    let before = world.job().await.revision;
    world.surge_begin().await;
    assert_eq!(world.size().await, (2, 1, (200, 2)));
    world
        .change("late", async |tx, changes| moves_surge_begin(tx, changes, JOB, before, 1).await)
        .await
        .unwrap();
    assert_eq!(world.size().await, (2, 1, (200, 2)), "decided by an old state");
    world.place(1).await;
    assert_eq!(world.moves(world.job().await.revision, &[0]).await, 0, "it does not serve yet");
    world.report(1, ReportPhase::Running).await;
    assert_eq!(world.moves(world.job().await.revision, &[0]).await, 1);
    assert_eq!(world.moves(world.job().await.revision, &[1]).await, 0, "it stands in");
    world.again(0).await;
    world.surge_end().await;
    assert_eq!(world.size().await.1, 0);
    world.sweep().await;
    world.report(1, ReportPhase::Released).await;
    assert_eq!(world.size().await, (1, 0, (100, 1)));
}

/// A drain must not wait for room in a quota.
#[tokio::test(start_paused = true)]
async fn without_quota_for_a_further_task_one_may_be_away() {
    let world = World::new().await;
    world.limit(150).await;
    world.submit(&surging("one")).await.unwrap();
    world.run(0).await;
    world.surge_begin().await;
    assert_eq!(world.size().await, (1, 0, (100, 1)));
    assert_eq!(world.moves(world.job().await.revision, &[0]).await, 1);
    world.again(0).await;
    world.surge_end().await;
    assert_eq!(world.moves(world.job().await.revision, &[0]).await, 0, "the next drain asks again");
}

/// What surges for a drain does so for a rollout that begins, and ends with it.
#[tokio::test(start_paused = true)]
async fn a_rollout_takes_over_what_surges_for_moves() {
    let world = World::new().await;
    world.submit(&surging("one")).await.unwrap();
    world.run(0).await;
    world.surge_begin().await;
    world.run(1).await;
    world.submit(&surging("two")).await.unwrap();
    let job = world.job().await;
    assert_eq!((job.count, job.surge(), job.moves_surge()), (2, 1, 0));
    assert_eq!(world.charged().await, (200, 2));
    // The further task that a move would want is there already.
    world.surge_begin().await;
    assert_eq!(world.size().await, (2, 1, (200, 2)));
    assert_eq!(
        world.replace(world.job().await.revision, &[1]).await,
        1,
        "an earlier version stands in for nobody"
    );
    world.again(1).await;
    assert_eq!(world.replace(world.job().await.revision, &[0]).await, 1);
    world.again(0).await;
    world.done().await;
    world.sweep().await;
    world.report(1, ReportPhase::Released).await;
    assert_eq!(world.size().await, (1, 0, (100, 1)));
}

/// The limit holds for the rows of the commit. What is held for the earlier version stays, since tasks still run it.
#[tokio::test(start_paused = true)]
async fn a_step_ends_no_more_healthy_tasks_than_the_rollout_may() {
    let world = World::new().await;
    let limited = |cpu_millis, command: &str| {
        let mut job = spec(3, cpu_millis, command);
        let unavailable_max = Some(3);
        job.update = Some(UpdateSpec { unavailable_max, disruptions_max: Some(1), ..UpdateSpec::default() });
        job
    };
    world.submit(&limited(300, "one")).await.unwrap();
    for index in 0..3 {
        world.run(index).await;
    }
    world.submit(&limited(100, "two")).await.unwrap();
    assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1, "one of both");
    assert_eq!(world.replace(world.job().await.revision, &[1]).await, 0);
    assert_eq!(world.rollout().await.disruptions, 1);
    world.again(0).await;
    let revision = world.job().await.revision;
    world
        .change("rollout_done", async |tx, changes| rollout_done(tx, changes, JOB, revision, 2).await)
        .await
        .unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.skipped, rollout.held), (RolloutState::Done, 2, vec![1]));
    assert_eq!(world.charged().await, (900, 3), "the most of both versions");
    // A later rollout reaches them, and gives back what was held.
    world.submit(&JobSpec { update: None, ..limited(100, "three") }).await.unwrap();
    for index in 0..3 {
        assert_eq!(world.replace(world.job().await.revision, &[index]).await, 1);
        world.again(index).await;
    }
    world.done().await;
    assert_eq!(world.charged().await, (300, 3));
}

/// Nobody has seen that such a version serves: a later one that fails does not go back to it.
#[tokio::test(start_paused = true)]
async fn a_version_that_every_task_was_spared_does_not_count_as_rolled_out() {
    let world = World::new().await;
    let spared = |command: &str, disruptions_max| {
        let mut job = spec(2, 100, command);
        job.update = Some(UpdateSpec { disruptions_max, ..UpdateSpec::default() });
        job
    };
    world.submit(&spared("one", None)).await.unwrap();
    for index in 0..2 {
        world.run(index).await;
    }
    world.submit(&spared("two", Some(0))).await.unwrap();
    let revision = world.job().await.revision;
    world
        .change("rollout_done", async |tx, changes| rollout_done(tx, changes, JOB, revision, 2).await)
        .await
        .unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.skipped, rollout.untried), (RolloutState::Done, 2, true));
    assert_eq!(stable_versions(&world.job().await), [1]);
    world.submit(&spared("three", None)).await.unwrap();
    world.fail().await;
    let job = world.job().await;
    let back = world.change("read", async |tx, changes| job_spec_in_force(tx, changes.space(), &job).await);
    assert_eq!(back.await.unwrap().task.command, spec(2, 100, "one").task.command);
}
