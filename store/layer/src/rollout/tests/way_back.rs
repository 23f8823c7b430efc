//! Rollouts that take a failed version back.

use super::*;

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

/// The count is not taken back, so the earlier rules may not fit it.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_count_does_not_allow_is_not_taken_up_again() {
    let world = World::new().await;
    let update = UpdateSpec { canaries: 4, ..UpdateSpec::default() };
    world.submit(&JobSpec { update: Some(update), ..spec(5, 100, "one") }).await.unwrap();
    world.submit(&spec(2, 100, "two")).await.unwrap();
    world.done().await;
    let refused = world.order(RolloutOrder::Undo(None)).await.unwrap_err().to_string();
    assert!(refused.contains("canaries"), "{refused}");
    assert_eq!(world.job().await.spec_version, 2);
    // Nor does a failure bring it back.
    let world = World::new().await;
    world.submit(&JobSpec { update: Some(update), ..spec(5, 100, "one") }).await.unwrap();
    world.submit(&spec(2, 100, "two")).await.unwrap();
    world.fail().await;
    assert_eq!((world.job().await.spec_version, world.rollout().await.state), (2, RolloutState::Failed));
}
