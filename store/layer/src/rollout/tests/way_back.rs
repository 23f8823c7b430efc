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
