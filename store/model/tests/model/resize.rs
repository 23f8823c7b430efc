//! Which changes reach running attempts in place, and what a rollout does about each.

use borough_model::job::{JobKind, JobSpec, ResizeMode, TaskOverride, UpdateSpec};
use borough_model::node::Within;
use borough_model::resource::{Dimension, Resources};
use borough_model::rollout::{AttemptFit, RolloutRules, RolloutStep, RolloutView, SpecDifference};
use borough_model::task::machine::task_transition;
use borough_model::task::{
    Health, RESIZE_DUE_MS, RESIZE_RETRY_MS, Resize, ResizeNext, ResizeRefused, ResizeWish, TaskEvent,
    TaskRow, resize_next,
};
use borough_model::{JobRow, TaskState, resize::RESIZED, resource::fits_in};
use proptest::prelude::*;

use crate::rollout::{begun, job, replaced, set, task};
use crate::sample::{NODE, NOW, attempt, resize_ordered, row_from, running, spec};

fn fit(old: &JobSpec, new: &JobSpec, index: u32) -> AttemptFit {
    SpecDifference::between(old, new).fit(index)
}

/// `spec` with another amount in one dimension.
fn with(spec: &JobSpec, dimension: &Dimension, amount: u64) -> JobSpec {
    let mut changed = spec.clone();
    changed.task.resources.amount_set(dimension, amount);
    changed
}

#[test]
fn amounts_that_a_node_changes_in_place_are_resized_and_all_else_restarts() {
    let old = spec(JobKind::Service);
    for dimension in RESIZED {
        assert_eq!(fit(&old, &with(&old, &dimension, 77 << 20), 0), AttemptFit::Resizes, "{dimension}");
    }
    for dimension in [Dimension::Disk, Dimension::Device("gpu".to_owned())] {
        assert_eq!(fit(&old, &with(&old, &dimension, 77 << 20), 0), AttemptFit::Stale, "{dimension}");
    }
    let wider = with(&old, &Dimension::Memory, 1 << 30);
    let mut command = wider.clone();
    command.task.command.push("--more".to_owned());
    assert_eq!(fit(&old, &command, 0), AttemptFit::Stale, "what it runs differs too");
    let labelled = JobSpec { labels: [("a".to_owned(), "b".to_owned())].into(), ..wider.clone() };
    assert_eq!(fit(&old, &labelled, 0), AttemptFit::Resizes, "no task sees a label");
    let restarts = Some(UpdateSpec { resize: ResizeMode::Restart, ..UpdateSpec::default() });
    assert_eq!(fit(&old, &JobSpec { update: restarts, ..wider.clone() }, 0), AttemptFit::Stale);
    assert_eq!(fit(&JobSpec { update: restarts, ..old.clone() }, &wider, 0), AttemptFit::Resizes);
    let (mut within, mut wider_within) = (old.clone(), wider.clone());
    (within.task.within, wider_within.task.within) = (Some(Within::OneSocket), Some(Within::OneSocket));
    assert_eq!(fit(&within, &wider_within, 0), AttemptFit::Stale, "its domain was chosen by its amounts");
    let gang = |spec: &JobSpec| JobSpec { min_member: 2, count: 2, ..spec.clone() };
    assert_eq!(fit(&gang(&old), &gang(&wider), 0), AttemptFit::Stale, "its members are replaced together");
    let batch = |spec: &JobSpec| JobSpec { kind: JobKind::Batch, ..spec.clone() };
    assert_eq!(fit(&batch(&old), &batch(&wider), 0), AttemptFit::Fits, "its attempts go on");
    assert_eq!(fit(&old, &old, 0), AttemptFit::Fits);
}

#[test]
fn an_override_decides_for_its_task() {
    let old = spec(JobKind::Service);
    let own = |spec: &JobSpec, own: TaskOverride| {
        let mut changed = spec.clone();
        changed.overrides.insert(1, own);
        changed
    };
    let cpu = |cpu_millis| Some(Resources { cpu_millis, ..old.task.resources.clone() });
    let amounts = |millis| TaskOverride { resources: cpu(millis), ..TaskOverride::default() };
    let new = own(&old, amounts(700));
    assert_eq!([0, 1].map(|index| fit(&old, &new, index)), [AttemptFit::Fits, AttemptFit::Resizes]);
    let argument = TaskOverride { arguments: vec!["x".to_owned()], ..amounts(700) };
    assert_eq!(fit(&old, &own(&old, argument.clone()), 1), AttemptFit::Stale);
    // The amounts of the job change, and the task keeps its own: it runs as before, and only gets the version.
    let wider = with(&old, &Dimension::Cpu, 900);
    let (before, after) = (own(&old, argument.clone()), own(&wider, argument));
    assert_eq!([0, 1].map(|index| fit(&before, &after, index)), [AttemptFit::Resizes, AttemptFit::Adopts]);
}

fn next(row: &TaskRow, now_ms: i64) -> Option<ResizeNext> {
    resize_next(row, ResizeWish::Wanted, 2, now_ms)
}

#[test]
fn a_resize_waits_for_its_agent_and_for_memory_and_replaces_what_has_no_room() {
    let row = running(Health::Healthy);
    assert_eq!(
        (next(&row, NOW), resize_next(&row, ResizeWish::None, 2, NOW)),
        (Some(ResizeNext::Order), None)
    );
    let ordered = row_from(row.clone(), &[resize_ordered(1, 900, None)]);
    let due_ms = NOW + RESIZE_DUE_MS;
    assert_eq!(next(&ordered, due_ms - 1), Some(ResizeNext::Wait { due_ms }));
    assert_eq!(next(&ordered, due_ms), Some(ResizeNext::Replace), "its agent does not know the order");
    assert_eq!(
        resize_next(&ordered, ResizeWish::None, 3, NOW),
        Some(ResizeNext::Wait { due_ms }),
        "also if nobody wants it any more: its node may have applied it"
    );
    let no_room = ResizeRefused::NoRoom { missing: "cpu: 1 needed, 0 free".to_owned() };
    let refused = row_from(row.clone(), &[resize_ordered(1, 900, Some(no_room))]);
    assert_eq!(next(&refused, NOW), Some(ResizeNext::Replace));
    assert_eq!(
        resize_next(&refused, ResizeWish::Wanted, 3, NOW),
        Some(ResizeNext::Order),
        "a later version is tried"
    );
    assert_eq!(refused.charge, row.charge, "what was refused is not charged");
    let in_use = Some(ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 });
    let order = ordered.resize_ordered().unwrap().order;
    let settled = TaskEvent::ResizeSettled { attempt: attempt(1), order, refused: in_use };
    let kept = row_from(ordered.clone(), &[settled]);
    assert_eq!((&kept.charge, kept.spec_version), (&row.charge, row.spec_version), "it runs as before");
    let due_ms = NOW + RESIZE_RETRY_MS;
    assert_eq!(next(&kept, due_ms - 1), Some(ResizeNext::Wait { due_ms }), "it does not restart");
    assert_eq!(next(&kept, due_ms), Some(ResizeNext::Order), "its use may have fallen");
    let settled = TaskEvent::ResizeSettled { attempt: attempt(1), order, refused: None };
    let resized = row_from(ordered, &[settled]);
    assert_eq!((resized.spec_version, resized.charge.resources.cpu_millis), (2, 900));
    assert!(resized.resize.is_none() && resized.is_healthy());
}

/// The step for tasks of which those in `resized` differ in amounts only.
fn step(row: &JobRow, spec: &JobSpec, tasks: &[TaskRow], resized: &[u32], now_ms: i64) -> RolloutStep {
    let rollout = row.rollout.as_deref().unwrap();
    let rules = RolloutRules::of_job(spec, rollout, row);
    let mut view = RolloutView::default();
    for task in tasks {
        let fit = if task.spec_version == row.spec_version {
            AttemptFit::Fits
        } else if resized.contains(&task.id.index) {
            AttemptFit::Resizes
        } else {
            AttemptFit::Stale
        };
        view.visit(task, fit, &rules, now_ms);
    }
    view.step(rollout, &rules, now_ms)
}

fn resized(step: &RolloutStep) -> Vec<u32> {
    let RolloutStep::Resize(attempts) = step else { panic!("{step:?}") };
    attempts.iter().map(|(task, _)| task.index).collect()
}

#[test]
fn a_rollout_resizes_what_it_can_without_budget_and_is_done_when_that_is_in_force() {
    let (row, spec) = job(3, UpdateSpec { disruptions_max: Some(1), ..UpdateSpec::default() });
    let row = begun(&row);
    let running = |index| TaskRow {
        node: Some(NODE),
        pid: Some(1),
        ..task(index, 1, TaskState::Running, Some(NOW - 60_000))
    };
    let mut tasks: Vec<TaskRow> = (0..3).map(running).collect();
    let both = |tasks: &[TaskRow], now_ms| step(&row, &spec, tasks, &[0, 1], now_ms);
    assert_eq!(resized(&both(&tasks, NOW)), [0], "one batch after the other");
    for task in &mut tasks[..2] {
        task.resize = row_from(running(0), &[resize_ordered(1, 900, None)]).resize;
    }
    // They serve meanwhile, so another one may be away.
    assert_eq!(replaced(both(&tasks, NOW)), [2]);
    tasks[2] = task(2, 2, TaskState::Running, Some(NOW - 60_000));
    let wait = RolloutStep::Wait { due_ms: Some(NOW + RESIZE_DUE_MS) };
    assert_eq!(both(&tasks, NOW), wait, "it is not done before they are in force");
    let refusal = |refused| {
        tasks[0].resize.clone().map(|resize| Box::new(Resize { refused: Some(refused), ..*resize }))
    };
    let (no_room, in_use) = (
        refusal(ResizeRefused::NoRoom { missing: "cpu".to_owned() }),
        refusal(ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 }),
    );
    for index in [0, 1] {
        tasks[index] = task(u32::try_from(index).unwrap(), 2, TaskState::Running, Some(NOW - 60_000));
    }
    assert_eq!(both(&tasks, NOW), RolloutStep::Done { skipped: 0 });
    // A version that is taken back while an order is on its way: nobody knows what is in force.
    tasks[0].resize = row_from(running(0), &[resize_ordered(1, 900, None)]).resize;
    assert_eq!(both(&tasks, NOW), wait);
    // One without room is replaced within the budget. One that uses its memory is not: it waits.
    tasks[0] = TaskRow { resize: no_room, ..running(0) };
    assert_eq!(replaced(both(&tasks, NOW)), [0]);
    tasks[0] = TaskRow { resize: in_use, ..running(0) };
    assert_eq!(both(&tasks, NOW), RolloutStep::Wait { due_ms: Some(NOW + RESIZE_RETRY_MS) });
    assert_eq!(resized(&both(&tasks, NOW + RESIZE_RETRY_MS)), [0]);
}

/// Memory that stays in use has its order repeated for ever, and the rollout must reach its deadline all the same.
#[test]
fn an_order_that_repeats_a_refused_one_is_no_progress_to_keep() {
    let (row, spec) = job(1, UpdateSpec::default());
    let row = begun(&row);
    let at_ms = NOW + 120_000;
    let after = |row: &TaskRow, event: &TaskEvent| task_transition(row, event, at_ms).unwrap().row;
    let ordered = |from: &TaskRow| after(from, &resize_ordered(1, 900, None));
    let first = ordered(&running(Health::Healthy));
    let next = |task: &TaskRow| step(&row, &spec, std::slice::from_ref(task), &[0], at_ms);
    assert_eq!(next(&first), RolloutStep::Progress(at_ms));
    let in_use = Some(ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 });
    let order = first.resize_ordered().unwrap().order;
    let settled = TaskEvent::ResizeSettled { attempt: attempt(1), order, refused: in_use };
    let again = ordered(&after(&first, &settled));
    assert!(again.resize_ordered().unwrap().again);
    assert!(matches!(next(&again), RolloutStep::Wait { .. }), "{:?}", next(&again));
}

/// The first tasks prove the new amounts. One that fails with them holds the others up.
#[test]
fn resizes_are_ordered_in_batches_and_a_failure_ends_them() {
    let (row, spec) = job(40, UpdateSpec::default());
    let row = begun(&row);
    let all: Vec<u32> = (0..40).collect();
    let old = |index| task(index, 1, TaskState::Running, Some(NOW - 60_000));
    let new = |index| task(index, 2, TaskState::Running, Some(NOW - 60_000));
    let mut tasks: Vec<TaskRow> = all.iter().map(|index| old(*index)).collect();
    let next = |tasks: &[TaskRow]| step(&row, &spec, tasks, &all, NOW);
    assert_eq!(resized(&next(&tasks)), [0, 1, 2, 3], "a tenth of them");
    let order = row_from(running(Health::Healthy), &[resize_ordered(1, 900, None)]).resize;
    for task in &mut tasks[..4] {
        task.resize.clone_from(&order);
    }
    assert!(matches!(next(&tasks), RolloutStep::Wait { .. }), "as many are on their way as may be");
    (tasks[0], tasks[1]) = (new(0), new(1));
    assert_eq!(resized(&next(&tasks)), [4, 5]);
    tasks[0] = TaskRow { failures: 1, ..task(0, 2, TaskState::Pending, None) };
    assert!(matches!(next(&tasks), RolloutStep::Wait { .. }), "nobody else gets what it fails with");
}

/// Nothing surges while every attempt goes on. If one has to be replaced after all, others serve for it first.
#[test]
fn a_rollout_that_resizes_all_surges_only_when_it_has_to_replace_a_healthy_task() {
    let update = UpdateSpec { unavailable_max: Some(0), surge_max: Some(1), ..UpdateSpec::default() };
    let (row, spec) = job(3, update);
    let row = begun(&row);
    let row = set(&row, row.rollout.as_deref().unwrap().clone().resizing());
    let mut tasks: Vec<TaskRow> =
        (0..3).map(|index| task(index, 1, TaskState::Running, Some(NOW - 60_000))).collect();
    assert_eq!(resized(&step(&row, &spec, &tasks, &[0, 1, 2], NOW)), [0]);
    tasks[0] = task(0, 2, TaskState::Running, Some(NOW - 60_000));
    tasks[1] = task(1, 2, TaskState::Running, Some(NOW - 60_000));
    assert_eq!(step(&row, &spec, &tasks, &[], NOW), RolloutStep::Surge, "its node has no room");
    let surging = set(&row, row.rollout.as_deref().unwrap().surging());
    assert_eq!(
        replaced(step(&surging, &spec, &tasks, &[], NOW)),
        [2],
        "no quota for a further task: one may be away"
    );
}

proptest! {
    /// Whatever is ordered, and whatever the agent answers: the charge covers what may be in force.
    #[test]
    fn the_charge_is_the_most_of_what_is_granted_and_in_force(
        amounts in proptest::collection::vec((1..2_000_u64, any::<bool>()), 1..8),
    ) {
        let mut row = running(Health::Healthy);
        let mut in_force = row.charge.resources.clone();
        for (cpu_millis, is_applied) in amounts {
            let granted = Resources { cpu_millis, memory_bytes: (3_000 - cpu_millis) << 20, ..in_force.clone() };
            let TaskEvent::ResizeOrdered { attempt, mut order } = resize_ordered(1, 1, None) else { unreachable!() };
            (order.granted, order.in_force) = (granted.clone(), in_force.clone());
            row = row_from(row, &[TaskEvent::ResizeOrdered { attempt, order }]);
            prop_assert!(fits_in(&granted, &row.charge.resources) && fits_in(&in_force, &row.charge.resources));
            let order = row.resize_ordered().unwrap().order;
            let refused = (!is_applied).then(|| ResizeRefused::Failed { message: "no".to_owned() });
            row = row_from(row, &[TaskEvent::ResizeSettled { attempt, order, refused }]);
            in_force = if is_applied { granted } else { in_force };
            prop_assert_eq!(&row.charge.resources, &in_force, "one of them is confirmed");
            // An old answer changes nothing.
            let late = TaskEvent::ResizeSettled { attempt, order, refused: None };
            prop_assert_eq!(&row_from(row.clone(), &[late]), &row);
        }
    }
}

/// A resize with everything that a row stores of one.
pub(crate) fn resize_full(resources: Resources) -> Resize {
    Resize {
        order: 11,
        version: 4,
        granted: Resources { cpu_millis: 700, ..resources.clone() },
        in_force: resources,
        at_ms: 1_700_000_000_004,
        refused: Some(ResizeRefused::MemoryInUse { used_bytes: 65 << 20, asked_bytes: 60 << 20 }),
        again: true,
    }
}

/// Each refusal.
pub(crate) fn refusals() -> Vec<ResizeRefused> {
    vec![
        ResizeRefused::NoRoom { missing: "cpu".to_owned() },
        ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 },
        ResizeRefused::Failed { message: "no".to_owned() },
    ]
}
