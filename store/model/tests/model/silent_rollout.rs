//! Rollouts beside nodes that do not answer: nobody knows how their tasks are.

use borough_model::job::{JobRow, JobSpec, UpdateSpec};
use borough_model::rollout::{AttemptFit, RolloutRules, RolloutStep, RolloutView};
use borough_model::task::{TaskRow, TaskState};

use crate::rollout::{begun, begun_with_canaries, job, replaced, task};
use crate::sample::NOW;

/// The next step while the nodes of these tasks are silent.
fn step_beside(row: &JobRow, spec: &JobSpec, tasks: &[TaskRow], silent: &[u32]) -> RolloutStep {
    let Some(rollout) = row.rollout.as_deref() else { panic!("no rollout") };
    let rules = RolloutRules::of_job(spec, rollout, row);
    let mut view = RolloutView::default();
    for task in tasks {
        let is_earlier = task.spec_version < row.spec_version;
        let fit = if is_earlier { AttemptFit::Stale } else { AttemptFit::Fits };
        if silent.contains(&task.id.index) {
            view.visit_unseen(task, fit, &rules);
        } else {
            view.visit(task, fit, &rules, NOW);
        }
    }
    view.step(rollout, &rules, NOW)
}

fn healthy(index: u32, version: u32) -> TaskRow {
    task(index, version, TaskState::Running, Some(NOW - 60_000))
}

fn waits(step: &RolloutStep) -> bool {
    matches!(step, RolloutStep::Wait { .. })
}

#[test]
fn a_task_of_a_silent_node_stands_in_for_nobody_and_is_not_ended() {
    let (row, spec) = job(3, UpdateSpec::default());
    let row = begun(&row);
    let mut tasks = vec![healthy(0, 2), healthy(1, 1), healthy(2, 1)];
    assert_eq!(replaced(step_beside(&row, &spec, &tasks, &[])), [1]);
    assert!(waits(&step_beside(&row, &spec, &tasks, &[0])), "the new attempt may be gone");
    assert!(waits(&step_beside(&row, &spec, &tasks, &[2])), "one may be away already");
    // It may serve, so it is not ended as one that serves nobody is.
    let (row, spec) = job(3, UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
    let row = begun(&row);
    assert_eq!(replaced(step_beside(&row, &spec, &tasks, &[1])), [2]);
    // With all attempts replaced, one that nobody hears of keeps the rollout from its end.
    tasks = (0..3).map(|index| healthy(index, 2)).collect();
    assert_eq!(step_beside(&row, &spec, &tasks, &[]), RolloutStep::Done { skipped: 0 });
    assert!(waits(&step_beside(&row, &spec, &tasks, &[1])));
}

#[test]
fn a_canary_of_a_silent_node_promotes_nothing() {
    let (row, spec) = job(2, UpdateSpec { canaries: 1, auto_promote: true, ..UpdateSpec::default() });
    let row = begun_with_canaries(&row, 1, 1);
    let tasks = vec![healthy(0, 1), healthy(1, 1), healthy(2, 2)];
    assert_eq!(step_beside(&row, &spec, &tasks, &[]), RolloutStep::Promote);
    assert!(waits(&step_beside(&row, &spec, &tasks, &[2])));
}
