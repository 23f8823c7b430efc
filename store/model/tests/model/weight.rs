//! Weights change in place: which attempts adopt a version, and what its rollout does with them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use borough_model::job::{
    GangSpec, JobKind, JobRow, JobSpec, ResizeMode, Role, Rollout, TaskOverride, UpdateSpec, fields_fixed,
};
use borough_model::rollout::{
    AttemptFit, AttemptFits, REPLACED_MAX, RolloutBegin, RolloutRules, RolloutStep, RolloutView,
    SpecDifference,
};
use borough_model::task::{Health, TaskEvent, TaskRow, TaskState};
use borough_model::{Name, resource::Dimension};
use proptest::prelude::*;

use crate::rollout::{begun, job, set, task};
use crate::sample::{NODE, NOW, attempt, row_from, running, spec};

fn weighing(weight: u32) -> TaskOverride {
    TaskOverride { weight: Some(weight), ..TaskOverride::default() }
}

fn with_weight(spec: &JobSpec, weight: u32) -> JobSpec {
    let mut changed = spec.clone();
    changed.task.weight = weight;
    changed
}

fn fit(old: &JobSpec, new: &JobSpec, index: u32) -> AttemptFit {
    SpecDifference::between(old, new).fit(index)
}

#[test]
fn an_attempt_adopts_another_weight_and_restarts_for_all_else() {
    let old = spec(JobKind::Service);
    let new = with_weight(&old, 9);
    assert_eq!(fit(&old, &new, 0), AttemptFit::Adopts);
    let labelled = JobSpec { labels: [("a".to_owned(), "b".to_owned())].into(), ..new.clone() };
    assert_eq!(fit(&old, &labelled, 0), AttemptFit::Adopts, "no task sees a label");
    let batch = |spec: &JobSpec| JobSpec { kind: JobKind::Batch, ..spec.clone() };
    assert_eq!(fit(&batch(&old), &batch(&new), 0), AttemptFit::Adopts);
    let gang = |spec: &JobSpec| JobSpec { min_member: 2, count: 2, ..spec.clone() };
    assert_eq!(fit(&gang(&old), &gang(&new), 0), AttemptFit::Adopts, "its members stay together");
    let restarts = Some(UpdateSpec { resize: ResizeMode::Restart, ..UpdateSpec::default() });
    let restarting = |spec: &JobSpec| JobSpec { update: restarts, ..spec.clone() };
    assert_eq!(fit(&restarting(&old), &restarting(&new), 0), AttemptFit::Adopts);
    let mut wider = new.clone();
    wider.task.resources.amount_set(&Dimension::Memory, 77 << 20);
    assert_eq!(fit(&old, &wider, 0), AttemptFit::Resizes, "the weight comes with the amounts");
    let mut graceful = new;
    graceful.task.grace_ms += 1_000;
    assert_eq!(fit(&old, &graceful, 0), AttemptFit::Stale);
    assert_eq!(fit(&batch(&old), &batch(&graceful), 0), AttemptFit::Fits, "attempts of batch work go on");
}

#[test]
fn overrides_and_roles_have_weights_of_their_own() {
    let old = spec(JobKind::Service);
    let mut own = old.clone();
    own.overrides.insert(1, weighing(50));
    assert_eq!([0, 1].map(|index| fit(&old, &own, index)), [AttemptFit::Fits, AttemptFit::Adopts]);
    let mut argued = own.clone();
    argued.overrides.entry(1).or_default().arguments.push("x".to_owned());
    assert_eq!(fit(&own, &argued, 1), AttemptFit::Stale);

    let role = |name: &str, weight| Role {
        name: Name::new(name).unwrap(),
        count: 2,
        min_member: 0,
        task: weighing(weight),
    };
    let roles = |first, second| {
        let roles = vec![role("driver", first), role("worker", second)];
        JobSpec { count: 4, gang: Some(GangSpec { roles, ..GangSpec::default() }), ..old.clone() }
    };
    let (before, after) = (roles(1, 2), roles(1, 7));
    assert_eq!([0, 2, 3].map(|index| fit(&before, &after, index)), [AttemptFit::Adopts; 3]);
    assert_eq!([0, 3].map(|index| after.weight_for(index)), [1, 7]);
    assert_eq!(fields_fixed(&before, &after), [], "a running job takes it");
    let mut more = after;
    more.gang.as_mut().unwrap().roles[1].task.arguments.push("x".to_owned());
    assert_eq!(fit(&before, &more, 3), AttemptFit::Stale);
    assert!(!fields_fixed(&before, &more).is_empty());
}

#[test]
fn neither_canaries_nor_a_surge_wait_for_a_weight() {
    let update = UpdateSpec { canaries: 1, surge_max: Some(2), ..UpdateSpec::default() };
    let (row, old) = job(3, update);
    let new = with_weight(&old, 9);
    let begin = RolloutBegin::of(&row, &old, &new, 3);
    assert_eq!(begin, RolloutBegin { canaries: 0, in_place: true });
    assert_eq!(begin.surge(&new, 3), 0);
    let mut other = new.clone();
    other.task.command.push("x".to_owned());
    let begin = RolloutBegin::of(&row, &old, &other, 3);
    assert_eq!((begin, begin.surge(&other, 3)), (RolloutBegin { canaries: 1, in_place: false }, 1));
    // A way back has none either, and no canaries.
    assert_eq!(RolloutBegin::of_way_back(&row, &new, &old).surge(&old, 3), 0);
    assert_eq!(RolloutBegin::of_way_back(&row, &other, &old).surge(&old, 3), 2);
    // While another rollout is under way, some attempts may be of a version that nobody has compared.
    let begin = RolloutBegin::of(&begun(&row), &old, &new, 3);
    assert_eq!(begin, RolloutBegin { canaries: 1, in_place: false });
}

#[test]
fn a_running_attempt_adopts_a_version_once_and_stays_as_it_is() {
    let adopt = |version| TaskEvent::VersionAdopted { attempt: attempt(1), version };
    let failing = TaskRow { failures: 3, ..running(Health::Healthy) };
    let before = TaskRow { spec_version: 1, ..failing };
    let after = row_from(before.clone(), &[adopt(2)]);
    let same = TaskRow {
        spec_version: 2,
        failing_since: NonZeroU32::new(1),
        revision: before.revision + 1,
        changed_ms: after.changed_ms,
        ..before
    };
    assert_eq!(after, same, "its process runs as before, so its failures go on");
    assert_eq!(row_from(after.clone(), &[adopt(2), adopt(1)]), after);
}

/// The step by the specs of two versions, of tasks that have one of them.
fn step(row: &JobRow, specs: &BTreeMap<u32, JobSpec>, tasks: &[TaskRow]) -> RolloutStep {
    let in_force = &specs[&row.spec_version];
    let rollout: &Rollout = row.rollout.as_deref().unwrap();
    let rules = RolloutRules::of_job(in_force, rollout, row);
    let mut fits = AttemptFits::new(row.spec_version, in_force.clone().into());
    let mut view = RolloutView::default();
    for task in tasks {
        let fit = fits.fit(task, |version| specs.get(&version).cloned().map(Into::into));
        view.visit(task, fit, &rules, NOW);
    }
    view.step(rollout, &rules, NOW)
}

fn adopting(step: &RolloutStep) -> Vec<usize> {
    let RolloutStep::Adopt(attempts) = step else { panic!("{step:?}") };
    attempts.iter().map(|(task, _)| usize::try_from(task.index).unwrap()).collect()
}

#[test]
fn a_rollout_of_weights_goes_in_batches_and_waits_for_what_does_not_run_yet() {
    let count = u32::try_from(REPLACED_MAX).unwrap() + 10;
    let (row, old) = job(count, UpdateSpec { disruptions_max: Some(1), ..UpdateSpec::default() });
    let row = set(&begun(&row), begun(&row).rollout.as_deref().unwrap().clone().resizing());
    let specs = BTreeMap::from([(1, old.clone()), (2, with_weight(&old, 9))]);
    let long = Some(NOW - 60_000);
    let old = |index| TaskRow { node: Some(NODE), ..task(index, 1, TaskState::Running, long) };
    let mut tasks: Vec<TaskRow> = (0..count).map(old).collect();
    tasks[0].state = TaskState::Starting;
    tasks[1].health = Health::Unknown;
    for batch in [REPLACED_MAX, 9] {
        let adopted = adopting(&step(&row, &specs, &tasks));
        assert_eq!(adopted.len(), batch);
        for index in adopted {
            tasks[index].spec_version = 2;
        }
    }
    assert!(matches!(step(&row, &specs, &tasks), RolloutStep::Wait { .. }), "task 0 starts");
    tasks[0].state = TaskState::Running;
    assert_eq!(adopting(&step(&row, &specs, &tasks)), [0]);
    tasks[0].spec_version = 2;
    assert!(matches!(step(&row, &specs, &tasks), RolloutStep::Wait { .. }), "task 1 is not healthy");
    tasks[1] = task(1, 2, TaskState::Running, long);
    assert_eq!(step(&row, &specs, &tasks), RolloutStep::Done { skipped: 0 });
}

#[test]
fn batch_work_gets_its_weights_too() {
    let (row, spec) = job(2, UpdateSpec::default());
    let old = JobSpec { kind: JobKind::Batch, ..spec };
    let specs = BTreeMap::from([(1, old.clone()), (2, with_weight(&old, 9))]);
    let row = begun(&row);
    let mut tasks: Vec<TaskRow> = (0..2).map(|index| task(index, 1, TaskState::Running, Some(NOW))).collect();
    assert_eq!(adopting(&step(&row, &specs, &tasks)), [0, 1]);
    for task in &mut tasks {
        task.spec_version = 2;
    }
    assert_eq!(step(&row, &specs, &tasks), RolloutStep::Done { skipped: 0 });
}

fn weights() -> impl Strategy<Value = (u32, BTreeMap<u32, u32>)> {
    (1_u32..4, proptest::collection::btree_map(0_u32..5, 1_u32..4, 0..4))
}

proptest! {
    /// Whatever the weights of two versions: nothing restarts, and each task with another weight gets it.
    #[test]
    fn no_change_of_weights_restarts_a_task(before in weights(), after in weights()) {
        let weighed = |(weight, own): &(u32, BTreeMap<u32, u32>)| {
            let mut spec = with_weight(&spec(JobKind::Service), *weight);
            spec.overrides = own.iter().map(|(index, weight)| (*index, weighing(*weight))).collect();
            spec
        };
        let (old, new) = (weighed(&before), weighed(&after));
        for index in 0..6 {
            let found = fit(&old, &new, index);
            let differs = old.weight_for(index) != new.weight_for(index);
            prop_assert!(found == AttemptFit::Adopts || (found == AttemptFit::Fits && !differs), "{index}: {found:?}");
        }
    }
}
