//! Reclaim between queues: the slow and obvious re-statement that plans are held against after every event of the
//! random histories, and cells that are left alone until they rest.

use std::collections::BTreeMap;

use borough_model::job::{Band, band};
use borough_model::node::node_open;
use borough_model::queue::{QueueSpec, queue_of_job};
use borough_model::{JobId, NodeAlloc, NodeId, Resources, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{
    CellSettings, EvictionReport, PLAN_SEED, Plan, Queueing, Snapshot, explain, plan,
};
use proptest::prelude::*;

use crate::world::{World, node, spec};
use crate::{naive, preempt};

/// The queue that a job is in, from the top; nothing: it is beside all of them.
fn path(world: &World, job: JobId) -> Vec<String> {
    let (row, spec) = world.jobs.get(&job).expect("a known job");
    let queues = &world.settings.queueing.queues;
    let place = queue_of_job(queues, spec.queue.as_deref(), &row.user);
    place.map_or(Vec::new(), |place| queues[place].path.split('/').map(str::to_owned).collect())
}

/// A job's queue as it is told.
pub fn queue_told(world: &World, job: JobId) -> String {
    let path = path(world, job).join("/");
    if path.is_empty() { "outside of all".to_owned() } else { path }
}

fn queue<'a>(world: &'a World, path: &[String]) -> Option<&'a QueueSpec> {
    world.settings.queueing.queues.iter().find(|queue| queue.path == path.join("/"))
}

fn guaranteed(world: &World, path: &[String]) -> u64 {
    queue(world, path).map_or(0, |queue| u64::from(queue.guaranteed_per_mille) * 1000)
}

fn stands(row: &TaskRow) -> bool {
    use TaskState::{Assigned, Held, Running, Starting};
    matches!(row.state, Held | Assigned | Starting | Running)
}

fn asked(world: &World, task: TaskId) -> &Resources {
    let (_, spec) = world.jobs.get(&task.job).expect("a known job");
    spec.resources_for(task.index)
}

fn amounts(resources: &Resources) -> BTreeMap<String, u64> {
    let devices = resources.device_millis.iter().filter(|(kind, _)| !kind.contains('/'));
    let devices = devices.map(|(kind, &amount)| (format!("device {kind}"), amount));
    let fixed = [
        ("cpu".to_owned(), resources.cpu_millis),
        ("memory".to_owned(), resources.memory_bytes),
        ("disk".to_owned(), resources.disk_bytes),
    ];
    fixed.into_iter().chain(devices).collect()
}

/// The dominant share of the cell, in millionths, of what stands in a queue (`within` says of which path) without some
/// and with one more.
fn share(world: &World, within: impl Fn(&[String]) -> bool, without: &[TaskId], with: Option<TaskId>) -> u64 {
    let resident =
        world.tasks.values().filter(|row| stands(row) && !without.contains(&row.id)).map(|row| row.id);
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for task in resident.filter(|task| within(&path(world, task.job))).chain(with) {
        for (dimension, amount) in amounts(asked(world, task)) {
            *held.entry(dimension).or_default() += amount;
        }
    }
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for (row, _) in world.nodes.values().filter(|(row, _)| node_open(row).is_ok()) {
        for (dimension, amount) in amounts(&world.limits(row)) {
            *totals.entry(dimension).or_default() += amount;
        }
    }
    let known =
        |dimension: &str| ["cpu", "memory", "disk"].contains(&dimension) || totals.contains_key(dimension);
    let held = held.iter().filter(|(dimension, _)| known(dimension));
    let part = |(dimension, amount): (&String, &u64)| {
        let total = totals.get(dimension).copied().unwrap_or(0).max(1);
        u64::try_from(u128::from(*amount) * 1_000_000 / u128::from(total)).expect("small")
    };
    held.map(part).max().unwrap_or(0)
}

fn share_of(world: &World, queue: &[String], without: &[TaskId], with: Option<TaskId>) -> u64 {
    match queue {
        [] => share(world, <[String]>::is_empty, without, with),
        queue => share(world, |path| path.starts_with(queue), without, with),
    }
}

/// Whether a queue has less than it is guaranteed, and with a task not more.
fn lacks(world: &World, queue: &[String], task: TaskId) -> bool {
    let guaranteed = guaranteed(world, queue);
    share_of(world, queue, &[], None) < guaranteed && share_of(world, queue, &[], Some(task)) <= guaranteed
}

/// The queues that compete where the paths of two jobs part: that of the first and that of the second.
fn parting(world: &World, one: JobId, other: JobId) -> Option<(Vec<String>, Vec<String>)> {
    let (one, other) = (path(world, one), path(world, other));
    let same = one.iter().zip(&other).take_while(|(left, right)| left == right).count();
    let ends = |path: &[String]| path[..path.len().min(same + 1)].to_vec();
    (one.len() > same && (other.len() > same || other.is_empty())).then(|| (ends(&one), ends(&other)))
}

/// Whether a cell's queues take anything back for a task at all.
pub fn may_claim(world: &World, task: TaskId) -> bool {
    let (row, spec) = world.jobs.get(&task.job).expect("a known job");
    let never = spec.preemption.is_some_and(|preemption| preemption.never);
    let in_queue = !path(world, task.job).is_empty();
    let low = matches!(band(row.priority), Band::Batch | Band::BestEffort);
    world.settings.reclaim
        && world.settings.queueing.policy.name() == "hierarchical"
        && in_queue
        && low
        && !never
}

/// Whether anybody has more than is guaranteed whom a queue of the task takes it back from.
pub fn claims(world: &World, task: TaskId) -> bool {
    let rows = || world.tasks.values().filter(|row| stands(row));
    let gives = |row: &TaskRow| {
        parting(world, task.job, row.id.job).is_some_and(|(own, other)| {
            lacks(world, &own, task) && share_of(world, &other, &[], None) > guaranteed(world, &other)
        })
    };
    may_claim(world, task) && rows().any(gives)
}

/// How far the queue of a task is beyond its guarantee where it competes with that of `task`, over its weight; `None`:
/// it keeps what it has.
pub fn excess(world: &World, task: TaskId, victim: TaskId) -> Option<u64> {
    let priority = |job| world.jobs.get(&job).map_or(0, |(row, _)| row.priority);
    let (own, other) = (priority(task.job), priority(victim.job));
    if !may_claim(world, task) || other > own || band(other) != band(own) {
        return None;
    }
    let (own, other) = parting(world, task.job, victim.job)?;
    if !lacks(world, &own, task) || !keeps(world, task, &[victim], &[victim]) {
        return None;
    }
    let beyond = share_of(world, &other, &[], None)
        .checked_sub(guaranteed(world, &other))
        .filter(|beyond| *beyond > 0)?;
    Some(beyond * 1000 / queue(world, &other).map_or(1, |queue| u64::from(queue.weight)))
}

/// Whether each queue from which something is claimed, up to where it competes, keeps its guarantee when all victims
/// have gone.
pub fn keeps(world: &World, task: TaskId, claimed: &[TaskId], victims: &[TaskId]) -> bool {
    claimed.iter().all(|victim| {
        let Some((_, top)) = parting(world, task.job, victim.job) else { return false };
        let leaf = path(world, victim.job);
        (top.len()..=leaf.len()).all(|length| {
            let queue = &leaf[..length];
            share_of(world, queue, victims, None) >= guaranteed(world, queue)
        })
    })
}

fn hierarchy(queues: &[QueueSpec]) -> CellSettings {
    let queueing = Queueing { queues: queues.to_vec(), .."hierarchical".parse().expect("a policy") };
    CellSettings { queueing, reclaim: true, ..CellSettings::default() }
}

fn queue_spec(path: &str, weight: u32, guaranteed_per_mille: u32) -> QueueSpec {
    QueueSpec { path: path.to_owned(), weight, guaranteed_per_mille, limit_per_mille: 1000 }
}

/// A cell that is planned, and whose victims leave, until nothing happens any more.
struct Cell {
    world: World,
    kept: Snapshot,
    evicted: usize,
}

impl Cell {
    fn new(settings: CellSettings, nodes: &[(u64, u64)]) -> Self {
        let mut world = World { settings: settings.clone(), now_ms: 1_000_000, ..World::default() };
        for (number, &(cores, gib)) in (0..).zip(nodes) {
            world.node_put(node(number, cores, gib));
        }
        Self { world, kept: Snapshot::new(settings), evicted: 0 }
    }

    fn submit(&mut self, number: u64, queue: &str, priority: u32, count: u32, (cpu_millis, mib): (u64, u64)) {
        let mut job = spec("ann", &format!("job-{number}"), count, cpu_millis, mib);
        job.priority = priority;
        job.queue = (!queue.is_empty()).then(|| queue.to_owned());
        self.world.job_submit(JobId(number), &job);
    }

    /// One plan, held against the re-statement and committed, after which everybody who gives way leaves.
    fn step(&mut self) -> usize {
        self.world.journal_apply(&mut self.kept);
        let queue = self.kept.pending(&|_| true, self.world.now_ms, usize::MAX);
        let outcome: Plan = plan(self.kept.tables(), &queue, self.world.now_ms, PLAN_SEED);
        naive::plan_checked(&self.world, &queue, &outcome);
        self.world.commit(&outcome);
        self.world.journal_apply(&mut self.kept);
        self.kept.remember(&outcome, self.world.now_ms);
        self.evicted += outcome.placements.iter().map(|placement| placement.victims.len()).sum::<usize>();
        let going: Vec<TaskId> = self
            .world
            .tasks
            .values()
            .filter(|row| row.state == TaskState::Stopping)
            .map(|row| row.id)
            .collect();
        for task in going {
            self.world.task_end(task, None, |row| row.state = TaskState::Pending);
        }
        self.world.now_ms += 1_000;
        outcome.placements.len()
    }

    /// Until nothing is placed for a while. Panics where that never comes.
    fn rest(&mut self) {
        let mut quiet = 0;
        for _ in 0..200 {
            quiet = if self.step() == 0 { quiet + 1 } else { 0 };
            if quiet == 3 {
                return;
            }
        }
        panic!("it never rests: {} evictions", self.evicted);
    }

    fn resident(&self, job: u64) -> usize {
        self.world.resident(JobId(job)).count()
    }
}

#[test]
fn a_queue_takes_back_what_it_is_guaranteed_from_those_with_most_beyond_theirs() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 100), queue_spec("web", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(10, 100), (10, 100)]);
    cell.submit(1, "ops", 150, 12, (1000, 1));
    cell.submit(2, "web", 150, 8, (1000, 1));
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2), cell.evicted), (12, 8, 0));
    cell.submit(3, "research", 150, 20, (1000, 1));
    cell.rest();
    // Of the 20 cores, research is guaranteed 10 and ops 2. Beyond that ops had 10 and web 8: each ends with 4.
    assert_eq!((cell.resident(3), cell.resident(1), cell.resident(2), cell.evicted), (10, 6, 4, 10));
    let told = explain(&cell.kept, JobId(3), 15, cell.world.now_ms);
    let (queue, share_per_mille, guaranteed_per_mille) = ("research".to_owned(), 500, 500);
    let full = EvictionReport::Guarantee { queue, share_per_mille, guaranteed_per_mille, lacks: false };
    assert_eq!(told.evictions, Some(full), "{told}");
    assert!(
        told.to_string().contains("queue research has 50% of the cell and is guaranteed 50%: it takes"),
        "{told}"
    );
}

#[test]
fn nothing_is_taken_back_where_the_cell_does_not_say_so_or_from_a_higher_priority_or_production() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 0)];
    for (reclaim, own, other, evicted) in [
        (true, 150, 150, 5),
        (false, 150, 150, 0),
        (true, 150, 151, 0),
        (true, 250, 250, 0),
        (true, 50, 50, 5),
    ] {
        let mut cell = Cell::new(CellSettings { reclaim, ..hierarchy(&queues) }, &[(10, 100)]);
        cell.submit(1, "ops", other, 10, (1000, 1));
        cell.rest();
        cell.submit(2, "research", own, 10, (1000, 1));
        cell.rest();
        assert_eq!((cell.resident(2), cell.evicted), (evicted, evicted), "{reclaim} {own} {other}");
    }
}

#[test]
fn a_queue_takes_back_within_the_one_it_is_in_and_for_that_one_from_others() {
    let queues = [
        queue_spec("research", 1, 600),
        queue_spec("research/text", 1, 0),
        queue_spec("research/vision", 1, 400),
        queue_spec("ops", 1, 0),
    ];
    let mut cell = Cell::new(hierarchy(&queues), &[(10, 100), (10, 100)]);
    cell.submit(1, "ops", 150, 20, (1000, 1));
    cell.rest();
    // For research, though text is guaranteed nothing.
    cell.submit(2, "research/text", 150, 20, (1000, 1));
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2)), (8, 12));
    // Now vision takes back within research: ops has more than it is guaranteed too, but research has all of its own.
    cell.submit(3, "research/vision", 150, 20, (1000, 1));
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2), cell.resident(3)), (8, 4, 8));
}

#[test]
fn who_gave_way_to_a_higher_priority_still_has_what_its_queue_is_guaranteed() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(10, 100)]);
    cell.submit(1, "research", 150, 5, (1000, 1));
    cell.submit(2, "ops", 150, 5, (1000, 2));
    cell.rest();
    cell.submit(3, "", 250, 5, (1000, 1));
    cell.rest();
    assert_eq!((cell.resident(3), cell.resident(1), cell.resident(2)), (5, 5, 0));
}

#[test]
fn a_gang_takes_back_all_that_it_needs_or_nothing() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(4, 100), (4, 100)]);
    cell.submit(1, "ops", 150, 8, (1000, 1));
    cell.rest();
    for (number, members, placed) in [(2, 5, 0), (3, 4, 4)] {
        let mut gang = spec("ann", &format!("gang-{number}"), members, 1000, 1);
        (gang.priority, gang.min_member, gang.queue) = (150, members, Some("research".to_owned()));
        cell.world.job_submit(JobId(number), &gang);
        cell.rest();
        assert_eq!((cell.resident(number), cell.evicted), (placed, placed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever stands and is asked for: the cell comes to rest, each eviction being right by the re-statement; then
    /// nobody waits who could take anything back.
    #[test]
    fn cells_come_to_rest_and_nobody_waits_for_what_is_guaranteed(
        shape in prop::collection::vec((0..5u32, 1..4u32), 4),
        jobs in prop::collection::vec((0..6usize, 0..3usize, 1..12u32, 1..5u64, 0..4u64), 2..10),
        nodes in prop::collection::vec((2..7u64, 2..7u64), 1..4),
    ) {
        let part = |number: usize| shape[number].0 * 50;
        let queues = [
            queue_spec("one", shape[0].1, part(0) + part(1)),
            queue_spec("one/a", shape[0].1, part(0)),
            queue_spec("one/b", shape[1].1, part(1)),
            queue_spec("two", shape[2].1, part(2)),
            queue_spec("three", shape[3].1, part(3)),
        ];
        let mut cell = Cell::new(hierarchy(&queues), &nodes);
        let names = ["one/a", "one/b", "two", "three", "", "two"];
        for (number, &(queue, priority, count, cores, gib)) in (1..).zip(&jobs) {
            let priority = [150, 150, 120][priority];
            cell.submit(number, names[queue], priority, count, (cores * 500, gib * 512));
            for _ in 0..number % 3 {
                cell.step();
            }
        }
        cell.rest();
        let world = &cell.world;
        let allocs: BTreeMap<NodeId, NodeAlloc> =
            world.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
        for &job in world.jobs.keys() {
            for task in naive::wanted(world, job) {
                let choice = preempt::choice(world, &allocs, task);
                prop_assert!(choice.is_none(), "{task} waits: {choice:?}");
            }
        }
    }
}
