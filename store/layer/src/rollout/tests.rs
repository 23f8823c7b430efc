//! Rollouts against a store: what each step writes, and that charges are kept at every one.

mod adopt;
mod again;
mod canary;
mod moves;
mod resize;
mod surge;
mod way_back;

use borough_model::job::{JobKind, RolloutState, TaskOverride, UpdateSpec};
use borough_model::node::AGENT_RESIZE;
use borough_model::task::{EndReason, Exit, Health, Placement, StopReason, TaskEvent, TaskRow, TaskState};
use borough_model::{NodeId, Resources};

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::job::{JobSubmitted, job_scale, job_stop, job_submit, job_tasks_gone};
use crate::keys::{self, TaskKey};
use crate::node::{NodeRegistration, SessionFence, node_live_renew, node_register, node_reported};
use crate::quota::{QuotaRow, quota_set, quota_usage};
use crate::task::{
    ReportPhase, TaskBook, TaskReport, task_report_apply, task_unwanted_stop, task_wanted_revive,
};
use crate::testing::{TestCell, change, name, node_facts, seeds};

const NODE: NodeId = NodeId(7);
const SOURCE: SessionFence = SessionFence { node: NODE, session: 5 };
const JOB: JobId = JobId(1);

fn task(index: u32) -> TaskId {
    TaskId { job: JOB, index }
}

fn spec(count: u32, cpu_millis: u64, command: &str) -> JobSpec {
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec![command.to_owned()]);
    spec.count = count;
    spec.task.resources.cpu_millis = cpu_millis;
    spec
}

/// A report of the first attempt of a task.
fn running(index: u32, phase: ReportPhase) -> TaskReport {
    TaskReport {
        task: task(index),
        incarnation: Incarnation(1),
        phase,
        process: Some((42, 500)),
        cores: Vec::new(),
        health: Health::Healthy,
        exit: None,
        resize: None,
        helpers: Vec::new(),
    }
}

struct World {
    cell: TestCell,
    requests: std::cell::Cell<u128>,
}

impl World {
    async fn new() -> Self {
        let cell = TestCell::new().await;
        cell.change(change(1, "world"), async |tx, changes| {
            let mut facts = node_facts(64_000);
            facts.attributes.insert(AGENT_RESIZE.to_owned(), "yes".to_owned());
            let registration = NodeRegistration::new(name("n7"), facts, NODE, SOURCE.session);
            let (_, writer) = node_register(tx, changes, &registration).await?;
            node_reported(&writer, changes, &[]).await?;
            node_live_renew(&writer, changes.space(), 5, 0, None).await
        })
        .await
        .unwrap();
        Self { cell, requests: std::cell::Cell::new(10) }
    }

    /// Makes a change, and finds no rule of the cell broken after it.
    async fn change<T>(
        &self,
        action: &'static str,
        body: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.requests.set(self.requests.get() + 1);
        let done = self.cell.change(change(self.requests.get(), action), body).await;
        self.check(action).await;
        done
    }

    async fn check(&self, action: &str) {
        let cell = &self.cell;
        let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
        assert_eq!(found, [], "after {action}");
    }

    async fn submit(&self, spec: &JobSpec) -> StoreResult<JobSubmitted> {
        self.change("submit", async |tx, changes| job_submit(tx, changes, spec, JOB).await).await
    }

    async fn job(&self) -> JobRow {
        let cell = &self.cell;
        cell.run(async |tx| job_get(&tx, &cell.space, JOB).await).await.unwrap()
    }

    async fn rollout(&self) -> Rollout {
        *self.job().await.rollout.unwrap()
    }

    async fn row(&self, index: u32) -> Option<TaskRow> {
        let cell = &self.cell;
        let row = cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task(index))).await).await;
        row.unwrap()
    }

    /// The processor time and the tasks that the job's user is charged for.
    async fn charged(&self) -> (u64, u64) {
        let (cell, row) = (&self.cell, self.job().await);
        let band = borough_model::job::band(row.priority);
        let used = cell.run(async |tx| quota_usage(&tx, &cell.space, &row.user, band).await).await.unwrap();
        (used.used.cpu_millis, used.tasks)
    }

    /// Places a waiting task, with the version that it is to have, as a worker would.
    async fn place(&self, index: u32) {
        self.change("place", async |tx, changes| {
            let job = job_get(tx, changes.space(), JOB).await?;
            let version = job.version_of(index);
            let spec = job_spec_get(tx, changes.space(), JOB, version).await?;
            let mut book = TaskBook::read(tx, changes.space(), [task(index)]).await?;
            book.extend_nodes(tx, changes.space(), [NODE]).await?;
            let placement = Placement {
                node: NODE,
                incarnation: book.task(task(index)).unwrap().incarnation.next(),
                ports: Vec::new(),
                resources: spec.resources_for(index).into_owned(),
                spec_version: version,
                gang: None,
                alloc: None,
            };
            book.apply(task(index), &TaskEvent::Place(placement), changes.at_ms())?.unwrap();
            book.write(tx, changes).await
        })
        .await
        .unwrap();
    }

    async fn report(&self, index: u32, phase: ReportPhase) {
        self.report_end(index, phase, EndReason::Stopped).await;
    }

    /// A task ends by itself, with exit code 0.
    async fn finish(&self, index: u32) {
        self.report_end(index, ReportPhase::Released, EndReason::Exited).await;
    }

    async fn report_end(&self, index: u32, phase: ReportPhase, reason: EndReason) {
        let incarnation = self.row(index).await.unwrap().incarnation;
        let ends = !matches!(phase, ReportPhase::Running);
        let exit = ends.then(|| Exit {
            reason,
            code: Some(0),
            signal: None,
            message: String::new(),
            at_ms: 900,
            incarnation,
            node: Some(NODE),
            start_failure: None,
        });
        self.report_apply(TaskReport { incarnation, exit, ..running(index, phase) }).await;
    }

    async fn run(&self, index: u32) {
        self.place(index).await;
        self.report(index, ReportPhase::Running).await;
    }

    /// Ends an attempt that was asked to stop, and begins the next one.
    async fn again(&self, index: u32) {
        self.report(index, ReportPhase::Released).await;
        self.run(index).await;
    }

    async fn replace(&self, revision: u64, indexes: &[u32]) -> usize {
        let mut attempts = Vec::new();
        for index in indexes {
            attempts.push((task(*index), self.row(*index).await.unwrap().incarnation));
        }
        let attempts = &attempts;
        self.change("rollout_replace", async |tx, changes| {
            rollout_replace(tx, changes, JOB, revision, attempts).await
        })
        .await
        .unwrap()
    }

    async fn done(&self) {
        let revision = self.job().await.revision;
        self.change("rollout_done", async |tx, changes| rollout_done(tx, changes, JOB, revision, 0).await)
            .await
            .unwrap();
    }

    async fn fail(&self) {
        let revision = self.job().await.revision;
        let failure = RolloutFailure::TaskFails { index: 0, failures: 3 };
        self.change("rollout_fail", async |tx, changes| {
            rollout_fail(tx, changes, JOB, revision, failure).await
        })
        .await
        .unwrap();
    }

    async fn order(&self, order: RolloutOrder) -> StoreResult<JobRow> {
        self.change("rollout_order", async |tx, changes| rollout_order(tx, changes, JOB, order, None).await)
            .await
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_spec_reaches_every_task_and_the_charge_follows() {
    let world = World::new().await;
    world.submit(&spec(3, 100, "one")).await.unwrap();
    for index in 0..2 {
        world.run(index).await;
    }
    assert_eq!(world.charged().await, (300, 3));
    // Task 1 will need less, the others more: until the end each is charged the most of both.
    let mut changed = spec(3, 400, "two");
    changed.update = Some(UpdateSpec { unavailable_max: Some(3), ..UpdateSpec::default() });
    let own = Some(Resources { cpu_millis: 50, ..changed.task.resources.clone() });
    changed.overrides.insert(1, TaskOverride { resources: own, ..TaskOverride::default() });
    world.submit(&changed).await.unwrap();
    assert_eq!(world.charged().await, (400 + 100 + 400, 3));
    let rollout = world.rollout().await;
    assert_eq!(
        (rollout.state, rollout.version, rollout.held.as_slice()),
        (RolloutState::Rolling, 2, &[1][..])
    );
    for index in 0..2 {
        assert_eq!(world.replace(world.job().await.revision, &[index]).await, 1);
        world.again(index).await;
    }
    world.run(2).await;
    assert_eq!(world.charged().await, (900, 3));
    world.done().await;
    assert_eq!(world.charged().await, (400 + 50 + 400, 3));
    let versions: Vec<u32> = [world.row(0).await, world.row(1).await, world.row(2).await]
        .into_iter()
        .map(|row| row.unwrap().spec_version)
        .collect();
    assert_eq!(versions, [2, 2, 2]);
    assert_eq!(world.rollout().await.state, RolloutState::Done);
}

/// A task that ends because its job has shrunk still holds its charge.
#[tokio::test(start_paused = true)]
async fn an_update_to_no_tasks_keeps_the_charge_of_those_that_end() {
    let world = World::new().await;
    world.submit(&spec(2, 300, "one")).await.unwrap();
    world.run(0).await;
    world.submit(&spec(2, 100, "two")).await.unwrap();
    world.submit(&spec(0, 900, "three")).await.unwrap();
    world
        .change("unwanted", async |tx, changes| task_unwanted_stop(tx, changes, JOB, None, 100).await)
        .await
        .unwrap();
    world.report(0, ReportPhase::Released).await;
    assert_eq!(world.charged().await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_decided_by_an_old_state_does_nothing() {
    let world = World::new().await;
    world.submit(&spec(2, 100, "one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    let mut changed = spec(2, 100, "two");
    changed.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    world.submit(&changed).await.unwrap();
    let revision = world.job().await.revision;
    assert_eq!(world.replace(revision, &[0]).await, 1);
    assert_eq!(world.replace(revision, &[1]).await, 0, "another one had the same state before it");
    assert_eq!(world.row(1).await.unwrap().state, TaskState::Running);
    assert_eq!(world.replace(revision + 1, &[1]).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_ends_no_healthy_attempt_after_another_one_has_failed() {
    let world = World::new().await;
    world.submit(&spec(2, 100, "one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.submit(&spec(2, 100, "two")).await.unwrap();
    let decided = world.job().await.revision;
    // The end of an attempt leaves the row of its job as it is.
    world.report(0, ReportPhase::Released).await;
    assert_eq!(world.job().await.revision, decided);
    assert_eq!(world.replace(decided, &[1]).await, 0);
    assert_eq!(world.row(1).await.unwrap().state, TaskState::Running);
    assert_eq!(world.job().await.revision, decided, "it writes nothing");
    world.run(0).await;
    assert_eq!(world.replace(decided, &[1]).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_update_beyond_the_quota_is_refused_whole() {
    let world = World::new().await;
    world.limit(500).await;
    world.submit(&spec(2, 200, "one")).await.unwrap();
    world.run(0).await;
    let before = world.job().await;
    let refused = world.submit(&spec(2, 300, "two")).await.unwrap_err();
    assert!(refused.to_string().contains("the quota of ada"), "{refused}");
    assert_eq!(world.job().await, before);
    world.submit(&spec(2, 250, "two")).await.unwrap();
    assert_eq!(world.charged().await, (500, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_rollout_goes_back_in_one_commit_and_never_twice() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    world.run(0).await;
    world.submit(&spec(1, 300, "two")).await.unwrap();
    world.fail().await;
    let (job, back) = (world.job().await, world.rollout().await);
    assert_eq!((job.spec_version, back.state, back.reverts), (3, RolloutState::Rolling, Some(2)));
    assert_eq!((back.stable.as_slice(), back.held.as_slice()), (&[1][..], &[1, 2][..]));
    let cell = &world.cell;
    let in_force = cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &job).await).await.unwrap();
    assert_eq!(in_force, spec(1, 100, "one"));
    world.fail().await;
    assert_eq!(world.rollout().await.state, RolloutState::Failed, "what goes back is not taken back");
    assert_eq!(world.charged().await, (300, 1));
    // A correction begins again.
    world.submit(&spec(1, 200, "three")).await.unwrap();
    world.replace(world.job().await.revision, &[0]).await;
    world.again(0).await;
    world.done().await;
    assert_eq!((world.charged().await, world.rollout().await.stable), ((200, 1), vec![1]));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_wants_no_way_back_stays_where_its_rollout_failed() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    let mut changed = spec(1, 100, "two");
    let on_failure = OnFailure::Stop;
    changed.update = Some(UpdateSpec { on_failure, ..UpdateSpec::default() });
    world.submit(&changed).await.unwrap();
    world.fail().await;
    assert_eq!((world.rollout().await.state, world.job().await.spec_version), (RolloutState::Failed, 2));
}

#[tokio::test(start_paused = true)]
async fn an_owner_pauses_resumes_and_takes_back() {
    let world = World::new().await;
    world.submit(&spec(1, 100, "one")).await.unwrap();
    let refused = world.order(RolloutOrder::Pause).await.unwrap_err().to_string();
    assert_eq!(refused, "job ada/web: it has had no rollout: no changed file has begun one");
    world.run(0).await;
    world.submit(&spec(1, 100, "two")).await.unwrap();
    world.order(RolloutOrder::Pause).await.unwrap();
    let again = world.job().await;
    world.order(RolloutOrder::Pause).await.unwrap();
    assert_eq!(world.job().await, again, "a repeat changes nothing");
    assert_eq!(world.replace(again.revision, &[0]).await, 0, "it is paused");
    world.order(RolloutOrder::Resume).await.unwrap();
    let refused = |error: StoreResult<JobRow>| error.unwrap_err().to_string();
    assert_eq!(
        refused(world.order(RolloutOrder::Undo(Some(2))).await),
        "job ada/web: version 2 was not rolled out, or is no longer kept; accepted: 1"
    );
    world.order(RolloutOrder::Undo(None)).await.unwrap();
    let back = world.rollout().await;
    assert_eq!((back.version, back.reverts, back.failure), (3, Some(2), None));
    assert_eq!(
        refused(world.order(RolloutOrder::Undo(Some(1))).await),
        "job ada/web: version 1 is the same as the version in force"
    );
    world.done().await;
    assert_eq!(refused(world.order(RolloutOrder::Pause).await), "job ada/web: its rollout is over: done");
    // Version 3 is in force, and version 1 says the same.
    let none = "job ada/web: version 9 was not rolled out, or is no longer kept, and no version that was rolled out \
                differs from the one in force";
    assert_eq!(refused(world.order(RolloutOrder::Undo(Some(9))).await), none);
    world.submit(&spec(1, 100, "four")).await.unwrap();
    world.done().await;
    assert!(refused(world.order(RolloutOrder::Undo(Some(9))).await).ends_with("; accepted: 1, 3"));
}

/// Metadata makes versions of their own, which run what the version before them runs.
#[tokio::test(start_paused = true)]
async fn an_owner_takes_back_to_a_version_that_a_label_has_hidden() {
    let world = World::new().await;
    let labelled = |command: &str, label: &str| {
        let mut spec = spec(1, 100, command);
        spec.labels.insert("team".to_owned(), label.to_owned());
        spec
    };
    world.submit(&labelled("one", "a")).await.unwrap();
    world.submit(&labelled("one", "b")).await.unwrap();
    world.run(0).await;
    world.submit(&labelled("two", "b")).await.unwrap();
    let refused = world.order(RolloutOrder::Undo(Some(9))).await.unwrap_err().to_string();
    assert_eq!(refused, "job ada/web: version 9 was not rolled out, or is no longer kept; accepted: 2");
    world.order(RolloutOrder::Undo(Some(1))).await.unwrap();
    let (row, cell) = (world.job().await, &world.cell);
    let spec = cell.run(async |tx| job_spec_in_force(&tx, &cell.space, &row).await).await.unwrap();
    assert_eq!((row.spec_version, spec), (4, labelled("one", "a")));
    let origins = row.changes.unwrap().versions;
    assert_eq!(origins.iter().map(|origin| origin.version).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_running_job_keeps_its_kind_and_its_gang() {
    let world = World::new().await;
    world.submit(&spec(2, 100, "one")).await.unwrap();
    let batch = JobSpec { kind: JobKind::Batch, ..spec(2, 100, "one") };
    let gang = JobSpec { min_member: 2, ..spec(2, 100, "one") };
    for (changed, field) in [(batch, "kind"), (gang, "min_member")] {
        match world.submit(&changed).await {
            Err(StoreError::NeedsUpdate { changes, .. }) => assert_eq!(changes[0].path, field),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.job().await.spec_version, 1);
}

/// Random updates, scales, ends and stops: after each the charge is what jobs and tasks hold, and in the end nothing.
#[tokio::test(start_paused = true)]
async fn whatever_happens_during_rollouts_the_charges_are_right() {
    for seed in seeds(20) {
        let world = World::new().await;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = move |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most
        };
        world.submit(&spec(3, 100, "0")).await.unwrap();
        for turn in 0..30_u32 {
            let index = u32::try_from(draw(8)).unwrap();
            let row = world.row(index).await;
            let job = world.job().await;
            match draw(10) {
                0 | 1 => {
                    // Half of them ask for other amounts only.
                    let command = draw(2) * u64::from(turn);
                    let mut changed = spec(job.owner_count(), 50 * (1 + draw(6)), &format!("{command}"));
                    let surge_max = Some(u32::try_from(draw(4)).unwrap());
                    changed.update = Some(UpdateSpec { surge_max, ..UpdateSpec::default() });
                    if index < job.owner_count() && draw(3) == 0 {
                        let own = Some(Resources { cpu_millis: 70, ..changed.task.resources.clone() });
                        let own = TaskOverride { resources: own, ..TaskOverride::default() };
                        changed.overrides.insert(index, own);
                    }
                    world.submit(&changed).await.unwrap();
                }
                2 => {
                    let count = 1 + u32::try_from(draw(4)).unwrap();
                    // Refused if the spec in force has a field for a task beyond the count.
                    drop(world.scale(count).await);
                    world.sweep().await;
                }
                3 => world.fail().await,
                4 => drop(world.order(RolloutOrder::Undo(None)).await),
                5 => {
                    world.done().await;
                    world.sweep().await;
                }
                _ => match row.map(|row| row.state) {
                    None | Some(TaskState::Pending) if index < job.count => world.run(index).await,
                    Some(TaskState::Running) if draw(3) == 0 => world.settle(index, draw(3) == 0).await,
                    Some(TaskState::Running) if job.rollout.is_some() && draw(2) == 0 => {
                        world.resize(job.revision, &[index]).await;
                    }
                    Some(TaskState::Running) if job.rollout.is_some() => {
                        world.replace(job.revision, &[index]).await;
                    }
                    Some(TaskState::Stopping) => world.report(index, ReportPhase::Released).await,
                    _ => {}
                },
            }
        }
        world.change("stop", async |tx, changes| job_stop(tx, changes, JOB).await).await.unwrap();
        world
            .change("unwanted", async |tx, changes| task_unwanted_stop(tx, changes, JOB, None, 100).await)
            .await
            .unwrap();
        for index in 0..8 {
            if world.row(index).await.is_some_and(|row| row.state == TaskState::Stopping) {
                world.report(index, ReportPhase::Released).await;
            }
        }
        world.change("gone", async |tx, changes| job_tasks_gone(tx, changes, JOB).await).await.unwrap();
        assert_eq!(world.charged().await, (0, 0), "seed {seed}");
    }
}
