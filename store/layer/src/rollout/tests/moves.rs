//! Moves of attempts within the disruption budget, and rollout steps beside them.

use borough_model::job::UpdateSpec;
use borough_model::task::{Health, StopReason, TaskState};

use super::*;
use crate::task::{TaskMoves, tasks_move};

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
