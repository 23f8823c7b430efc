//! Examines the tasks of a job of which some surge for moves, and decides when these end.

use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause};
use borough_model::{JobId, JobRow, TaskRow};
use borough_store::mirror::MirrorState;

use crate::decide::{ControllerAction, must_leave};

/// The examination so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SurgeScan {
    job: JobId,
    /// The revision of the job's row that it is about.
    revision: u64,
    budget: DisruptionBudget,
    used: BudgetUse,
    /// Whether some task still has to leave its node.
    is_leaving: bool,
    /// Tasks of the owner that have had no node for as long as a rollout would wait.
    unplaced: u32,
    deadline_ms: u64,
    now_ms: i64,
}

impl SurgeScan {
    /// Begins at this time of the cell; `None` if nothing surges for moves of the job, and nothing was refused to.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow, now_ms: i64) -> Option<Self> {
        row.moves.as_ref().filter(|moves| moves.surge > 0 || moves.surge_refused)?;
        let spec = state.spec_of(row)?;
        let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
        let (job, revision, used) = (row.id, row.revision, BudgetUse::default());
        let deadline_ms = spec.progress_deadline_in_force();
        Some(Self { job, revision, budget, used, is_leaving: false, unplaced: 0, deadline_ms, now_ms })
    }

    pub(crate) fn visit(&mut self, state: &MirrorState, task: &TaskRow) {
        if state.is_unseen(task) {
            self.used.visit_unseen(&self.budget, task);
        } else {
            self.used.visit(&self.budget, task, self.now_ms);
        }
        self.is_leaving |= must_leave(state, task, self.now_ms);
        let due_ms = task.changed_ms.saturating_add_unsigned(self.deadline_ms);
        let is_unplaced = task.id.index < self.budget.count && task.waits_for_node() && due_ms <= self.now_ms;
        self.unplaced = self.unplaced.saturating_add(u32::from(is_unplaced));
    }

    /// Ends what surges when every task of the owner serves where it may stay. What surges may have the only place of
    /// one that finds none: nobody waits longer for that than a rollout would.
    pub(crate) fn action(self) -> Option<ControllerAction> {
        let is_over = !self.is_leaving && self.used.away <= self.unplaced;
        is_over.then_some(ControllerAction::SurgeEnd(self.job, self.revision))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use borough_model::job::{JobKind, JobMoves, JobState, UpdateSpec, job_new};
    use borough_model::task::Health;
    use borough_model::{Delta, Incarnation, RequestId, TaskId, TaskState};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    const JOB: JobId = JobId(1);

    /// The state of a job of two tasks of which one surges for a move, with these tasks.
    fn state_with(tasks: impl IntoIterator<Item = TaskRow>) -> (MirrorState, Arc<JobRow>) {
        let mut spec = job_spec("ada", "web", JobKind::Service);
        spec.count = 2;
        spec.progress_deadline_ms = Some(1_000);
        spec.update = Some(UpdateSpec { surge_max: Some(1), ..UpdateSpec::default() });
        let moves = Some(Box::new(JobMoves { surge: 1, ..JobMoves::default() }));
        let row = job_new(JOB, &spec, RequestId(1), 0);
        let row = Arc::new(JobRow { state: JobState::Running, count: 3, moves, ..row });
        let mut state = MirrorState::default();
        state.list(Listed::Row(Box::new(Delta::Job { row: Arc::clone(&row), spec: None })));
        state.list(Listed::Spec { job: JOB, version: row.spec_version, spec: Box::new(spec) });
        for row in tasks {
            state.list(Listed::Row(Box::new(Delta::Task { row })));
        }
        (state, row)
    }

    fn task(index: u32, state: TaskState) -> TaskRow {
        let known = TaskRow::never_placed(TaskId { job: JOB, index });
        let health = if state == TaskState::Running { Health::Healthy } else { Health::Unknown };
        TaskRow { state, health, revision: 1, incarnation: Incarnation(1), ..known }
    }

    /// The one that has left its node would fit only where the one that stands in for it is.
    #[test]
    fn what_surges_gives_way_to_a_task_that_finds_no_other_place() {
        let healthy = |index| task(index, TaskState::Running);
        let ends = |second: TaskRow, now_ms: i64| {
            let (state, row) = state_with([healthy(0), second, healthy(2)]);
            let mut scan = SurgeScan::begin(&state, &row, now_ms).unwrap();
            state.job_tasks(JOB).for_each(|task| scan.visit(&state, task));
            scan.action().is_some()
        };
        assert!(ends(healthy(1), 0));
        assert!(!ends(task(1, TaskState::Pending), 999));
        assert!(ends(task(1, TaskState::Pending), 1_000));
        assert!(!ends(task(1, TaskState::Starting), 1_000));
        let fails = TaskRow { failures: 1, ..task(1, TaskState::Pending) };
        assert!(!ends(fails, 1_000), "it has a place, and fails there");
    }
}
