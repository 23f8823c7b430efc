//! Rollouts that run further tasks beside those of the owner.

use borough_model::job::RestartSpec;

use super::*;

fn surging(count: u32, cpu_millis: u64, command: &str, surge: u32) -> JobSpec {
    let update = UpdateSpec { unavailable_max: Some(0), surge_max: Some(surge), ..UpdateSpec::default() };
    JobSpec { update: Some(update), ..spec(count, cpu_millis, command) }
}

impl World {
    /// How many tasks the job has and the owner wants, and how many surge.
    async fn counts(&self) -> (u32, u32, u32) {
        let job = self.job().await;
        (job.count, job.owner_count(), job.surge())
    }

    pub(super) async fn scale(&self, count: u32) -> StoreResult<JobRow> {
        self.change("scale", async |tx, changes| job_scale(tx, changes, JOB, count).await).await
    }

    /// Asks what the job does not want to end, and begins again what it wants again.
    pub(super) async fn sweep(&self) {
        self.change("unwanted", async |tx, changes| task_unwanted_stop(tx, changes, JOB, None, 100).await)
            .await
            .unwrap();
        self.change("revive", async |tx, changes| task_wanted_revive(tx, changes, JOB, None, 100).await)
            .await
            .unwrap();
    }

    pub(super) async fn limit(&self, cpu_millis: u64) {
        let limit = Resources { cpu_millis, ..Resources::default() };
        let limit = QuotaRow { limit, ..QuotaRow::default() };
        let line = borough_model::job::band(spec(1, 1, "one").priority);
        let user = name("ada");
        self.change("quota", async |tx, changes| {
            quota_set(tx, changes.space(), &user, line, Some(&limit)).await
        })
        .await
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_charges_what_surges_and_gives_it_back() {
    let world = World::new().await;
    world.submit(&surging(2, 100, "one", 1)).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((2, 2, 0), (200, 2)), "no rollout, no surge");
    world.run(0).await;
    world.run(1).await;
    world.submit(&surging(2, 300, "two", 1)).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((3, 2, 1), (900, 3)));
    assert_eq!(world.replace(world.job().await.revision, &[0]).await, 0, "none may be away yet");
    world.run(2).await;
    assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1);
    world.again(0).await;
    assert_eq!(world.replace(world.job().await.revision, &[1]).await, 1);
    world.again(1).await;
    world.done().await;
    assert_eq!((world.counts().await, world.charged().await), ((2, 2, 0), (900, 3)), "one still runs");
    world.sweep().await;
    let over = world.row(2).await.unwrap();
    assert_eq!((over.state, over.stop), (TaskState::Stopping, Some(StopReason::SurgeOver)));
    world.report(2, ReportPhase::Released).await;
    assert_eq!(world.charged().await, (600, 2));
    // The next one has the same index, and a further attempt.
    world.submit(&surging(2, 200, "three", 1)).await.unwrap();
    world.sweep().await;
    assert_eq!((world.counts().await, world.charged().await), ((3, 2, 1), (900, 3)));
    world.run(2).await;
    assert_eq!(world.row(2).await.unwrap().incarnation, Incarnation(2));
}

/// The decision may be older than the end of a task, so the rows count.
#[tokio::test(start_paused = true)]
async fn canaries_end_nothing_that_stands_in_for_a_task_of_the_owner() {
    let world = World::new().await;
    world.submit(&surging(1, 100, "one", 1)).await.unwrap();
    world.run(0).await;
    world.submit(&surging(1, 100, "two", 1)).await.unwrap();
    world.run(1).await;
    assert_eq!(world.replace(world.job().await.revision, &[0]).await, 1);
    let mut tried = surging(1, 100, "three", 1);
    tried.update = tried.update.map(|update| UpdateSpec { canaries: 1, ..update });
    world.submit(&tried).await.unwrap();
    assert_eq!(world.replace(world.job().await.revision, &[1]).await, 0, "nothing else serves");
    world.again(0).await;
    assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1);
    assert_eq!(world.row(1).await.unwrap().state, TaskState::Stopping);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_changes_its_size_keeps_what_surges_beside_it() {
    let world = World::new().await;
    world.submit(&surging(2, 100, "one", 1)).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.submit(&surging(2, 100, "two", 1)).await.unwrap();
    world.run(2).await;
    world.scale(4).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((5, 4, 1), (500, 5)));
    world.scale(1).await.unwrap();
    world.sweep().await;
    assert_eq!((world.counts().await, world.charged().await), ((2, 1, 1), (300, 3)), "task 2 is ending");
    assert_eq!(world.row(2).await.unwrap().stop, Some(StopReason::JobShrunk), "the owner wanted four");
    world.report(2, ReportPhase::Released).await;
    // Task 1, of the earlier version, surges now: it serves while task 0 is replaced.
    assert_eq!(world.replace(world.job().await.revision, &[0]).await, 1);
    world.again(0).await;
    assert_eq!(world.replace(world.job().await.revision, &[1]).await, 1);
    world.report(1, ReportPhase::Released).await;
    world.done().await;
    world.sweep().await;
    assert_eq!((world.counts().await, world.charged().await), ((1, 1, 0), (100, 1)));
    world.submit(&surging(3, 100, "three", 2)).await.unwrap();
    assert_eq!(world.counts().await, (5, 3, 2), "a count and a surge at once");
    world.submit(&spec(3, 100, "four")).await.unwrap();
    let refused = world.scale(99_999).await.unwrap_err().to_string();
    let expected =
        "job ada/web: 2 tasks surge until its rollout is done; until then its count is 99998 at most";
    assert_eq!(refused, expected);
}

#[tokio::test(start_paused = true)]
async fn a_further_change_keeps_what_surges_and_adds_what_it_asks_for() {
    let world = World::new().await;
    world.submit(&surging(3, 100, "one", 1)).await.unwrap();
    world.submit(&surging(3, 100, "two", 2)).await.unwrap();
    assert_eq!(world.counts().await, (5, 3, 2));
    world.submit(&surging(3, 100, "three", 1)).await.unwrap();
    assert_eq!(world.counts().await, (5, 3, 2), "what surges already stays");
    world.submit(&surging(3, 100, "four", 3)).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((6, 3, 3), (600, 6)));
    world.submit(&spec(3, 100, "five")).await.unwrap();
    assert_eq!(world.counts().await, (6, 3, 3));
    world.fail().await;
    assert_eq!(
        (world.rollout().await.reverts, world.counts().await),
        (Some(5), (6, 3, 3)),
        "the way back keeps it"
    );
    world.fail().await;
    assert_eq!((world.rollout().await.state, world.counts().await), (RolloutState::Failed, (6, 3, 3)));
    world.submit(&spec(3, 100, "six")).await.unwrap();
    world.done().await;
    assert_eq!((world.counts().await, world.charged().await), ((3, 3, 0), (300, 3)));
}

#[tokio::test(start_paused = true)]
async fn without_quota_a_rollout_with_a_surge_is_refused_and_a_way_back_goes_on_without() {
    let world = World::new().await;
    world.limit(400).await;
    world.submit(&surging(2, 100, "one", 1)).await.unwrap();
    let before = world.job().await;
    let refused = world.submit(&surging(2, 200, "two", 1)).await.unwrap_err().to_string();
    assert!(refused.contains("the quota of ada"), "{refused}");
    assert!(refused.contains("Its rollout begins with 1 more tasks: `update.surge_max`"), "{refused}");
    assert_eq!(world.job().await, before);
    world.submit(&spec(2, 200, "two")).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((2, 2, 0), (400, 2)));
    world.order(RolloutOrder::Undo(None)).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((2, 2, 0), (400, 2)));
    let job = world.job().await;
    assert_eq!(job.rollout.as_deref().unwrap().reverts, Some(2));
    world.run(0).await;
    world.run(1).await;
    world.done().await;
    assert_eq!(world.charged().await, (200, 2));
    world.submit(&surging(2, 100, "three", 1)).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((3, 2, 1), (300, 3)));
}

/// A task that has ended for good does not run again, so further ones surge in its place.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_over_does_not_surge() {
    let world = World::new().await;
    let never = |spec: JobSpec| JobSpec { restart: RestartSpec::for_kind(JobKind::Batch), ..spec };
    world.submit(&never(surging(3, 100, "one", 1))).await.unwrap();
    for index in 0..3 {
        world.run(index).await;
    }
    world.finish(2).await;
    assert_eq!(world.row(2).await.unwrap().state, TaskState::Dead);
    world.scale(2).await.unwrap();
    assert_eq!((world.job().await.succeeded, world.charged().await), (0, (200, 2)));
    world.submit(&never(surging(2, 100, "two", 1))).await.unwrap();
    assert_eq!((world.counts().await, world.charged().await), ((4, 2, 2), (300, 3)));
    world.run(3).await;
    assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1, "for task 3 and not for task 2");
    // The rollout is done, and both tasks of the owner end for good: the job is over.
    world.report(0, ReportPhase::Released).await;
    world.run(0).await;
    world.finish(1).await;
    assert_eq!(world.job().await.state, JobState::Running);
    world.done().await;
    world.finish(0).await;
    assert!(matches!(world.job().await.state, JobState::Ended { .. }), "{:?}", world.job().await);
    world.sweep().await;
    world.report(3, ReportPhase::Released).await;
    assert_eq!(world.charged().await, (0, 0));
}

/// A task that ends since the job is smaller keeps what it was charged. The job may ask for other resources by the time
/// at which it wants the task again.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_wanted_again_while_it_ends_is_charged_what_its_job_asks_for() {
    for (cpu_millis, together) in [(400, (800, 2)), (40, (80, 2))] {
        let world = World::new().await;
        world.submit(&spec(2, 100, "one")).await.unwrap();
        world.run(0).await;
        world.run(1).await;
        world.scale(1).await.unwrap();
        world.sweep().await;
        world.submit(&spec(1, cpu_millis, "two")).await.unwrap();
        assert_eq!(world.replace(world.job().await.revision, &[0]).await, 1);
        world.again(0).await;
        world.done().await;
        assert_eq!(world.charged().await, (100 + cpu_millis, 2), "task 1 still ends");
        world.limit(cpu_millis.max(100) * 2 - 1).await;
        assert_eq!(world.scale(2).await.is_ok(), cpu_millis < 100, "the whole task must have room");
        world.limit(cpu_millis.max(100) * 2).await;
        world.scale(2).await.unwrap();
        world.sweep().await;
        assert_eq!(world.charged().await, (100 + cpu_millis, 2), "task 1 still ends");
        world.report(1, ReportPhase::Released).await;
        assert_eq!(world.charged().await, together);
        world.sweep().await;
        world.run(1).await;
        assert_eq!((world.charged().await, world.row(1).await.unwrap().restarts), (together, 0));
    }
}

/// What surges may have no attempt when the rollout is done. It is charged what its next attempt takes, since it may
/// get a node at the same time, or before it ends.
#[tokio::test(start_paused = true)]
async fn a_surging_task_without_an_attempt_is_charged_what_its_next_one_takes() {
    for (cpu_millis, charged) in [(500, (1_000, 2)), (50, (100, 2))] {
        let world = World::new().await;
        world.submit(&surging(1, 100, "one", 1)).await.unwrap();
        world.run(0).await;
        world.submit(&surging(1, 300, "two", 1)).await.unwrap();
        world.run(1).await;
        world.submit(&surging(1, cpu_millis, "three", 1)).await.unwrap();
        assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1);
        world.again(0).await;
        assert_eq!(world.replace(world.job().await.revision, &[1]).await, 1);
        world.report(1, ReportPhase::Released).await;
        world.done().await;
        assert_eq!((world.counts().await, world.charged().await), ((1, 1, 0), charged), "task 1 still waits");
        world.place(1).await;
        assert_eq!(world.charged().await, charged);
        world.sweep().await;
        world.report(1, ReportPhase::Released).await;
        assert_eq!(world.charged().await, (cpu_millis, 1));
    }
}

/// What a node holds for the helpers of a task is charged with it, also where an override says what its command takes.
#[tokio::test(start_paused = true)]
async fn helpers_are_charged_with_their_tasks_and_a_change_of_them_replaces_attempts() {
    use borough_model::job::{HelperPhase, HelperSpec};
    let helper = |text: &str, when, cpu_millis| HelperSpec {
        name: name(text),
        when,
        command: vec!["run".to_owned()],
        environment: Default::default(),
        cpu_millis,
        memory_bytes: 1 << 20,
        deadline_ms: None,
    };
    let with = |beside: u64| {
        let mut spec = spec(3, 100, "one");
        let own = Some(Resources { cpu_millis: 500, ..spec.task.resources.clone() });
        spec.overrides.insert(1, TaskOverride { resources: own, ..TaskOverride::default() });
        let beside = helper("logs", HelperPhase::Beside, beside);
        spec.task.helpers = vec![helper("migrate", HelperPhase::Before, 200), beside];
        spec
    };
    let world = World::new().await;
    world.submit(&with(30)).await.unwrap();
    assert_eq!(world.charged().await, (200 + 530 + 200, 3));
    for index in 0..3 {
        world.run(index).await;
    }
    assert_eq!(world.charged().await, (930, 3), "the rows hold the same");
    world.submit(&with(150)).await.unwrap();
    assert_eq!(world.charged().await, (250 + 650 + 250, 3));
    assert!(!world.rollout().await.resizes, "helpers begin with their attempt only");
    let mut shares = Vec::new();
    for index in 0..3 {
        assert_eq!(world.replace(world.job().await.revision, &[index]).await, 1);
        world.again(index).await;
        shares.push(world.row(index).await.unwrap().charge.resources.cpu_millis);
    }
    world.done().await;
    assert_eq!((shares, world.charged().await), (vec![250, 650, 250], (1_150, 3)));
}

/// Each step reads every version that tasks may still have.
#[tokio::test(start_paused = true)]
async fn a_job_has_so_many_versions_of_other_resources_and_no_more() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.run(0).await;
    for cpu_millis in 101..=116 {
        world.submit(&spec(1, cpu_millis, "one")).await.unwrap();
    }
    let refused = world.submit(&spec(1, 117, "one")).await.unwrap_err().to_string();
    assert!(
        refused.contains("16 earlier versions") && refused.contains("rollout status ada/web"),
        "{refused}"
    );
    assert_eq!(world.charged().await, (116, 1));
    world.submit(&spec(1, 116, "two")).await.unwrap();
    assert_eq!(world.replace(world.job().await.revision, &[0]).await, 1);
    world.again(0).await;
    world.done().await;
    world.submit(&spec(1, 117, "one")).await.unwrap();
}
