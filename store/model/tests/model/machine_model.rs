//! Random legal and illegal events over a few tasks and nodes, compared with a model of the sums of their effects.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::id::{GangId, Incarnation, JobId, NodeId, TaskId};
use borough_model::job::JobKind;
use borough_model::node::{
    CapacityEffect, NodeAlloc, NodeRow, NodeState, PORT_KEPT_BACK_MS, ShareFit, node_alloc_apply,
    node_alloc_check,
};
use borough_model::resource::{Resources, fits_in};
use borough_model::task::HelperStatus;
use borough_model::task::machine::{PORT_COOL_DOWN_MS, task_row_check};
use borough_model::task::{
    Attempt, ChargeOwner, Effects, EndReason, EndpointEffect, Evicted, Health, OwnerEffect, Placement,
    PortAssignment, ResizeOrder, ResizeRefused, StartedProcess, StopReason, TaskEvent, TaskRow, TaskState,
    Transition, node_alloc_sum, task_transition,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::sample::{exit, helper_status, name, rules};

const TASKS: usize = 4;
const NODES: u64 = 3;

/// One random step. The task's row at that time makes it an event.
#[derive(Clone, Copy, Debug)]
struct Act {
    task: usize,
    kind: u8,
    arg: u8,
    /// 0: the row's own attempt; otherwise an older or later one.
    skew: u8,
    wait_ms: u16,
    /// How long the transaction had waited when it read the row: its time is older by that.
    late_ms: u16,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let skew = prop_oneof![12 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)];
    let late = prop_oneof![5 => Just(0u16), 1 => 0u16..15_000];
    let act = (0..TASKS, 0u8..30, any::<u8>(), skew, 0u16..9000, late).prop_map(
        |(task, kind, arg, skew, wait_ms, late_ms)| Act { task, kind, arg, skew, wait_ms, late_ms },
    );
    prop::collection::vec(act, 1..120)
}

fn node_row(node: u64) -> NodeRow {
    NodeRow {
        id: NodeId(node),
        name: name(&format!("node{node}")),
        state: NodeState::Ready,
        schedulable: true,
        draining: false,
        capacity: Resources { cpu_millis: 1000, memory_bytes: 1 << 30, ..Resources::default() },
        port_first: 20_000,
        port_last: 20_005,
        attributes: BTreeMap::new(),
        labels: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: String::new(),
        agent_version: String::new(),
        revision: 1,
        changed_ms: 0,
        taints: Vec::new(),
        cards: Vec::new(),
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    }
}

struct World {
    now_ms: i64,
    rows: Vec<TaskRow>,
    allocs: BTreeMap<NodeId, NodeAlloc>,
    /// Published endpoints: task to incarnation.
    published: BTreeMap<usize, Incarnation>,
    withdrawn: BTreeSet<(usize, Incarnation)>,
    /// Taken shares, so that each is released once.
    taken: BTreeSet<(usize, Incarnation)>,
    promised: BTreeSet<(usize, Incarnation)>,
    fulfilled: usize,
    resized: usize,
    /// The amounts that may be in force in each task's attempt: one, or two while an order is on its way.
    possible: BTreeMap<usize, Vec<Resources>>,
    /// The job's unplaced remainder, in tasks.
    remainder: usize,
    ended: usize,
    revived: usize,
}

impl World {
    fn new() -> Self {
        let task = |index| TaskRow::never_placed(TaskId { job: JobId(1), index });
        Self {
            now_ms: 1_000_000,
            rows: (0..u32::try_from(TASKS).unwrap()).map(task).collect(),
            allocs: (0..NODES).map(|node| (NodeId(node), NodeAlloc::default())).collect(),
            published: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            taken: BTreeSet::new(),
            promised: BTreeSet::new(),
            fulfilled: 0,
            resized: 0,
            possible: BTreeMap::new(),
            remainder: TASKS,
            ended: 0,
            revived: 0,
        }
    }

    fn act(&mut self, act: Act) {
        self.now_ms += i64::from(act.wait_ms);
        let Some(event) = self.event(act) else { return };
        let before = self.rows[act.task].clone();
        let at_ms = self.now_ms - i64::from(act.late_ms);
        let Ok(transition) = task_transition(&before, &event, at_ms) else { return };
        assert_row_step(&before, &event, &transition);
        let returned = matches!(event, TaskEvent::NodeReturned { .. });
        let returning = if returned { ShareFit::Returned } else { ShareFit::Required };
        if !self.capacity(act.task, &transition, returning) {
            return;
        }
        self.effects(act.task, &before, &transition);
        assert_repeat_has_no_effect(&transition.row, &event, self.now_ms);
        if transition.changed {
            self.resize_follow(act.task, &event, &transition.row);
        }
        self.rows[act.task] = transition.row;
        self.check();
    }

    /// Follows what the agent may have applied by now.
    fn resize_follow(&mut self, task: usize, event: &TaskEvent, row: &TaskRow) {
        let possible = self.possible.entry(task).or_default();
        match event {
            TaskEvent::Place(placement) | TaskEvent::Hold(placement) | TaskEvent::HoldPromised(placement) => {
                *possible = vec![placement.resources.clone()];
            }
            TaskEvent::ResizeOrdered { order, .. } if row.resize_ordered().is_some() => {
                possible.push(order.granted.clone());
            }
            TaskEvent::ResizeSettled { refused, .. }
                if row.resize_ordered().is_none() && possible.len() > 1 =>
            {
                let settled = usize::from(refused.is_none());
                *possible = vec![possible[settled].clone()];
            }
            _ => {}
        }
    }

    fn event(&self, act: Act) -> Option<TaskEvent> {
        let row = &self.rows[act.task];
        let own = row.incarnation.0;
        let incarnation = Incarnation(match act.skew {
            0 => own,
            1 => own.saturating_sub(1),
            _ => own + 1,
        });
        let last = row.node.unwrap_or_else(|| NodeId(u64::from(act.arg) % NODES));
        let attempt = Attempt { node: last, incarnation };
        let health = [Health::Unknown, Health::Healthy, Health::Unhealthy][usize::from(act.arg) % 3];
        let kind = if act.arg & 1 == 0 { JobKind::Service } else { JobKind::Batch };
        let started_ms = 5_000 + i64::try_from(own).unwrap();
        let pid = u32::try_from(own).unwrap() + 100;
        Some(match act.kind {
            0..=2 => TaskEvent::Place(self.placement(act, Incarnation(incarnation.0 + 1))?),
            3 => TaskEvent::Hold(self.placement(act, Incarnation(incarnation.0 + 1))?),
            4 => TaskEvent::HoldConfirmed { attempt },
            5 => TaskEvent::HoldExpired { attempt },
            6 => TaskEvent::AgentAccepted { attempt },
            7 | 8 => TaskEvent::ProcessStarted { attempt, pid, started_ms, health, cores: vec![pid % 4] },
            9 => TaskEvent::HealthChanged { attempt, health },
            10 => TaskEvent::StopRequested {
                reason: StopReason::ALL[usize::from(act.arg) % StopReason::ALL.len()],
            },
            11 => TaskEvent::ProcessExited {
                attempt,
                exit: exit(EndReason::Exited, Some(i32::from(act.arg % 3))),
                released: act.arg & 4 == 0,
                rules: rules(kind),
            },
            12 => {
                TaskEvent::StartFailed { attempt, message: String::new(), failure: None, rules: rules(kind) }
            }
            13 => TaskEvent::ReleaseConfirmed { attempt },
            14 => TaskEvent::NodeDeclaredLost { node: last },
            15 => {
                let process = row.started_ms.map(|started_ms| StartedProcess { pid, started_ms });
                TaskEvent::NodeReturned { attempt, process, health }
            }
            16 => TaskEvent::RescheduleLost,
            17 => TaskEvent::HoldPromised(self.placement(act, Incarnation(incarnation.0 + 1))?),
            18 => {
                let by = TaskId { job: JobId(9), index: u32::from(act.arg % 2) };
                TaskEvent::Evict(Evicted { by, notice_max_ms: None, attempt: Incarnation(1) })
            }
            19 => TaskEvent::HoldFulfilled { attempt },
            20 => TaskEvent::MoveRequested,
            21 => TaskEvent::JobGrown,
            28 if act.arg & 1 == 0 => TaskEvent::Revived,
            28 => TaskEvent::FailuresForgotten,
            22 | 23 => TaskEvent::ResizeOrdered { attempt, order: Box::new(self.resize(act)) },
            24 | 25 => {
                let order = row.resize_ordered().map_or(0, |resize| resize.order) + u64::from(act.skew);
                let refused = (act.arg & 3 == 0)
                    .then_some(ResizeRefused::MemoryInUse { used_bytes: 2, asked_bytes: 1 });
                TaskEvent::ResizeSettled { attempt, order, refused }
            }
            27 => TaskEvent::VersionAdopted { attempt, version: row.spec_version + u32::from(act.arg % 2) },
            26 => {
                let helper = HelperStatus { restarts: u32::from(act.arg), ..helper_status() };
                TaskEvent::HelpersReported { attempt, helpers: vec![helper] }
            }
            _ => TaskEvent::NodeServed { node: NodeId(u64::from(act.arg) % NODES) },
        })
    }

    fn placement(&self, act: Act, incarnation: Incarnation) -> Option<Placement> {
        let node = NodeId(u64::from(act.arg) % NODES);
        // A lost node takes nothing before all of its old attempts are known again, so a returning attempt always fits.
        if self.rows.iter().any(|row| row.state == TaskState::Lost && row.node == Some(node)) {
            return None;
        }
        let number = self.port_free(node, u16::from(act.arg))?;
        let ports = vec![PortAssignment { name: name("http"), number }];
        let resources = Resources {
            cpu_millis: 100 * (1 + u64::from(act.arg % 4)),
            memory_bytes: 1 << 20,
            ..Resources::default()
        };
        let gang = (act.arg & 8 == 0).then_some((GangId(1), 1));
        Some(Placement { node, incarnation, ports, resources, spec_version: 1, gang, alloc: None })
    }

    /// An order for other amounts of both kinds, or the record that there is no room.
    fn resize(&self, act: Act) -> ResizeOrder {
        let row = &self.rows[act.task];
        let granted = Resources {
            cpu_millis: 50 * (1 + u64::from(act.arg % 7)),
            memory_bytes: (1 + u64::from(act.arg % 5)) << 19,
            ..Resources::default()
        };
        let refused = (act.arg & 31 == 9).then(|| ResizeRefused::NoRoom { missing: "cpu".to_owned() });
        let version = row.spec_version + 1;
        ResizeOrder { version, granted, in_force: row.in_force().clone(), refused }
    }

    /// A free port of a node, the first at or after a place in its range.
    fn port_free(&self, node: NodeId, from: u16) -> Option<u16> {
        let (row, alloc) = (node_row(node.0), &self.allocs[&node]);
        let size = row.port_last - row.port_first + 1;
        let mut ports = (0..size).map(|step| row.port_first + (from + step) % size);
        let cooling =
            |port: &u16| alloc.ports_cooling.get(port).is_some_and(|&until_ms| until_ms > self.now_ms);
        ports.find(|port| !alloc.ports.contains(port) && !cooling(port))
    }

    /// Carries out the effect on capacity; `false` if the node refuses the share and nothing commits.
    fn capacity(&mut self, task: usize, transition: &Transition, returning: ShareFit) -> bool {
        let effect = &transition.effects.capacity;
        let Some(share) = effect.share() else { return true };
        let capacity = node_row(share.node.0).capacity;
        let alloc = &self.allocs[&share.node];
        match node_alloc_apply(alloc, &capacity, effect, returning, self.now_ms) {
            Ok(next) => self.allocs.insert(share.node, next.expect("an effect changes the commitment")),
            Err(error) if effect.is_leaving() => panic!("giving back is refused: {error}"),
            Err(_) => return false,
        };
        let attempt = (task, transition.row.incarnation);
        match effect {
            CapacityEffect::Keep => {}
            CapacityEffect::Take(_) => assert!(self.taken.insert(attempt), "taken twice by one attempt"),
            CapacityEffect::Promise(_) => {
                assert!(self.promised.insert(attempt), "promised twice to one attempt")
            }
            CapacityEffect::Fulfil(_) => {
                assert!(
                    self.promised.remove(&attempt) && self.taken.insert(attempt),
                    "fulfilled, but not promised"
                );
                self.fulfilled += 1;
            }
            CapacityEffect::Release { ports_cool_until_ms, .. } => {
                assert!(self.taken.remove(&attempt), "given back twice by one attempt");
                self.assert_rests(task, ports_cool_until_ms.unwrap_or(i64::MAX));
            }
            CapacityEffect::Resize { .. } => {
                assert!(self.taken.contains(&attempt), "resized, but not taken");
                self.resized += 1;
            }
            CapacityEffect::Forgo(_) => assert!(self.promised.remove(&attempt), "forgone, but not promised"),
            CapacityEffect::Cool { ports_cool_until_ms, .. } => {
                assert!(!self.taken.contains(&attempt), "cools while it is taken");
                self.assert_rests(task, *ports_cool_until_ms);
            }
        }
        true
    }

    /// The ports of an attempt rest for the whole cool-down after the state that it leaves began.
    fn assert_rests(&self, task: usize, until_ms: i64) {
        let left_ms = self.rows[task].changed_ms;
        assert!(
            until_ms >= left_ms.saturating_add(PORT_COOL_DOWN_MS),
            "rests until {until_ms} from {left_ms}"
        );
    }

    fn effects(&mut self, task: usize, before: &TaskRow, transition: &Transition) {
        let Effects { endpoint, owner, ended, .. } = &transition.effects;
        let row = &transition.row;
        match endpoint {
            EndpointEffect::Keep => {}
            EndpointEffect::Publish => {
                assert_eq!((row.state, row.health), (TaskState::Running, Health::Healthy));
                assert!(!self.withdrawn.contains(&(task, row.incarnation)), "published after withdrawal");
                self.published.insert(task, row.incarnation);
            }
            EndpointEffect::Demote => assert_eq!(row.state, TaskState::Lost),
            EndpointEffect::Withdraw => {
                self.published.remove(&task);
                self.withdrawn.insert((task, row.incarnation));
            }
        }
        match owner {
            OwnerEffect::Keep => {}
            OwnerEffect::ToTask => self.remainder -= 1,
            // A new task of a daemon job gets a row: the job had its charge already in this model.
            OwnerEffect::ToJob if before.revision == 0 => {}
            OwnerEffect::ToJob => {
                self.remainder += 1;
                self.revived += 1;
            }
            OwnerEffect::Release => {
                self.remainder -= usize::from(before.charge.owner == ChargeOwner::Job);
                self.ended += 1;
            }
        }
        assert_eq!(
            ended.is_some(),
            *owner == OwnerEffect::Release,
            "an end releases the charge and is counted"
        );
    }

    fn check(&self) {
        for (task, row) in self.rows.iter().enumerate() {
            task_row_check(row).unwrap_or_else(|broken| panic!("{broken}: {row:?}"));
            if row.state.is_charged() {
                for possible in self.possible.get(&task).into_iter().flatten() {
                    assert!(fits_in(possible, &row.charge.resources), "{possible} may be in force: {row:?}");
                }
                let ordered = usize::from(row.state == TaskState::Running && row.resize_ordered().is_some());
                let known = self.possible[&task].len();
                assert!(
                    known == 1 || ordered == 1 || row.state != TaskState::Running,
                    "no more than is ordered"
                );
            }
        }
        for (&node, alloc) in &self.allocs {
            node_alloc_check(&node_row(node.0), alloc).unwrap_or_else(|broken| panic!("{node}: {broken}"));
            let on_node = self.rows.iter().filter(|row| row.charged_node() == Some(node));
            let sum = node_alloc_sum(on_node).unwrap();
            let known = NodeAlloc { epoch: 0, ports_cooling: BTreeMap::new(), ..alloc.clone() };
            assert_eq!(sum, known, "{node}");
            let kept = alloc.ports_cooling.iter().filter(|&(_, &until_ms)| until_ms == PORT_KEPT_BACK_MS);
            let kept: BTreeSet<u16> = kept.map(|(&port, _)| port).collect();
            let lost = self.rows.iter().filter(|row| row.state == TaskState::Lost && row.node == Some(node));
            let lost: BTreeSet<u16> = lost.flat_map(TaskRow::port_numbers).collect();
            assert_eq!(kept, lost, "ports of lost attempts are kept back on {node}, and no others");
        }
        for (&task, &incarnation) in &self.published {
            let row = &self.rows[task];
            assert_eq!(row.incarnation, incarnation, "published, but another attempt");
            assert!(
                matches!(row.state, TaskState::Running | TaskState::Lost),
                "published, but {:?}",
                row.state
            );
        }
        let owned = |owner| self.rows.iter().filter(|row| row.charge.owner == owner).count();
        assert_eq!(owned(ChargeOwner::Job), self.remainder, "the job's remainder");
        assert_eq!(owned(ChargeOwner::Released), self.ended - self.revived, "released charges");
    }
}

fn assert_row_step(before: &TaskRow, event: &TaskEvent, transition: &Transition) {
    let after = &transition.row;
    assert!(after.incarnation >= before.incarnation, "the incarnation went down");
    if !transition.changed {
        assert_eq!(after, before);
        assert_eq!(transition.effects, Effects::default());
        return;
    }
    assert_eq!(after.revision, before.revision + 1);
    assert!(after.changed_ms >= before.changed_ms, "the time of the last change goes back");
    assert_ne!(
        TaskRow { revision: before.revision, changed_ms: before.changed_ms, ..after.clone() },
        *before
    );
    if before.state == TaskState::Dead {
        let again = matches!(event, TaskEvent::JobGrown | TaskEvent::NodeServed { .. } | TaskEvent::Revived);
        assert!(again, "dead is final");
    }
    if before.state == TaskState::Held {
        let next = [TaskState::Pending, TaskState::Assigned, TaskState::Dead];
        let fulfilled = matches!(event, TaskEvent::HoldFulfilled { .. }) && after.state == TaskState::Held;
        let forgotten = matches!(event, TaskEvent::FailuresForgotten) && after.state == TaskState::Held;
        assert!(fulfilled || forgotten || next.contains(&after.state), "nothing starts while held");
    }
}

fn assert_repeat_has_no_effect(row: &TaskRow, event: &TaskEvent, now_ms: i64) {
    if let Ok(repeated) = task_transition(row, event, now_ms) {
        assert_eq!(repeated.effects, Effects::default(), "{} repeated has effects", event.name());
    }
}

/// Whatever the task is doing: its job is stopped, its agent confirms, and it is over with everything released.
fn assert_stop_ends(mut world: World) {
    for task in 0..TASKS {
        let finish = |world: &mut World, event: TaskEvent| {
            let before = world.rows[task].clone();
            let transition = task_transition(&before, &event, world.now_ms).unwrap();
            assert!(world.capacity(task, &transition, ShareFit::Required));
            world.effects(task, &before, &transition);
            world.rows[task] = transition.row;
        };
        finish(&mut world, TaskEvent::StopRequested { reason: StopReason::JobStopped });
        let row = &world.rows[task];
        if let Some(node) = row.charged_node() {
            let attempt = Attempt { node, incarnation: row.incarnation };
            finish(&mut world, TaskEvent::ReleaseConfirmed { attempt });
        }
        assert_eq!(world.rows[task].state, TaskState::Dead);
    }
    world.check();
    assert!(world.taken.is_empty() && world.promised.is_empty() && world.published.is_empty());
    let empty = |alloc: &NodeAlloc| alloc.used.is_zero() && alloc.promised.is_zero() && alloc.tasks == 0;
    assert!(world.allocs.values().all(empty));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn effects_add_up_and_a_stop_always_ends(acts in acts()) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
        assert_stop_ends(world);
    }
}

/// The random walk is only useful if it reaches everything.
#[test]
fn the_random_walk_reaches_every_state_and_every_effect() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut states = BTreeSet::new();
    let (mut published, mut withdrawn, mut revived, mut fulfilled, mut resized) = (0, 0, 0, 0, 0);
    for _ in 0..200 {
        let acts = acts().new_tree(&mut runner).unwrap().current();
        let mut world = World::new();
        for act in acts {
            world.act(act);
            states.extend(world.rows.iter().map(|row| row.state));
            published += world.published.len();
        }
        withdrawn += world.withdrawn.len();
        revived += world.revived;
        fulfilled += world.fulfilled;
        resized += world.resized;
    }
    assert_eq!(states, BTreeSet::from(TaskState::ALL));
    assert!(published > 0 && withdrawn > 0 && revived > 0 && fulfilled > 0 && resized > 0);
}
