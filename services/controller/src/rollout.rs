//! Examines the tasks of a job with an open rollout, in parts, and decides its next step.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::{JobRow, JobSpec, Rollout, RolloutState};
use borough_model::rollout::{AttemptFit, RolloutRules, RolloutStep, RolloutView, SpecDifference};
use borough_model::{JobId, TaskRow};
use borough_store::mirror::MirrorState;

use crate::decide::ControllerAction;

/// The examination of a rollout so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolloutScan {
    job: JobId,
    /// The revision of the job's row that it is about.
    revision: u64,
    rollout: Rollout,
    rules: RolloutRules,
    in_force: Arc<JobSpec>,
    version: u32,
    /// The specs of earlier versions that attempts have; `None`: the mirror lacks it, so the attempt is replaced.
    earlier: BTreeMap<u32, Option<Arc<JobSpec>>>,
    view: RolloutView,
    now_ms: i64,
}

impl RolloutScan {
    /// Begins at this time of the cell; `None` if the job has no rollout that goes on.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow, now_ms: i64) -> Option<Self> {
        let rollout = row.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Rolling)?;
        let in_force = state.spec_of(row)?;
        Some(Self {
            job: row.id,
            revision: row.revision,
            rollout: rollout.clone(),
            rules: RolloutRules::of(&in_force, rollout, row.count),
            in_force,
            version: row.spec_version,
            earlier: BTreeMap::new(),
            view: RolloutView::default(),
            now_ms,
        })
    }

    pub(crate) fn visit(&mut self, state: &MirrorState, task: &TaskRow) {
        if task.id.index >= self.rules.count {
            return self.view.visit_surplus(task, &self.rules);
        }
        let fit = match task.spec_version {
            0 => AttemptFit::Fits,
            version if version == self.version => AttemptFit::Fits,
            _ => self.fit(state, task),
        };
        self.view.visit(task, fit, &self.rules, self.now_ms);
    }

    /// Whether the version in force would run the task otherwise than its attempt does.
    fn fit(&mut self, state: &MirrorState, task: &TaskRow) -> AttemptFit {
        let (job, version) = (self.job, task.spec_version);
        let spec = self.earlier.entry(version).or_insert_with(|| state.spec(job, version));
        let fit = |spec: &JobSpec| SpecDifference::between(spec, &self.in_force).fit(task.id.index);
        spec.as_deref().map_or(AttemptFit::Stale, fit)
    }

    /// What to do, when every task was visited.
    pub(crate) fn action(self) -> Option<ControllerAction> {
        let Self { job, revision, .. } = self;
        match self.view.step(&self.rollout, &self.rules, self.now_ms) {
            RolloutStep::Wait { .. } => None,
            RolloutStep::Replace(attempts) => Some(ControllerAction::RolloutReplace(job, revision, attempts)),
            RolloutStep::Done => Some(ControllerAction::RolloutDone(job, revision)),
            RolloutStep::Fail(failure) => Some(ControllerAction::RolloutFail(job, revision, failure)),
        }
    }
}
