//! Daemon jobs: which nodes are served, whatever nodes come, go and change.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::daemon::{DaemonRules, DaemonStep, DaemonView, NodeFit, SERVED_MAX};
use borough_model::id::{JobId, NodeId, TaskId};
use borough_model::job::{
    Constraint, ConstraintOperator, JobEvent, JobKind, JobSpec, RestartMode, Spread, Toleration,
    TolerationOperator, UpdateSpec, job_new, job_transition,
};
use borough_model::node::{NodeRow, NodeState, SILENT_KEY, Taint, TaintEffect, node_new};
use borough_model::rollout::RolloutStep;
use borough_model::task::{
    Attempt, Health, Placement, StopReason, TaskEvent, TaskRow, TaskState, task_transition,
};
use borough_model::{RequestId, Resources};
use proptest::prelude::*;

use crate::rollout::{begun, step, task};
use crate::sample::{NOW, name, spec};

const JOB: JobId = JobId(1);

fn node(id: u64) -> NodeRow {
    let facts = borough_model::node::NodeFacts {
        capacity: Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() },
        port_first: 20_000,
        port_last: 20_009,
        attributes: BTreeMap::from([("rack".to_owned(), format!("r{}", id % 2))]),
        host: "127.0.0.1".to_owned(),
        boot_id: String::new(),
        agent_version: String::new(),
        cards: Vec::new(),
        domains: Vec::new(),
    };
    NodeRow { state: NodeState::Ready, ..node_new(NodeId(id), name(&format!("n{id}")), facts, 0) }
}

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect, added_ms: 0 }
}

fn daemon() -> JobSpec {
    spec(JobKind::Daemon)
}

fn labelled() -> JobSpec {
    let constraint = Constraint {
        attribute: "disk".to_owned(),
        operator: ConstraintOperator::In,
        values: vec!["ssd".to_owned()],
        preference: None,
    };
    JobSpec { constraints: vec![constraint], ..daemon() }
}

fn fit(spec: &JobSpec, node: &NodeRow) -> NodeFit {
    DaemonRules::of(spec, spec.priority).fit(node)
}

#[test]
fn a_node_is_served_if_it_matches_and_is_ready_also_while_it_is_cordoned() {
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    let plain = node(1);
    assert_eq!(fit(&daemon(), &plain), NodeFit::Served);
    let state = |state| NodeRow { state, ..plain.clone() };
    assert_eq!(fit(&daemon(), &state(NodeState::Recovering)), NodeFit::Awaited);
    assert_eq!(fit(&daemon(), &state(NodeState::Lost)), NodeFit::Kept);
    let cordoned = NodeRow { schedulable: false, ..plain.clone() };
    assert_eq!(fit(&daemon(), &cordoned), NodeFit::Served, "as Kubernetes does it");
    assert_eq!(fit(&daemon(), &NodeRow { draining: true, ..cordoned }), NodeFit::Kept);
    let tainted = |taint| NodeRow { taints: vec![taint], ..plain.clone() };
    for (effect, expected) in
        [(NoSchedule, NodeFit::Kept), (NoExecute, NodeFit::Kept), (PreferNoSchedule, NodeFit::Served)]
    {
        assert_eq!(fit(&daemon(), &tainted(taint("dedicated", effect))), expected, "{effect:?}");
    }
    let tolerant = Toleration {
        key: "dedicated".to_owned(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        evict_after_ms: None,
    };
    let tolerant = JobSpec { tolerations: vec![tolerant], ..daemon() };
    assert_eq!(fit(&tolerant, &tainted(taint("dedicated", NoSchedule))), NodeFit::Served);
    assert_eq!(
        fit(&daemon(), &tainted(taint(SILENT_KEY, NoSchedule))),
        NodeFit::Awaited,
        "it may answer soon"
    );
    assert_eq!(fit(&daemon(), &tainted(taint("pressure/disk", NoSchedule))), NodeFit::Awaited);
    let both = vec![taint(SILENT_KEY, NoSchedule), taint("dedicated", NoSchedule)];
    assert_eq!(fit(&daemon(), &NodeRow { taints: both, ..plain.clone() }), NodeFit::Kept);
    assert_eq!(fit(&labelled(), &plain), NodeFit::Unmatched);
    let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    assert_eq!(fit(&labelled(), &NodeRow { labels, ..plain.clone() }), NodeFit::Served);
    let mut large = daemon();
    large.task.resources.cpu_millis = 1_001;
    assert_eq!(fit(&large, &plain), NodeFit::TooSmall, "it is too small");
}

/// The controller and the scheduler over a few nodes, without a store.
struct World {
    spec: JobSpec,
    nodes: BTreeMap<NodeId, NodeRow>,
    tasks: Vec<TaskRow>,
    now_ms: i64,
}

impl World {
    fn look(&self) -> DaemonStep {
        let mut view = DaemonView::new(DaemonRules::of(&self.spec, self.spec.priority));
        for task in &self.tasks {
            view.visit_task(task, task.node_served().and_then(|node| self.nodes.get(&node)));
        }
        self.nodes.values().for_each(|node| view.visit_node(node));
        view.step()
    }

    fn apply(&mut self, index: usize, event: &TaskEvent) {
        self.now_ms += 1;
        let transition = task_transition(&self.tasks[index], event, self.now_ms).unwrap();
        self.tasks[index] = transition.row;
    }

    /// Carries out a step as the store does.
    fn carry_out(&mut self, step: &DaemonStep) {
        for served in &step.serve {
            let index = served.again.unwrap_or_else(|| {
                let index = u32::try_from(self.tasks.len()).unwrap();
                self.tasks.push(TaskRow::never_placed(TaskId { job: JOB, index }));
                index
            });
            self.apply(usize::try_from(index).unwrap(), &TaskEvent::NodeServed { node: served.node });
        }
        for (task, _) in &step.withdraw {
            let stop = TaskEvent::StopRequested { reason: StopReason::NodeLeft };
            self.apply(usize::try_from(task.index).unwrap(), &stop);
        }
    }

    /// Begins and ends attempts as workers and agents do, of the tasks that `chosen` has a bit for.
    fn run(&mut self, chosen: u32) {
        for index in (0..self.tasks.len()).filter(|index| chosen >> (index % 32) & 1 == 1) {
            let row = self.tasks[index].clone();
            let Some(node) = row.node_served() else { continue };
            let attempt = Attempt { node, incarnation: row.incarnation };
            match row.state {
                TaskState::Pending if self.nodes.contains_key(&node) => {
                    let placement = Placement {
                        node,
                        incarnation: row.incarnation.next(),
                        ports: Vec::new(),
                        resources: Resources::default(),
                        spec_version: 1,
                        gang: None,
                        alloc: None,
                    };
                    self.apply(index, &TaskEvent::Place(placement));
                }
                TaskState::Assigned => {
                    let (pid, started_ms) = (1, self.now_ms);
                    let (health, cores) = (Health::Healthy, Vec::new());
                    self.apply(index, &TaskEvent::ProcessStarted { attempt, pid, started_ms, health, cores });
                }
                TaskState::Stopping => self.apply(index, &TaskEvent::ReleaseConfirmed { attempt }),
                _ => {}
            }
        }
    }

    fn check(&self, before: &[Option<NodeId>]) {
        let mut seen = BTreeSet::new();
        for task in self.tasks.iter().filter(|task| task.node_served().is_some()) {
            assert!(seen.insert(task.node_served()), "two tasks for one node: {:?}", self.tasks);
        }
        for (task, before) in self.tasks.iter().zip(before) {
            // Only a withdrawn task of a node that is gone may be for another one.
            let is_same = task.node_served() == *before;
            assert!(is_same || !self.nodes.contains_key(&before.unwrap()), "{task:?} was for {before:?}");
        }
    }
}

/// What becomes of a node.
fn changed(world: &mut World, id: u64, change: u8) {
    let id = NodeId(id);
    if change == 0 {
        world.nodes.remove(&id);
        return;
    }
    let row = world.nodes.entry(id).or_insert_with(|| node(id.0));
    match change {
        1 => row.draining = !row.draining,
        2 => row.schedulable = !row.schedulable,
        3 => row.state = NodeState::Lost,
        4 => row.state = NodeState::Recovering,
        5 => row.taints = vec![taint("dedicated", TaintEffect::NoSchedule)],
        6 => row.taints = Vec::new(),
        7 => drop(row.labels.remove("disk")),
        8 => drop(row.labels.insert("disk".to_owned(), "ssd".to_owned())),
        _ => row.state = NodeState::Ready,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_node_that_matches_gets_one_task_and_no_task_of_another_node_moves(
        is_labelled in any::<bool>(),
        acts in prop::collection::vec((0..12_u64, 0..12_u8, any::<u32>(), any::<bool>()), 0..60),
    ) {
        let spec = if is_labelled { labelled() } else { daemon() };
        let mut world = World { spec, nodes: BTreeMap::new(), tasks: Vec::new(), now_ms: 1 };
        for (id, change, chosen, looks) in acts {
            changed(&mut world, id, change);
            let before: Vec<_> = world.tasks.iter().map(TaskRow::node_served).collect();
            if looks {
                let step = world.look();
                world.carry_out(&step);
            }
            world.run(chosen);
            world.check(&before);
        }
        // The nodes stay as they are from now on.
        for _ in 0..8 {
            let step = world.look();
            world.carry_out(&step);
            world.run(u32::MAX);
        }
        prop_assert_eq!(world.look(), DaemonStep::default(), "it comes to rest");
        let rules = DaemonRules::of(&world.spec, world.spec.priority);
        for (id, row) in &world.nodes {
            let mut there = world.tasks.iter().filter(|task| task.node_served() == Some(*id));
            let alive = there.find(|task| !task.is_withdrawn());
            match rules.fit(row) {
                NodeFit::Served => prop_assert!(alive.is_some_and(|task| task.state == TaskState::Running)),
                NodeFit::Unmatched => prop_assert_eq!(alive, None),
                NodeFit::Awaited | NodeFit::Kept | NodeFit::TooSmall => {}
            }
        }
        let gone = |task: &&TaskRow| task.node_served().is_none_or(|node| !world.nodes.contains_key(&node));
        prop_assert!(world.tasks.iter().filter(gone).all(TaskRow::is_withdrawn));
    }
}

#[test]
fn a_step_serves_a_bounded_number_of_nodes_and_says_how_many_there_are() {
    let nodes = (1..=2_000).map(|id| (NodeId(id), node(id))).collect();
    let mut world = World { spec: daemon(), nodes, tasks: Vec::new(), now_ms: 1 };
    let mut left = 2_000;
    while left > 0 {
        let step = world.look();
        let served = step.serve.len();
        assert_eq!((served, step.lacking), (SERVED_MAX.min(left), u32::try_from(left).unwrap()));
        world.carry_out(&step);
        left -= served;
    }
    assert_eq!(world.look(), DaemonStep::default());
}

/// Cells where nodes come and go for ever do not run out of indexes.
#[test]
fn a_withdrawn_task_of_a_node_that_is_gone_serves_the_next_new_node() {
    let mut world = World { spec: daemon(), nodes: BTreeMap::new(), tasks: Vec::new(), now_ms: 1 };
    for id in 1..=50 {
        world.nodes = BTreeMap::from([(NodeId(id), node(id))]);
        for _ in 0..4 {
            let step = world.look();
            world.carry_out(&step);
            world.run(u32::MAX);
        }
    }
    assert!(world.tasks.len() <= 2, "{} indexes", world.tasks.len());
    let running: Vec<_> = world.tasks.iter().filter(|task| task.state == TaskState::Running).collect();
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].node_served(), Some(NodeId(50)));
}

#[test]
fn what_a_daemon_job_does_not_have_is_refused_by_its_field() {
    assert_eq!(daemon().validate(), Ok(()));
    let refused = |change: fn(&mut JobSpec)| {
        let mut wrong = daemon();
        change(&mut wrong);
        let errors = wrong.validate().unwrap_err();
        errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
    };
    assert_eq!(refused(|spec| spec.count = 3), ["count"]);
    assert_eq!(refused(|spec| spec.min_member = 2), ["min_member"]);
    let spread = Spread {
        attribute: "rack".to_owned(),
        weight: 1,
        max_skew: None,
        tasks_max: None,
        percent_max: None,
    };
    let mut wrong = daemon();
    wrong.spread = vec![spread];
    assert_eq!(wrong.validate().unwrap_err()[0].path, "spread");
    assert_eq!(refused(|spec| spec.restart.mode = RestartMode::OnFailure), ["restart"]);
    assert_eq!(refused(|spec| spec.restart.attempts_max = Some(3)), ["restart"]);
    let surging = UpdateSpec { surge_max: Some(1), ..UpdateSpec::default() };
    let mut wrong = daemon();
    wrong.update = Some(surging);
    let errors = wrong.validate().unwrap_err();
    assert!(errors[0].accepted.starts_with("none in a daemon job"), "{errors:?}");
    wrong.update = Some(UpdateSpec { canaries: 1, ..UpdateSpec::default() });
    assert_eq!(wrong.validate().unwrap_err()[0].path, "update.canaries");
    let scaled = borough_model::job::count_check(5, &daemon()).unwrap_err();
    assert!(scaled[0].accepted.contains("each node that matches"), "{scaled:?}");
}

#[test]
fn a_daemon_job_is_known_by_its_row_and_its_owner_scales_nothing() {
    let row = borough_model::job::job_new(JOB, &daemon(), RequestId(1), 0);
    assert_eq!((row.count, row.daemon.is_some()), (0, true));
    assert!(borough_model::job::job_new(JOB, &spec(JobKind::Service), RequestId(1), 0).daemon.is_none());
    let event = borough_model::job::JobEvent::NodesServed { count: 7, again: 0, unadmitted: 2, left: 0 };
    let grown = borough_model::job::job_transition(&row, &event, RequestId(2), 1).unwrap();
    assert!(!grown.gate, "no placement fails for it");
    let mut recorded = grown.row.clone();
    recorded.change_record(Some(&row), "controller");
    assert_eq!(recorded.changes, None, "nobody has scaled it");
    assert_eq!(daemon().in_force(&grown.row).count, 0);
    assert_eq!(grown.row.daemon.unwrap().steps, 1);
}

#[test]
fn a_rollout_waits_for_no_node_that_has_had_no_room_and_for_those_that_it_emptied() {
    let rules = daemon();
    let row = job_new(JOB, &rules, RequestId(1), NOW);
    let served = JobEvent::NodesServed { count: 3, again: 0, unadmitted: 0, left: 0 };
    let row = begun(&job_transition(&row, &served, RequestId(2), NOW).expect("it runs").row);
    let healthy = TaskState::Running;
    let new = task(0, 2, healthy, Some(NOW - 60_000));
    // Its node is full since before, and that of the other one was given it during the rollout.
    let full = TaskRow { changed_ms: NOW - 1, ..task(1, 1, TaskState::Pending, None) };
    let given = TaskRow { changed_ms: NOW + 1, ..task(2, 0, TaskState::Pending, None) };
    let tasks = [new, full, given];
    assert_eq!(step(&row, &rules, &tasks, NOW + 2), RolloutStep::Done { skipped: 0 });
    let [new, full, given] = tasks;
    let emptied = TaskRow { changed_ms: NOW + 1, ..full };
    assert!(matches!(step(&row, &rules, &[new, emptied, given], NOW + 2), RolloutStep::Wait { .. }));
}
