//! The disruption budget: what uses it, and that no order of rollout steps and moves exceeds it or waits for ever.

use borough_model::disruption::{
    BudgetUse, DisruptionBudget, DisruptionCause, EvictionBudget, TaskPresence, attempts_within,
};
use borough_model::job::{
    JobKind, JobMoves, JobRow, JobSpec, PreemptionSpec, Rollout, RolloutState, UpdateSpec,
};
use borough_model::rollout::RolloutStep;
use borough_model::task::{EndReason, Exit, Health, StopReason, TaskRow, TaskState, Verdict};
use borough_model::{Incarnation, TaskId};
use proptest::prelude::*;

use crate::rollout::{HEALTHY_AFTER_MS, begun, begun_with_canaries, job, replaced, set, step, task};
use crate::sample::{NOW, spec};

const CAUSES: [DisruptionCause; 2] = [DisruptionCause::Rollout, DisruptionCause::Move];

fn healthy(index: u32, version: u32) -> TaskRow {
    task(index, version, TaskState::Running, Some(NOW - 60_000))
}

/// A task that waits after its second failure.
fn failing(index: u32, version: u32) -> TaskRow {
    TaskRow { failures: 2, not_before_ms: NOW, ..task(index, version, TaskState::Pending, None) }
}

fn left(spec: &JobSpec, row: &JobRow, cause: DisruptionCause, tasks: &[TaskRow]) -> u32 {
    let budget = DisruptionBudget::of(spec, row, cause);
    BudgetUse::of_rows(&budget, tasks, NOW).left(&budget, NOW)
}

fn move_left(spec: &JobSpec, row: &JobRow, tasks: &[TaskRow]) -> u32 {
    left(spec, row, DisruptionCause::Move, tasks)
}

#[test]
fn a_job_that_says_nothing_lets_one_task_be_away_for_a_rollout_and_a_quarter_for_moves() {
    let (row, mut spec) = job(12, UpdateSpec::default());
    let most = |spec: &JobSpec| CAUSES.map(|cause| DisruptionBudget::of(spec, &row, cause).away_max);
    let evicted = |spec: &JobSpec| EvictionBudget::of(spec).down_max(12);
    assert_eq!((most(&spec), evicted(&spec)), ([1, 3], None));
    spec.update = None;
    assert_eq!((most(&spec), evicted(&spec)), ([1, 3], None));
    spec.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    assert_eq!((most(&spec), evicted(&spec)), ([2, 2], Some(2)), "one bound for every cause");
    spec.update = Some(UpdateSpec { unavailable_percent_max: Some(7), ..UpdateSpec::default() });
    assert_eq!((most(&spec), evicted(&spec)), ([1, 1], Some(1)), "what rounds to none lets one be away");
    let batch = JobSpec { kind: JobKind::Batch, ..spec.clone() };
    assert_eq!(evicted(&batch), None, "it serves nobody");
    spec.preemption = Some(PreemptionSpec { down_max: Some(0), ..PreemptionSpec::default() });
    assert_eq!((most(&spec), evicted(&spec)), ([1, 1], Some(0)), "evictions may have a bound of their own");
}

#[test]
fn whatever_takes_a_task_away_uses_budget_and_one_that_keeps_failing_does_not() {
    let (row, spec) = job(4, UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    let all: Vec<TaskRow> = (0..4).map(|index| healthy(index, 1)).collect();
    let with = |first: TaskRow| {
        let mut tasks = all.clone();
        tasks[0] = first;
        CAUSES.map(|cause| left(&spec, &row, cause, &tasks))
    };
    assert_eq!(with(healthy(0, 1)), [2, 2]);
    for state in TaskState::ALL.into_iter().filter(|state| *state != TaskState::Dead) {
        assert_eq!(with(task(0, 1, state, None)), [1, 1], "{state:?}");
    }
    assert_eq!(with(task(0, 1, TaskState::Dead, None)), [2, 2], "nothing begins it again");
    assert_eq!(with(failing(0, 1)), [2, 2]);
    assert_eq!(with(TaskRow { failures: 1, ..failing(0, 1) }), [1, 1], "the next attempt may well serve");
    // No move has taken what was never placed, with a row and without.
    let never = TaskRow { incarnation: Incarnation(0), ..task(0, 0, TaskState::Pending, None) };
    assert_eq!(with(never), [1, 2]);
    let placed: Vec<u32> = CAUSES.map(|cause| left(&spec, &row, cause, &all[1..])).to_vec();
    assert_eq!(placed, [1, 2]);
}

#[test]
fn a_task_that_was_moved_or_lost_does_not_keep_failing() {
    let exit = |reason| {
        let (code, signal, message, node) = (None, None, String::new(), None);
        Some(Box::new(Exit {
            reason,
            code,
            signal,
            message,
            at_ms: NOW,
            incarnation: Incarnation(1),
            node,
            start_failure: None,
        }))
    };
    assert!(TaskRow { exit: exit(EndReason::Exited), ..failing(0, 1) }.keeps_failing());
    assert!(!TaskRow { exit: exit(EndReason::NodeLost), ..failing(0, 1) }.keeps_failing());
    assert!(!TaskRow { not_before_ms: 0, ..failing(0, 1) }.keeps_failing(), "it was moved");
    assert!(!TaskRow { state: TaskState::Lost, ..failing(0, 1) }.keeps_failing());
    let running = |health| TaskRow { state: TaskState::Running, health, ..failing(0, 1) };
    assert!(running(Health::Unknown).keeps_failing() && !running(Health::Healthy).keeps_failing());
    let stopping = |stop, healthy_ms| TaskRow {
        state: TaskState::Stopping,
        stop: Some(stop),
        healthy_ms,
        ..failing(0, 1)
    };
    assert!(stopping(StopReason::Drained, 0).keeps_failing(), "it was ended since it did not serve");
    assert!(!stopping(StopReason::Drained, NOW).keeps_failing(), "it served until it was moved");
    assert!(stopping(StopReason::Unhealthy, NOW).keeps_failing());
    let releasing =
        |stop| TaskRow { state: TaskState::Releasing, stop, verdict: Some(Verdict::Again), ..failing(0, 1) };
    assert!(releasing(None).keeps_failing() && !releasing(Some(StopReason::Drained)).keeps_failing());
}

/// Each task that moves begins with the version in force. If that version fails, moves would end all that serves.
#[test]
fn a_failing_task_uses_budget_unless_its_version_was_rolled_out() {
    let (row, spec) = job(4, UpdateSpec::default());
    let row = begun(&row);
    let mut tasks: Vec<TaskRow> = (0..4).map(|index| healthy(index, 1)).collect();
    tasks[0] = failing(0, 2);
    assert_eq!(move_left(&spec, &row, &tasks), 0);
    let rollout = row.rollout.clone().unwrap();
    for (state, left) in [(RolloutState::Paused, 0), (RolloutState::Failed, 0), (RolloutState::Done, 1)] {
        let over = set(&row, Rollout { state, ..*rollout.clone() });
        assert_eq!(move_left(&spec, &over, &tasks), left, "{state:?}");
    }
    // A newer version that supersedes it does not make it free.
    let newer = begun(&row);
    assert_eq!((newer.spec_version, move_left(&spec, &newer, &tasks)), (3, 0));
    tasks[0] = failing(0, 1);
    assert_eq!(move_left(&spec, &row, &tasks), 1, "the version before keeps failing");
    // A new attempt has to prove itself, for a move as for the rollout.
    let due_ms = NOW - HEALTHY_AFTER_MS;
    tasks[0] = task(0, 2, TaskState::Running, Some(due_ms + 1));
    assert_eq!(move_left(&spec, &row, &tasks), 0);
    tasks[0] = task(0, 2, TaskState::Running, Some(due_ms));
    assert_eq!(move_left(&spec, &row, &tasks), 1);
}

/// A rollout that is paused, or has failed, keeps its surge. If none of that can serve, moves go on without it.
#[test]
fn moves_do_not_wait_for_a_surge_that_keeps_failing() {
    let none = UpdateSpec { unavailable_max: Some(0), surge_max: Some(1), ..UpdateSpec::default() };
    let (row, spec) = job(1, none);
    let rolling = begun_with_canaries(&row, 0, 1);
    let paused = rolling.rollout.as_deref().unwrap().with_state(RolloutState::Paused, NOW).unwrap();
    let row = set(&rolling, paused);
    let with = |surging: TaskRow| move_left(&spec, &row, &[healthy(0, 1), surging]);
    // The task would begin with the version that fails. Once the rollout has failed, the one before is back.
    assert_eq!(move_left(&spec, &rolling, &[healthy(0, 1), failing(1, 2)]), 0, "the rollout ends by itself");
    assert_eq!(with(task(1, 2, TaskState::Starting, None)), 0, "it may serve soon");
    assert_eq!(with(healthy(1, 2)), 1, "it stands in");
    assert_eq!(with(failing(1, 2)), 1, "it never may");
    assert_eq!(with(task(1, 2, TaskState::Dead, None)), 1, "it never will");
}

/// A job that may miss none has a further task first, unless a rollout surges already or the quota has no room.
#[test]
fn a_job_that_may_miss_no_task_surges_before_one_is_moved() {
    let none = UpdateSpec { surge_max: Some(2), ..UpdateSpec::default() };
    let (row, spec) = job(4, none);
    let wanted = |spec: &JobSpec, row: &JobRow| {
        let budget = DisruptionBudget::of(spec, row, DisruptionCause::Move);
        (budget.away_max, budget.surge_wanted)
    };
    assert_eq!(wanted(&spec, &row), (0, 2));
    let moves = |moves| JobRow { moves: Some(Box::new(moves)), ..row.clone() };
    assert_eq!(wanted(&spec, &moves(JobMoves { surge_refused: true, ..JobMoves::default() })), (1, 0));
    let surges = JobRow { count: 5, ..moves(JobMoves { surge: 1, ..JobMoves::default() }) };
    assert_eq!((wanted(&spec, &surges), surges.owner_count()), ((0, 0), 4));
    assert_eq!(wanted(&spec, &begun(&row)), (1, 0), "a rollout without a surge");
    assert_eq!(wanted(&spec, &begun_with_canaries(&row, 0, 2)), (0, 0), "its surge serves");
    let some = UpdateSpec { unavailable_max: Some(1), ..none };
    assert_eq!(wanted(&JobSpec { update: Some(some), ..spec }, &row), (1, 0), "one may be away");
}

#[test]
fn an_attempt_that_is_not_healthy_may_end_whatever_is_away() {
    let (row, spec) = job(4, UpdateSpec { unavailable_max: Some(1), ..UpdateSpec::default() });
    let tasks = [
        task(0, 1, TaskState::Lost, None),
        task(1, 1, TaskState::Starting, None),
        healthy(2, 1),
        task(3, 1, TaskState::Running, None),
        // Beyond the count: it ends anyway.
        healthy(4, 1),
    ];
    let attempts: Vec<_> = tasks.iter().map(|row| (row.id, row.incarnation)).collect();
    let budget = DisruptionBudget::of(&spec, &row, DisruptionCause::Move);
    let ended = attempts_within(&budget, &tasks, &attempts[1..], NOW);
    let ended: Vec<u32> = ended.iter().map(|(task, _)| task.index).collect();
    assert_eq!(ended, [1, 3, 4]);
}

#[test]
fn a_gang_is_replaced_whole_and_moved_by_its_budget() {
    let mut gang = spec(JobKind::Service);
    (gang.count, gang.min_member) = (8, 4);
    let (row, _) = job(8, UpdateSpec::default());
    let budget = |cause| DisruptionBudget::of(&gang, &row, cause);
    assert!(budget(DisruptionCause::Rollout).is_unbounded);
    assert_eq!(budget(DisruptionCause::Move).away_max, 2);
}

/// A rollout may end so many healthy tasks in all. The others are skipped when nothing else is left to do.
#[test]
fn a_rollout_ends_no_more_healthy_tasks_than_its_limit_and_names_the_others() {
    let update = UpdateSpec { unavailable_max: Some(3), disruptions_max: Some(2), ..UpdateSpec::default() };
    let (row, spec) = job(5, update);
    let row = begun(&row);
    let healthy = |index, version| task(index, version, TaskState::Running, Some(NOW - 60_000));
    let mut tasks: Vec<TaskRow> = (0..5).map(|index| healthy(index, 1)).collect();
    // One that is not healthy is no disruption.
    tasks[4] = task(4, 1, TaskState::Starting, None);
    assert_eq!(replaced(step(&row, &spec, &tasks, NOW)), [4, 0, 1]);
    let ended = set(&row, row.rollout.as_deref().unwrap().stepped(2));
    for index in [0, 1, 4] {
        tasks[usize::try_from(index).unwrap()] = task(index, 1, TaskState::Stopping, None);
    }
    assert!(matches!(step(&ended, &spec, &tasks, NOW), RolloutStep::Wait { .. }), "three are on their way");
    for index in [0, 1, 4] {
        tasks[usize::try_from(index).unwrap()] = healthy(index, 2);
    }
    assert_eq!(step(&ended, &spec, &tasks, NOW), RolloutStep::Done { skipped: 2 });
    // One that begins again has the version by itself.
    tasks[2] = task(2, 1, TaskState::Pending, None);
    assert!(matches!(step(&ended, &spec, &tasks, NOW), RolloutStep::Wait { .. }));
    tasks[2] = healthy(2, 2);
    assert_eq!(step(&ended, &spec, &tasks, NOW), RolloutStep::Done { skipped: 1 });
    let done = ended.rollout.as_deref().unwrap().done(1);
    assert_eq!((done.state, done.skipped, done.disruptions), (RolloutState::Done, 1, 2));
    let next = Rollout::begin(&set(&ended, done), 0, "user/ada", NOW);
    assert_eq!((next.skipped, next.disruptions, next.stable), (0, 0, vec![1, 2]));
}

/// What happens to a job whose nodes are drained while a rollout goes on.
fn happens(task: &mut TaskRow, what: u8, now_ms: i64, version: u32) {
    task.state = match (task.state, what) {
        (TaskState::Stopping, 0..=6) => {
            task.not_before_ms = 0;
            TaskState::Pending
        }
        (TaskState::Pending, 0..=6) => {
            (task.spec_version, task.incarnation) = (version, Incarnation(task.incarnation.0 + 1));
            task.healthy_ms = 0;
            TaskState::Starting
        }
        (TaskState::Starting, 0..=6) => {
            (task.health, task.healthy_ms) = (Health::Healthy, now_ms);
            TaskState::Running
        }
        (TaskState::Running, 8) => TaskState::Lost,
        (TaskState::Running | TaskState::Starting, 9) => {
            (task.failures, task.not_before_ms) = (task.failures + 1, now_ms);
            TaskState::Pending
        }
        (TaskState::Lost, _) => TaskState::Pending,
        (state, _) => state,
    };
    if task.state != TaskState::Running {
        task.health = Health::Unknown;
    }
}

proptest! {
    /// A rollout's steps and the moves of drains come in any order, each decided by rows that may be old, and each
    /// looks again when it commits. Neither ends a healthy task beyond the budget, and a drain gets its turn.
    #[test]
    fn rollout_steps_and_moves_together_keep_to_the_budget(
        count in 1_u32..10,
        unavailable_max in proptest::option::of(1_u32..4),
        unavailable_percent_max in proptest::option::of(1_u32..100),
        rolls in any::<bool>(),
        events in proptest::collection::vec((0_usize..10, 0_u8..14), 0..300),
    ) {
        let update = UpdateSpec { unavailable_max, unavailable_percent_max, ..UpdateSpec::default() };
        let (row, spec) = job(count, update);
        let row = if rolls { begun(&row) } else { row };
        let mut tasks: Vec<TaskRow> = (0..count).map(|index| healthy(index, 1)).collect();
        let mut drained: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
        let settles = (0..800).map(|turn| (turn % 10, if turn % 8 == 7 { 10 } else { 0 }));
        let mut now_ms = NOW;
        for (index, what) in events.into_iter().chain(settles) {
            now_ms += 2_000;
            let cause = match what {
                10 | 11 => DisruptionCause::Move,
                12 | 13 if rolls => DisruptionCause::Rollout,
                _ => {
                    let at = index % tasks.len();
                    happens(&mut tasks[at], what, now_ms, row.spec_version);
                    continue;
                }
            };
            let budget = DisruptionBudget::of(&spec, &row, cause);
            let stale = |task: &TaskRow| task.spec_version < row.spec_version;
            let wanted = |task: &&TaskRow| match cause {
                DisruptionCause::Rollout => stale(task),
                _ => drained.contains(&task.id),
            };
            let placed = |task: &&TaskRow| matches!(task.state, TaskState::Starting | TaskState::Running);
            let attempts: Vec<_> =
                tasks.iter().filter(wanted).filter(placed).map(|task| (task.id, task.incarnation)).collect();
            let ended = attempts_within(&budget, &tasks, &attempts, now_ms);
            for (id, _) in ended {
                drained.retain(|known| *known != id);
                let task = &mut tasks[usize::try_from(id.index).unwrap()];
                let was_healthy = task.is_healthy();
                (task.state, task.health) = (TaskState::Stopping, Health::Unknown);
                let exempt = |task: &&TaskRow| budget.presence(task, now_ms) == TaskPresence::Exempt;
                let serve = tasks.iter().filter(|task| task.is_healthy()).count() + tasks.iter().filter(exempt).count();
                let least = usize::try_from(count.saturating_sub(budget.away_max)).unwrap();
                prop_assert!(!was_healthy || serve >= least, "{cause:?} ends {id} of {tasks:?}");
            }
        }
        prop_assert!(drained.is_empty(), "the drain waits for ever: {drained:?} of {tasks:?}");
    }
}
