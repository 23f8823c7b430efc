//! Rollouts that take a failed version back.

use borough_model::job::{RestartMode, RestartSpec};

use super::*;
use crate::task::task_restart;

/// Without an end, each way back that fails would go one version further back, and then forth again.
#[tokio::test(start_paused = true)]
async fn a_way_back_that_fails_ends_there_although_an_earlier_version_was_rolled_out() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.run(0).await;
    world.submit(&spec(1, 100, "two")).await.unwrap();
    world.replace(world.job().await.revision, &[0]).await;
    world.again(0).await;
    world.done().await;
    world.submit(&spec(1, 100, "three")).await.unwrap();
    world.fail().await;
    let (job, back) = (world.job().await, world.rollout().await);
    assert_eq!((job.spec_version, back.state, back.reverts), (4, RolloutState::Rolling, Some(3)));
    world.fail().await;
    assert_eq!((world.job().await.spec_version, world.rollout().await.state), (4, RolloutState::Failed));
}

/// Two people take a version back at the same time: the second one must not bring it again.
#[tokio::test(start_paused = true)]
async fn an_order_for_a_version_that_is_no_longer_in_force_is_refused() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.submit(&spec(1, 100, "two")).await.unwrap();
    world.done().await;
    let ordered = async |expected| {
        world
            .change("rollout_order", async |tx, changes| {
                rollout_order(tx, changes, JOB, RolloutOrder::Undo(None), Some(expected)).await
            })
            .await
    };
    assert_eq!(ordered(2).await.unwrap().spec_version, 3);
    let by = world.rollout().await.by;
    let refused = ordered(2).await.unwrap_err().to_string();
    let expected = format!(
        "job ada/web has version 3, by {by}, and the order was for version 2; look again: borough rollout status ada/web"
    );
    assert_eq!((refused, world.job().await.spec_version), (expected, 3));
    // Nor does one that has seen the way back mean the bad version, unless it says so.
    let refused = ordered(3).await.unwrap_err().to_string();
    let expected = format!(
        "version 2 of job ada/web is being taken back already, by {by}; to bring it again: borough rollout undo ada/web --to 2"
    );
    assert_eq!((refused, world.job().await.spec_version), (expected, 3));
    assert_eq!(world.order(RolloutOrder::Undo(Some(2))).await.unwrap().spec_version, 4);
}

/// What never was rolled out is no version to go to.
#[tokio::test(start_paused = true)]
async fn a_second_undo_names_no_version_that_would_be_refused() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.submit(&spec(1, 100, "two")).await.unwrap();
    assert_eq!(world.order(RolloutOrder::Undo(None)).await.unwrap().spec_version, 3);
    let refused = world.order(RolloutOrder::Undo(None)).await.unwrap_err().to_string();
    assert!(refused.contains("it was never rolled out, so only its file brings it again"), "{refused}");
    assert!(world.order(RolloutOrder::Undo(Some(2))).await.is_err());
}

/// The count stays as it is, whatever the version that is taken up again says of further tasks.
#[tokio::test(start_paused = true)]
async fn a_version_is_taken_up_again_as_far_as_the_count_allows() {
    let update = UpdateSpec { canaries: 4, ..UpdateSpec::default() };
    let mut first = JobSpec { update: Some(update), ..spec(5, 100, "one") };
    first
        .overrides
        .insert(0, TaskOverride { command: Some(vec!["own".to_owned()]), ..TaskOverride::default() });
    first
        .overrides
        .insert(4, TaskOverride { command: Some(vec!["last".to_owned()]), ..TaskOverride::default() });
    for fails in [true, false] {
        let world = World::new().await;
        world.submit(&first).await.unwrap();
        world.submit(&spec(2, 100, "two")).await.unwrap();
        if fails {
            world.fail().await;
        } else {
            world.done().await;
            world.order(RolloutOrder::Undo(None)).await.unwrap();
        }
        let (cell, row) = (&world.cell, world.job().await);
        assert_eq!((row.spec_version, world.rollout().await.reverts), (3, Some(2)));
        let back = cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &row).await).await.unwrap();
        assert_eq!((back.count, back.update.unwrap().canaries), (2, 2));
        assert_eq!(back.overrides.keys().copied().collect::<Vec<_>>(), [0]);
    }
}

/// Two tasks, which are not restarted.
fn never(command: &str) -> JobSpec {
    let mut spec = spec(2, 100, command);
    spec.restart = RestartSpec { mode: RestartMode::Never, ..spec.restart };
    spec
}

/// A version that fails must not end one task after the other for good: nothing were left for the way back.
#[tokio::test(start_paused = true)]
async fn no_task_fails_for_good_before_its_rollout_is_over() {
    let world = World::new().await;
    world.submit(&never("one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.submit(&never("two")).await.unwrap();
    world.replace(world.job().await.revision, &[0]).await;
    world.again(0).await;
    world.report_end(0, ReportPhase::Released, EndReason::Signaled).await;
    let waiting = world.row(0).await.unwrap();
    assert_eq!((waiting.state, waiting.failures), (TaskState::Pending, 1), "it counts as a failure");
    world.fail().await;
    world.run(0).await;
    assert_eq!(world.row(0).await.unwrap().spec_version, 3);
    world.done().await;
    // From now on its own rule holds.
    world.report_end(0, ReportPhase::Released, EndReason::Signaled).await;
    assert_eq!(world.row(0).await.unwrap().state, TaskState::Dead);
}

/// What has failed for good under an earlier version is tried with the next one, and when its owner says so.
#[tokio::test(start_paused = true)]
async fn a_task_that_has_failed_for_good_begins_again_with_the_next_version_or_on_order() {
    let world = World::new().await;
    world.submit(&never("one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    let fails = async || world.report_end(0, ReportPhase::Released, EndReason::Signaled).await;
    fails().await;
    assert_eq!((world.job().await.failed, world.charged().await), (1, (100, 1)));
    let restart = async || {
        world.change("task_restart", async |tx, changes| task_restart(tx, changes, task(0)).await).await
    };
    assert_eq!(restart().await.unwrap().state, TaskState::Pending);
    assert_eq!((world.job().await.failed, world.charged().await), (0, (200, 2)));
    world.run(0).await;
    fails().await;
    world.submit(&never("two")).await.unwrap();
    assert_eq!((world.job().await.failed, world.charged().await), (0, (200, 2)));
    world.run(0).await;
    assert_eq!(world.row(0).await.unwrap().spec_version, 2);
    world.replace(world.job().await.revision, &[1]).await;
    world.again(1).await;
    world.done().await;
    // Without room in the quota it stays over, and nothing else is held up.
    fails().await;
    world
        .change("limit", async |tx, changes| {
            let limit = QuotaRow { tasks_max: Some(1), ..QuotaRow::default() };
            let band = borough_model::job::band(never("x").priority);
            quota_set(tx, changes.space(), &name("ada"), band, Some(&limit)).await
        })
        .await
        .unwrap();
    assert!(restart().await.unwrap_err().to_string().contains("quota"), "it would be one too many");
    world.submit(&never("three")).await.unwrap();
    assert_eq!((world.job().await.failed, world.charged().await), (1, (100, 1)));
}

/// What becomes of a set that fails while its allocs grow from 300 to 500, and a job of tasks like this has come.
async fn set_failed_with(inside_millis: u64) -> (RolloutState, u32) {
    let world = World::new().await;
    let set = |cpu_millis| {
        let command = borough_model::job::ALLOC_COMMAND.map(str::to_owned).to_vec();
        let mut spec = JobSpec::defaults(name("ada"), name("places"), JobKind::AllocSet, command);
        spec.task.resources.cpu_millis = cpu_millis;
        spec
    };
    world.submit(&set(300)).await.unwrap();
    world.run(0).await;
    world.submit(&set(500)).await.unwrap();
    let inside = JobSpec { alloc_set: Some(name("places")), ..spec(1, inside_millis, "run") };
    let submit = async |tx: &Transaction, changes: &mut ChangeSet| {
        job_submit(tx, changes, &inside, JobId(2)).await.map(drop)
    };
    world.change("submit", submit).await.unwrap();
    world.fail().await;
    (world.rollout().await.state, world.job().await.spec_version)
}

/// The way back would take the place of a job that fits the new allocs only.
#[tokio::test(start_paused = true)]
async fn a_set_goes_back_unless_its_allocs_were_too_small_for_a_job_in_it() {
    assert_eq!(set_failed_with(200).await, (RolloutState::Rolling, 3));
    assert_eq!(set_failed_with(400).await, (RolloutState::Failed, 2));
}
