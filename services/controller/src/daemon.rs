//! Examines the tasks of a daemon job and then the nodes of the cell, in parts, and decides which nodes get a task.

use std::ops::Bound;

use borough_kv::Transaction;
use borough_model::daemon::{DaemonRules, DaemonView, NodeServed};
use borough_model::job::JobRow;
use borough_model::{JobId, NodeId, TaskRow};
use borough_store::StoreResult;
use borough_store::daemon::job_nodes_serve;
use borough_store::journal::ChangeSet;
use borough_store::lease::LeaseWriter;
use borough_store::mirror::MirrorState;

use crate::decide::ControllerAction;

/// The examination of a daemon job so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DaemonScan {
    job: JobId,
    /// How often tasks were given to nodes when it began.
    steps: u64,
    /// Whether the row says that nodes lack a task.
    is_lacking: bool,
    view: DaemonView,
    /// The last node that was visited.
    after: Bound<NodeId>,
}

impl DaemonScan {
    /// `None` if the job is no daemon job, or its spec is not known.
    pub(crate) fn begin(state: &MirrorState, row: &JobRow) -> Option<Self> {
        let daemon = row.daemon.as_deref()?;
        let spec = state.spec_of(row)?;
        let view = DaemonView::new(DaemonRules::of(&spec, row.priority));
        let is_lacking = daemon.unadmitted > 0 || daemon.left > 0;
        Some(Self { job: row.id, steps: daemon.steps, is_lacking, view, after: Bound::Unbounded })
    }

    pub(crate) fn visit_task(&mut self, state: &MirrorState, task: &TaskRow) {
        let node = task.node_served().and_then(|node| state.nodes().get(&node));
        self.view.visit_task(task, node.map(|node| &**node));
    }

    /// Visits the next nodes, at most `most`. Returns how many, and whether all were.
    pub(crate) fn visit_nodes(&mut self, state: &MirrorState, most: usize) -> (usize, bool) {
        let mut visited = 0;
        for (id, node) in state.nodes().range((self.after, Bound::Unbounded)).take(most) {
            self.view.visit_node(node);
            self.after = Bound::Excluded(*id);
            visited += 1;
        }
        (visited, visited < most)
    }

    /// What to do, when every task and every node was visited. Tasks that serve no node any more end first.
    pub(crate) fn actions(self) -> Vec<ControllerAction> {
        let Self { job, steps, is_lacking, view, .. } = self;
        let step = view.step();
        let withdraw = (!step.withdraw.is_empty()).then_some(ControllerAction::TasksWithdraw(step.withdraw));
        // The first look is recorded even if no node matches, and so is that no node lacks a task any more.
        let is_due = steps == 0 || !step.serve.is_empty() || is_lacking;
        let serve = is_due.then_some(ControllerAction::NodesServe(job, steps, step.serve, step.lacking));
        withdraw.into_iter().chain(serve).collect()
    }
}

/// Gives nodes a task each, in one transaction.
pub(crate) async fn nodes_serve(
    writer: &LeaseWriter,
    job: JobId,
    steps: u64,
    serve: &[NodeServed],
    lacking: u32,
) -> StoreResult<()> {
    let give = |tx: Transaction, mut changes: ChangeSet| async move {
        Ok((job_nodes_serve(&tx, &mut changes, job, steps, serve, lacking).await?, changes))
    };
    writer.change("nodes_serve", give).await.map(drop)
}
