//! The tasks without a healthy attempt, so that the use of a job's disruption budget is known without a look at each of
//! its tasks.

use std::collections::BTreeSet;

use borough_model::disruption::{BudgetUse, DisruptionBudget, RECHECKED_MAX};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{JobId, JobRow, TaskId};

use super::state::{MirrorState, tasks_of};

/// Tasks that have had an attempt, and neither have a healthy one nor are over.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AwayTasks(BTreeSet<TaskId>);

impl AwayTasks {
    /// Those of a job, by index.
    fn of(&self, job: JobId) -> impl Iterator<Item = TaskId> {
        self.0.range(tasks_of(job)).copied()
    }

    /// Follows the change of a task's row; `None` is no row.
    pub(super) fn follow(&mut self, before: Option<&TaskRow>, after: Option<&TaskRow>) {
        match (before.filter(|row| is_away(row)), after.filter(|row| is_away(row))) {
            (Some(row), None) => drop(self.0.remove(&row.id)),
            (None, Some(row)) => drop(self.0.insert(row.id)),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

fn is_away(task: &TaskRow) -> bool {
    task.incarnation.0 > 0 && task.state != TaskState::Dead && !task.is_healthy()
}

impl MirrorState {
    /// What the tasks of a job take of its budget for moves. It looks at those without a healthy attempt, at those
    /// whose node does not answer, and at those that surge, and no further when nothing is left. While a rollout goes
    /// on, it looks at every task of a job that is not large: new attempts have to prove themselves.
    pub fn budget_use(&self, job: &JobRow, budget: &DisruptionBudget, now_ms: i64) -> BudgetUse {
        let mut used = BudgetUse::default();
        let visit = |used: &mut BudgetUse, row: &TaskRow| {
            if self.is_unseen(row) { used.visit_unseen(budget, row) } else { used.visit(budget, row, now_ms) }
        };
        if budget.needs_healthy() && job.count <= RECHECKED_MAX {
            self.job_tasks(job.id).for_each(|row| visit(&mut used, row));
            return used;
        }
        if budget.surge > 0 {
            let surging = self.job_tasks_behind(job.id, budget.count.checked_sub(1));
            let surging = surging.take(usize::try_from(budget.surge).unwrap_or(usize::MAX));
            surging.for_each(|row| visit(&mut used, row));
        }
        let is_owned = |row: &&TaskRow| row.id.index < budget.count;
        let unseen = self.unseen_tasks(job.id).into_iter().take_while(is_owned);
        for row in self.away_tasks(job.id).take_while(is_owned).chain(unseen) {
            visit(&mut used, row);
            if used.left(budget, now_ms) == 0 {
                break;
            }
        }
        used
    }

    /// The tasks of a job that have had an attempt, and neither have a healthy one nor are over; by index.
    pub fn away_tasks(&self, job: JobId) -> impl Iterator<Item = &TaskRow> {
        self.away.of(job).filter_map(|task| self.tasks().get(&task)).map(|row| &**row)
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::Listed;
    use borough_model::disruption::DisruptionCause;
    use borough_model::job::{JobKind, JobState, job_new};
    use borough_model::task::Health;
    use borough_model::{Delta, Incarnation, JobSpec, Name, RequestId};

    use super::*;

    const JOB: JobId = JobId(1);

    fn row(index: u32, revision: u64, state: TaskState) -> TaskRow {
        let known = TaskRow::never_placed(TaskId { job: JOB, index });
        TaskRow { state, revision, incarnation: Incarnation(1), health: Health::Healthy, ..known }
    }

    /// The use is what a look at every task of the job would give.
    #[test]
    fn the_use_of_a_budget_follows_the_rows_of_the_tasks() {
        let mut state = MirrorState::default();
        let name = |text: &str| Name::new(text).unwrap();
        let run = vec!["run".to_owned()];
        let spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, run);
        let job = JobRow { count: 8, state: JobState::Running, ..job_new(JOB, &spec, RequestId(1), 0) };
        let budget = DisruptionBudget::of(&spec, &job, DisruptionCause::Move);
        let mut left = |row: TaskRow| {
            state.list(Listed::Row(Box::new(Delta::Task { row })));
            let rows = state.job_tasks(JOB).map(|row| &**row);
            let all = BudgetUse::of_rows(&budget, rows, 0);
            let used = state.budget_use(&job, &budget, 0);
            assert_eq!(used.left(&budget, 0), all.left(&budget, 0));
            (used.away, used.left(&budget, 0))
        };
        assert_eq!(left(row(0, 1, TaskState::Running)), (0, 2), "a quarter");
        assert_eq!(left(row(1, 1, TaskState::Running)), (0, 2));
        assert_eq!(left(row(0, 2, TaskState::Stopping)), (1, 1));
        assert_eq!(left(TaskRow { incarnation: Incarnation(0), ..row(2, 1, TaskState::Pending) }), (1, 1));
        assert_eq!(left(row(1, 2, TaskState::Lost)), (2, 0), "whatever the cause");
        assert_eq!(left(row(1, 1, TaskState::Running)), (2, 0), "older than the row");
        let failing = TaskRow { failures: 2, not_before_ms: 1, ..row(1, 3, TaskState::Pending) };
        assert_eq!(left(failing), (1, 1), "it keeps failing");
        assert_eq!(left(row(0, 3, TaskState::Dead)), (0, 2), "it is over");
        assert_eq!(left(row(8, 1, TaskState::Stopping)), (0, 2), "beyond the count");
        assert_eq!(left(TaskRow { health: Health::Unknown, ..row(0, 4, TaskState::Running) }), (1, 1));
        state.list(Listed::Row(Box::new(Delta::JobRemoved { job: JOB, name: None })));
        assert_eq!(state.away_tasks(JOB).count(), 0);
    }
}
