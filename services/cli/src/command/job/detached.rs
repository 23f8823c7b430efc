//! What is known of a job that was just submitted and is not waited for.

use borough_client::{Client, JobRef};
use borough_proto::v1::{Job, JobKind, JobSpec, JobState};

use super::progress::Goal;
use crate::output::{ExplanationView, Printer, explanations_text};

/// Of a larger job nobody asks in advance where its tasks fit.
const FIT_TASKS_MAX: u32 = 1_000;

/// What a submission began, in one line.
pub(super) fn begun_text(job: &JobRef, admitted: &Job, goal: Option<Goal>) -> String {
    let tasks = admitted.tasks.unwrap_or_default();
    match goal {
        Some(Goal::RolledOut { version }) => {
            // A change of metadata only goes on with what had begun.
            let begun_ms = admitted.rollout.as_ref().map_or(0, |rollout| rollout.begun_ms);
            let verb = if begun_ms < admitted.changed_ms { "goes on" } else { "begins" };
            format!("{job}: the rollout of version {version} {verb}: borough rollout status {job}")
        }
        _ if admitted.state() == JobState::Waiting => {
            format!("{job}: it waits for other jobs: borough job status {job}")
        }
        _ if admitted.count == 0 && admitted.kind() == JobKind::Daemon => {
            format!("{job}: the cell gives it a task for each node that matches: borough job status {job}")
        }
        _ if admitted.count > 0 && tasks.running == 0 => {
            format!("{job}: no task runs yet: borough job status {job}")
        }
        _ => format!("{job}: {} of {} tasks run: borough job status {job}", tasks.running, admitted.count),
    }
}

/// A warning of a job that was not placed yet.
pub(super) struct FitWarning {
    text: String,
    /// The job never starts, whatever room there is.
    never: bool,
}

/// A warning of tasks that would fit on no node now; `None`: all would, or that is not known. The answer of a plan is
/// the scheduler's own, so it is asked before the submission.
pub(super) async fn fit_warning(client: &Client, spec: &JobSpec) -> Option<FitWarning> {
    if spec.count > FIT_TASKS_MAX {
        return None;
    }
    let plan = client.job_plan(spec.clone()).await.ok()?;
    if !plan.refusal.is_empty() || plan.unplaced.is_empty() {
        return None;
    }
    let unplaced: Vec<_> = plan.unplaced.into_iter().map(ExplanationView::from).collect();
    let text = explanations_text(&unplaced);
    let never = unplaced.iter().all(ExplanationView::is_never);
    let what = if never { "it never starts" } else { "not every task has a place now" };
    Some(FitWarning { text: format!("warning: {what}:\n{}", text.trim_end()), never })
}

/// Says it of a job that was submitted. Of one that waits for other jobs, the cell has said what is remarkable, unless
/// it waits in vain.
pub(super) fn fit_warn(admitted: &Job, warning: Option<FitWarning>, printer: &Printer) {
    let counts = |warning: &FitWarning| warning.never || admitted.state() != JobState::Waiting;
    if let Some(warning) = warning.filter(counts) {
        printer.remark(&warning.text);
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
            rollout.contains("the rollout of version 5 begins: borough rollout status ann/web"),
            "{rollout}"
        );
        let rollout = Some(borough_proto::v1::Rollout { begun_ms: 5, ..Default::default() });
        let later = Job { rollout, changed_ms: 7, ..admitted.clone() };
        let text = begun_text(&job, &later, Some(Goal::RolledOut { version: 6 }));
        assert!(text.contains("the rollout of version 6 goes on"), "{text}");
        admitted.tasks = Some(TaskCounts { running: 2, ..TaskCounts::default() });
        assert!(begun_text(&job, &admitted, None).contains("2 of 2 tasks run"));
        admitted.state = JobState::Waiting.into();
        assert!(begun_text(&job, &admitted, None).contains("waits for other jobs"));
    }
}
