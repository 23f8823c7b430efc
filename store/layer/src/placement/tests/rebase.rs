//! A placement keeps a node that others have committed to meanwhile, if it still fits there.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{JobKind, JobRow, JobSpec, job_new};
use borough_model::node::NodeAlloc;
use borough_model::task::{Effects, Placement as Place, TaskEvent, TaskRow, task_transition};
use borough_model::{Incarnation, JobId, NodeId, RequestId, Resources, TaskId};

use super::super::*;
use crate::keys::LeaseKey;
use crate::testing::name;

const NODE: NodeId = NodeId(5);
const TASKS: [TaskId; 2] = [TaskId { job: JobId(1), index: 0 }, TaskId { job: JobId(1), index: 1 }];

/// A worker's state after the conflict.
struct Fresh {
    node: PlacementNode,
    job: JobRow,
}

impl SurvivorView for Fresh {
    fn node(&self, node: NodeId) -> Option<PlacementNode> {
        (node == NODE).then(|| self.node.clone())
    }

    fn task_revision(&self, _: TaskId) -> u64 {
        0
    }

    fn job(&self, job: JobId) -> Option<&JobRow> {
        (job == self.job.id).then_some(&self.job)
    }
}

fn cores(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, ..Resources::default() }
}

fn node(used_millis: u64) -> PlacementNode {
    let alloc = NodeAlloc { used: cores(used_millis), ..NodeAlloc::default() };
    PlacementNode { revision: 1, capacity: cores(4_000), alloc }
}

fn fresh(used_millis: u64) -> Fresh {
    let command = vec!["true".to_owned()];
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Batch, command);
    spec.count = 2;
    Fresh { node: node(used_millis), job: job_new(JobId(1), &spec, RequestId(1), 1_000) }
}

/// Two tasks of a core each on an empty node.
fn batch(event: fn(Place) -> TaskEvent) -> PlacementBatch {
    let placed = |task: TaskId| {
        let place = Place {
            node: NODE,
            incarnation: Incarnation::default().next(),
            ports: Vec::new(),
            resources: cores(1_000),
            spec_version: 1,
            gang: None,
            alloc: None,
        };
        let row = task_transition(&TaskRow::never_placed(task), &event(place), 1_000).unwrap().row;
        PlacementChange {
            revision_before: 0,
            row,
            terms: Vec::new(),
            dependencies: Vec::new(),
            constrained: false,
        }
    };
    PlacementBatch {
        id: RequestId(9),
        lease: LeaseKey { role: "scheduler".to_owned(), shard: 0 },
        at_ms: 1_000,
        nodes: BTreeMap::from([(NODE, node(0))]),
        placements: TASKS.map(placed).to_vec(),
        evictions: Vec::new(),
        gangs: Vec::new(),
    }
}

/// The tasks that are left after another has committed something on the node.
fn left(batch: &PlacementBatch, fresh: &Fresh) -> Vec<TaskId> {
    let conflicts = PlacementConflicts { nodes: BTreeSet::from([NODE]), ..PlacementConflicts::default() };
    let losers = placement_losers(&conflicts, batch);
    let left = placement_survivors(batch, &losers, fresh, RequestId(10), 2_000);
    let allocs = left.allocs_after().unwrap();
    let over = fresh.node.alloc.used.cpu_millis + 1_000 * left.placements.len() as u64;
    assert!(allocs.values().all(|alloc| alloc.used.cpu_millis == over), "over the fresh values: {allocs:?}");
    left.placements.iter().map(|placement| placement.row.id).collect()
}

#[test]
fn a_placement_keeps_the_node_that_another_has_placed_on_while_it_fits() {
    let batch = batch(TaskEvent::Place);
    assert_eq!(left(&batch, &fresh(2_000)), TASKS, "both fit still");
    assert_eq!(left(&batch, &fresh(2_500)), TASKS[..1], "one does");
    assert_eq!(left(&batch, &fresh(3_500)), []);
    let mut cordoned = fresh(0);
    cordoned.node.revision = 2;
    assert_eq!(left(&batch, &cordoned), [], "the node is not what it was");
}

/// A placement with a promised share waits for victims to exit. By now it may have room without that.
#[test]
fn what_waits_on_a_node_falls_with_it() {
    assert_eq!(left(&batch(TaskEvent::HoldPromised), &fresh(0)), []);
}

/// Priorities decided the eviction. If the victim's job gets a higher priority meanwhile, its gate fails the batch, and
/// the preemptor with it.
#[test]
fn a_preemptor_falls_where_the_job_of_its_victim_has_changed() {
    let mut batch = batch(TaskEvent::HoldPromised);
    let victim = TaskId { job: JobId(2), index: 0 };
    batch.evictions.push(Eviction {
        user: name("bob"),
        job: name("low"),
        revision_before: 1,
        row: TaskRow::never_placed(victim),
        effects: Effects::default(),
        preemptor: TASKS[1],
        priorities: (50, 100),
    });
    assert_eq!(batch.jobs(), BTreeSet::from([JobId(1), JobId(2)]));
    let raised = PlacementConflicts { jobs: BTreeSet::from([JobId(2)]), ..PlacementConflicts::default() };
    assert_eq!(placement_losers(&raised, &batch), BTreeSet::from([TASKS[1]]));
}

/// A conflict with something else, after which a priority has changed. The guards of the next try begin after the
/// change, so the survivors must check it themselves.
#[test]
fn a_preemptor_falls_where_a_priority_is_another_by_the_next_attempt() {
    let mut batch = batch(TaskEvent::Place);
    let mut fresh = fresh(0);
    let priority = fresh.job.priority;
    batch.evictions.push(Eviction {
        user: name("ada"),
        job: name("web"),
        revision_before: 0,
        row: TaskRow::never_placed(TaskId { job: JobId(1), index: 7 }),
        effects: Effects::default(),
        preemptor: TASKS[1],
        priorities: (priority, priority),
    });
    let left = |fresh: &Fresh| {
        let left = placement_survivors(&batch, &BTreeSet::new(), fresh, RequestId(10), 2_000);
        left.placements.iter().map(|placement| placement.row.id).collect::<Vec<_>>()
    };
    assert_eq!(left(&fresh), TASKS);
    fresh.job.priority -= 1;
    assert_eq!(left(&fresh), TASKS[..1]);
}
