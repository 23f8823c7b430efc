//! The slow and obvious preemptor: every rule asked of the rows, every node compared. Plans are held against it after
//! every event of the random histories.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use borough_model::job::{Band, band};
use borough_model::node::{leave_due_ms, node_alloc_forgo, node_alloc_release};
use borough_model::{JobId, NodeAlloc, NodeId, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{EvictionReport, Explanation, PlannedPlacement, VictimReport};

use crate::world::World;
use crate::{naive, reclaim};

/// What evictions on a node cost, as it is compared, and who goes.
pub type Choice = (Option<u32>, u32, usize, Reverse<u64>, u64, NodeId, Vec<TaskId>);

type Allocs = BTreeMap<NodeId, NodeAlloc>;

/// Who is spared before whom.
type Ranked = (Reverse<u32>, bool, u64, Reverse<u64>, TaskId);

fn priority(world: &World, job: JobId) -> u32 {
    world.jobs.get(&job).map_or(0, |(row, _)| row.priority)
}

/// Whether a task may take the place of one of a priority.
pub fn may_evict(world: &World, task: TaskId, other: u32) -> bool {
    let (_, spec) = world.jobs.get(&task.job).expect("a known job");
    let own = priority(world, task.job);
    let evicted = world.tasks.get(&task).is_some_and(|row| row.evicted.is_some());
    let same_band = band(own) == band(other);
    let kept_band = matches!(band(own), Band::Production | Band::Monitoring);
    let never = spec.preemption.is_some_and(|preemption| preemption.never);
    !never && other < own && !(same_band && (kept_band || evicted))
}

fn stands(row: &TaskRow) -> bool {
    use TaskState::{Assigned, Held, Running, Starting};
    matches!(row.state, Held | Assigned | Starting | Running)
}

/// The commitment of a node without some tasks.
fn without(alloc: &NodeAlloc, rows: &[&TaskRow]) -> NodeAlloc {
    let mut alloc = alloc.clone();
    for row in rows {
        let resources = &row.charge.resources;
        alloc = if row.promised {
            node_alloc_forgo(&alloc, resources, &[]).expect("what was promised")
        } else {
            node_alloc_release(&alloc, resources, &[], None).expect("what was charged")
        };
    }
    alloc
}

/// The world without tasks that give way: no rule counts them, they are on their way out.
fn gone(world: &World, rows: &[&TaskRow]) -> World {
    let mut world = world.clone();
    for row in rows {
        let row = world.tasks.get_mut(&row.id).expect("a known task");
        row.state = TaskState::Stopping;
    }
    world
}

fn leaving(world: &World, node: NodeId) -> Vec<&TaskRow> {
    let there = world.tasks.values().filter(|row| row.charged_node() == Some(node));
    let stops = there.filter(|row| matches!(row.state, TaskState::Stopping | TaskState::Releasing));
    let in_time = |row: &&TaskRow| {
        let (_, spec) = world.jobs.get(&row.id.job).expect("a known job");
        world.now_ms < leave_due_ms(row.changed_ms, spec)
    };
    stops.filter(in_time).collect()
}

/// Whether a task fits a node once these are gone, with all that leaves anyway.
fn fits_without(world: &World, allocs: &Allocs, task: TaskId, node: NodeId, victims: &[&TaskRow]) -> bool {
    let (row, _) = world.nodes.get(&node).expect("a known node");
    let (_, spec) = world.jobs.get(&task.job).expect("a known job");
    let mut away = leaving(world, node);
    away.extend(victims);
    let alloc = without(allocs.get(&node).expect("a known node"), &away);
    naive::fits(&gone(world, victims), spec, task.index, row, &alloc)
}

fn running_seconds(world: &World, row: &TaskRow) -> u64 {
    let since_ms = row.started_ms.unwrap_or(row.changed_ms);
    u64::try_from((world.now_ms - since_ms).max(0)).expect("not negative") / 1000
}

fn work_lost(world: &World, node: NodeId, row: &TaskRow) -> u64 {
    if row.state == TaskState::Held {
        return 0;
    }
    let (node, _) = world.nodes.get(&node).expect("a known node");
    let (limits, resources) = (world.limits(node), &row.charge.resources);
    let cpu = resources.cpu_millis * 1000 / limits.cpu_millis.max(1);
    let memory = u128::from(resources.memory_bytes) * 1000 / u128::from(limits.memory_bytes.max(1));
    (cpu + u64::try_from(memory).expect("small")) * running_seconds(world, row)
}

/// How many evictions of a job's tasks its budget allows still; none: as many as there are.
fn budget(world: &World, job: JobId) -> Option<u32> {
    let (row, spec) = world.jobs.get(&job)?;
    let down_max = spec.preemption?.down_max?;
    let up = world.tasks.values().filter(|task| task.id.job == job);
    let up = up.filter(|task| stands(task) || task.state == TaskState::Dead).count();
    Some(down_max.saturating_sub(row.count.saturating_sub(u32::try_from(up).expect("few"))))
}

fn on_node(world: &World, allocs: &Allocs, task: TaskId, node: NodeId) -> Option<Choice> {
    let fresh_ms = i64::try_from(world.settings.fresh_start_ms).expect("small");
    let protected = |row: &TaskRow| {
        row.state != TaskState::Held && world.now_ms - row.started_ms.unwrap_or(row.changed_ms) < fresh_ms
    };
    let there = world.tasks.values().filter(|row| row.charged_node() == Some(node) && stands(row));
    let claimed = |victim: TaskId| match may_evict(world, task, priority(world, victim.job)) {
        true => None,
        false => reclaim::excess(world, task, victim),
    };
    let gives =
        |row: &TaskRow| may_evict(world, task, priority(world, row.id.job)) || claimed(row.id).is_some();
    let mut lower: Vec<&TaskRow> = there.filter(|row| gives(row) && !protected(row)).collect();
    if !fits_without(world, allocs, task, node, &lower) {
        return None;
    }
    // The least important first; what a budget allows of them is within it.
    lower.sort_by_key(|row| (priority(world, row.id.job), work_lost(world, node, row), row.id));
    let mut seen: BTreeMap<JobId, u32> = BTreeMap::new();
    let mut ranked: Vec<Ranked> = Vec::new();
    for row in &lower {
        let before = seen.entry(row.id.job).or_default();
        let within = budget(world, row.id.job).is_none_or(|left| *before < left);
        *before += 1;
        let lost = work_lost(world, node, row);
        ranked.push((
            Reverse(priority(world, row.id.job)),
            within,
            claimed(row.id).unwrap_or(0),
            Reverse(lost),
            row.id,
        ));
    }
    // The most important are spared first: of the highest priority, then those beyond a budget, then those whose queue
    // is least beyond its guarantee, then most work.
    ranked.sort_unstable();
    let ranked: Vec<TaskId> = ranked.into_iter().map(|(.., task)| task).collect();
    let keeps = |victims: &[TaskId]| {
        let claimed: Vec<TaskId> =
            victims.iter().copied().filter(|victim| claimed(*victim).is_some()).collect();
        reclaim::keeps(world, task, &claimed, victims)
    };
    let mut victims = spared_in_order(world, allocs, task, node, &ranked);
    if !keeps(&victims) {
        let mut ranked = ranked;
        ranked.sort_by_key(|victim| (claimed(*victim).is_none(), part(world, node, *victim), *victim));
        victims = spared_in_order(world, allocs, task, node, &ranked);
        if !keeps(&victims) {
            return None;
        }
    }
    let rows: Vec<&TaskRow> = victims.iter().filter_map(|task| world.tasks.get(task)).collect();
    let mut of_job: BTreeMap<JobId, u32> = BTreeMap::new();
    rows.iter().for_each(|row| *of_job.entry(row.id.job).or_default() += 1);
    let violations = of_job
        .into_iter()
        .map(|(job, count)| budget(world, job).map_or(0, |left| count.saturating_sub(left)));
    let highest = rows.iter().map(|row| priority(world, row.id.job)).max();
    let lost = rows.iter().map(|row| work_lost(world, node, row)).sum();
    let excess = Reverse(victims.iter().filter_map(|victim| claimed(*victim)).min().unwrap_or(0));
    Some((highest, violations.sum(), rows.len(), excess, lost, node, victims))
}

/// Who still has to go, one after another being spared where the task fits without.
fn spared_in_order(
    world: &World,
    allocs: &Allocs,
    task: TaskId,
    node: NodeId,
    ranked: &[TaskId],
) -> Vec<TaskId> {
    let mut victims = ranked.to_vec();
    for &spared in ranked {
        let rest: Vec<&TaskRow> =
            victims.iter().filter(|task| **task != spared).filter_map(|task| world.tasks.get(task)).collect();
        if fits_without(world, allocs, task, node, &rest) {
            victims.retain(|task| *task != spared);
        }
    }
    victims
}

/// The larger of the parts of a node's processor time and memory that a task has, in thousandths.
fn part(world: &World, node: NodeId, task: TaskId) -> u64 {
    let (node, _) = world.nodes.get(&node).expect("a known node");
    let (limits, resources) =
        (world.limits(node), &world.tasks.get(&task).expect("a known task").charge.resources);
    let cpu = resources.cpu_millis * 1000 / limits.cpu_millis.max(1);
    cpu.max(resources.memory_bytes * 1000 / limits.memory_bytes.max(1))
}

/// Where a task would have room made at the least cost.
pub fn choice(world: &World, allocs: &Allocs, task: TaskId) -> Option<Choice> {
    // Whoever may evict nobody at all does not wait on a node for what leaves it either.
    if !(0..400).any(|other| may_evict(world, task, other)) && !reclaim::claims(world, task) {
        return None;
    }
    world.nodes.keys().filter_map(|&node| on_node(world, allocs, task, node)).min()
}

/// Holds a placement by preemption against all of that, and answers the cell once it is committed.
pub fn checked(world: &mut World, allocs: &mut Allocs, placement: &PlannedPlacement) {
    let task = placement.task;
    let (_, spec) = world.jobs.get(&task.job).expect("a known job");
    let (row, _) = world.nodes.get(&placement.node).expect("a known node");
    let alloc = allocs.get(&placement.node).expect("a known node");
    assert!(
        placement.gang.is_some()
            || !world.nodes.iter().any(|(id, (row, _))| {
                naive::fits(world, spec, task.index, row, allocs.get(id).expect("a known node"))
            }),
        "{task} fits without evictions"
    );
    let mut victims: Vec<TaskId> = placement.victims.iter().map(|victim| victim.task).collect();
    victims.sort_unstable();
    let mut chosen = choice(world, allocs, task).expect("evictions make room");
    chosen.6.sort_unstable();
    assert_eq!((placement.node, &victims), (chosen.5, &chosen.6), "{task} on {}: {chosen:?}", row.name);
    let holders: Vec<&TaskRow> = victims
        .iter()
        .map(|victim| world.tasks.get(victim).expect("a known task"))
        .filter(|row| row.state == TaskState::Held)
        .collect();
    let rows: Vec<&TaskRow> =
        victims.iter().map(|victim| world.tasks.get(victim).expect("a known task")).collect();
    let at_once = holders.len() == victims.len()
        && naive::fits(&gone(world, &rows), spec, task.index, row, &without(alloc, &holders));
    assert_eq!(placement.held, !at_once, "{task} is held where it has to wait");
    for victim in &placement.victims {
        let row = world.tasks.get(&victim.task).expect("a known task").clone();
        assert_eq!((row.revision, victim.evicted.by), (victim.revision, task));
        assert_eq!(victim.holds, row.state == TaskState::Held);
        if victim.holds {
            let alloc = allocs.get_mut(&placement.node).expect("a known node");
            let ports = row.port_numbers();
            let leave = |alloc: &NodeAlloc| match row.promised {
                true => node_alloc_forgo(alloc, &row.charge.resources, &ports),
                false => node_alloc_release(alloc, &row.charge.resources, &ports, None),
            };
            *alloc = leave(alloc).expect("it holds");
        }
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        let row = TaskRow { state, evicted: Some(victim.evicted), changed_ms: world.now_ms, ..row };
        world.tasks.insert(victim.task, row);
    }
}

/// Who gave way to a task by what was committed, as it is told.
pub fn victims_of(world: &World, task: TaskId) -> Vec<VictimReport> {
    let victims = world.evictions.iter().filter(|victim| victim.evicted.by == task);
    let told = |victim: &borough_scheduler_core::Victim| {
        victim_told(world, victim.task, victim.priority, victim.holds, victim.reclaimed)
    };
    victims.map(told).collect()
}

fn victim_told(world: &World, task: TaskId, priority: u32, holds: bool, reclaimed: bool) -> VictimReport {
    let (row, _) = world.jobs.get(&task.job).expect("a known job");
    let (user, job) = (row.user.clone(), row.name.clone());
    let reclaimed_from = reclaimed.then(|| reclaim::queue_told(world, task.job));
    VictimReport { user, job, index: task.index, priority, holds, reclaimed_from }
}

/// Holds what an explanation says of evictions against the rows.
pub fn told_checked(world: &World, task: TaskId, told: &Explanation) {
    let allocs: Allocs = world.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
    let chosen = choice(world, &allocs, task);
    match (&told.evictions, told.nodes_fit) {
        (None, fit) => assert!(fit > 0 || world.nodes.is_empty(), "nothing is said of evictions: {told}"),
        (Some(EvictionReport::Help { node, victims, violations }), 0) => {
            let (_, beyond, _, _, _, id, tasks) = chosen.expect("evictions help");
            let (row, _) = world.nodes.get(&id).expect("a known node");
            let holds = |task: &TaskId| world.tasks.get(task).is_some_and(|row| row.state == TaskState::Held);
            let mut expected: Vec<VictimReport> = tasks
                .iter()
                .map(|victim| {
                    let priority = priority(world, victim.job);
                    victim_told(world, *victim, priority, holds(victim), !may_evict(world, task, priority))
                })
                .collect();
            let mut victims = victims.clone();
            let order = |victim: &VictimReport| (victim.job.clone(), victim.user.clone(), victim.index);
            expected.sort_by_key(order);
            victims.sort_by_key(order);
            assert_eq!((node, *violations, victims), (&row.name, beyond, expected), "{told}");
        }
        (Some(other), 0) => {
            assert_eq!(chosen, None, "{told}");
            let mut unprotected = world.clone();
            unprotected.settings.fresh_start_ms = 0;
            let later = choice(&unprotected, &allocs, task).is_some();
            let never =
                !(0..400).any(|other| may_evict(world, task, other)) && !reclaim::may_claim(world, task);
            assert_eq!(*other == EvictionReport::FreshStart, later, "{told}");
            assert_eq!(*other == EvictionReport::Never, never, "{told}");
        }
        (Some(_), _) => panic!("it fits, and speaks of evictions: {told}"),
    }
}
