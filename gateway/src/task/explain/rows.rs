//! Reads the rows of a job's tasks for what they say about tasks that do not run as they should.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{JobOutcome, JobState, Probe, RolloutState};
use borough_model::node::{NodeRow, NodeState};
use borough_model::task::{EndReason, Health, PortAssignment, StopReason, Verdict};
use borough_model::{JobId, NodeId, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

use super::drained::DrainedTasks;
use super::failing::{FailingTask, FailingTasks};
use super::helper::HelperTasks;
use super::lost::{LostNode, LostTasks};
use super::resize::RefusedTasks;
use super::silent::{SilentTasks, UnconnectedTasks, silent_since};
use super::unhealthy::{UnhealthyTask, UnhealthyTasks, healthy_text, port_name, probe_text, unhealthy_since};
use crate::cell::CellContext;
use crate::peer::Peers;
use crate::task::session::gateway_of;

/// Tasks that are read under one hold of the mirror's lock.
const PART_TASKS: usize = 1_024;

/// Nodes without a session here that are asked for: each costs a read.
const AWAY_MAX: usize = 64;

/// What the rows of a job's tasks say.
#[derive(Debug, Default)]
pub(super) struct RowsFound {
    pub(super) failing: FailingTasks,
    pub(super) unhealthy: UnhealthyTasks,
    /// Tasks that run a helper instead of their command.
    pub(super) in_helper: HelperTasks,
    /// Tasks that were not resized in place.
    pub(super) refused: RefusedTasks,
    pub(super) lost: BTreeMap<NodeId, LostTasks>,
    pub(super) drained: BTreeMap<NodeId, DrainedTasks>,
    pub(super) silent: BTreeMap<NodeId, SilentTasks>,
    /// Tasks on nodes that are not known to be silent. What [`Self::connected_drop`] leaves is not connected.
    pub(super) away: BTreeMap<NodeId, UnconnectedTasks>,
}

impl RowsFound {
    pub(super) fn failing_indexes(&self) -> BTreeSet<u32> {
        self.failing.indexes().collect()
    }

    /// Every task of which the rows say something.
    pub(super) fn indexes(&self) -> BTreeSet<u32> {
        let silent = self.silent.values().flat_map(|tasks| &tasks.indexes);
        let lost = self.lost.values().flat_map(|tasks| &tasks.indexes);
        let drained = self.drained.values().flat_map(|tasks| &tasks.indexes);
        let away = self.away.values().flat_map(|tasks| &tasks.indexes);
        let of_nodes = silent.chain(lost).chain(drained).chain(away).copied();
        let of_tasks = self.failing.indexes().chain(self.unhealthy.indexes()).chain(self.in_helper.indexes());
        of_tasks.chain(of_nodes).collect()
    }
}

impl RowsFound {
    /// Leaves of the tasks on nodes only those whose node has a session with no gateway.
    pub(super) async fn connected_drop(&mut self, cell: &CellContext, peers: &Peers) {
        let unheld = |node: &NodeId| cell.sessions.get(*node).is_none();
        let here = std::mem::take(&mut self.away).into_iter().filter(|(node, _)| unheld(node));
        for (node, tasks) in here.take(AWAY_MAX) {
            // Another gateway may hold it.
            let gateway = gateway_of(cell, node).await.ok();
            if gateway.is_some_and(|gateway| gateway.is_none_or(|gateway| peers.is_own(&gateway))) {
                self.away.insert(node, tasks);
            }
        }
    }
}

/// What a job says about the rows of its tasks.
struct JobFacts {
    /// `USER/JOB`.
    name: String,
    /// It is neither over nor being stopped.
    runs: bool,
    /// The version that its rollout brings, and whether it goes on or is paused. `None`: it is over.
    rolling: Option<(u32, RolloutState)>,
    has_failed: bool,
    reset_after_ms: u64,
}

impl JobFacts {
    fn of(state: &MirrorState, job: JobId) -> Option<Self> {
        let row = state.jobs().get(&job)?;
        let spec = state.spec_of(row);
        let rollout = row.rollout.as_deref();
        Some(Self {
            name: format!("{}/{}", row.user, row.name),
            runs: row.state == JobState::Running,
            rolling: rollout.filter(|rollout| rollout.state.is_open()).map(|of| (of.version, of.state)),
            has_failed: row.state == JobState::Ended { outcome: JobOutcome::Failed },
            reset_after_ms: spec.map_or(0, |spec| spec.restart.reset_after_ms),
        })
    }
}

/// Reads the rows of a job's tasks; with `wanted`, that of this task alone.
pub(super) async fn rows_found(cell: &CellContext, job: JobId, wanted: Option<u32>) -> RowsFound {
    let now_ms = cell.clock.wall_ms();
    let mut found = RowsFound::default();
    let mut after = wanted.and_then(|index| index.checked_sub(1));
    loop {
        let last = cell.mirror.read(|state| {
            let facts = JobFacts::of(state, job)?;
            let mut last = None;
            for row in state.job_tasks_behind(job, after).take(wanted.map_or(PART_TASKS, |_| 1)) {
                last = Some(row.id.index);
                if wanted.is_none_or(|index| index == row.id.index) {
                    found.visit(state, &facts, row, now_ms);
                }
            }
            last
        });
        if last.is_none() || wanted.is_some() {
            return found;
        }
        after = last;
        tokio::task::yield_now().await;
    }
}

impl RowsFound {
    fn visit(&mut self, state: &MirrorState, facts: &JobFacts, row: &TaskRow, now_ms: i64) {
        let index = row.id.index;
        let node = row.charged_node().and_then(|node| state.nodes().get(&node));
        match node.map(|node| (node, silent_since(node))) {
            Some((node, Some(since_ms))) => {
                let new = || SilentTasks { node: node.name.to_string(), since_ms, indexes: Vec::new() };
                self.silent.entry(node.id).or_insert_with(new).indexes.push(index);
            }
            Some((node, None)) => {
                let new = || UnconnectedTasks { node: node.name.to_string(), indexes: Vec::new() };
                self.away.entry(node.id).or_insert_with(new).indexes.push(index);
            }
            None => {}
        }
        let is_failing = is_failing(row, facts.reset_after_ms, now_ms);
        if facts.has_failed && is_failing && row.state == TaskState::Dead {
            self.failing_visit(state, facts, row, now_ms);
        }
        if !facts.runs {
            return;
        }
        let name = |id: NodeId| name_of(state.nodes().get(&id).map(AsRef::as_ref), id);
        // Of a task that has failed before and has run for long enough, the probe says most.
        let is_in_helper = self.in_helper.visit(&facts.name, row);
        let is_unhealthy = !is_in_helper && self.unhealthy_visit(state, facts, row, now_ms);
        if let Some((version, rollout)) = facts.rolling
            && let Some(resize) = row.resize.as_deref().filter(|resize| resize.version >= version)
            && let Some(refused) = &resize.refused
        {
            self.refused.add(index, &facts.name, refused, rollout);
        }
        if is_failing && !is_unhealthy {
            self.failing_visit(state, facts, row, now_ms);
        }
        if let Some((id, at_ms)) = lost_with(row) {
            let now = match state.nodes().get(&id) {
                None => LostNode::Removed,
                Some(node) if node.state == NodeState::Lost => LostNode::Lost,
                Some(_) => LostNode::Back,
            };
            let new = || LostTasks { node: name(id), at_ms, now, indexes: Vec::new() };
            self.lost.entry(id).or_insert_with(new).indexes.push(index);
        }
        if let Some(node) = node.filter(|node| node.draining) {
            let new = || DrainedTasks { node: node.name.to_string(), ..DrainedTasks::default() };
            let drained = self.drained.entry(node.id).or_insert_with(new);
            drained.add(index, row.state);
        }
    }

    /// Takes a task into account whose last attempts have failed.
    fn failing_visit(&mut self, state: &MirrorState, facts: &JobFacts, row: &TaskRow, now_ms: i64) {
        let Some(exit) = &row.exit else { return };
        let (index, name) = (row.id.index, |id| name_of(state.nodes().get(&id).map(AsRef::as_ref), id));
        let probe = self.probe_of(state, row).map(|probe| probe_text(&probe, None));
        let is_unhealthy = row.state == TaskState::Running && row.health != Health::Healthy;
        let healthy = is_unhealthy.then(|| healthy_text(row, probe.as_deref()));
        // Of the stops, only that of an unhealthy attempt is due to the probe.
        let probe = probe.filter(|_| exit.stop() == Some(StopReason::Unhealthy));
        let task = FailingTask {
            name: format!("{}/{index}", facts.name),
            index,
            exit_node: exit.node.map(name).unwrap_or_default(),
            node: row.charged_node().map(name).unwrap_or_default(),
            probe: probe.unwrap_or_default(),
            healthy: healthy.unwrap_or_default(),
            now_ms,
        };
        self.failing.add(task, row, exit);
    }

    /// The probe of a task's last attempt.
    fn probe_of(&mut self, state: &MirrorState, row: &TaskRow) -> Option<Probe> {
        let version = row.spec_version;
        let read = || Some(state.spec(row.id.job, version)?.task.health.as_ref()?.probe.clone());
        self.unhealthy.probe_of(version, read)
    }

    /// Takes a task into account that runs and has a probe that has not passed, or a port that another process has.
    /// Returns true if it is such a task.
    fn unhealthy_visit(&mut self, state: &MirrorState, facts: &JobFacts, row: &TaskRow, now_ms: i64) -> bool {
        let Some(since_ms) = unhealthy_since(row, now_ms) else { return false };
        let (index, version) = (row.id.index, row.spec_version);
        let probe = self.probe_of(state, row);
        // A task without a check is healthy by its time alone, unless another process has one of its ports.
        if probe.is_none() && row.ports.is_empty() {
            return false;
        }
        let node = row.node.map(|id| name_of(state.nodes().get(&id).map(AsRef::as_ref), id));
        let named = probe.as_ref().map(port_name);
        let counts = |port: &&PortAssignment| named.is_none_or(|named| Some(port.name.as_str()) == named);
        let ports = row.ports.iter().filter(counts).map(|port| port.number).collect();
        let (name, node) = (format!("{}/{index}", facts.name), node.unwrap_or_default());
        let task = UnhealthyTask { name, node, since_ms, failures: row.failures, ports };
        self.unhealthy.add(index, version, probe.as_ref(), task);
        true
    }
}

/// The name of a node, or its id if the cell has removed it.
fn name_of(node: Option<&NodeRow>, id: NodeId) -> String {
    node.map_or_else(|| id.to_string(), |node| node.name.to_string())
}

/// Returns true if the last attempts of a task have failed, and the present one has not yet shown that it lasts.
fn is_failing(row: &TaskRow, reset_after_ms: u64, now_ms: i64) -> bool {
    let lasts = || {
        let since_ms = row.started_ms.map_or(0, |started_ms| now_ms.saturating_sub(started_ms));
        u64::try_from(since_ms).is_ok_and(|since_ms| since_ms >= reset_after_ms)
    };
    let is_moved = row.exit.as_ref().is_some_and(|exit| !exit.is_failure());
    let was_refused = row.exit.as_ref().is_some_and(|exit| exit.is_of_full_node());
    (row.failures > 0 || (was_refused && row.state == TaskState::Pending))
        && match row.state {
            TaskState::Pending | TaskState::Held | TaskState::Assigned | TaskState::Starting => true,
            // One failure is no loop. More are, until an attempt has lasted long enough to forget them, or somebody
            // moves the task and it is healthy again.
            TaskState::Running => {
                row.health != Health::Healthy || (row.failures > 1 && !is_moved && !lasts())
            }
            TaskState::Releasing => row.verdict == Some(Verdict::Again),
            TaskState::Dead => row.verdict == Some(Verdict::Failed),
            TaskState::Stopping | TaskState::Lost => false,
        }
}

/// The node with which a task was lost that has no node since then, and when it was declared lost.
fn lost_with(row: &TaskRow) -> Option<(NodeId, i64)> {
    match (row.state, &row.exit) {
        (TaskState::Lost, _) => Some((row.node?, row.changed_ms)),
        (TaskState::Pending, Some(exit)) if exit.reason == EndReason::NodeLost => {
            Some((exit.node?, exit.at_ms))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use borough_model::TaskId;
    use borough_model::task::Exit;

    use super::*;
    use crate::cell::tests::{TASK, TestGateway};
    use crate::peer::tests::peers;
    use crate::session::registry::Opening;

    fn failed(state: TaskState, failures: u32) -> TaskRow {
        let id = TaskId { job: JobId(1), index: 0 };
        TaskRow { state, failures, started_ms: Some(10_000), ..TaskRow::never_placed(id) }
    }

    fn exit(reason: EndReason) -> Exit {
        Exit {
            reason,
            code: None,
            signal: None,
            message: String::new(),
            at_ms: 7,
            incarnation: borough_model::Incarnation(1),
            node: Some(NodeId(3)),
            start_failure: None,
        }
    }

    #[test]
    fn a_task_fails_until_an_attempt_is_healthy_or_lasts() {
        let is = |row: &TaskRow, now_ms| is_failing(row, 60_000, now_ms);
        assert!(is(&failed(TaskState::Pending, 1), 0));
        assert!(!is(&failed(TaskState::Pending, 0), 0));
        let healthy = |failures| TaskRow { health: Health::Healthy, ..failed(TaskState::Running, failures) };
        assert!(is(&failed(TaskState::Running, 1), 11_000), "it has merely not crashed yet");
        assert!(!is(&healthy(1), 11_000), "one failure is no loop");
        assert!(is(&healthy(5), 11_000));
        assert!(!is(&healthy(5), 70_000), "it has lasted");
        let drained = Exit { message: StopReason::Drained.text().to_owned(), ..exit(EndReason::Stopped) };
        let moved = TaskRow { exit: Some(Box::new(drained)), ..healthy(5) };
        assert!(!is(&moved, 11_000), "it was moved, and is healthy");
        assert!(is(&TaskRow { health: Health::Unknown, ..moved }, 11_000), "it has to show that it lasts");
        let dead = |verdict| TaskRow { verdict: Some(verdict), ..failed(TaskState::Dead, 3) };
        assert!(is(&dead(Verdict::Failed), 0) && !is(&dead(Verdict::Stopped), 0));
    }

    #[test]
    fn a_task_is_lost_with_its_node_until_it_has_another() {
        let row =
            TaskRow { exit: Some(Box::new(exit(EndReason::NodeLost))), ..failed(TaskState::Pending, 0) };
        assert_eq!(lost_with(&row), Some((NodeId(3), 7)));
        assert_eq!(lost_with(&TaskRow { state: TaskState::Running, ..row }), None);
    }

    /// Nobody counts the node as silent yet, so only its session shows that it is away.
    #[tokio::test(start_paused = true)]
    async fn a_node_without_a_session_is_away() {
        let gateway = TestGateway::new().await;
        let cell = gateway.cells.get("alpha").unwrap();
        let away = async || {
            let mut found = rows_found(cell, TASK.job, None).await;
            found.connected_drop(cell, &peers()).await;
            found.away.into_values().collect::<Vec<_>>()
        };
        let tasks = UnconnectedTasks { node: "n1".to_owned(), indexes: vec![TASK.index] };
        assert_eq!(away().await, [tasks]);
        let node = cell.mirror.read(|state| state.tasks().get(&TASK).unwrap().node).unwrap();
        let (now, report_interval) = (Duration::ZERO, Duration::from_secs(1));
        let _session = cell.sessions.open(Opening { node, id: 7, now, report_interval, failed: 0 });
        assert_eq!(away().await, []);
    }
}
