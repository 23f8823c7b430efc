//! What a rollout and a move wait for, and what they do not wait for.

use borough_model::Incarnation;
use borough_model::daemon::NodeFit;
use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause};
use borough_model::job::{
    JobKind, JobMoves, JobRow, JobSpec, RestartMode, RestartSpec, Rollout, RolloutFailure, UpdateSpec,
};
use borough_model::rollout::{AttemptFit, RolloutRules, RolloutStep, RolloutView};
use borough_model::task::machine::TaskRules;
use borough_model::task::{TaskRow, TaskState};

use crate::rollout::{DEADLINE_MS, begun, job, replaced, set, step, task};
use crate::sample::NOW;

const DEADLINE: i64 = DEADLINE_MS.cast_signed();

fn healthy(index: u32, version: u32) -> TaskRow {
    task(index, version, TaskState::Running, Some(NOW - 60_000))
}

/// A version that fails must not end task after task for good, and one that fails just before it has proved itself must
/// fail at last.
#[test]
fn while_a_rollout_is_open_no_failure_is_for_good_and_only_a_proven_attempt_is_a_recovery() {
    let (row, mut spec) = job(2, UpdateSpec::default());
    spec.restart = RestartSpec {
        mode: RestartMode::OnFailure,
        attempts_max: Some(1),
        reset_after_ms: 1,
        ..spec.restart
    };
    let rules =
        |spec: &JobSpec, version: u32, row: &JobRow| TaskRules::of_attempt(spec, version, row).restart;
    assert_eq!(rules(&spec, 1, &row), spec.restart);
    let open = begun(&row);
    let new = rules(&spec, 2, &open);
    assert_eq!((new.mode, new.attempts_max, new.reset_after_ms), (RestartMode::Always, None, DEADLINE_MS));
    let old = rules(&spec, 1, &open);
    assert_eq!((old.mode, old.attempts_max), (RestartMode::OnFailure, None));
    spec.restart.mode = RestartMode::Never;
    assert_eq!(rules(&spec, 1, &open).mode, RestartMode::OnFailure);
    let done = set(&open, open.rollout.as_deref().unwrap().done(0));
    assert_eq!(rules(&spec, 2, &done), spec.restart);
    let batch = JobSpec { kind: JobKind::Batch, ..spec };
    assert_eq!(rules(&batch, 2, &open), batch.restart);
}

#[test]
fn a_deadline_counts_only_while_somebody_looks() {
    let (row, spec) = job(1, UpdateSpec::default());
    let row = begun(&row);
    let rollout = row.rollout.as_deref().unwrap();
    let late = NOW + DEADLINE;
    let at = |watched_since_ms: i64, now_ms: i64| {
        let rules = RolloutRules::of_job(&spec, rollout, &row).watched_since(watched_since_ms);
        let mut view = RolloutView::default();
        view.visit(&task(0, 2, TaskState::Starting, None), AttemptFit::Fits, &rules, now_ms);
        view.step(rollout, &rules, now_ms)
    };
    assert!(matches!(at(0, late), RolloutStep::Fail(_)));
    assert_eq!(at(late - 10, late), RolloutStep::Wait { due_ms: Some(late - 10 + DEADLINE) });
    assert!(matches!(at(late - 10, late - 10 + DEADLINE), RolloutStep::Fail(_)));
}

/// A version that is taken back was never tried on a task without a node.
#[test]
fn a_way_back_waits_for_no_task_that_was_never_placed() {
    let (row, spec) = job(3, UpdateSpec { unavailable_max: Some(1), ..UpdateSpec::default() });
    let failed = begun(&row);
    let back = Rollout::revert(&failed, None, "controller", NOW);
    let back = set(&JobRow { spec_version: back.version, ..failed.clone() }, back);
    // Task 2 has no row.
    let of = |version| [healthy(0, version), healthy(1, version)];
    let waits = RolloutStep::Wait { due_ms: Some(NOW + DEADLINE) };
    assert_eq!(step(&failed, &spec, &of(1), NOW), waits, "it uses the budget");
    assert_eq!(step(&back, &spec, &of(1), NOW), waits, "also of a way back");
    assert_eq!(step(&failed, &spec, &of(failed.spec_version), NOW), waits);
    assert_eq!(step(&back, &spec, &of(back.spec_version), NOW), RolloutStep::Done { skipped: 0 });
    let waiting = TaskRow { incarnation: Incarnation(0), ..task(2, 0, TaskState::Pending, None) };
    let [first, second] = of(back.spec_version);
    assert_eq!(step(&back, &spec, &[first, second, waiting], NOW), RolloutStep::Done { skipped: 0 });
}

#[test]
fn an_attempt_of_a_daemon_job_stays_where_its_node_takes_no_other_one() {
    let fits = [AttemptFit::Stale, AttemptFit::Resizes, AttemptFit::Fits, AttemptFit::Adopts];
    let on = |node| fits.map(|fit| fit.on_node(node));
    assert_eq!(on(NodeFit::Served), fits);
    assert_eq!(on(NodeFit::Kept), [AttemptFit::Kept, AttemptFit::Kept, AttemptFit::Fits, AttemptFit::Adopts]);
    assert_eq!(
        on(NodeFit::TooSmall),
        [AttemptFit::Larger, AttemptFit::Larger, AttemptFit::Fits, AttemptFit::Adopts]
    );

    let (row, spec) = job(2, UpdateSpec::default());
    let row = begun(&row);
    let rollout = row.rollout.as_deref().unwrap();
    let at = |fit: AttemptFit, now_ms: i64| {
        let rules = RolloutRules::of_job(&spec, rollout, &row);
        let mut view = RolloutView::default();
        view.visit(&healthy(0, 1), fit, &rules, now_ms);
        view.visit(&healthy(1, 2), AttemptFit::Fits, &rules, now_ms);
        view.step(rollout, &rules, now_ms)
    };
    assert_eq!(at(AttemptFit::Kept, NOW), RolloutStep::Done { skipped: 1 });
    // Where the version does not fit, it cannot be rolled out.
    assert!(matches!(at(AttemptFit::Larger, NOW), RolloutStep::Wait { .. }));
    assert!(matches!(at(AttemptFit::Larger, NOW + DEADLINE), RolloutStep::Fail(_)));
}

/// Nothing stands in for the task that has to leave if what surges finds no node.
#[test]
fn a_move_waits_as_long_for_what_surges_as_a_rollout_would() {
    let (row, spec) = job(2, UpdateSpec { surge_max: Some(1), ..UpdateSpec::default() });
    let moves = Some(Box::new(JobMoves { surge: 1, ..JobMoves::default() }));
    let row = JobRow { count: 3, moves, changed_ms: NOW, ..row };
    let left = |surging: Option<TaskRow>, now_ms: i64| {
        let budget = DisruptionBudget::of(&spec, &row, DisruptionCause::Move);
        let tasks = [Some(healthy(0, 1)), Some(healthy(1, 1)), surging];
        BudgetUse::of_rows(&budget, tasks.iter().flatten(), now_ms).left(&budget, now_ms)
    };
    assert_eq!(left(None, NOW + DEADLINE - 1), 0);
    assert_eq!(left(None, NOW + DEADLINE), 1, "it was never placed");
    let starting = task(2, 1, TaskState::Starting, None);
    assert_eq!(left(Some(starting), NOW + DEADLINE), 0, "it has a node");
    assert_eq!(left(Some(healthy(2, 1)), NOW), 1);
}

/// A new attempt may have to be healthy for longer than the deadline. It counts as progress until it is over.
#[test]
fn an_attempt_that_proves_itself_is_progress_however_long_that_takes() {
    let (row, mut spec) = job(2, UpdateSpec::default());
    spec.update = Some(UpdateSpec { healthy_after_ms: 2 * DEADLINE_MS, ..UpdateSpec::default() });
    let row = begun(&row);
    let deadline_ms = i64::try_from(DEADLINE_MS).unwrap();
    let mut tasks =
        [task(0, 2, TaskState::Running, Some(NOW)), task(1, 1, TaskState::Running, Some(NOW - 60_000))];
    let due_ms = NOW + 2 * deadline_ms;
    for now_ms in [NOW + deadline_ms, due_ms - 1] {
        assert_eq!(step(&row, &spec, &tasks, now_ms), RolloutStep::Progress(now_ms));
        let recorded = set(&row, row.rollout.as_deref().unwrap().progressed(now_ms));
        assert_eq!(step(&recorded, &spec, &tasks, now_ms), RolloutStep::Wait { due_ms: Some(due_ms) });
    }
    assert_eq!(replaced(step(&row, &spec, &tasks, due_ms)), [1]);
    tasks[1] = task(1, 2, TaskState::Starting, None);
    let in_time = step(&row, &spec, &tasks, due_ms + deadline_ms - 1);
    assert_eq!(in_time, RolloutStep::Progress(due_ms));
    let late = RolloutFailure::NoProgress { deadline_ms: DEADLINE_MS, surge_unplaced: 0, memory_in_use: 0 };
    assert_eq!(step(&row, &spec, &tasks, due_ms + deadline_ms), RolloutStep::Fail(late));
}

/// An attempt may take the time that its own version gives it, also while only its helpers run.
#[test]
fn an_attempt_that_ends_has_the_time_of_its_own_version() {
    let (row, spec) = job(1, UpdateSpec::default());
    let row = begun(&row);
    let rollout = row.rollout.as_deref().unwrap();
    let rules = RolloutRules::of_job(&spec, rollout, &row);
    let fails = |state: TaskState, rules: RolloutRules, now_ms: i64| {
        let mut view = RolloutView::default();
        let ending = TaskRow { changed_ms: NOW, ..task(0, 1, state, None) };
        view.visit(&ending, AttemptFit::Stale, &rules, now_ms);
        matches!(view.step(rollout, &rules, now_ms), RolloutStep::Fail(_))
    };
    for state in [TaskState::Stopping, TaskState::Releasing] {
        assert!(!fails(state, rules, NOW + DEADLINE + 10_000), "{state:?}");
        let later = NOW + DEADLINE + 1_000_000;
        assert!(fails(state, rules, later), "{state:?}");
        let mut own = spec.clone();
        own.task.grace_ms = 3_600_000;
        assert!(!fails(state, rules.with_leaving(&own), later), "{state:?}");
    }
}
