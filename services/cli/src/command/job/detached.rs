//! What is known of a job that was just submitted and is not waited for.

use borough_client::{Client, JobRef};
use borough_proto::v1::{Job, JobSpec, JobState};

use super::progress::Goal;
use crate::output::{ExplanationView, Printer, explanations_text};

/// Of a larger job nobody asks in advance where its tasks fit.
const FIT_TASKS_MAX: u32 = 1_000;

/// What a submission began, in one line.
pub(super) fn begun_text(job: &JobRef, admitted: &Job, goal: Option<Goal>) -> String {
    let tasks = admitted.tasks.unwrap_or_default();
    match goal {
        Some(Goal::RolledOut { version }) => {
            format!("{job}: a rollout of version {version} begins: borough rollout status {job}")
        }
        _ if admitted.state() == JobState::Waiting => {
            format!("{job}: it waits for other jobs: borough job status {job}")
        }
        _ if admitted.count > 0 && tasks.running == 0 => {
            format!("{job}: no task runs yet: borough job status {job}")
        }
        _ => format!("{job}: {} of {} tasks run: borough job status {job}", tasks.running, admitted.count),
    }
}

/// A warning of tasks that would fit on no node now; `None`: all would, or that is not known. The answer of a plan is
/// the scheduler's own, so it is asked before the submission.
pub(super) async fn fit_warning(client: &Client, spec: &JobSpec) -> Option<String> {
    if spec.count > FIT_TASKS_MAX {
        return None;
    }
    let plan = client.job_plan(spec.clone()).await.ok()?;
    if !plan.refusal.is_empty() || plan.unplaced.is_empty() {
        return None;
    }
    let unplaced: Vec<_> = plan.unplaced.into_iter().map(ExplanationView::from).collect();
    let text = explanations_text(&unplaced);
    Some(format!("warning: not every task has a place now:\n{}", text.trim_end()))
}

/// Says it of a job that was submitted. Of one that waits for other jobs, the cell has said what is remarkable.
pub(super) fn fit_warn(admitted: &Job, warning: Option<String>, printer: &Printer) {
    if let Some(warning) = warning.filter(|_| admitted.state() != JobState::Waiting) {
        printer.remark(&warning);
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::TaskCounts;

    use super::*;

    #[test]
    fn the_line_has_what_is_known() {
        let job = JobRef::new("ann", "web");
        let mut admitted = Job { count: 2, state: JobState::Running.into(), ..Job::default() };
        let new = "ann/web: no task runs yet: borough job status ann/web";
        assert_eq!(begun_text(&job, &admitted, None), new);
        let rollout = begun_text(&job, &admitted, Some(Goal::RolledOut { version: 5 }));
        assert!(
            rollout.contains("a rollout of version 5 begins: borough rollout status ann/web"),
            "{rollout}"
        );
        admitted.tasks = Some(TaskCounts { running: 2, ..TaskCounts::default() });
        assert!(begun_text(&job, &admitted, None).contains("2 of 2 tasks run"));
        admitted.state = JobState::Waiting.into();
        assert!(begun_text(&job, &admitted, None).contains("waits for other jobs"));
    }
}
