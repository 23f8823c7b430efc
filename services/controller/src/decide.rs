//! Decides the actions for a job or a node: pure functions of the state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_model::daemon::NodeServed;
use borough_model::disruption::{DisruptionBudget, DisruptionCause, RECHECKED_MAX};
use borough_model::job::{AfterDecision, CanaryHealth, RolloutFailure, after_decide, eviction_due_ms};
use borough_model::node::{NodeRow, NodeState, TaintEffect};
use borough_model::task::{LEAVE_MARGIN_MS, StopReason, leave_due_ms};
use borough_model::{GangId, Incarnation, JobId, JobRow, Name, NodeId, TaskId, TaskRow, TaskState};
use borough_store::mirror::MirrorState;
use borough_store::task::TaskMoves;

/// An action, carried out in transactions of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerAction {
    /// Begin to end the tasks that the job does not want.
    TasksUnwanted(JobId),
    /// Revive the tasks that the job had given up and wants again.
    TasksRevive(JobId),
    /// Give each of these nodes a task of the daemon job, if no task was given to a node since these steps. So many
    /// nodes lack one in all.
    NodesServe(JobId, u64, Vec<NodeServed>, u32),
    /// End the job: every task is gone.
    JobEnd(JobId),
    /// Start the job, or end it: the jobs that it waits for have ended.
    JobDependencies(JobId),
    /// Record in every task of the node that it is lost.
    NodeTasksLost(NodeId),
    /// Give up a gang whose time to gather is over, or settle its holds.
    GangEnd(GangId),
    /// Give up these attempts, to be placed elsewhere.
    TasksReschedule(NodeId, Vec<(TaskId, Incarnation)>),
    /// Move these attempts off their node: it is drained, or has a taint that they do not tolerate.
    TasksMove(StopReason, Vec<TaskMoves>),
    /// End attempts of daemon jobs: their nodes are not served any more.
    TasksWithdraw(Vec<(TaskId, Incarnation)>),
    /// End attempts in allocs that end or leave: they go where their allocs go.
    AllocsFollow(Vec<(TaskId, Incarnation)>),
    /// Move those attempts off the drained node that have room elsewhere ([`drain_departures`], [`departures_now`]).
    NodeDrain(NodeId),
    /// Record that the job's rollout made progress then, if its row has this revision.
    RolloutProgress(JobId, u64, i64),
    /// Let these tasks of a job be tried at once, if its row has this revision: what they wait for is over.
    RolloutRetry(JobId, u64, Vec<(TaskId, Incarnation)>),
    /// Give these running attempts of a job the version in force as they run, if its row has this revision.
    RolloutAdopt(JobId, u64, Vec<(TaskId, Incarnation)>),
    /// Order that these attempts of a job are resized in place, if its row has this revision.
    RolloutResize(JobId, u64, Vec<(TaskId, Incarnation)>),
    /// End these stale attempts of a job whose row has this revision: its rollout replaces them.
    RolloutReplace(JobId, u64, Vec<(TaskId, Incarnation)>),
    /// Record whether the canaries of the job's rollout are healthy, if its row has this revision.
    RolloutCanaries(JobId, u64, CanaryHealth),
    /// Promote the version of the job's rollout, if its row has this revision.
    RolloutPromote(JobId, u64),
    /// Have further tasks surge for the job's rollout, which cannot resize all in place, if its row has this revision.
    RolloutSurge(JobId, u64),
    /// Record that the job's rollout is done except for so many tasks, if its row has this revision.
    RolloutDone(JobId, u64, u32),
    /// Record that the job's rollout has failed, if its row has this revision, and take its version back if the job
    /// wants that.
    RolloutFail(JobId, u64, RolloutFailure),
    /// Have so many further tasks of the job surge before others leave their nodes, if its row has this revision.
    SurgeBegin(JobId, u64, u32),
    /// End what surges for moves of the job, if its row has this revision.
    SurgeEnd(JobId, u64),
    /// Release these attempts' promises of room on the node, for which they have waited in vain.
    PromisesExpire(NodeId, Vec<(TaskId, Incarnation)>),
}

/// Attempts of one job that must leave a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departures {
    pub job: JobId,
    /// The revision of the job's row by which they were selected.
    pub revision: u64,
    /// Attempts that are not healthy: they serve nobody, and may all leave.
    pub idle: Vec<(TaskId, Incarnation)>,
    pub healthy: Vec<(TaskId, Incarnation)>,
    /// How many of the healthy ones may leave now. Of an alloc set it is all, if any: its allocs leave when the jobs in
    /// them let them, and the transaction counts those.
    pub at_once: usize,
    /// How many further tasks must surge before any healthy one leaves; 0: none.
    pub surge: u32,
    /// Healthy tasks that stand in for healthy ones: so many may leave although they fit on no other node.
    pub stand_ins: u32,
}

impl Departures {
    /// What has to happen before a healthy one may leave, if anything.
    pub fn surge_begin(&self) -> Option<ControllerAction> {
        let leaving = u32::try_from(self.healthy.len()).unwrap_or(u32::MAX);
        let surge = self.surge.min(leaving);
        (surge > 0).then_some(ControllerAction::SurgeBegin(self.job, self.revision, surge))
    }
}

/// Selects the attempts that leave a node now: of each job at most [`Departures::at_once`] healthy ones, and only those
/// that have room elsewhere (`fits`). The others keep running where they are.
pub fn departures_now(departures: &[Departures], mut fits: impl FnMut(TaskId) -> bool) -> Vec<TaskMoves> {
    let mut moves = Vec::new();
    for of_job in departures {
        let mut attempts = Vec::new();
        for (wanted, most) in [(&of_job.idle, usize::MAX), (&of_job.healthy, of_job.at_once)] {
            let fitting = wanted.iter().filter(|(task, _)| fits(*task));
            attempts.extend(fitting.take(most).copied());
        }
        let Departures { job, revision, .. } = *of_job;
        moves.extend((!attempts.is_empty()).then_some(TaskMoves { job, revision, attempts }));
    }
    moves
}

/// The action for a job that waits for others.
pub(crate) fn dependency_actions(state: &MirrorState, job: &JobRow) -> Vec<ControllerAction> {
    let Some(spec) = state.spec_of(job) else { return Vec::new() };
    let of = |name: &Name| state.job_by_name(&job.user, name).map(|row| row.state);
    match after_decide(&spec.after, of) {
        AfterDecision::Wait(_) => Vec::new(),
        AfterDecision::Go | AfterDecision::Never(_) => vec![ControllerAction::JobDependencies(job.id)],
    }
}

/// Returns true if a task in this state has not been ordered to stop.
pub(crate) fn unasked(state: TaskState) -> bool {
    match state {
        TaskState::Pending
        | TaskState::Held
        | TaskState::Assigned
        | TaskState::Starting
        | TaskState::Running
        | TaskState::Lost => true,
        TaskState::Stopping | TaskState::Releasing | TaskState::Dead => false,
    }
}

/// The actions for a node that has been silent for `silent`. A lost node's tasks are given up after the cell's
/// tolerance, or after their own job's if that is longer. `now_ms` is wall time since 1970: attempts stay on a tainted
/// node for as long as they tolerate it.
pub fn node_actions(
    state: &MirrorState,
    node: NodeId,
    silent: Duration,
    tolerance: Duration,
    now_ms: i64,
) -> Vec<ControllerAction> {
    let Some(row) = state.nodes().get(&node) else { return Vec::new() };
    let mut actions = Vec::new();
    if row.state == NodeState::Lost {
        let counted = |state: TaskState| state.is_charged();
        if state.node_tasks(node).any(|task| counted(task.state)) {
            actions.push(ControllerAction::NodeTasksLost(node));
        }
        let due = |job: JobId| {
            let job = state.jobs().get(&job);
            let own = job.and_then(|job| state.spec_of(job)).and_then(|spec| spec.lost_after_ms);
            silent >= own.map_or(tolerance, Duration::from_millis).max(tolerance)
        };
        let lost = state.node_tasks(node).filter(|task| task.state == TaskState::Lost && due(task.id.job));
        let attempts: Vec<(TaskId, Incarnation)> = lost.map(|task| (task.id, task.incarnation)).collect();
        if !attempts.is_empty() {
            actions.push(ControllerAction::TasksReschedule(node, attempts));
        }
    }
    if matches!(row.state, NodeState::Ready | NodeState::Recovering) {
        let left = alloc_left(state, node);
        actions.extend((!left.is_empty()).then_some(ControllerAction::AllocsFollow(left)));
    }
    if row.state == NodeState::Ready {
        let overdue = promises_overdue(state, node, now_ms);
        if !overdue.is_empty() {
            actions.push(ControllerAction::PromisesExpire(node, overdue));
        }
        if row.draining {
            let held = held_there(state, node, |_| true);
            actions
                .extend((!held.is_empty()).then_some(ControllerAction::TasksMove(StopReason::Drained, held)));
            let departures = departures(state, node, |_| true, now_ms);
            actions.extend((!departures.is_empty()).then_some(ControllerAction::NodeDrain(node)));
            let daemons =
                if has_others(state, node) { Vec::new() } else { daemons_there(state, node, |_| true) };
            actions.extend((!daemons.is_empty()).then_some(ControllerAction::TasksWithdraw(daemons)));
        } else if drives_away(row) {
            let outstays = |task: &TaskRow| outstays(state, row, task, now_ms);
            let mut moved = held_there(state, node, outstays);
            let departures = departures(state, node, outstays, now_ms);
            moved.extend(departures_now(&departures, |_| true));
            actions.extend(departures.iter().filter_map(Departures::surge_begin));
            actions.extend(
                (!moved.is_empty()).then_some(ControllerAction::TasksMove(StopReason::Tainted, moved)),
            );
            let daemons = daemons_there(state, node, outstays);
            actions.extend((!daemons.is_empty()).then_some(ControllerAction::TasksWithdraw(daemons)));
        }
    }
    actions
}

/// Attempts on a node in allocs that end, are gone, or have begun again. While the node returns, an alloc that is still
/// lost may return as well. One that ended meanwhile does not, and the node would return for ever with what is in it.
fn alloc_left(state: &MirrorState, node: NodeId) -> Vec<(TaskId, Incarnation)> {
    let stays = |task: &TaskRow| match task.in_alloc() {
        Some(place) => state.tasks().get(&place.alloc).is_some_and(|alloc| {
            let goes_on = matches!(
                alloc.state,
                TaskState::Assigned | TaskState::Starting | TaskState::Running | TaskState::Lost
            );
            goes_on && alloc.incarnation == place.attempt
        }),
        None => true,
    };
    let is_there = |task: &TaskRow| unasked(task.state) && task.state != TaskState::Lost;
    let left = state.node_tasks(node).filter(|task| is_there(task) && !stays(task));
    left.map(|task| (task.id, task.incarnation)).collect()
}

/// Attempts that were promised room on a node and will not get it: no task there is still expected to exit. Either a
/// task cannot be ended, or the node has shrunk.
fn promises_overdue(state: &MirrorState, node: NodeId, now_ms: i64) -> Vec<(TaskId, Incarnation)> {
    let waits = |task: &&Arc<TaskRow>| task.state == TaskState::Held && task.promised;
    let due = |task: &&Arc<TaskRow>| now_ms >= task.changed_ms.saturating_add(LEAVE_MARGIN_MS);
    let mut overdue: Vec<(TaskId, Incarnation)> = Vec::new();
    overdue.extend(state.node_tasks(node).filter(waits).filter(due).map(|task| (task.id, task.incarnation)));
    if overdue.is_empty() {
        return overdue;
    }
    let spec = |task: &TaskRow| state.jobs().get(&task.id.job).and_then(|job| state.spec_of(job));
    let leaves = |task: &Arc<TaskRow>| {
        matches!(task.state, TaskState::Stopping | TaskState::Releasing)
            && spec(task).is_some_and(|spec| now_ms < leave_due_ms(task.changed_ms, &spec))
    };
    if state.node_tasks(node).any(leaves) {
        return Vec::new();
    }
    overdue
}

/// Returns true if a node has taints that drive attempts away.
pub fn drives_away(node: &NodeRow) -> bool {
    node.taints.iter().any(|taint| taint.effect == TaintEffect::NoExecute)
}

/// Returns true if an attempt has to leave its node at this time: the node is drained, or has a taint for longer than
/// the attempt tolerates it.
pub(crate) fn must_leave(state: &MirrorState, task: &TaskRow, now_ms: i64) -> bool {
    let node = task.charged_node().and_then(|node| state.nodes().get(&node));
    let node = node.filter(|node| node.state == NodeState::Ready);
    node.is_some_and(|node| node.draining || (drives_away(node) && outstays(state, node, task, now_ms)))
}

/// Returns true if an attempt is on a node for longer than it tolerates the node's taints.
fn outstays(state: &MirrorState, node: &NodeRow, task: &TaskRow, now_ms: i64) -> bool {
    let spec = state.jobs().get(&task.id.job).and_then(|job| state.spec_of(job));
    // The node's clock may be ahead. A row changes after its task began.
    let begun_ms = task.started_ms.unwrap_or(task.changed_ms).min(task.changed_ms);
    spec.and_then(|spec| eviction_due_ms(&node.taints, &spec.tolerations, begun_ms))
        .is_some_and(|due_ms| due_ms <= now_ms)
}

/// Attempts that only hold a place on a node, of those that `wanted` selects. They do not run, so moving them disrupts
/// nothing.
fn held_there(state: &MirrorState, node: NodeId, wanted: impl Fn(&TaskRow) -> bool) -> Vec<TaskMoves> {
    let waits = |task: &&Arc<TaskRow>| (task.promised || task.gang.is_some()) && task.daemon_node.is_none();
    let held = state.node_tasks(node).filter(|task| task.state == TaskState::Held).filter(waits);
    let mut by_job: BTreeMap<JobId, Vec<(TaskId, Incarnation)>> = BTreeMap::new();
    for task in held.filter(|task| wanted(task)) {
        by_job.entry(task.id.job).or_default().push((task.id, task.incarnation));
    }
    // Their row of the job does not matter: they are not healthy.
    by_job.into_iter().map(|(job, attempts)| TaskMoves { job, revision: 0, attempts }).collect()
}

/// Returns true if a node that is drained still has a task that is of no daemon job. Those of daemon jobs serve it
/// until the others have gone.
fn has_others(state: &MirrorState, node: NodeId) -> bool {
    state.node_tasks(node).any(|task| task.daemon_node.is_none())
}

/// Attempts of daemon jobs on a node, of those that `wanted` selects. They run nowhere else, so no budget holds for
/// their ends: nothing waits for a place elsewhere.
fn daemons_there(
    state: &MirrorState,
    node: NodeId,
    wanted: impl Fn(&TaskRow) -> bool,
) -> Vec<(TaskId, Incarnation)> {
    let ends = |task: &&Arc<TaskRow>| task.daemon_node.is_some() && unasked(task.state);
    let there = state.node_tasks(node).filter(ends).filter(|task| wanted(task));
    there.map(|task| (task.id, task.incarnation)).collect()
}

/// Attempts to move off a node, of those that `wanted` selects, without those of daemon jobs and those in allocs. Also
/// how many healthy ones the disruption budgets of their jobs allow. `now_ms` is wall time since 1970.
fn departures(
    state: &MirrorState,
    node: NodeId,
    wanted: impl Fn(&TaskRow) -> bool,
    now_ms: i64,
) -> Vec<Departures> {
    let on_node = state
        .node_tasks(node)
        .filter(|task| matches!(task.state, TaskState::Assigned | TaskState::Starting | TaskState::Running))
        .filter(|task| task.daemon_node.is_none() && task.alloc.is_none() && wanted(task));
    let mut by_job: BTreeMap<JobId, Vec<&Arc<TaskRow>>> = BTreeMap::new();
    for task in on_node {
        by_job.entry(task.id.job).or_default().push(task);
    }
    let of_job = |(job, tasks): (JobId, Vec<&Arc<TaskRow>>)| {
        let (row, spec) = state.jobs().get(&job).and_then(|row| Some((row, state.spec_of(row)?)))?;
        let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
        let (healthy, idle): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|task| task.is_healthy());
        let used = if healthy.is_empty() { None } else { Some(state.budget_use(row, &budget, now_ms)) };
        let attempts = |tasks: Vec<&Arc<TaskRow>>| {
            tasks.into_iter().map(|task| (task.id, task.incarnation)).collect::<Vec<_>>()
        };
        let at_once = used.map_or(0, |used| used.left(&budget, now_ms));
        let is_counted_again = row.alloc_members().is_some() && row.count <= RECHECKED_MAX;
        let at_once = if at_once > 0 && is_counted_again { u32::MAX } else { at_once };
        Some(Departures {
            job,
            revision: row.revision,
            idle: attempts(idle),
            healthy: attempts(healthy),
            at_once: usize::try_from(at_once).unwrap_or(usize::MAX),
            surge: budget.surge_wanted,
            stand_ins: used.map_or(0, |used| used.surging).min(row.moves_surge()),
        })
    };
    let is_open = |of_job: &Departures| {
        !of_job.idle.is_empty() || ((of_job.at_once > 0 || of_job.surge > 0) && !of_job.healthy.is_empty())
    };
    by_job.into_iter().filter_map(of_job).filter(is_open).collect()
}

/// The attempts that must leave a node if it is drained.
pub fn drain_departures(state: &MirrorState, node: NodeId, now_ms: i64) -> Vec<Departures> {
    let row = state.nodes().get(&node);
    let is_drained = row.is_some_and(|row| row.state == NodeState::Ready && row.draining);
    if is_drained { departures(state, node, |_| true, now_ms) } else { Vec::new() }
}

/// Tasks that are leaving a node that they had to leave, and are still there: each is placed again.
pub fn leaving(state: &MirrorState, node: NodeId) -> impl Iterator<Item = TaskId> {
    let leaves = |task: &&Arc<TaskRow>| {
        let stopping = matches!(task.state, TaskState::Stopping | TaskState::Releasing);
        stopping && task.stop.is_some_and(|stop| !stop.is_final())
    };
    state.node_tasks(node).filter(leaves).map(|task| task.id)
}

/// Returns true if attempts are moved off a node.
pub(crate) fn is_emptied(node: &NodeRow) -> bool {
    node.draining || drives_away(node)
}

/// How many more nodes may be declared lost now: at most `per_minute` in any minute, so that a fault of the network
/// does not empty the cell. `declared` are the times of earlier declarations (monotonic).
pub fn losses_left(declared: &[Duration], now: Duration, per_minute: u32) -> usize {
    let minute = Duration::from_secs(60);
    let recent = declared.iter().filter(|at| now.saturating_sub(**at) < minute).count();
    usize::try_from(per_minute).unwrap_or(usize::MAX).saturating_sub(recent)
}

#[cfg(test)]
mod tests {
    use borough_model::Delta;
    use borough_model::task::Health;
    use borough_store::journal::Listed;

    use super::*;

    fn facts() -> borough_model::node::NodeFacts {
        borough_testkit::node_facts(borough_model::Resources::default())
    }

    #[test]
    fn losses_are_limited_per_minute() {
        let at = |seconds| Duration::from_secs(seconds);
        assert_eq!(losses_left(&[], at(0), 2), 2);
        assert_eq!(losses_left(&[at(0), at(30)], at(59), 2), 0);
        assert_eq!(losses_left(&[at(0), at(30)], at(60), 2), 1);
        assert_eq!(losses_left(&[at(0)], at(1), 0), 0);
    }

    #[test]
    fn a_promise_is_let_go_when_nothing_leaves_in_good_time_any_more() {
        let (node, job) = (NodeId(1), JobId(1));
        let kind = borough_model::job::JobKind::Batch;
        let name = |text: &str| Name::new(text).unwrap();
        let spec = borough_model::JobSpec::defaults(name("ada"), name("low"), kind, vec!["run".to_owned()]);
        let due_ms = leave_due_ms(1_000, &spec);
        let row = borough_model::job::job_new(job, &spec, borough_model::RequestId(1), 0);
        let there = borough_model::node::node_new(node, name("n"), facts(), 0);
        let actions = |now_ms: i64, draining: bool, victim: Option<TaskState>| {
            let task = |index, state, promised| TaskRow {
                node: Some(node),
                incarnation: Incarnation(1),
                changed_ms: 1_000,
                revision: 1,
                state,
                promised,
                ..TaskRow::never_placed(TaskId { job, index })
            };
            let mut state = MirrorState::default();
            let node_row = NodeRow { state: NodeState::Ready, draining, ..there.clone() };
            let mut deltas = vec![
                Delta::Job { row: row.clone().into(), spec: Some(Box::new(spec.clone())) },
                Delta::Node { row: node_row },
                Delta::Task { row: task(0, TaskState::Held, true) },
                // A gang that gathers has a time limit of its own.
                Delta::Task { row: task(1, TaskState::Held, false) },
            ];
            deltas.extend(victim.map(|state| Delta::Task { row: task(2, state, false) }));
            for delta in deltas {
                state.list(borough_store::journal::Listed::Row(Box::new(delta)));
            }
            let spec = Box::new(spec.clone());
            state.list(borough_store::journal::Listed::Spec { job, version: row.spec_version, spec });
            node_actions(&state, node, Duration::ZERO, Duration::from_secs(30), now_ms)
        };
        let attempts = vec![(TaskId { job, index: 0 }, Incarnation(1))];
        let expire = vec![ControllerAction::PromisesExpire(node, attempts.clone())];
        for victim in [TaskState::Stopping, TaskState::Releasing] {
            assert_eq!(actions(due_ms - 1, false, Some(victim)), [], "{victim:?} is on its way out");
            assert_eq!(actions(due_ms, false, Some(victim)), expire, "{victim:?} cannot be ended");
        }
        // No leaving task blocks the promise: the node has shrunk, or has room by now.
        let alone_ms = 1_000 + LEAVE_MARGIN_MS;
        assert_eq!(actions(alone_ms - 1, false, Some(TaskState::Running)), []);
        assert_eq!(actions(alone_ms, false, None), expire);
        // A drained task leaves at once.
        let moves = vec![TaskMoves { job, revision: 0, attempts }];
        assert_eq!(actions(1_000, true, None), [ControllerAction::TasksMove(StopReason::Drained, moves)]);
    }

    #[test]
    fn a_task_without_room_elsewhere_stays_and_delays_no_other_of_its_job() {
        let attempt = |job, index| (TaskId { job: JobId(job), index }, Incarnation(1));
        let of_job = |job, at_once| Departures {
            job: JobId(job),
            revision: 1,
            idle: Vec::new(),
            healthy: (0..4).map(|index| attempt(job, index)).collect(),
            at_once,
            surge: 0,
            stand_ins: 0,
        };
        let departures = [
            of_job(1, 2),
            of_job(2, 1),
            of_job(3, 4),
            Departures { idle: vec![attempt(4, 9)], ..of_job(4, 0) },
        ];
        let mut tried = Vec::new();
        let leave = departures_now(&departures, |task| {
            tried.push(task);
            match task.job {
                JobId(1) => task.index > 0,
                JobId(2 | 4) => true,
                _ => false,
            }
        });
        let leave: Vec<_> = leave.into_iter().flat_map(|of_job| of_job.attempts).collect();
        assert_eq!(leave, [attempt(1, 1), attempt(1, 2), attempt(2, 0), attempt(4, 9)]);
        // The trial reserves no room for tasks that may not leave yet.
        assert_eq!(tried.iter().filter(|task| task.job == JobId(2)).count(), 1);
    }

    /// Another task of the job that is not up yet is as good as away. One that comes up on the node itself may leave.
    #[test]
    fn no_task_leaves_while_another_of_its_job_is_not_up() {
        let (node, job) = (NodeId(1), JobId(1));
        let there = borough_model::node::node_new(node, Name::new("n").unwrap(), facts(), 0);
        let there = NodeRow { draining: true, state: NodeState::Ready, revision: 1, ..there };
        let spec = borough_testkit::job_spec("ada", "web", borough_model::job::JobKind::Service);
        let row = borough_model::job::job_new(job, &spec, borough_model::RequestId(1), 0);
        let row = JobRow { count: 3, state: borough_model::job::JobState::Running, ..row };
        let leaving = |elsewhere: Health, failures, here: Health| {
            let mut state = MirrorState::default();
            let mut list = |listed| state.list(listed);
            list(Listed::Row(Box::new(Delta::Node { row: there.clone() })));
            list(Listed::Row(Box::new(Delta::Job { row: row.clone().into(), spec: None })));
            list(Listed::Spec { job, version: row.spec_version, spec: Box::new(spec.clone()) });
            for (index, on, health, failures) in [(0, 2, elsewhere, failures), (1, 1, here, 0)] {
                let task = TaskRow {
                    node: Some(NodeId(on)),
                    incarnation: Incarnation(1),
                    state: TaskState::Running,
                    revision: 1,
                    health,
                    failures,
                    not_before_ms: i64::from(failures),
                    ..TaskRow::never_placed(TaskId { job, index })
                };
                list(Listed::Row(Box::new(Delta::Task { row: task })));
            }
            let moves = departures_now(&drain_departures(&state, node, 0), |_| true);
            moves.iter().flat_map(|of_job| &of_job.attempts).map(|(task, _)| task.index).collect::<Vec<_>>()
        };
        let (up, rising) = (Health::Healthy, Health::Unknown);
        assert_eq!(leaving(up, 0, up), [1]);
        assert_eq!(leaving(rising, 0, up), Vec::<u32>::new(), "task 0 is not up yet");
        assert_eq!(leaving(rising, 1, up), Vec::<u32>::new(), "task 0 has failed once");
        assert_eq!(leaving(rising, 2, up), [1], "task 0 fails, and may do so forever");
        assert_eq!(leaving(up, 0, rising), [1], "it serves nobody here either");
        assert_eq!(leaving(rising, 0, rising), [1], "whatever else is away");
    }

    /// The other tasks of the node go first, a quarter of each job at a time. Then all daemons end at once.
    #[test]
    fn a_daemon_leaves_a_drained_node_last_and_is_bound_by_nothing() {
        let (node, web, daemon) = (NodeId(1), JobId(1), JobId(2));
        let there = borough_model::node::node_new(node, Name::new("n").unwrap(), facts(), 0);
        let there = NodeRow { draining: true, state: NodeState::Ready, revision: 1, ..there };
        let job = |id, kind| {
            let spec = borough_testkit::job_spec("ada", if id == web { "web" } else { "logs" }, kind);
            let row = borough_model::job::job_new(id, &spec, borough_model::RequestId(1), 0);
            Delta::Job { row: JobRow { count: 8, ..row }.into(), spec: Some(Box::new(spec)) }
        };
        let actions = |others: u32, taints: bool| {
            let mut state = MirrorState::default();
            let mut list = |delta| state.list(borough_store::journal::Listed::Row(Box::new(delta)));
            let taint = borough_model::node::Taint {
                key: "own".to_owned(),
                value: String::new(),
                effect: TaintEffect::NoExecute,
                added_ms: 0,
            };
            let taints = if taints { vec![taint] } else { Vec::new() };
            list(Delta::Node { row: NodeRow { draining: taints.is_empty(), taints, ..there.clone() } });
            list(job(web, borough_model::job::JobKind::Service));
            list(job(daemon, borough_model::job::JobKind::Daemon));
            let task = |job, index, daemon_node| TaskRow {
                node: Some(node),
                incarnation: Incarnation(1),
                state: TaskState::Running,
                health: Health::Healthy,
                revision: 1,
                daemon_node,
                ..TaskRow::never_placed(TaskId { job, index })
            };
            (0..others).for_each(|index| list(Delta::Task { row: task(web, index, None) }));
            for index in 0..4 {
                list(Delta::Task { row: task(daemon, index, Some(Box::new(node))) });
            }
            for job in [web, daemon] {
                let spec = borough_testkit::job_spec("ada", "web", borough_model::job::JobKind::Service);
                state.list(borough_store::journal::Listed::Spec { job, version: 1, spec: Box::new(spec) });
            }
            let departing: usize =
                drain_departures(&state, node, 1).iter().map(|of_job| of_job.healthy.len()).sum();
            (node_actions(&state, node, Duration::ZERO, Duration::from_secs(30), 1), departing)
        };
        let daemons = (0..4).map(|index| (TaskId { job: daemon, index }, Incarnation(1))).collect();
        let end = ControllerAction::TasksWithdraw(daemons);
        assert_eq!(actions(3, false), (vec![ControllerAction::NodeDrain(node)], 3), "it serves the others");
        assert_eq!(actions(0, false), (vec![end.clone()], 0));
        let (driven, _) = actions(1, true);
        assert!(driven.contains(&end), "a taint drives it out with the others: {driven:?}");
    }

    #[test]
    fn only_attempts_without_a_stop_are_stopped() {
        let stopped_states: Vec<TaskState> =
            TaskState::ALL.into_iter().filter(|state| !unasked(*state)).collect();
        assert_eq!(stopped_states, [TaskState::Stopping, TaskState::Releasing, TaskState::Dead]);
    }
}
