//! The reference preemptor: slow and obvious. It checks every rule on the rows and compares all nodes. Plans are
//! checked against it after every event of the random histories.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use borough_model::job::{Band, JobKind, band};
use borough_model::node::{node_alloc_forgo, node_alloc_release};
use borough_model::task::leave_due_ms;
use borough_model::{JobId, NodeAlloc, NodeId, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{EvictionReport, Explanation, PlannedPlacement, VictimReport};

use crate::stored::StoredCell;
use crate::{reclaim, reference};

/// The cost of evictions on a node, in the order of comparison, and the victims.
pub(crate) type Choice = (Option<u32>, u32, usize, Reverse<u64>, u64, bool, NodeId, Vec<TaskId>);

type Allocs = BTreeMap<NodeId, NodeAlloc>;

/// The order in which tasks are spared.
type Ranked = (Reverse<u32>, bool, u64, Reverse<u64>, TaskId);

fn priority(stored: &StoredCell, job: JobId) -> u32 {
    stored.jobs.get(&job).map_or(0, |(row, _)| row.priority)
}

/// Returns true if a task may evict one of priority `other`.
pub(crate) fn may_evict(stored: &StoredCell, task: TaskId, other: u32) -> bool {
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
    let own = priority(stored, task.job);
    let evicted = stored.tasks.get(&task).is_some_and(|row| row.evicted.is_some());
    let same_band = band(own) == band(other);
    let protected_band = matches!(band(own), Band::Production | Band::Monitoring);
    let never = spec.preemption.is_some_and(|preemption| preemption.never);
    !never && other < own && !(same_band && (protected_band || evicted))
}

fn placed(row: &TaskRow) -> bool {
    use TaskState::{Assigned, Held, Running, Starting};
    matches!(row.state, Held | Assigned | Starting | Running)
}

/// The allocation of a node without some tasks.
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

/// The cell with these tasks stopping, so that no rule counts them.
fn gone(stored: &StoredCell, rows: &[&TaskRow]) -> StoredCell {
    let mut stored = stored.clone();
    for row in rows {
        let row = stored.tasks.get_mut(&row.id).expect("a known task");
        row.state = TaskState::Stopping;
    }
    stored
}

fn leaving(stored: &StoredCell, node: NodeId) -> Vec<&TaskRow> {
    let there = stored.tasks.values().filter(|row| row.charged_node() == Some(node));
    let stops = there.filter(|row| matches!(row.state, TaskState::Stopping | TaskState::Releasing));
    let in_time = |row: &&TaskRow| {
        let (_, spec) = stored.jobs.get(&row.id.job).expect("a known job");
        stored.now_ms < leave_due_ms(row.changed_ms, spec)
    };
    stops.filter(in_time).collect()
}

/// Returns true if a task fits a node after these victims and all leaving tasks have gone.
fn fits_without(
    stored: &StoredCell,
    allocs: &Allocs,
    task: TaskId,
    node: NodeId,
    victims: &[&TaskRow],
) -> bool {
    let (row, _) = stored.nodes.get(&node).expect("a known node");
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
    let mut away = leaving(stored, node);
    away.extend(victims);
    let alloc = without(allocs.get(&node).expect("a known node"), &away);
    reference::fits(&gone(stored, victims), spec, task.index, row, &alloc)
}

fn running_seconds(stored: &StoredCell, row: &TaskRow) -> u64 {
    let since_ms = row.started_ms.unwrap_or(row.changed_ms);
    u64::try_from((stored.now_ms - since_ms).max(0)).expect("not negative") / 1000
}

fn work_lost(stored: &StoredCell, node: NodeId, row: &TaskRow) -> u64 {
    if row.state == TaskState::Held {
        return 0;
    }
    let (node, _) = stored.nodes.get(&node).expect("a known node");
    let (limits, resources) = (stored.limits(node), &row.charge.resources);
    let cpu = resources.cpu_millis * 1000 / limits.cpu_millis.max(1);
    let memory = u128::from(resources.memory_bytes) * 1000 / u128::from(limits.memory_bytes.max(1));
    (cpu + u64::try_from(memory).expect("small")) * running_seconds(stored, row)
}

/// How many more evictions of a job its budget allows; `None` without a budget.
fn budget(stored: &StoredCell, job: JobId) -> Option<u32> {
    let (row, spec) = stored.jobs.get(&job)?;
    // What a service says for every cause holds for evictions too, unless it says another bound for these.
    let own = spec.preemption.and_then(|preemption| preemption.down_max);
    let serves = spec.kind == JobKind::Service && !spec.is_gang();
    let of_update = || {
        let update = spec.update.filter(|_| serves)?;
        let share = update.unavailable_percent_max.map(|percent| row.count * percent / 100);
        Some(update.unavailable_max.max(share)?.max(1))
    };
    let down_max = own.or_else(of_update)?;
    let up = stored.tasks.values().filter(|task| task.id.job == job);
    let up = up.filter(|task| placed(task) || task.state == TaskState::Dead).count();
    Some(down_max.saturating_sub(row.count.saturating_sub(u32::try_from(up).expect("few"))))
}

fn on_node(stored: &StoredCell, allocs: &Allocs, task: TaskId, node: NodeId) -> Option<Choice> {
    let fresh_ms = i64::try_from(stored.settings.fresh_start_ms).expect("small");
    let protected = |row: &TaskRow| {
        row.state != TaskState::Held && stored.now_ms - row.started_ms.unwrap_or(row.changed_ms) < fresh_ms
    };
    let there = stored.tasks.values().filter(|row| row.charged_node() == Some(node) && placed(row));
    let claimed = |victim: TaskId| {
        let by_priority = may_evict(stored, task, priority(stored, victim.job));
        if by_priority { None } else { reclaim::excess(stored, task, victim) }
    };
    let gives =
        |row: &TaskRow| may_evict(stored, task, priority(stored, row.id.job)) || claimed(row.id).is_some();
    let mut lower: Vec<&TaskRow> = there.filter(|row| gives(row) && !protected(row)).collect();
    // The budget covers the least important tasks first.
    lower.sort_by_key(|row| (priority(stored, row.id.job), work_lost(stored, node, row), row.id));
    // Within its band, a service keeps the tasks that its budget says.
    let mut counted: BTreeMap<JobId, u32> = BTreeMap::new();
    let own_band = band(priority(stored, task.job));
    lower.retain(|row| {
        let before = counted.entry(row.id.job).or_default();
        let within = budget(stored, row.id.job).is_none_or(|left| *before < left);
        *before += 1;
        let serves = stored.jobs.get(&row.id.job).is_some_and(|(_, spec)| spec.kind == JobKind::Service);
        within || !serves || band(priority(stored, row.id.job)) != own_band
    });
    if !fits_without(stored, allocs, task, node, &lower) {
        return None;
    }
    let mut seen: BTreeMap<JobId, u32> = BTreeMap::new();
    let mut ranked: Vec<Ranked> = Vec::new();
    for row in &lower {
        let before = seen.entry(row.id.job).or_default();
        let within = budget(stored, row.id.job).is_none_or(|left| *before < left);
        *before += 1;
        let lost = work_lost(stored, node, row);
        ranked.push((
            Reverse(priority(stored, row.id.job)),
            within,
            claimed(row.id).unwrap_or(0),
            Reverse(lost),
            row.id,
        ));
    }
    // The most important are spared first: the highest priority, then those beyond a budget, then those with the least
    // excess of their queue, then those with most work.
    ranked.sort_unstable();
    let ranked: Vec<TaskId> = ranked.into_iter().map(|(.., task)| task).collect();
    let keeps = |victims: &[TaskId]| {
        let claimed: Vec<TaskId> =
            victims.iter().copied().filter(|victim| claimed(*victim).is_some()).collect();
        reclaim::keeps(stored, task, &claimed, victims)
    };
    let mut victims = spared_in_order(stored, allocs, task, node, &ranked);
    if !keeps(&victims) {
        let mut ranked = ranked;
        ranked.sort_by_key(|victim| (claimed(*victim).is_none(), part(stored, node, *victim), *victim));
        victims = spared_in_order(stored, allocs, task, node, &ranked);
        if !keeps(&victims) {
            return None;
        }
    }
    let rows: Vec<&TaskRow> = victims.iter().filter_map(|task| stored.tasks.get(task)).collect();
    let mut of_job: BTreeMap<JobId, u32> = BTreeMap::new();
    rows.iter().for_each(|row| *of_job.entry(row.id.job).or_default() += 1);
    let violations = of_job
        .into_iter()
        .map(|(job, count)| budget(stored, job).map_or(0, |left| count.saturating_sub(left)));
    let highest = rows.iter().map(|row| priority(stored, row.id.job)).max();
    let lost = rows.iter().map(|row| work_lost(stored, node, row)).sum();
    let excess = Reverse(victims.iter().filter_map(|victim| claimed(*victim)).min().unwrap_or(0));
    let waits = !at_once(stored, allocs, task, node, &rows);
    Some((highest, violations.sum(), rows.len(), excess, lost, waits, node, victims))
}

/// Whether a task fits once its victims that only hold have left, and none of them runs.
fn at_once(stored: &StoredCell, allocs: &Allocs, task: TaskId, node: NodeId, victims: &[&TaskRow]) -> bool {
    let holders: Vec<&TaskRow> = victims.iter().copied().filter(|row| row.state == TaskState::Held).collect();
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
    let (row, _) = stored.nodes.get(&node).expect("a known node");
    let alloc = allocs.get(&node).expect("a known node");
    holders.len() == victims.len()
        && reference::fits(&gone(stored, victims), spec, task.index, row, &without(alloc, &holders))
}

/// The tasks that must go. Each is spared in order if the task fits without its eviction.
fn spared_in_order(
    stored: &StoredCell,
    allocs: &Allocs,
    task: TaskId,
    node: NodeId,
    ranked: &[TaskId],
) -> Vec<TaskId> {
    let mut victims = ranked.to_vec();
    for &spared in ranked {
        let rest: Vec<&TaskRow> = victims
            .iter()
            .filter(|task| **task != spared)
            .filter_map(|task| stored.tasks.get(task))
            .collect();
        if fits_without(stored, allocs, task, node, &rest) {
            victims.retain(|task| *task != spared);
        }
    }
    victims
}

/// The larger of the two parts of a node's processor time and memory that a task has, in thousandths.
fn part(stored: &StoredCell, node: NodeId, task: TaskId) -> u64 {
    let (node, _) = stored.nodes.get(&node).expect("a known node");
    let (limits, resources) =
        (stored.limits(node), &stored.tasks.get(&task).expect("a known task").charge.resources);
    let cpu = resources.cpu_millis * 1000 / limits.cpu_millis.max(1);
    cpu.max(resources.memory_bytes * 1000 / limits.memory_bytes.max(1))
}

/// The evictions with the least cost for a task.
pub(crate) fn choice(stored: &StoredCell, allocs: &Allocs, task: TaskId) -> Option<Choice> {
    // A task that may evict nobody does not wait for leaving tasks either.
    if !(0..400).any(|other| may_evict(stored, task, other)) && !reclaim::claims(stored, task) {
        return None;
    }
    stored.nodes.keys().filter_map(|&node| on_node(stored, allocs, task, node)).min()
}

/// Checks a placement by preemption against the reference, and commits it to the cell.
pub(crate) fn checked(stored: &mut StoredCell, allocs: &mut Allocs, placement: &PlannedPlacement) {
    let task = placement.task;
    let (_, spec) = stored.jobs.get(&task.job).expect("a known job");
    let (row, _) = stored.nodes.get(&placement.node).expect("a known node");
    assert!(
        placement.gang.is_some()
            || !stored.nodes.iter().any(|(id, (row, _))| {
                reference::fits(stored, spec, task.index, row, allocs.get(id).expect("a known node"))
            }),
        "{task} fits without evictions"
    );
    let mut victims: Vec<TaskId> = placement.victims.iter().map(|victim| victim.task).collect();
    victims.sort_unstable();
    let mut chosen = choice(stored, allocs, task).expect("evictions help");
    chosen.7.sort_unstable();
    assert_eq!((placement.node, &victims), (chosen.6, &chosen.7), "{task} on {}: {chosen:?}", row.name);
    let rows: Vec<&TaskRow> =
        victims.iter().map(|victim| stored.tasks.get(victim).expect("a known task")).collect();
    let at_once = at_once(stored, allocs, task, placement.node, &rows);
    assert_eq!(placement.held, !at_once, "{task} is held where it has to wait");
    for victim in &placement.victims {
        let row = stored.tasks.get(&victim.task).expect("a known task").clone();
        assert_eq!((row.revision, victim.evicted.by), (victim.revision, task));
        assert_eq!(victim.holds, row.state == TaskState::Held);
        if victim.holds {
            let alloc = allocs.get_mut(&placement.node).expect("a known node");
            // A plan gives nobody the ports of its own victims.
            let leave = |alloc: &NodeAlloc| {
                if row.promised {
                    node_alloc_forgo(alloc, &row.charge.resources, &[])
                } else {
                    node_alloc_release(alloc, &row.charge.resources, &[], None)
                }
            };
            *alloc = leave(alloc).expect("it holds");
        }
        let state = if victim.holds { TaskState::Pending } else { TaskState::Stopping };
        let row = TaskRow { state, evicted: Some(victim.evicted.into()), changed_ms: stored.now_ms, ..row };
        stored.tasks.insert(victim.task, row);
    }
}

/// The victims of a task by committed plans, as a report names them.
pub(crate) fn victims_of(stored: &StoredCell, task: TaskId) -> Vec<VictimReport> {
    let victims = stored.evictions.iter().filter(|victim| victim.evicted.by == task);
    let explanation = |victim: &borough_scheduler_core::Victim| {
        victim_report(stored, victim.task, victim.priority, victim.holds, victim.reclaimed)
    };
    victims.map(explanation).collect()
}

fn victim_report(
    stored: &StoredCell,
    task: TaskId,
    priority: u32,
    holds: bool,
    reclaimed: bool,
) -> VictimReport {
    let (row, _) = stored.jobs.get(&task.job).expect("a known job");
    let (user, job) = (row.user.clone(), row.name.clone());
    let reclaimed_from = reclaimed.then(|| reclaim::queue_text(stored, task.job));
    VictimReport { user, job, index: task.index, priority, holds, reclaimed_from }
}

/// Checks the evictions of an explanation against the rows.
pub(crate) fn explanation_checked(stored: &StoredCell, task: TaskId, explanation: &Explanation) {
    let allocs: Allocs = stored.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
    let chosen = choice(stored, &allocs, task);
    match (&explanation.evictions, explanation.nodes_fit) {
        (None, fit) => {
            assert!(fit > 0 || stored.nodes.is_empty(), "nothing is said of evictions: {explanation}")
        }
        (Some(EvictionReport::Help { node, victims, violations }), 0) => {
            let (_, beyond, _, _, _, _, id, tasks) = chosen.expect("evictions help");
            let (row, _) = stored.nodes.get(&id).expect("a known node");
            let holds =
                |task: &TaskId| stored.tasks.get(task).is_some_and(|row| row.state == TaskState::Held);
            let mut expected: Vec<VictimReport> = tasks
                .iter()
                .map(|victim| {
                    let priority = priority(stored, victim.job);
                    victim_report(
                        stored,
                        *victim,
                        priority,
                        holds(victim),
                        !may_evict(stored, task, priority),
                    )
                })
                .collect();
            let mut victims = victims.clone();
            let order = |victim: &VictimReport| (victim.job.clone(), victim.user.clone(), victim.index);
            expected.sort_by_key(order);
            victims.sort_by_key(order);
            assert_eq!((node, *violations, victims), (&row.name, beyond, expected), "{explanation}");
        }
        (Some(other), 0) => {
            assert_eq!(chosen, None, "{explanation}");
            let mut unprotected = stored.clone();
            unprotected.settings.fresh_start_ms = 0;
            let later = choice(&unprotected, &allocs, task).is_some();
            let never =
                !(0..400).any(|other| may_evict(stored, task, other)) && !reclaim::may_claim(stored, task);
            assert_eq!(*other == EvictionReport::FreshStart, later, "{explanation}");
            assert_eq!(*other == EvictionReport::Never, never, "{explanation}");
        }
        (Some(_), _) => panic!("it fits, and speaks of evictions: {explanation}"),
    }
}
