//! Rollouts that try a version with canaries first.

use std::collections::BTreeMap;

use super::*;
use crate::node::{node_silence_begin, node_silence_end, node_writer};

fn tried(count: u32, cpu_millis: u64, command: &str, canaries: u32) -> JobSpec {
    let update = UpdateSpec { canaries, healthy_after_ms: 0, ..UpdateSpec::default() };
    JobSpec { update: Some(update), ..spec(count, cpu_millis, command) }
}

impl World {
    /// A job of two tasks whose second version runs as a canary.
    async fn on_trial(&self) {
        self.submit(&tried(2, 100, "one", 1)).await.unwrap();
        self.run(0).await;
        self.run(1).await;
        self.submit(&tried(2, 100, "two", 1)).await.unwrap();
        self.run(2).await;
    }

    pub(super) async fn versions(&self) -> Vec<u32> {
        let mut versions = Vec::new();
        for index in 0..self.job().await.count {
            versions.push(self.row(index).await.map_or(0, |row| row.spec_version));
        }
        versions
    }

    async fn canaries(&self, health: CanaryHealth) {
        let revision = self.job().await.revision;
        self.change("rollout_canaries", async |tx, changes| {
            rollout_canaries(tx, changes, JOB, revision, health).await
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_is_tried_before_any_task_of_the_owner_has_it() {
    let world = World::new().await;
    world.submit(&tried(2, 100, "one", 1)).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    assert_eq!(
        world.order(RolloutOrder::Promote).await.unwrap_err().to_string(),
        "job ada/web: it has had no rollout: no changed file has begun one"
    );
    world.submit(&tried(2, 300, "two", 1)).await.unwrap();
    assert_eq!((world.job().await.count, world.charged().await), (3, (900, 3)), "the canary is charged");
    let refused = world.order(RolloutOrder::Promote).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "job ada/web: 0 of 1 canary is healthy for long enough; accepted: its promotion when all are"
    );
    // A task of the owner that begins again keeps its version, also when the job grows.
    let restart = async |tx: &Transaction, changes: &mut ChangeSet| {
        crate::task::task_restart(tx, changes, task(0)).await
    };
    world.change("restart", restart).await.unwrap();
    world.again(0).await;
    world.run(2).await;
    assert_eq!(world.versions().await, [1, 1, 2]);
    let refused = world.scale(3).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("job ada/web: canaries try its version 2, so its count stays 2 until"),
        "{refused}"
    );
    world.scale(2).await.unwrap();
    world.canaries(CanaryHealth::Healthy).await;
    assert!(world.rollout().await.canaries_healthy_ms > 0);
    let revision = world.job().await.revision;
    assert_eq!(world.replace(revision, &[0, 1]).await, 0, "nobody has promoted it");
    world.order(RolloutOrder::Pause).await.unwrap();
    let paused = world.order(RolloutOrder::Promote).await.unwrap_err().to_string();
    assert!(paused.starts_with("job ada/web: its rollout is paused"), "{paused}");
    world.order(RolloutOrder::Resume).await.unwrap();
    world.order(RolloutOrder::Promote).await.unwrap();
    let again = world.order(RolloutOrder::Promote).await.unwrap_err().to_string();
    assert_eq!(again, "job ada/web: no canary of it waits for its promotion");
    for index in 0..2 {
        assert_eq!(world.replace(world.job().await.revision, &[index]).await, 1);
        world.again(index).await;
    }
    world.done().await;
    world.sweep().await;
    world.report(2, ReportPhase::Released).await;
    assert_eq!((world.versions().await, world.charged().await), (vec![2, 2], (600, 2)));
}

impl World {
    /// The agent of the node stops to answer, or answers again.
    async fn agent(&self, silence: Silence) {
        self.change("silence", async |tx, changes| {
            let writer = node_writer(tx, changes.space(), SOURCE).await?.unwrap();
            match silence {
                Silence::Begins => node_silence_begin(&writer, changes, 0).await.map(drop),
                Silence::Ends => node_silence_end(&writer, changes).await.map(drop),
            }
        })
        .await
        .unwrap();
    }

    /// What the controller does that has seen healthy canaries.
    async fn promote(&self) {
        let revision = self.job().await.revision;
        self.change("rollout_promote", async |tx, changes| rollout_promote(tx, changes, JOB, revision).await)
            .await
            .unwrap();
    }
}

#[derive(Clone, Copy)]
enum Silence {
    Begins,
    Ends,
}

/// Nobody knows how a canary is whose agent does not answer, whatever its row says.
#[tokio::test(start_paused = true)]
async fn a_promotion_looks_again_whether_the_canaries_answer() {
    let world = World::new().await;
    world.on_trial().await;
    world.canaries(CanaryHealth::Healthy).await;
    world.agent(Silence::Begins).await;
    let refused = world.order(RolloutOrder::Promote).await.unwrap_err().to_string();
    assert!(refused.contains("0 of 1 canary is healthy for long enough"), "{refused}");
    world.promote().await;
    assert_eq!(world.rollout().await.canaries, 1, "it was decided before the silence");
    world.agent(Silence::Ends).await;
    world.promote().await;
    assert_eq!(world.rollout().await.canaries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_as_a_canary_has_touched_no_task_of_the_owner() {
    let world = World::new().await;
    world.on_trial().await;
    world.fail().await;
    let rollout = world.rollout().await;
    assert_eq!((rollout.reverts, rollout.canaries, rollout.version), (Some(2), 0, 3));
    assert_eq!(world.versions().await, [1, 1, 2]);
    assert_eq!(world.row(0).await.unwrap().restarts, 0);
    // The way back replaces what surges, and ends it when it is done.
    assert_eq!(world.replace(world.job().await.revision, &[2]).await, 1);
    world.report(2, ReportPhase::Released).await;
    world.done().await;
    world.sweep().await;
    assert_eq!((world.versions().await, world.charged().await), (vec![1, 1], (200, 2)));
}

/// The owner has scaled nothing.
#[tokio::test(start_paused = true)]
async fn a_canary_that_is_taken_back_says_that_it_was_one() {
    let world = World::new().await;
    world.on_trial().await;
    world.order(RolloutOrder::Undo(None)).await.unwrap();
    world.done().await;
    world.sweep().await;
    let canary = world.row(2).await.unwrap();
    assert_eq!((canary.state, canary.stop), (TaskState::Stopping, Some(StopReason::SurgeOver)));
}

/// The quota has room for the canary, and none for what would surge after the promotion.
#[tokio::test(start_paused = true)]
async fn a_promotion_without_room_for_a_surge_goes_on_with_the_canaries() {
    let world = World::new().await;
    let both = |spec: JobSpec| {
        let update = UpdateSpec { surge_max: Some(2), ..spec.update.unwrap() };
        JobSpec { update: Some(update), ..spec }
    };
    world.submit(&both(tried(2, 100, "one", 1))).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.limit(300).await;
    world.submit(&both(tried(2, 100, "two", 1))).await.unwrap();
    world.run(2).await;
    world.order(RolloutOrder::Promote).await.unwrap();
    assert_eq!((world.job().await.surge(), world.charged().await), (1, (300, 3)));
    world.limit(400).await;
    world.submit(&both(tried(2, 100, "three", 1))).await.unwrap();
    assert_eq!(world.job().await.canary_base(), Some(1), "what was promoted has not reached every task");
    assert_eq!(world.replace(world.job().await.revision, &[0, 2]).await, 1, "only what surges");
    world.again(2).await;
    let revision = world.job().await.revision;
    world
        .change("promote", async |tx, changes| rollout_promote(tx, changes, JOB, revision).await)
        .await
        .unwrap();
    assert_eq!((world.job().await.surge(), world.charged().await), (2, (400, 4)));
}

/// Whoever runs the earlier file again has seen enough of the canary. It is taken back, and the quota refuses nothing.
#[tokio::test(start_paused = true)]
async fn the_file_before_the_canaries_takes_them_back() {
    let world = World::new().await;
    world.on_trial().await;
    world.limit(100).await;
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let earlier = JobSpec { labels, ..tried(2, 100, "one", 1) };
    world.submit(&earlier).await.unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.reverts, rollout.canaries, rollout.version), (Some(2), 0, 3));
    assert_eq!((world.versions().await, world.charged().await), (vec![1, 1, 2], (300, 3)));
    world.submit(&tried(2, 100, "three", 1)).await.unwrap();
    assert_eq!(world.rollout().await.canaries, 1, "another file is tried");
}
