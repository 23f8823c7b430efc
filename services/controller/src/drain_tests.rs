//! A check of drained nodes over a cell that changes while its snapshot is built.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use borough_kv::Versionstamp;
use borough_kv::env::{ManualClock, Rng};
use borough_model::job::{JobKind, JobState, job_new};
use borough_model::node::{NodeAlloc, NodeRow, NodeState, node_new};
use borough_model::task::{Charge, ChargeOwner, Health};
use borough_model::{Incarnation, RequestId, Resources, TaskRow, TaskState};
use borough_scheduler::snapshot_of_mirror;
use borough_testkit::{below, job_spec, name, node_facts, rng_of, seeds};

use super::*;

/// Nodes that are drained, and those that others may move to.
const DRAINED: u64 = 4;
const NODES: u64 = 20;
/// Tasks of a job, and on a node that is not drained.
const JOB_TASKS: u32 = 10;
const NODE_TASKS: u64 = 300;

fn cpus(tasks: u64) -> Resources {
    Resources { cpu_millis: 1_000 * tasks, memory_bytes: tasks << 20, ..Resources::default() }
}

/// A mirror, and the entries that the controller has yet to see.
struct World {
    state: RefCell<MirrorState>,
    pending: RefCell<VecDeque<(Cursor, JournalEntry)>>,
    rng: Arc<dyn Rng>,
    version: Cell<i64>,
    /// Whether each read is followed by a change.
    is_busy: Cell<bool>,
    reads: Cell<usize>,
    /// What the last read has shown.
    read_at: Cell<Cursor>,
}

impl DrainSource for World {
    fn read<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> T {
        self.reads.set(self.reads.get() + 1);
        self.read_at.set(self.state.borrow().cursor());
        let seen = look(&self.state.borrow());
        if self.is_busy.get() {
            (0..=below(&*self.rng, 3)).for_each(|_| self.change());
        }
        seen
    }
}

fn alloc_of(state: &MirrorState, node: NodeId) -> NodeAlloc {
    state.allocs().get(&node).map(|alloc| NodeAlloc::clone(alloc)).unwrap_or_default()
}

fn job_delta(id: u64) -> Delta {
    let mut spec = job_spec("ada", &format!("job-{id}"), JobKind::Service);
    (spec.count, spec.task.resources) = (JOB_TASKS, cpus(1));
    let row = job_new(JobId(id), &spec, RequestId(1), 0);
    Delta::Job {
        row: borough_model::JobRow { state: JobState::Running, ..row }.into(),
        spec: Some(Box::new(spec)),
    }
}

fn task_row(task: TaskId, node: Option<NodeId>, state: TaskState, revision: u64) -> TaskRow {
    let charge = Charge { owner: ChargeOwner::Task, resources: cpus(1) };
    TaskRow {
        state,
        node,
        revision,
        spec_version: 1,
        incarnation: Incarnation(1),
        health: Health::Healthy,
        charge,
        ..TaskRow::never_placed(task)
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let world = Self {
            state: RefCell::default(),
            pending: RefCell::default(),
            rng: rng_of(seed, 1),
            version: Cell::new(1),
            is_busy: Cell::new(false),
            reads: Cell::new(0),
            read_at: Cell::default(),
        };
        world.state.borrow_mut().replay_from(Cursor { store_epoch: 1, stamp: Versionstamp::ZERO });
        for id in 1..=NODES {
            let facts = node_facts(cpus(NODE_TASKS + below(&*world.rng, 3)));
            let row = node_new(NodeId(id), name(&format!("n{id}")), facts, 0);
            let (draining, schedulable) = (id <= DRAINED, id > DRAINED);
            let row = NodeRow { state: NodeState::Ready, draining, schedulable, revision: 1, ..row };
            world.append(vec![Delta::Node { row }]);
        }
        // Each drained node has a few tasks, the others are full.
        let jobs = DRAINED * 2 + (NODES - DRAINED) * NODE_TASKS / u64::from(JOB_TASKS);
        for id in 1..=jobs {
            world.append(vec![job_delta(id)]);
            for index in 0..JOB_TASKS {
                let on = if id <= DRAINED * 2 {
                    1 + id % DRAINED
                } else {
                    DRAINED + 1 + (id * u64::from(JOB_TASKS) + u64::from(index)) % (NODES - DRAINED)
                };
                world.place(TaskId { job: JobId(id), index }, NodeId(on));
            }
        }
        world.pending.borrow_mut().clear();
        world
    }

    /// A transaction: the mirror shows it at once, and the controller sees it later.
    fn append(&self, deltas: Vec<Delta>) {
        let version = self.version.get() + 1;
        self.version.set(version);
        let at = Cursor { store_epoch: 1, stamp: Versionstamp::new(version, 0) };
        let entry = JournalEntry {
            request: RequestId(1),
            actor: String::new(),
            action: String::new(),
            at_ms: 0,
            deltas,
            values: None,
            calls: None,
        };
        assert!(self.state.borrow_mut().apply(at, &entry));
        self.pending.borrow_mut().push_back((at, entry));
    }

    fn charge(&self, node: NodeId, row: TaskRow, change: impl Fn(u64) -> u64) {
        let mut alloc = alloc_of(&self.state.borrow(), node);
        alloc.epoch += 1;
        let tasks = change(u64::from(alloc.tasks));
        (alloc.tasks, alloc.used) = (u32::try_from(tasks).unwrap(), cpus(tasks));
        self.append(vec![Delta::Task { row }, Delta::NodeAlloc { node, alloc }]);
    }

    fn place(&self, task: TaskId, node: NodeId) {
        self.charge(node, task_row(task, Some(node), TaskState::Running, 1), |tasks| tasks + 1);
    }

    /// Something happens: a task ends and leaves room, a job with tasks that wait comes or goes, or a drained node's
    /// task ends.
    fn change(&self) {
        let rng = &*self.rng;
        let jobs: Vec<JobId> = self.state.borrow().jobs().keys().copied().collect();
        let job = jobs[usize::try_from(below(rng, jobs.len() as u64)).unwrap()];
        let task = TaskId { job, index: u32::try_from(below(rng, JOB_TASKS.into())).unwrap() };
        let row = self.state.borrow().tasks().get(&task).cloned();
        match (below(rng, 8), row) {
            (0, _) => self.append(vec![job_delta(self.version.get().unsigned_abs() + 10_000)]),
            (1, None) => self.append(vec![Delta::JobRemoved { job, name: None }]),
            (_, Some(row)) if row.state == TaskState::Running => {
                let node = row.node.unwrap();
                let ended = task_row(task, None, TaskState::Dead, row.revision + 1);
                self.charge(node, ended, |tasks| tasks - 1);
            }
            _ => {}
        }
    }

    /// The controller sees some of the entries, in their order.
    fn deliver(&self, check: &mut DrainCheck, most: usize) {
        for _ in 0..most {
            let Some((at, entry)) = self.pending.borrow_mut().pop_front() else { return };
            check.note(at, &entry);
        }
    }
}

fn drained() -> BTreeSet<NodeId> {
    (1..=DRAINED).map(NodeId).collect()
}

/// The moves of a check that is built at once.
fn at_once(world: &World, meta: &CellMeta) -> Vec<ControllerAction> {
    let snapshot = snapshot_of_mirror(&world.state.borrow(), settings_of_meta(meta));
    let relocation = Relocation::new(snapshot, emptied_leaving(world, &drained()), 1_000);
    let mut round = DrainRound { relocation, nodes: drained(), moved: BTreeMap::new() };
    let mut moves = Vec::new();
    while !round.nodes.is_empty() {
        moves.extend(round.part(world, 1_000));
    }
    moves
}

/// The cell changes while its snapshot is built, and the controller sees the changes late. The decision is that of a
/// snapshot of the end, built at once.
#[test]
fn a_drain_decided_on_a_snapshot_in_parts_is_that_of_one_at_once() {
    let (clock, meta) = (ManualClock::at(1_000), CellMeta::default());
    let mut decided = BTreeSet::new();
    for seed in seeds(12) {
        let world = World::new(seed);
        let mut check = DrainCheck::begin(world.state.borrow().cursor());
        let left = check.nodes_take(drained().into_iter().map(ControllerAction::NodeDrain).collect());
        assert_eq!(left, []);
        let emptied = drained();
        let context = DrainContext { meta: &meta, clock: &*clock, emptied: &emptied };
        assert_eq!(check.advance(&world, &context), []);
        while let DrainPhase::Build(build) = &check.phase {
            world.is_busy.set(seed > 0 && build.position() != RowsPosition::Over);
            if build.is_whole() {
                let shown = world.read_at.get();
                assert!(world.pending.borrow().iter().all(|(at, _)| *at > shown), "a part has shown more");
                world.deliver(&mut check, usize::MAX);
            }
            assert_eq!(check.advance(&world, &context), []);
            let most = usize::try_from(below(&*world.rng, 4)).unwrap();
            world.deliver(&mut check, most);
        }
        let mut moves = Vec::new();
        while check.is_under_way() {
            moves.extend(check.advance(&world, &context));
        }
        assert_eq!(moves, at_once(&world, &meta), "seed {seed}");
        decided.insert(format!("{moves:?}").len());
    }
    assert!(decided.len() > 3, "the seeds decide different things");
}

/// A check reads in many short parts, and none of them has more rows than it may.
#[test]
fn no_part_of_a_check_is_long() {
    let (clock, meta, world) = (ManualClock::at(1_000), CellMeta::default(), World::new(1));
    let mut check = DrainCheck::begin(world.state.borrow().cursor());
    check.nodes_take(drained().into_iter().map(ControllerAction::NodeDrain).collect());
    let emptied = drained();
    let context = DrainContext { meta: &meta, clock: &*clock, emptied: &emptied };
    check.advance(&world, &context);
    while check.is_under_way() {
        let before = world.reads.get();
        check.advance(&world, &context);
        assert!(world.reads.get() <= before + 1);
    }
    let tasks = world.state.borrow().tasks().len();
    assert!(world.reads.get() > tasks / RowsPosition::PART_ROWS + 4, "{} reads", world.reads.get());
}

/// Two drained nodes have tasks of one job: together they give up a quarter of it.
#[test]
fn two_drained_nodes_take_no_more_of_a_job_than_one() {
    let (clock, meta, world) = (ManualClock::at(1_000), CellMeta::default(), World::new(1));
    world.append(vec![job_delta(20_000)]);
    for index in 0..JOB_TASKS {
        world.place(TaskId { job: JobId(20_000), index }, NodeId(1 + u64::from(index) % DRAINED));
    }
    // Room for everything.
    for id in DRAINED + 1..=NODES {
        let row = NodeRow::clone(&world.state.borrow().nodes()[&NodeId(id)]);
        world.append(vec![Delta::Node { row: NodeRow { capacity: cpus(1_000), revision: 2, ..row } }]);
    }
    let mut check = DrainCheck::begin(world.state.borrow().cursor());
    check.nodes_take(drained().into_iter().map(ControllerAction::NodeDrain).collect());
    let emptied = drained();
    let context = DrainContext { meta: &meta, clock: &*clock, emptied: &emptied };
    let mut moves = check.advance(&world, &context);
    while check.is_under_way() {
        moves.extend(check.advance(&world, &context));
    }
    let mut of_job: BTreeMap<JobId, usize> = BTreeMap::new();
    for action in moves {
        let ControllerAction::TasksMove(StopReason::Drained, moves) = action else { panic!("{action:?}") };
        moves.iter().for_each(|moves| *of_job.entry(moves.job).or_default() += moves.attempts.len());
    }
    assert_eq!(of_job.get(&JobId(20_000)), Some(&2), "a quarter of ten, of all nodes together");
}

/// A check of the cell as it was with other settings decides nothing.
#[test]
fn new_settings_begin_a_check_again() {
    let (clock, meta, world) = (ManualClock::at(1_000), CellMeta::default(), World::new(1));
    let mut check = DrainCheck::begin(world.state.borrow().cursor());
    check.nodes_take(drained().into_iter().map(ControllerAction::NodeDrain).collect());
    let emptied = drained();
    let context = DrainContext { meta: &meta, clock: &*clock, emptied: &emptied };
    check.advance(&world, &context);
    assert!(check.is_under_way());
    world.append(vec![Delta::CellSettings { revision: 2 }]);
    world.deliver(&mut check, 1);
    assert!(!check.is_under_way());
    assert_eq!(check.wanted, drained());
    check.advance(&world, &context);
    assert!(check.is_under_way());
}
