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
    now_ms: i64,
}

impl SurgeScan {
    /// Begins at this time of the cell; `None` if nothing surges for moves of the job, and nothing was refused to.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow, now_ms: i64) -> Option<Self> {
        row.moves.as_ref().filter(|moves| moves.surge > 0 || moves.surge_refused)?;
        let spec = state.spec_of(row)?;
        let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
        let (job, revision, used) = (row.id, row.revision, BudgetUse::default());
        Some(Self { job, revision, budget, used, is_leaving: false, now_ms })
    }

    pub(crate) fn visit(&mut self, state: &MirrorState, task: &TaskRow) {
        self.used.visit(&self.budget, task, self.now_ms);
        self.is_leaving |= must_leave(state, task, self.now_ms);
    }

    /// Ends what surges when every task of the owner serves where it may stay.
    pub(crate) fn action(self) -> Option<ControllerAction> {
        let is_over = !self.is_leaving && self.used.away == 0;
        is_over.then_some(ControllerAction::SurgeEnd(self.job, self.revision))
    }
}
