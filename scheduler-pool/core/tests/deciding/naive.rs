//! The slow and obvious scheduler: every question asked of the rows, with the model's own functions.

use std::collections::BTreeMap;

use borough_model::job::{Constraint, ConstraintOperator, JobState};
use borough_model::node::{node_alloc_add, node_attribute, node_free, node_open, ports_pick};
use borough_model::resource::shortfall;
use borough_model::{JobId, JobSpec, NodeAlloc, NodeId, NodeRow, TaskId, TaskState};
use borough_scheduler_core::{PendingQueue, PendingTask, Plan};

use crate::world::World;

/// Whether a node meets a constraint.
pub fn met(row: &NodeRow, constraint: &Constraint) -> bool {
    let value = node_attribute(row, &constraint.attribute);
    let listed = |value: &str| constraint.values.iter().any(|listed| listed == value);
    let number = |text: &str| text.parse::<f64>().ok();
    let bound = constraint.values.first().and_then(|bound| number(bound));
    let compared = |holds: fn(f64, f64) -> bool| {
        value.and_then(number).zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    };
    match constraint.operator {
        ConstraintOperator::In => value.is_some_and(listed),
        ConstraintOperator::NotIn => !value.is_some_and(listed),
        ConstraintOperator::Exists => value.is_some(),
        ConstraintOperator::Absent => value.is_none(),
        ConstraintOperator::GreaterThan => compared(|value, bound| value > bound),
        ConstraintOperator::LessThan => compared(|value, bound| value < bound),
    }
}

/// Whether a task of a job fits a node with that much committed.
pub fn fits(world: &World, spec: &JobSpec, index: u32, row: &NodeRow, alloc: &NodeAlloc) -> bool {
    let free = node_free(&world.limits(row), alloc);
    node_open(row).is_ok()
        && spec
            .constraints
            .iter()
            .filter(|constraint| constraint.preference.is_none())
            .all(|hard| met(row, hard))
        && ports_pick(row, alloc, &spec.task.ports, 0, world.now_ms).is_ok()
        && shortfall(spec.resources_for(index), &free).is_empty()
}

/// How many nodes a task fits now.
pub fn fit_count(world: &World, spec: &JobSpec, index: u32) -> usize {
    world.nodes.values().filter(|(row, alloc)| fits(world, spec, index, row, alloc)).count()
}

/// Tasks of a job that want a node now.
pub fn wanted(world: &World, job: JobId) -> Vec<TaskId> {
    let Some((row, _)) = world.jobs.get(&job).filter(|(row, _)| row.state == JobState::Running) else {
        return Vec::new();
    };
    let ready = |task: &TaskId| match world.tasks.get(task) {
        None => true,
        Some(row) => row.state == TaskState::Pending && row.not_before_ms <= world.now_ms,
    };
    (0..row.count).map(|index| TaskId { job, index }).filter(ready).collect()
}

/// How many members a gang still needs.
pub fn gang_need(world: &World, job: JobId) -> usize {
    let Some((row, spec)) = world.jobs.get(&job).filter(|(_, spec)| spec.min_member > 1) else { return 0 };
    let dead = world.tasks.values().filter(|task| task.id.job == job && task.state == TaskState::Dead);
    let dead = dead.filter(|task| task.id.index < row.count).count();
    let standing = world.standing(job).filter(|task| task.id.index < row.count).count();
    (spec.min_member as usize).saturating_sub(dead + standing)
}

/// Holds a plan against every rule, one placement after another, and answers what is then committed.
pub fn plan_checked(world: &World, queue: &PendingQueue, plan: &Plan) -> BTreeMap<NodeId, NodeAlloc> {
    let mut allocs: BTreeMap<NodeId, NodeAlloc> =
        world.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect();
    let mut seen = std::collections::BTreeSet::new();
    for placement in &plan.placements {
        let (task, job) = (placement.task, placement.task.job);
        assert!(seen.insert(task), "{task} is placed once");
        assert!(wanted(world, job).contains(&task), "{task} wants a node");
        let (job_row, spec) = world.jobs.get(&job).expect("a known job");
        let (row, _) = world.nodes.get(&placement.node).expect("a known node");
        let alloc = allocs.get_mut(&placement.node).expect("a known node");
        assert!(fits(world, spec, task.index, row, alloc), "{task} fits {}", row.name);
        let ports: Vec<u16> = placement.ports.iter().map(|port| port.number).collect();
        for (port, asked) in placement.ports.iter().zip(&spec.task.ports) {
            let own = (row.port_first..=row.port_last).contains(&port.number);
            assert!(asked.number == Some(port.number) || (asked.number.is_none() && own), "{port:?}");
        }
        assert_eq!(ports.len(), spec.task.ports.len());
        assert_eq!(placement.charge, *spec.resources_for(task.index));
        assert_eq!(placement.spec_version, job_row.spec_version);
        *alloc = node_alloc_add(alloc, &world.limits(row), &placement.charge, &ports, world.now_ms)
            .expect("the model agrees that it fits");
    }
    gangs_checked(world, plan);
    everything_answered(queue, plan);
    allocs
}

fn gangs_checked(world: &World, plan: &Plan) {
    for &job in world.jobs.keys() {
        let need = gang_need(world, job);
        let placed = plan.placements.iter().filter(|placement| placement.task.job == job).count();
        assert!(placed == 0 || placed >= need, "{job} needs {need} together and got {placed}");
    }
}

fn everything_answered(queue: &PendingQueue, plan: &Plan) {
    let mut answered: Vec<TaskId> = plan.placements.iter().map(|placement| placement.task).collect();
    for unplaced in &plan.unplaced {
        answered.extend(unplaced.tasks.iter().map(|&index| TaskId { job: unplaced.job, index }));
    }
    let left_over = |pending: &&PendingTask| {
        let gang_placed = plan.placements.iter().any(|placement| {
            placement.gang.is_some()
                && placement.gang == pending.gang
                && placement.task.job == pending.task.job
        });
        gang_placed && !answered.contains(&pending.task)
    };
    let asked = queue.tasks.iter().filter(|pending| !left_over(pending));
    let mut asked: Vec<TaskId> = asked.map(|pending| pending.task).collect();
    asked.sort_unstable();
    answered.sort_unstable();
    assert_eq!(answered, asked, "each task of the queue is placed or explained, once");
}
