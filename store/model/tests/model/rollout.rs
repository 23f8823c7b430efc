//! Rollouts: what they replace and when, over random changes of tasks.

use borough_model::job::{
    GoneVersions, JobChanges, JobEvent, JobKind, JobMoves, JobRow, JobSpec, OnFailure, Rollout,
    RolloutFailure, RolloutRefused, RolloutState, ScaleOrigin, TaskOverride, UpdateSpec, VersionOrigin,
    WantedSize, job_new, job_transition, stable_versions,
};
use borough_model::rollout::{
    AttemptFit, RolloutProgress, RolloutRules, RolloutStep, RolloutView, SpecDifference, TaskProgress,
};
use borough_model::task::{Health, TaskRow, TaskState};
use borough_model::{Incarnation, JobId, RequestId, TaskId};
use proptest::prelude::*;

use crate::sample::{NOW, spec};

/// A rollout with every field.
pub(crate) fn rollout_full() -> Rollout {
    Rollout {
        state: RolloutState::Failed,
        begun_ms: 1_700_000_000_002,
        clock_ms: 1_700_000_000_003,
        by: "user/ada".to_owned(),
        stable: vec![1, 2],
        reverts: Some(3),
        failure: Some(RolloutFailure::TaskFails { index: 7, failures: 3 }),
        version: 4,
        held: vec![2],
        steps: 5,
        surge: 1,
        canaries: 1,
        base: 2,
        canaries_healthy_ms: 1_700_000_000_005,
        disruptions: 6,
        skipped: 7,
        resizes: true,
        untried: true,
        progress_ms: 1_700_000_000_006,
        again_ms: 1_700_000_000_007,
        empty: true,
    }
}

/// A record of changes with every field.
pub(crate) fn changes_full() -> JobChanges {
    let (at_ms, by) = (1_700_000_000_004, "user/bob".to_owned());
    let before = WantedSize { count: 3, priority: 200 };
    let versions = vec![VersionOrigin { version: 1, revision: 1, at_ms, by, before: Some(before) }];
    let scaled = Some(ScaleOrigin { request: RequestId(9), before });
    let gone = Some(GoneVersions { below: 9, kept: vec![2, 7] });
    JobChanges { revision: 3, by: "user/ada".to_owned(), versions, scaled, gone }
}

/// What moves leave in a row, with every field.
pub(crate) fn moves_full() -> JobMoves {
    JobMoves { steps: 6, surge: 1, surge_refused: true }
}

const JOB: JobId = JobId(1);
pub(crate) const HEALTHY_AFTER_MS: i64 = 5_000;
pub(crate) const DEADLINE_MS: u64 = 60_000;

pub(crate) fn job(count: u32, update: UpdateSpec) -> (JobRow, JobSpec) {
    let healthy_after_ms = HEALTHY_AFTER_MS.unsigned_abs();
    let mut spec = spec(JobKind::Service);
    spec.count = count;
    spec.update = Some(UpdateSpec { healthy_after_ms, ..update });
    spec.progress_deadline_ms = Some(DEADLINE_MS);
    (job_new(JOB, &spec, RequestId(1), NOW), spec)
}

/// The row of a job whose rollout has just begun.
pub(crate) fn begun(row: &JobRow) -> JobRow {
    begun_with_surge(row, 0)
}

fn begun_with_surge(row: &JobRow, surge: u32) -> JobRow {
    begun_with_canaries(row, 0, surge)
}

pub(crate) fn begun_with_canaries(row: &JobRow, canaries: u32, surge: u32) -> JobRow {
    let rollout = Box::new(Rollout::begin(row, canaries, "user/ada", NOW).with_surge(surge));
    let row = job_transition(row, &JobEvent::SpecUpdated { rollout }, RequestId(2), NOW).unwrap().row;
    JobRow { count: row.count + surge, ..row }
}

pub(crate) fn set(row: &JobRow, rollout: Rollout) -> JobRow {
    job_transition(row, &JobEvent::RolloutSet { rollout: Box::new(rollout) }, RequestId(3), NOW).unwrap().row
}

pub(crate) fn task(index: u32, version: u32, is: TaskState, healthy_ms: Option<i64>) -> TaskRow {
    TaskRow {
        state: is,
        incarnation: Incarnation(1),
        spec_version: version,
        health: if healthy_ms.is_some() { Health::Healthy } else { Health::Unknown },
        healthy_ms: healthy_ms.unwrap_or(0),
        ..TaskRow::never_placed(TaskId { job: JOB, index })
    }
}

pub(crate) fn step(row: &JobRow, spec: &JobSpec, tasks: &[TaskRow], now_ms: i64) -> RolloutStep {
    let rollout = row.rollout.as_deref().unwrap();
    let rules = RolloutRules::of_job(spec, rollout, row);
    let mut view = RolloutView::default();
    for task in tasks {
        let is_earlier = task.spec_version < row.spec_version;
        let fit = if is_earlier { AttemptFit::Stale } else { AttemptFit::Fits };
        view.visit(task, fit, &rules, now_ms);
    }
    view.step(rollout, &rules, now_ms)
}

pub(crate) fn replaced(step: RolloutStep) -> Vec<u32> {
    match step {
        RolloutStep::Replace(attempts) => attempts.iter().map(|(task, _)| task.index).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_healthy_attempt_is_ended_only_while_the_job_allows_another_task_to_be_away() {
    let (row, spec) = job(4, UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    let row = begun(&row);
    let old = |index| task(index, 1, TaskState::Running, Some(NOW - 60_000));
    let mut tasks: Vec<TaskRow> = (0..4).map(old).collect();
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0, 1]);
    // A lost node counts too, and an attempt that serves nobody is ended whatever else is away.
    tasks[3] = task(3, 1, TaskState::Lost, None);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0]);
    tasks[2] = task(2, 1, TaskState::Starting, None);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [2]);
    // One that is over for good holds nothing up.
    tasks[2] = task(2, 1, TaskState::Dead, None);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0]);
}

/// What surges counts as available. It is not waited for at the end, and one beyond it is ending.
#[test]
fn a_task_may_be_away_for_each_that_surges() {
    let none = UpdateSpec { unavailable_max: Some(0), surge_max: Some(2), ..UpdateSpec::default() };
    let (row, spec) = job(3, none);
    let row = begun_with_surge(&row, spec.surge(3));
    assert_eq!((row.count, row.owner_count(), row.surge()), (5, 3, 2));
    let healthy = |index, version| task(index, version, TaskState::Running, Some(NOW - 60_000));
    let mut tasks: Vec<TaskRow> = (0..3).map(|index| healthy(index, 1)).collect();
    assert!(matches!(step(&row, &spec, &tasks, NOW), RolloutStep::Wait { .. }), "none may be away yet");
    tasks.push(healthy(3, 2));
    tasks.push(task(4, 2, TaskState::Starting, None));
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0], "one for the one that surges");
    tasks[4] = healthy(4, 2);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0, 1]);
    (tasks[0], tasks[1]) = (healthy(0, 2), task(1, 2, TaskState::Starting, None));
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [2]);
    (tasks[1], tasks[2]) = (healthy(1, 2), healthy(2, 2));
    tasks[4] = task(4, 2, TaskState::Lost, None);
    assert_eq!(
        step(&row, &spec, &tasks, NOW),
        RolloutStep::Done { skipped: 0 },
        "what surges is not waited for"
    );
    let done = set(&row, row.rollout.as_deref().unwrap().done(0));
    assert_eq!(done.rollout.unwrap().surge, 0);
}

/// The failure says that what was to surge had no node. Otherwise nothing would say why the rollout stood still.
#[test]
fn a_failure_for_lack_of_progress_names_the_tasks_that_had_no_node_to_surge_on() {
    let none = UpdateSpec { unavailable_max: Some(0), surge_max: Some(3), ..UpdateSpec::default() };
    let (row, spec) = job(3, none);
    let row = begun_with_surge(&row, 3);
    let mut tasks: Vec<TaskRow> =
        (0..3).map(|index| task(index, 1, TaskState::Running, Some(NOW - 60_000))).collect();
    // One starts, one was never placed and one has no row.
    tasks.extend([task(3, 2, TaskState::Starting, None), task(4, 0, TaskState::Pending, None)]);
    let end_ms = NOW + i64::try_from(DEADLINE_MS).unwrap();
    let failure = |tasks: &[TaskRow]| match step(&row, &spec, tasks, end_ms) {
        RolloutStep::Fail(failure) => failure.to_string(),
        other => panic!("{other:?}"),
    };
    let late = "no further task became healthy within 1m";
    assert_eq!(failure(&tasks), format!("{late}, and 2 surging tasks had no node"));
    tasks.push(task(5, 2, TaskState::Starting, None));
    assert_eq!(failure(&tasks), format!("{late}, and 1 surging task had no node"));
    // One that fails has had one, and backs off.
    tasks[4] = TaskRow { failures: 1, ..task(4, 2, TaskState::Pending, None) };
    assert_eq!(failure(&tasks), late);
}

#[test]
fn a_new_attempt_counts_when_it_has_been_healthy_for_long_enough() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let mut tasks =
        [task(0, 2, TaskState::Running, Some(NOW)), task(1, 1, TaskState::Running, Some(NOW - 60_000))];
    let due_ms = NOW + HEALTHY_AFTER_MS;
    assert_eq!(step(&row, &spec, &tasks, due_ms - 1), RolloutStep::Wait { due_ms: Some(due_ms) });
    assert_eq!(replaced(step(&row, &spec, &tasks, due_ms)), [1]);
    tasks[1] = task(1, 2, TaskState::Running, Some(due_ms));
    assert_eq!(step(&row, &spec, &tasks, due_ms + HEALTHY_AFTER_MS), RolloutStep::Done { skipped: 0 });
}

#[test]
fn a_rollout_fails_when_a_task_does_or_when_nothing_becomes_healthy() {
    let (row, spec) = job(2, UpdateSpec { failures_max: 1, ..UpdateSpec::default() });
    let row = begun(&row);
    let fails = |version, failures| {
        let first = TaskRow { failures, ..task(0, version, TaskState::Pending, None) };
        [first, task(1, 1, TaskState::Running, Some(NOW))]
    };
    let failure = RolloutFailure::TaskFails { index: 0, failures: 2 };
    assert_eq!(step(&row, &spec, &fails(2, 2), NOW), RolloutStep::Fail(failure));
    assert!(matches!(step(&row, &spec, &fails(2, 1), NOW), RolloutStep::Wait { .. }));
    assert!(matches!(step(&row, &spec, &fails(1, 9), NOW), RolloutStep::Wait { .. }), "the old one failed");
    let end_ms = NOW + i64::try_from(DEADLINE_MS).unwrap();
    let late = RolloutFailure::NoProgress { deadline_ms: DEADLINE_MS, surge_unplaced: 0, memory_in_use: 0 };
    assert_eq!(step(&row, &spec, &fails(2, 0), end_ms), RolloutStep::Fail(late));
    // Its time stands still while it is paused.
    let rollout = row.rollout.as_deref().unwrap();
    let paused = rollout.with_state(RolloutState::Paused, NOW + 1).unwrap();
    assert_eq!(
        step(&set(&row, paused.clone()), &spec, &fails(2, 0), end_ms),
        RolloutStep::Wait { due_ms: None }
    );
    let resumed = paused.with_state(RolloutState::Rolling, end_ms).unwrap();
    assert!(matches!(step(&set(&row, resumed), &spec, &fails(2, 0), end_ms), RolloutStep::Wait { .. }));
}

/// An attempt that was ended for a version that is taken back has the version before, as what goes back has.
#[test]
fn a_way_back_is_done_when_the_task_that_was_replaced_is_healthy_again() {
    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let rollout = row.rollout.as_deref().unwrap();
    let rules = RolloutRules::of(&spec, rollout, row.count, row.count);
    let step = |first: &TaskRow| {
        let mut view = RolloutView::default();
        for task in [first, &task(1, 1, TaskState::Running, Some(NOW - 60_000))] {
            view.visit(task, AttemptFit::Fits, &rules, NOW);
        }
        view.step(rollout, &rules, NOW)
    };
    let pending = task(0, 1, TaskState::Pending, None);
    assert!(matches!(step(&pending), RolloutStep::Wait { .. }));
    assert_eq!(step(&task(0, 1, TaskState::Running, Some(NOW - 60_000))), RolloutStep::Done { skipped: 0 });
    // One that fails by itself, whatever the change, is not waited for.
    assert_eq!(step(&TaskRow { failures: 1, ..pending }), RolloutStep::Done { skipped: 0 });
}

#[test]
fn the_tasks_of_a_gang_are_replaced_together() {
    let (row, mut spec) = job(3, UpdateSpec::default());
    spec.min_member = 3;
    let row = begun(&row);
    let tasks: Vec<TaskRow> = (0..3).map(|index| task(index, 1, TaskState::Running, Some(NOW))).collect();
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [0, 1, 2]);
}

#[test]
fn a_change_concerns_the_tasks_that_it_changes_and_no_attempt_of_batch_work() {
    let old = spec(JobKind::Service);
    let concerned = |change: &dyn Fn(&mut JobSpec), kind| {
        let old = JobSpec { kind, ..old.clone() };
        let mut new = old.clone();
        change(&mut new);
        let difference = SpecDifference::between(&old, &new);
        (0..3).filter(|index| difference.fit(*index) == AttemptFit::Stale).collect::<Vec<u32>>()
    };
    let command = |spec: &mut JobSpec| spec.task.command.push("x".to_owned());
    let own = TaskOverride { arguments: vec!["x".to_owned()], ..TaskOverride::default() };
    let of_one = |spec: &mut JobSpec| drop(spec.overrides.insert(1, own.clone()));
    let queue = |spec: &mut JobSpec| spec.queue = Some("research".to_owned());
    assert_eq!(concerned(&queue, JobKind::Service), [0_u32; 0]);
    let label = |spec: &mut JobSpec| drop(spec.labels.insert("a".to_owned(), "b".to_owned()));
    assert_eq!(concerned(&command, JobKind::Service), [0, 1, 2]);
    assert_eq!(concerned(&of_one, JobKind::Service), [1]);
    assert_eq!(concerned(&label, JobKind::Service), [0_u32; 0]);
    assert_eq!(concerned(&command, JobKind::Batch), [0_u32; 0]);
}

#[test]
fn the_progress_of_a_rollout_counts_the_tasks_that_it_concerns() {
    use AttemptFit::{Fits, Stale};
    use TaskState::{Dead, Pending, Running, Stopping};
    let progress = |kind, tasks: &[(u32, AttemptFit, TaskState, u32)]| {
        let mut progress = RolloutProgress::default();
        for &(version, fit, state, failures) in tasks {
            let is_healthy = state == Running;
            progress.visit(TaskProgress { version, fit, state, is_healthy, failures }, 3, kind);
        }
        (progress.concerned, progress.updated, progress.healthy)
    };
    let service = |tasks: &[_]| progress(JobKind::Service, tasks);
    let untouched = (1, Fits, Running, 0);
    assert_eq!(service(&[untouched, (2, Stale, Running, 0), untouched]), (1, 0, 0));
    assert_eq!(service(&[untouched, (2, Stale, Stopping, 0), (3, Fits, Running, 0)]), (2, 1, 1));
    assert_eq!(service(&[(3, Fits, Pending, 1), (3, Fits, Stopping, 0), (1, Fits, Dead, 0)]), (2, 1, 0));
    // A new task, and one that was ended for the version that is taken back. One that fails by itself is another thing.
    assert_eq!(service(&[(0, Fits, Pending, 0), (1, Fits, Pending, 0), (1, Fits, Pending, 2)]), (2, 0, 0));
    assert_eq!(progress(JobKind::Batch, &[untouched, (3, Fits, Running, 0), (1, Fits, Dead, 0)]), (2, 1, 1));
}

#[test]
fn a_change_of_a_person_is_told_from_a_step_of_a_rollout() {
    let (mut row, _) = job(2, UpdateSpec::default());
    row.change_record(None, "user/ada");
    let changed = |before: &JobRow, event: &JobEvent, by: &str| {
        let mut row = job_transition(before, event, RequestId(2), NOW + 5).unwrap().row;
        row.change_record(Some(before), by);
        row
    };
    let rollout = Box::new(Rollout::begin(&row, 0, "user/bob", NOW));
    let begun = changed(&row, &JobEvent::SpecUpdated { rollout: rollout.clone() }, "user/bob");
    let stepped =
        changed(&begun, &JobEvent::RolloutSet { rollout: Box::new(rollout.stepped(0)) }, "controller");
    assert_eq!((begun.revision, stepped.revision), (2, 3));
    assert!([2, 3].iter().all(|&seen| stepped.is_unchanged_since(seen)));
    assert!(!stepped.is_unchanged_since(1) && !stepped.is_unchanged_since(4));
    let origins: Vec<_> = stepped.changes.iter().flat_map(|changes| changes.versions.clone()).collect();
    let seen: Vec<_> = origins
        .iter()
        .map(|origin| (origin.version, origin.revision, origin.at_ms, origin.by.as_str()))
        .collect();
    assert_eq!(seen, [(1, 1, NOW, "user/ada"), (2, 2, NOW + 5, "user/bob")]);
    // A changed count makes no version, and is a change.
    let grown = changed(
        &stepped,
        &JobEvent::CountSet { count: 3, succeeded: 0, failed: 0, rollout: None, moves: None },
        "user/cid",
    );
    let changes = grown.changes.as_deref().unwrap();
    assert_eq!((changes.revision, changes.by.as_str(), changes.versions.len()), (4, "user/cid", 2));
    // A row of an earlier program has no record: then every revision counts.
    let old = JobRow { changes: None, ..stepped };
    assert!(old.is_unchanged_since(3) && !old.is_unchanged_since(2));
}

#[test]
fn a_version_counts_as_rolled_out_only_when_its_rollout_is_done() {
    let (row, _) = job(1, UpdateSpec::default());
    assert_eq!(stable_versions(&row), [1]);
    let first = begun(&row);
    let second = begun(&first);
    assert_eq!((second.spec_version, stable_versions(&second)), (3, vec![1]), "2 was superseded");
    let done = set(&second, second.rollout.as_deref().unwrap().done(0));
    assert_eq!(stable_versions(&done), [1, 3]);
    let over = done.rollout.as_deref().unwrap().with_state(RolloutState::Paused, NOW);
    assert_eq!(over, Err(RolloutRefused::Over(RolloutState::Done)));
    let failed = begun(&done);
    let failure = RolloutFailure::NoProgress { deadline_ms: 1, surge_unplaced: 0, memory_in_use: 0 };
    let back = Rollout::revert(&failed, Some(failure), "controller", NOW);
    assert_eq!((back.version, back.reverts, back.stable), (5, Some(4), vec![1, 3]));
    let mut long = row;
    for _ in 0..20 {
        long = begun(&long);
        long = set(&long, long.rollout.as_deref().unwrap().done(0));
    }
    assert_eq!(stable_versions(&long), (12..=21).collect::<Vec<_>>(), "the last ten");
}

/// A cell in which attempts become healthy, fail, and are placed again.
struct World {
    row: JobRow,
    spec: JobSpec,
    tasks: Vec<TaskRow>,
    now_ms: i64,
}

impl World {
    fn available(&self) -> usize {
        let serves = |task: &&TaskRow| task.state == TaskState::Running && task.health == Health::Healthy;
        self.tasks.iter().filter(serves).count()
    }

    /// Something happens to a task that the rollout does not decide.
    fn happens(&mut self, index: usize, what: u8) {
        let now_ms = self.now_ms;
        let version = self.row.version_of(u32::try_from(index).unwrap());
        let Some(task) = self.tasks.get_mut(index) else { return };
        task.state = match (task.state, what) {
            (TaskState::Stopping, 0..=7) => TaskState::Pending,
            (TaskState::Pending, 0..=7) => {
                (task.spec_version, task.incarnation) = (version, Incarnation(task.incarnation.0 + 1));
                TaskState::Starting
            }
            (TaskState::Starting, 0..=7) => {
                (task.health, task.healthy_ms) = (Health::Healthy, now_ms);
                TaskState::Running
            }
            (TaskState::Running, 9) => TaskState::Lost,
            (TaskState::Lost, _) => TaskState::Pending,
            (state, _) => state,
        };
        if task.state != TaskState::Running {
            task.health = Health::Unknown;
        }
    }
}

proptest! {
    /// It never ends a healthy attempt beyond what the job allows, and it ends with every task of the new version.
    #[test]
    fn a_rollout_keeps_its_bound_and_ends(
        count in 1_u32..12,
        unavailable_max in proptest::option::of(0_u32..4),
        unavailable_percent_max in proptest::option::of(1_u32..100),
        surge_max in proptest::option::of(0_u32..4),
        canaries in 0_u32..4,
        auto_promote in any::<bool>(),
        events in proptest::collection::vec((0_usize..16, 0_u8..10), 0..400),
    ) {
        let update = UpdateSpec {
            unavailable_max, unavailable_percent_max, surge_max, canaries, auto_promote, ..UpdateSpec::default()
        };
        let (row, spec) = job(count, update);
        let canaries = spec.canaries(count);
        // The surge of the rules comes at once here, and not with the promotion.
        let row = begun_with_canaries(&row, canaries, spec.surge(count).max(canaries));
        let old = |index| task(index, 1, TaskState::Running, Some(NOW - 60_000));
        let surging = (count..row.count).map(|index| task(index, 0, TaskState::Pending, None));
        let tasks = (0..count).map(old).chain(surging).collect();
        let mut world = World { row, spec, tasks, now_ms: NOW };
        let rules = RolloutRules::of(&world.spec, world.row.rollout.as_deref().unwrap(), count, count);
        let settles = (0..1_000).map(|turn| (turn % 16, if turn % 50 == 0 { 5 } else { 0 }));
        let mut done = false;
        for (index, what) in events.into_iter().chain(settles) {
            world.happens(index, what);
            let keeps = |task: &TaskRow| task.id.index >= count || task.spec_version == 1;
            prop_assert!(world.row.canary_base().is_none() || world.tasks.iter().all(keeps));
            world.now_ms += 1_000;
            if what == 5 && world.row.rollout.as_deref().unwrap().canaries_healthy_ms > 0 {
                world.row = set(&world.row, world.row.rollout.as_deref().unwrap().promoted(world.now_ms));
            }
            match step(&world.row, &world.spec, &world.tasks, world.now_ms) {
                RolloutStep::Replace(attempts) => {
                    prop_assert!(!attempts.is_empty());
                    for (task, _) in attempts {
                        let tries = world.row.canary_base().is_some();
                        prop_assert!(!tries || task.index >= count, "a canary phase replaces {task}");
                        let task = &mut world.tasks[usize::try_from(task.index).unwrap()];
                        prop_assert_eq!(task.spec_version, 1);
                        let healthy = task.health == Health::Healthy;
                        (task.state, task.health) = (TaskState::Stopping, Health::Unknown);
                        let least = usize::try_from(count - rules.unavailable_max.min(count)).unwrap();
                        prop_assert!(!healthy || tries || world.available() >= least);
                    }
                }
                RolloutStep::Adopt(attempts) => prop_assert!(false, "nothing runs alike: {attempts:?}"),
                RolloutStep::Resize(attempts) => prop_assert!(false, "nothing is to be resized: {attempts:?}"),
                RolloutStep::Retry(tasks) => prop_assert!(false, "nothing has failed: {tasks:?}"),
                RolloutStep::Progress(at_ms) => {
                    world.row = set(&world.row, world.row.rollout.as_deref().unwrap().progressed(at_ms));
                }
                RolloutStep::Surge => prop_assert!(false, "it surges from its begin"),
                RolloutStep::Done { .. } => {
                    let own = &world.tasks[..usize::try_from(count).unwrap()];
                    let serves = |task: &TaskRow| task.spec_version == 2 && task.health == Health::Healthy;
                    prop_assert!(own.iter().all(serves), "{own:?}");
                    done = true;
                    break;
                }
                RolloutStep::Wait { due_ms: None } => {
                    prop_assert!(world.row.rollout.as_deref().unwrap().canaries_healthy_ms > 0);
                }
                RolloutStep::Wait { due_ms } => prop_assert!(due_ms.is_some_and(|due_ms| due_ms > world.now_ms)),
                RolloutStep::Canaries(health) => {
                    prop_assert!(!auto_promote);
                    let rollout = world.row.rollout.as_deref().unwrap().with_canaries(health, world.now_ms);
                    world.row = set(&world.row, rollout);
                }
                RolloutStep::Promote => {
                    prop_assert!(auto_promote);
                    world.row = set(&world.row, world.row.rollout.as_deref().unwrap().promoted(world.now_ms));
                }
                RolloutStep::Fail(failure) => {
                    let is_late = matches!(failure, RolloutFailure::NoProgress { deadline_ms: DEADLINE_MS, .. });
                    prop_assert!(is_late, "no task fails here: {failure}");
                    done = true;
                    break;
                }
            }
        }
        prop_assert!(done, "it neither ended nor failed");
        prop_assert_eq!(rules.on_failure, OnFailure::Revert);
    }
}
