//! Which nodes a daemon job serves, or would serve, by the controller's own decision.

use std::collections::BTreeSet;

use borough_model::daemon::{DaemonRules, DaemonView, NodeFit};
use borough_model::job::JobKind;
use borough_model::{JobId, JobSpec, TaskId, TaskRow};
use borough_proto::v1;
use borough_store::mirror::MirrorState;

use super::plan::is_over;

/// What a daemon job is warned of if it has nothing to do.
const NONE_MATCHES: &str = "no node of the cell matches now; a node gets its task when it joins, or when its labels or taints \
                            let it match";

/// What a daemon job would do about the nodes.
#[derive(Debug, Default)]
pub(super) struct PlannedNodes {
    /// Tasks that nodes would get.
    pub rows: Vec<TaskRow>,
    /// Tasks that would end, since their nodes would not match.
    pub withdrawn: BTreeSet<u32>,
    /// Whether some node has a task already, and keeps it.
    serves: bool,
}

impl PlannedNodes {
    /// Says which tasks end. They end at once: where a task may not run, no budget keeps it.
    pub(super) fn add_to(self, response: &mut v1::PlanJobResponse) {
        response.replaced.retain(|index| !self.withdrawn.contains(index));
        for need in &mut response.needs {
            need.indexes.retain(|index| !self.withdrawn.contains(index));
        }
        response.needs.retain(|need| !need.indexes.is_empty());
        let (count, none_left) = (self.withdrawn.len(), !self.serves);
        if count > 0 {
            let tasks = if count == 1 { "1 task ends".to_owned() } else { format!("{count} tasks end") };
            response.warnings.push(format!("{tasks} at once: the nodes no longer match"));
        }
        response.stopped = self.withdrawn.into_iter().collect();
        if none_left && response.placements.is_empty() && response.unplaced.is_empty() {
            response.warnings.push(NONE_MATCHES.to_owned());
        }
    }
}

/// Which nodes a daemon job with this spec would serve, by the controller's own decision.
pub(super) fn nodes_planned(state: &MirrorState, spec: &JobSpec) -> PlannedNodes {
    let live = state.job_by_name(&spec.user, &spec.name).filter(|row| !is_over(row));
    let mut view = DaemonView::with_most(DaemonRules::of(spec, spec.priority), usize::MAX);
    let (mut planned, mut count) = (PlannedNodes::default(), live.map_or(0, |row| row.count));
    for task in live.into_iter().flat_map(|row| state.job_tasks(row.id)) {
        let node = task.node_served().and_then(|node| state.nodes().get(&node));
        view.visit_task(task, node.map(|node| &**node));
    }
    state.nodes().values().for_each(|node| view.visit_node(node));
    let step = view.step();
    planned.withdrawn = step.withdraw.iter().map(|(task, _)| task.index).collect();
    let mut tasks = live.into_iter().flat_map(|row| state.job_tasks(row.id));
    planned.serves = tasks.any(|task| !task.is_withdrawn() && !planned.withdrawn.contains(&task.id.index));
    let job = live.map_or(JobId(0), |row| row.id);
    for served in step.serve {
        let known = served.again.and_then(|index| state.tasks().get(&TaskId { job, index }));
        let index = served.again.unwrap_or_else(|| {
            count = count.saturating_add(1);
            count.saturating_sub(1)
        });
        let new = TaskRow::never_placed(TaskId { job, index });
        let row = known.map_or(new, |known| (**known).clone());
        planned.rows.push(TaskRow { daemon_node: Some(Box::new(served.node)), ..row });
    }
    planned
}

/// That no node matches a daemon job, if it is one.
pub(super) fn daemon_warning(state: &MirrorState, spec: &JobSpec) -> Option<String> {
    let rules = (spec.kind == JobKind::Daemon).then(|| DaemonRules::of(spec, spec.priority))?;
    // Nearly always some node does, and the first that does is enough.
    if state.nodes().values().any(|node| rules.fit(node) == NodeFit::Served) {
        return None;
    }
    (!nodes_planned(state, spec).serves).then(|| NONE_MATCHES.to_owned())
}
