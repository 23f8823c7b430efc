//! Rollouts that are tried again, and tasks that are tried at once.

use super::*;

impl World {
    /// A task whose attempt of the version in force has failed, and which pauses.
    async fn pauses(&self, index: u32) {
        self.run(index).await;
        self.report_end(index, ReportPhase::Released, EndReason::Signaled).await;
        let row = self.row(index).await.unwrap();
        assert!(row.failures > 0 && row.not_before_ms > 1_000, "{row:?}");
    }

    /// The failures and the pause of a task.
    /// Its failures, and the milliseconds of its pause that are left.
    async fn pause_of(&self, index: u32) -> (u32, i64) {
        let row = self.row(index).await.unwrap();
        (row.failures, row.not_before_ms.saturating_sub(1_000).max(0))
    }

    async fn retry(&self, revision: u64, index: u32) -> usize {
        let tasks = &[(task(index), self.row(index).await.unwrap().incarnation)];
        self.change("rollout_retry", async |tx, changes| {
            rollout_retry(tx, changes, JOB, revision, tasks).await
        })
        .await
        .unwrap()
    }
}

/// Version 2 has failed, and so has the way back as version 3. Task 0 pauses.
async fn way_back_failed() -> World {
    let world = World::new().await;
    world.submit(&spec(2, 100, "one")).await.unwrap();
    world.run(1).await;
    world.submit(&spec(2, 100, "two")).await.unwrap();
    world.fail().await;
    world.pauses(0).await;
    world.fail().await;
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.version, rollout.reverts), (RolloutState::Failed, 3, Some(2)));
    world
}

#[tokio::test(start_paused = true)]
async fn a_way_back_that_has_failed_begins_again_by_its_file_and_by_an_undo() {
    use crate::job::SubmitOutcome::{Unchanged, Updated};
    let submit = async |world: &World| world.submit(&spec(2, 100, "one")).await.unwrap().outcome;
    let begun = async |world: &World| {
        let rollout = world.rollout().await;
        let is = (rollout.state, rollout.version, rollout.reverts, rollout.failure);
        assert_eq!(is, (RolloutState::Rolling, 3, Some(2), None));
        // The first step of the rollout forgets the failures before.
        let job = world.job().await;
        world.retry(job.revision, 0).await;
        assert_eq!((job.spec_version, world.pause_of(0).await), (3, (0, 0)));
        assert_eq!(submit(world).await, Unchanged, "it goes on");
    };
    let world = way_back_failed().await;
    assert_eq!(submit(&world).await, Updated);
    begun(&world).await;
    for version in [None, Some(1)] {
        let world = way_back_failed().await;
        world.order(RolloutOrder::Undo(version)).await.unwrap();
        begun(&world).await;
        // It fails like before, and goes nowhere by itself.
        world.fail().await;
        assert_eq!((world.rollout().await.state, world.job().await.spec_version), (RolloutState::Failed, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_stays_when_it_fails_begins_again_by_its_file() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    let update = UpdateSpec { on_failure: OnFailure::Stop, ..UpdateSpec::default() };
    let second = JobSpec { update: Some(update), ..spec(1, 100, "two") };
    world.submit(&second).await.unwrap();
    world.pauses(0).await;
    world.fail().await;
    world.submit(&second).await.unwrap();
    world.retry(world.job().await.revision, 0).await;
    assert_eq!((world.rollout().await.state, world.pause_of(0).await), (RolloutState::Rolling, (0, 0)));
    // An undo still goes back.
    world.fail().await;
    assert_eq!(world.order(RolloutOrder::Undo(None)).await.unwrap().spec_version, 3);
}

/// The controller has seen that all tasks serve with the version.
#[tokio::test(start_paused = true)]
async fn a_rollout_that_has_failed_can_be_done_all_the_same() {
    let world = way_back_failed().await;
    world.done().await;
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.failure, rollout.reverts), (RolloutState::Done, None, Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_an_earlier_version_is_over_in_a_step() {
    let world = World::new().await;
    world.submit(&spec(2, 100, "one")).await.unwrap();
    world.pauses(0).await;
    world.submit(&spec(2, 100, "two")).await.unwrap();
    let decided = world.job().await.revision;
    assert_eq!(world.retry(decided, 0).await, 1);
    assert_eq!(world.pause_of(0).await, (0, 0));
    assert_eq!(world.rollout().await.progress_ms, 1_000, "it waits for nothing from now on");
    assert_eq!(world.retry(decided, 0).await, 0, "another step was decided by that state");
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_rollout_is_recorded_once() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.submit(&spec(1, 100, "two")).await.unwrap();
    let decided = world.job().await.revision;
    for at_ms in [7_000, 9_000] {
        let record = async |tx: &Transaction, changes: &mut ChangeSet| {
            rollout_progress(tx, changes, JOB, decided, at_ms).await
        };
        world.change("rollout_progress", record).await.unwrap();
    }
    assert_eq!(world.rollout().await.progress_ms, 7_000);
}

/// By the rules before it had more time, and by those now it may have had none.
#[tokio::test(start_paused = true)]
async fn the_time_of_a_rollout_begins_again_when_its_rules_change() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    let second = spec(1, 100, "two");
    world.submit(&second).await.unwrap();
    let mut labelled = second.clone();
    labelled.labels.insert("team".to_owned(), "x".to_owned());
    let update = Some(UpdateSpec { healthy_after_ms: 1, ..UpdateSpec::default() });
    let loosened = JobSpec { update, ..labelled.clone() };
    for (number, (changed, clock_ms)) in [(labelled, 1_000), (loosened, 9_000)].into_iter().enumerate() {
        let request = u128::try_from(number).unwrap() + 900;
        let at = crate::journal::Change { at_ms: 9_000, ..change(request, "submit") };
        let submit =
            async |tx: &Transaction, changes: &mut ChangeSet| job_submit(tx, changes, &changed, JOB).await;
        world.cell.change(at, submit).await.unwrap();
        let rollout = world.rollout().await;
        assert_eq!((rollout.state, rollout.version, rollout.clock_ms), (RolloutState::Rolling, 2, clock_ms));
    }
}

/// The version that never served must hide no good one.
#[tokio::test(start_paused = true)]
async fn a_version_whose_tasks_went_goes_on_with_the_next_ones() {
    let world = World::new().await;
    world.submit(&spec(3, 100, "one")).await.unwrap();
    world.submit(&spec(3, 100, "two")).await.unwrap();
    world.scale(0).await.unwrap();
    world.done().await;
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.untried), (RolloutState::Done, true));
    world.scale(3).await.unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.state, rollout.version, rollout.untried), (RolloutState::Rolling, 2, false));
    world.submit(&spec(3, 100, "three")).await.unwrap();
    world.fail().await;
    assert_eq!((world.job().await.spec_version, world.rollout().await.stable), (4, vec![1]));
    let (row, cell) = (world.job().await, &world.cell);
    let back = cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &row).await).await.unwrap();
    assert_eq!(back, spec(3, 100, "one"));
}

/// What differs in labels or in the count begins the version that has failed again as well.
#[tokio::test(start_paused = true)]
async fn a_file_that_differs_in_metadata_begins_a_failed_rollout_again() {
    use crate::job::SubmitOutcome::Updated;
    let labelled = JobSpec { labels: [("team".to_owned(), "a".to_owned())].into(), ..spec(2, 100, "one") };
    for changed in [labelled, spec(3, 100, "one")] {
        let world = way_back_failed().await;
        assert_eq!(world.submit(&changed).await.unwrap().outcome, Updated);
        let rollout = world.rollout().await;
        assert_eq!((rollout.state, rollout.version, rollout.failure), (RolloutState::Rolling, 3, None));
    }
}

/// Otherwise labels that change again and again would hide a task that fails again and again.
#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_concern_a_task_forgets_none_of_its_failures() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.pauses(0).await;
    let labelled = JobSpec { labels: [("n".to_owned(), "1".to_owned())].into(), ..spec(1, 100, "one") };
    world.submit(&labelled).await.unwrap();
    world.pauses(0).await;
    let row = world.row(0).await.unwrap();
    assert_eq!((row.spec_version, row.failures, row.failing_version()), (2, 2, 1));
    // What runs otherwise has not failed yet.
    world.submit(&spec(1, 100, "two")).await.unwrap();
    world.pauses(0).await;
    let row = world.row(0).await.unwrap();
    assert_eq!((row.spec_version, row.failures, row.failing_version()), (3, 1, 3));
}
