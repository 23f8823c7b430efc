//! Says how much of a job's disruption budget is used, and by which tasks: what a drain may wait for.

use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause, TaskPresence};
use borough_model::{JobId, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

/// Tasks that are named.
const NAMED_MAX: usize = 3;

/// The disruption budget of a job for moves, as a drain sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BudgetReport {
    /// `1 of 4 tasks is away, and 1 may be: task 3 waits for a node`.
    pub(super) text: String,
    /// Whether a healthy task may leave its node now.
    pub(super) is_left: bool,
}

/// The budget of a job; `None` if the job or its spec is not known.
pub(super) fn budget_report(state: &MirrorState, job: JobId, now_ms: i64) -> Option<BudgetReport> {
    let row = state.jobs().get(&job)?;
    let spec = state.spec_of(row)?;
    let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
    let used = state.budget_use(row, &budget, now_ms);
    // Its use ends where nothing is left: people want all of it.
    let away: Vec<&TaskRow> = if budget.needs_healthy() {
        state.job_tasks(job).map(|row| &**row).filter(|task| is_away(&budget, task, now_ms)).collect()
    } else {
        state.away_tasks(job).filter(|task| is_away(&budget, task, now_ms)).collect()
    };
    let is_left = used.left(&budget) > 0;
    Some(BudgetReport { text: text(&budget, &used, &away), is_left })
}

fn is_away(budget: &DisruptionBudget, task: &TaskRow, now_ms: i64) -> bool {
    task.id.index < budget.count && budget.presence(task, now_ms) == TaskPresence::Away
}

fn text(budget: &DisruptionBudget, used: &BudgetUse, away: &[&TaskRow]) -> String {
    let are = if away.len() == 1 { "is" } else { "are" };
    let tasks = if budget.count == 1 { "task" } else { "tasks" };
    let most = match used.away_max(budget) {
        0 => "none may be".to_owned(),
        most => format!("{most} may be"),
    };
    let mut text = format!("{} of {} {tasks} {are} away, and {most}", away.len(), budget.count);
    if budget.surge_wanted > 0 {
        text.push_str(" before a further task surges and is healthy");
    } else if budget.surge > 0 {
        text.push_str(&format!(" beyond the {} of {} surging tasks that serve", used.surging, budget.surge));
    }
    let named: Vec<String> =
        away.iter().take(NAMED_MAX).map(|task| format!("task {} {}", task.id.index, why(task))).collect();
    if !named.is_empty() {
        text.push_str(&format!(": {}", named.join(", ")));
    }
    if away.len() > NAMED_MAX {
        text.push_str(&format!(", and {} more", away.len() - NAMED_MAX));
    }
    text
}

/// Why a task is away.
fn why(task: &TaskRow) -> &'static str {
    match task.state {
        TaskState::Pending if task.not_before_ms > 0 => "has failed and pauses",
        TaskState::Pending => "waits for a node",
        TaskState::Held => "waits for room on its node",
        TaskState::Assigned | TaskState::Starting => "starts",
        TaskState::Running if task.is_healthy() => "is not healthy for long enough yet",
        TaskState::Running => "is not healthy yet",
        TaskState::Stopping | TaskState::Releasing => "ends",
        TaskState::Lost => "is lost with its node",
        TaskState::Dead => "begins again",
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, JobRow, JobState, UpdateSpec, job_new};
    use borough_model::{Delta, Incarnation, RequestId, TaskId};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    #[test]
    fn a_budget_is_said_with_the_tasks_that_use_it() {
        let job = JobId(1);
        let mut spec = job_spec("ada", "web", JobKind::Service);
        spec.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
        let row = job_new(job, &spec, RequestId(1), 0);
        let row = JobRow { count: 8, state: JobState::Running, ..row };
        let said = |states: &[TaskState]| {
            let mut state = MirrorState::default();
            state.list(Listed::Row(Box::new(Delta::Job { row: row.clone().into(), spec: None })));
            let version = row.spec_version;
            state.list(Listed::Spec { job, version, spec: Box::new(spec.clone()) });
            for (index, is) in (0..).zip(states) {
                let id = TaskId { job, index };
                let incarnation = Incarnation(1);
                let task = TaskRow { state: *is, revision: 1, incarnation, ..TaskRow::never_placed(id) };
                state.list(Listed::Row(Box::new(Delta::Task { row: task })));
            }
            budget_report(&state, job, 0).unwrap()
        };
        let report = |text: &str, is_left| BudgetReport { text: text.to_owned(), is_left };
        assert_eq!(said(&[]), report("0 of 8 tasks are away, and 2 may be", true));
        assert_eq!(
            said(&[TaskState::Lost]),
            report("1 of 8 tasks is away, and 2 may be: task 0 is lost with its node", true)
        );
        let away = [TaskState::Pending, TaskState::Stopping, TaskState::Starting, TaskState::Running];
        let expected = "4 of 8 tasks are away, and 2 may be: task 0 waits for a node, task 1 ends, task 2 starts, and 1 more";
        assert_eq!(said(&away), report(expected, false));
    }
}
