//! Examines the tasks of a job with an open rollout, in parts, and decides its next step.

use std::sync::Arc;

use borough_model::daemon::DaemonRules;
use borough_model::job::{JobKind, JobRow, Rollout, RolloutState};
use borough_model::node::node_resizes;
use borough_model::rollout::{AttemptFit, AttemptFits, RolloutRules, RolloutStep, RolloutView};
use borough_model::{JobId, NodeRow, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

use crate::decide::ControllerAction;
use crate::scan::LookTimes;

/// The examination of a rollout so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RolloutScan {
    job: JobId,
    /// The revision of the job's row that it is about.
    revision: u64,
    rollout: Rollout,
    rules: RolloutRules,
    fits: AttemptFits,
    view: RolloutView,
    /// What it asks of nodes, if it is a daemon job.
    daemon: Option<DaemonRules>,
    now_ms: i64,
}

impl RolloutScan {
    /// Begins at these times of the cell; `None` if the job has no rollout that goes on or has failed:
    /// its tasks may be well all the same.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow, times: LookTimes) -> Option<Self> {
        let is_looked_at = |state| matches!(state, RolloutState::Rolling | RolloutState::Failed);
        let rollout = row.rollout.as_deref().filter(|rollout| is_looked_at(rollout.state))?;
        let in_force = state.spec_of(row)?;
        Some(Self {
            job: row.id,
            revision: row.revision,
            rollout: rollout.clone(),
            rules: RolloutRules::of_job(&in_force, rollout, row).watched_since(times.watched_since_ms),
            daemon: (in_force.kind == JobKind::Daemon).then(|| DaemonRules::of(&in_force, row.priority)),
            fits: AttemptFits::new(row.spec_version, in_force),
            view: RolloutView::default(),
            now_ms: times.now_ms,
        })
    }

    pub(crate) fn visit(&mut self, state: &MirrorState, task: &TaskRow) {
        let job = self.job;
        let mut fit = self.fits.fit(task, |version| state.spec(job, version));
        // An agent of an earlier version would never answer an order.
        let resizes = |node: &Arc<NodeRow>| node_resizes(node);
        let is_able = || task.node.and_then(|node| state.nodes().get(&node)).is_some_and(resizes);
        if fit == AttemptFit::Resizes && !is_able() {
            fit = AttemptFit::Stale;
        }
        if let Some(daemon) = &self.daemon {
            let node = task.node_served().and_then(|node| state.nodes().get(&node));
            fit = node.map_or(fit, |node| fit.on_node(daemon.fit(node)));
        }
        let ends = matches!(task.state, TaskState::Stopping | TaskState::Releasing);
        if let Some(own) = state.spec(job, task.spec_version).filter(|_| ends) {
            self.rules = self.rules.with_leaving(&own);
        }
        if state.is_unseen(task) {
            self.view.visit_unseen(task, fit, &self.rules);
        } else {
            self.view.visit(task, fit, &self.rules, self.now_ms);
        }
    }

    /// What to do, when every task was visited.
    pub(crate) fn action(self) -> Option<ControllerAction> {
        let Self { job, revision, .. } = self;
        match self.view.step(&self.rollout, &self.rules, self.now_ms) {
            RolloutStep::Wait { .. } => None,
            RolloutStep::Progress(at_ms) => Some(ControllerAction::RolloutProgress(job, revision, at_ms)),
            RolloutStep::Retry(tasks) => Some(ControllerAction::RolloutRetry(job, revision, tasks)),
            RolloutStep::Adopt(attempts) => Some(ControllerAction::RolloutAdopt(job, revision, attempts)),
            RolloutStep::Resize(attempts) => Some(ControllerAction::RolloutResize(job, revision, attempts)),
            RolloutStep::Replace(attempts) => Some(ControllerAction::RolloutReplace(job, revision, attempts)),
            RolloutStep::Canaries(health) => Some(ControllerAction::RolloutCanaries(job, revision, health)),
            RolloutStep::Surge => Some(ControllerAction::RolloutSurge(job, revision)),
            RolloutStep::Promote => Some(ControllerAction::RolloutPromote(job, revision)),
            RolloutStep::Done { skipped } => Some(ControllerAction::RolloutDone(job, revision, skipped)),
            RolloutStep::Fail(failure) => Some(ControllerAction::RolloutFail(job, revision, failure)),
        }
    }
}
