//! Reclaim between queues: the reference that plans are checked against after every event of the random histories, and
//! cells that are planned until nothing changes.

use std::collections::BTreeMap;

use borough_model::job::{Band, band};
use borough_model::node::node_open;
use borough_model::queue::{QueueSpec, queue_of_job};
use borough_model::{JobId, NodeAlloc, NodeId, Resources, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{
    CellSettings, EvictionReport, PLAN_SEED, Plan, Queueing, Snapshot, explain, plan,
};
use proptest::prelude::*;

use crate::stored::{StoredCell, node, spec};
use crate::{preempt, properties, reference};

/// The path of a job's queue, from the root. Empty for a job outside of all queues.
fn path(stored: &StoredCell, job: JobId) -> Vec<String> {
    let (row, spec) = stored.jobs.get(&job).expect("a known job");
    let queues = &stored.settings.queueing.queues;
    let place = queue_of_job(queues, spec.queue.as_deref(), &row.user);
    place.map_or(Vec::new(), |place| queues[place].path.split('/').map(str::to_owned).collect())
}

/// The queue of a job as a report names it.
pub(crate) fn queue_text(stored: &StoredCell, job: JobId) -> String {
    let path = path(stored, job).join("/");
    if path.is_empty() { "outside of all".to_owned() } else { path }
}

fn queue<'a>(stored: &'a StoredCell, path: &[String]) -> Option<&'a QueueSpec> {
    stored.settings.queueing.queues.iter().find(|queue| queue.path == path.join("/"))
}

fn guaranteed(stored: &StoredCell, path: &[String]) -> u64 {
    queue(stored, path).map_or(0, |queue| u64::from(queue.guaranteed_per_mille) * 1000)
}

fn placed(row: &TaskRow) -> bool {
    use TaskState::{Assigned, Held, Running, Starting};
    matches!(row.state, Held | Assigned | Starting | Running)
}

fn asked(stored: &StoredCell, task: TaskId) -> std::borrow::Cow<'_, Resources> {
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
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

/// The dominant share in millionths of the cell of placed tasks in some queues, without some tasks and with one more.
/// `within` selects the queues by their path.
fn share(
    stored: &StoredCell,
    within: impl Fn(&[String]) -> bool,
    without: &[TaskId],
    with: Option<TaskId>,
) -> u64 {
    let resident =
        stored.tasks.values().filter(|row| placed(row) && !without.contains(&row.id)).map(|row| row.id);
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for task in resident.filter(|task| within(&path(stored, task.job))).chain(with) {
        for (dimension, amount) in amounts(&asked(stored, task)) {
            *held.entry(dimension).or_default() += amount;
        }
    }
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for (row, _) in stored.nodes.values().filter(|(row, _)| node_open(row).is_ok()) {
        for (dimension, amount) in amounts(&stored.limits(row)) {
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

fn share_of(stored: &StoredCell, queue: &[String], without: &[TaskId], with: Option<TaskId>) -> u64 {
    match queue {
        [] => share(stored, <[String]>::is_empty, without, with),
        queue => share(stored, |path| path.starts_with(queue), without, with),
    }
}

/// Returns true if a queue is below its guarantee and would not exceed it with the task.
fn lacks(stored: &StoredCell, queue: &[String], task: TaskId) -> bool {
    let guaranteed = guaranteed(stored, queue);
    share_of(stored, queue, &[], None) < guaranteed && share_of(stored, queue, &[], Some(task)) <= guaranteed
}

/// The queues of two jobs that compete, at the children of their lowest common ancestor.
fn parting(stored: &StoredCell, one: JobId, other: JobId) -> Option<(Vec<String>, Vec<String>)> {
    let (one, other) = (path(stored, one), path(stored, other));
    let same = one.iter().zip(&other).take_while(|(left, right)| left == right).count();
    let ends = |path: &[String]| path[..path.len().min(same + 1)].to_vec();
    (one.len() > same && (other.len() > same || other.is_empty())).then(|| (ends(&one), ends(&other)))
}

/// Returns true if the cell may reclaim anything for a task.
pub(crate) fn may_claim(stored: &StoredCell, task: TaskId) -> bool {
    let (row, spec) = stored.jobs.get(&task.job).expect("a known job");
    let never = spec.preemption.is_some_and(|preemption| preemption.never);
    let in_queue = !path(stored, task.job).is_empty();
    let low = matches!(band(row.priority), Band::Batch | Band::BestEffort);
    stored.settings.reclaim
        && stored.settings.queueing.policy.name() == "hierarchical"
        && in_queue
        && low
        && !never
}

/// Returns true if any queue that competes with the task's is above its guarantee.
pub(crate) fn claims(stored: &StoredCell, task: TaskId) -> bool {
    let rows = || stored.tasks.values().filter(|row| placed(row));
    let gives = |row: &TaskRow| {
        parting(stored, task.job, row.id.job).is_some_and(|(own, other)| {
            lacks(stored, &own, task) && share_of(stored, &other, &[], None) > guaranteed(stored, &other)
        })
    };
    may_claim(stored, task) && rows().any(gives)
}

/// How far the victim's queue is above its guarantee where it competes with that of `task`, over its weight. `None` if
/// the victim keeps what it has.
pub(crate) fn excess(stored: &StoredCell, task: TaskId, victim: TaskId) -> Option<u64> {
    let priority = |job| stored.jobs.get(&job).map_or(0, |(row, _)| row.priority);
    let (own, other) = (priority(task.job), priority(victim.job));
    if !may_claim(stored, task) || other > own || band(other) != band(own) {
        return None;
    }
    let (own, other) = parting(stored, task.job, victim.job)?;
    if !lacks(stored, &own, task) || !keeps(stored, task, &[victim], &[victim]) {
        return None;
    }
    let beyond = share_of(stored, &other, &[], None)
        .checked_sub(guaranteed(stored, &other))
        .filter(|beyond| *beyond > 0)?;
    Some(beyond * 1000 / queue(stored, &other).map_or(1, |queue| u64::from(queue.weight)))
}

/// Returns true if each queue from which something is claimed keeps its guarantee after all victims have gone.
pub(crate) fn keeps(stored: &StoredCell, task: TaskId, claimed: &[TaskId], victims: &[TaskId]) -> bool {
    claimed.iter().all(|victim| {
        let Some((_, top)) = parting(stored, task.job, victim.job) else { return false };
        let leaf = path(stored, victim.job);
        (top.len()..=leaf.len()).all(|length| {
            let queue = &leaf[..length];
            share_of(stored, queue, victims, None) >= guaranteed(stored, queue)
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

/// A cell that is planned, with its victims leaving at once, until nothing changes.
struct Cell {
    stored: StoredCell,
    followed: Snapshot,
    evicted: usize,
}

impl Cell {
    fn new(settings: CellSettings, nodes: &[(u64, u64)]) -> Self {
        let mut stored =
            StoredCell { settings: settings.clone(), now_ms: 1_000_000, ..StoredCell::default() };
        for (number, &(cores, gib)) in (0..).zip(nodes) {
            stored.node_put(node(number, cores, gib));
        }
        Self { stored, followed: Snapshot::new(settings), evicted: 0 }
    }

    fn submit(&mut self, number: u64, queue: &str, priority: u32, count: u32, cpu_millis: u64, mib: u64) {
        let mut job = spec("ann", &format!("job-{number}"), count, cpu_millis, mib);
        job.priority = priority;
        job.queue = (!queue.is_empty()).then(|| queue.to_owned());
        self.stored.job_submit(JobId(number), &job);
    }

    /// Makes one plan, checks it against the reference, commits it, and lets every victim leave.
    fn step(&mut self) -> usize {
        self.stored.journal_apply(&mut self.followed);
        let queue = self.followed.pending(&|_| true, self.stored.now_ms, usize::MAX);
        let outcome: Plan = plan(self.followed.tables(), &queue, self.stored.now_ms, PLAN_SEED);
        reference::plan_checked(&self.stored, &queue, &outcome);
        self.stored.commit(&outcome);
        self.stored.journal_apply(&mut self.followed);
        self.followed.remember(&outcome, self.stored.now_ms);
        self.evicted += outcome.placements.iter().map(|placement| placement.victims.len()).sum::<usize>();
        let going: Vec<TaskId> = self
            .stored
            .tasks
            .values()
            .filter(|row| row.state == TaskState::Stopping)
            .map(|row| row.id)
            .collect();
        for task in going {
            self.stored.task_end(task, None, |row| row.state = TaskState::Pending);
        }
        self.stored.now_ms += 1_000;
        outcome.placements.len()
    }

    /// Plans until nothing is placed for a while. Panics if that never happens.
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
        self.stored.resident(JobId(job)).count()
    }
}

#[test]
fn a_queue_takes_back_what_it_is_guaranteed_from_those_with_most_beyond_theirs() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 100), queue_spec("web", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(10, 100), (10, 100)]);
    cell.submit(1, "ops", 150, 12, 1000, 1);
    cell.submit(2, "web", 150, 8, 1000, 1);
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2), cell.evicted), (12, 8, 0));
    cell.submit(3, "research", 150, 20, 1000, 1);
    cell.rest();
    // Of the 20 cores, research is guaranteed 10 and ops 2. Beyond that ops had 10 and web 8: each ends with 4.
    assert_eq!((cell.resident(3), cell.resident(1), cell.resident(2), cell.evicted), (10, 6, 4, 10));
    let explanation = explain(&cell.followed, JobId(3), 15, cell.stored.now_ms);
    let (queue, share_per_mille, guaranteed_per_mille) = ("research".to_owned(), 500, 500);
    let full = EvictionReport::Guarantee { queue, share_per_mille, guaranteed_per_mille, lacks: false };
    assert_eq!(explanation.evictions, Some(full), "{explanation}");
    assert!(
        explanation
            .to_string()
            .contains("queue research has 50% of the cell and is guaranteed 50%: it takes"),
        "{explanation}"
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
        cell.submit(1, "ops", other, 10, 1000, 1);
        cell.rest();
        cell.submit(2, "research", own, 10, 1000, 1);
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
    cell.submit(1, "ops", 150, 20, 1000, 1);
    cell.rest();
    // Text has no guarantee, and reclaims for research.
    cell.submit(2, "research/text", 150, 20, 1000, 1);
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2)), (8, 12));
    // Now vision takes back within research: ops has more than it is guaranteed too, but research has all of its own.
    cell.submit(3, "research/vision", 150, 20, 1000, 1);
    cell.rest();
    assert_eq!((cell.resident(1), cell.resident(2), cell.resident(3)), (8, 4, 8));
}

#[test]
fn a_task_evicted_for_a_higher_priority_keeps_its_queues_guarantee() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(10, 100)]);
    cell.submit(1, "research", 150, 5, 1000, 1);
    cell.submit(2, "ops", 150, 5, 1000, 2);
    cell.rest();
    cell.submit(3, "", 250, 5, 1000, 1);
    cell.rest();
    assert_eq!((cell.resident(3), cell.resident(1), cell.resident(2)), (5, 5, 0));
}

#[test]
fn a_gang_takes_back_all_that_it_needs_or_nothing() {
    let queues = [queue_spec("research", 1, 500), queue_spec("ops", 1, 0)];
    let mut cell = Cell::new(hierarchy(&queues), &[(4, 100), (4, 100)]);
    cell.submit(1, "ops", 150, 8, 1000, 1);
    cell.rest();
    for (number, members, placed) in [(2, 5, 0), (3, 4, 4)] {
        let mut gang = spec("ann", &format!("gang-{number}"), members, 1000, 1);
        (gang.priority, gang.min_member, gang.queue) = (150, members, Some("research".to_owned()));
        cell.stored.job_submit(JobId(number), &gang);
        cell.rest();
        assert_eq!((cell.resident(number), cell.evicted), (placed, placed));
    }
}

proptest! {
    #![proptest_config(properties::cases(1))]

    /// For any jobs, the cell comes to rest, and the reference allows each eviction. Then no task waits that could
    /// reclaim anything.
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
            cell.submit(number, names[queue], priority, count, cores * 500, gib * 512);
            for _ in 0..number % 3 {
                cell.step();
            }
        }
        cell.rest();
        let stored = &cell.stored;
        let allocs: BTreeMap<NodeId, NodeAlloc> =
            stored.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
        for &job in stored.jobs.keys() {
            for task in reference::wanted(stored, job) {
                let choice = preempt::choice(stored, &allocs, task);
                prop_assert!(choice.is_none(), "{task} waits: {choice:?}");
            }
        }
    }
}
