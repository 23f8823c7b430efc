//! The unschedulable queue: tasks that fit nowhere are parked, and events that could help requeue them.

use borough_model::job::{Constraint, ConstraintOperator, TaskOverride};
use borough_model::{JobId, JobSpec, Resources, TaskId, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, ScoringProfile, Snapshot, plan};

use crate::place::stored_cell;
use crate::stored::{StoredCell, node, spec};

/// Plans once, and commits the plan.
pub(crate) fn round(stored: &mut StoredCell, snapshot: &mut Snapshot) -> Plan {
    stored.journal_apply(snapshot);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    stored.commit(&outcome);
    stored.journal_apply(snapshot);
    snapshot.remember(&outcome, stored.now_ms);
    outcome
}

fn unschedulable() -> (StoredCell, Snapshot) {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 2, 2));
    stored.job_submit(JobId(1), &spec("ann", "large", 100, 4000, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    (stored, snapshot)
}

#[test]
fn an_unschedulable_task_is_not_planned_again() {
    let (mut stored, mut snapshot) = unschedulable();
    let again = round(&mut stored, &mut snapshot);
    assert_eq!(again, Plan::default());
    // Another job of the same shape is known to fit nowhere before it is planned.
    stored.job_submit(JobId(2), &spec("bob", "as-large", 5, 4000, 64));
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    // A node that cannot help requeues nobody.
    stored.node_put(node(1, 3, 3));
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
}

#[test]
fn a_node_that_can_help_requeues_it() {
    let (mut stored, mut snapshot) = unschedulable();
    stored.node_put(node(1, 8, 8));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
    let placed = stored.resident(JobId(1)).next().expect("a task").id;
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    stored.task_end(placed, None, |row| row.state = TaskState::Dead);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
}

#[test]
fn uncordoning_and_relabelling_requeue_it() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut row = node(0, 8, 8);
    let id = row.id;
    row.schedulable = false;
    stored.node_put(row);
    stored.job_submit(JobId(1), &spec("ann", "job", 1, 1000, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    stored.node_change(id, |row| drop(row.labels.insert("rack".to_owned(), "a".to_owned())));
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    stored.node_change(id, |row| row.schedulable = true);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
}

#[test]
fn a_port_that_has_cooled_down_requeues_it() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    let mut job = spec("ann", "job", 2, 100, 64);
    let port = borough_model::job::PortSpec { name: crate::stored::name("http"), number: Some(80) };
    job.task.ports = vec![port];
    stored.job_submit(JobId(1), &job);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    stored.task_end(TaskId { job: JobId(1), index: 0 }, Some(10_000), |row| row.state = TaskState::Dead);
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    let cooled_ms = stored.now_ms + 10_000;
    let later_ms = snapshot.clone().pending(&|_| true, stored.now_ms, 10).later_ms;
    assert_eq!(later_ms, Some(cooled_ms), "nothing else says when to plan again");
    stored.now_ms += 9_999;
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    stored.now_ms += 1;
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
}

/// The nodes share an address, so a port that cools on one of them keeps the other from giving it. The node on which it
/// cools is too small for the task, and still says when to try again.
#[test]
fn a_port_that_cools_on_a_small_node_requeues_it_for_those_that_share_its_address() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for number in 0..2 {
        let mut row = node(number, 1 + number, 8);
        row.host = "10.0.0.1".to_owned();
        stored.node_put(row);
    }
    let ported = |name: &str, cpu_millis| {
        let mut job = spec("ann", name, 1, cpu_millis, 64);
        let port = borough_model::job::PortSpec { name: crate::stored::name("http"), number: Some(80) };
        job.task.ports = vec![port];
        job
    };
    let first = |mut job: JobSpec| {
        job.constraints = vec![Constraint {
            attribute: "node.name".to_owned(),
            operator: ConstraintOperator::In,
            values: vec!["node-0".to_owned()],
            preference: None,
        }];
        job
    };
    stored.job_submit(JobId(1), &first(ported("small", 100)));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    stored.job_submit(JobId(2), &ported("large", 2_000));
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1, "the port is taken");
    stored.task_end(TaskId { job: JobId(1), index: 0 }, Some(10_000), |row| row.state = TaskState::Dead);
    assert!(round(&mut stored, &mut snapshot).placements.is_empty(), "the port cools");
    stored.now_ms += 10_000;
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
}

#[test]
fn a_gang_is_parked_until_enough_capacity_is_free() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let mut gang = spec("ann", "gang", 6, 1000, 64);
    gang.min_member = 6;
    stored.job_submit(JobId(1), &gang);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    stored.node_put(node(1, 2, 2));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 6);
}

/// Only a plan can tell what evictions give a gang, and it examines many tasks. So not every ended task requeues the
/// gang.
#[test]
fn a_gang_for_which_evictions_are_too_few_is_tried_again_at_most_once_a_second() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 64));
    stored.job_submit(JobId(1), &spec("ann", "stays", 2, 1_000, 1));
    let mut low = spec("bob", "low", 4, 500, 1);
    low.priority = 1;
    stored.job_submit(JobId(2), &low);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 6);
    let mut gang = spec("ann", "gang", 3, 1_000, 1);
    gang.min_member = 3;
    stored.job_submit(JobId(3), &gang);
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    stored.task_end(TaskId { job: JobId(2), index: 0 }, None, |row| row.state = TaskState::Dead);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default(), "too soon");
    stored.now_ms += 1_000;
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    // Capacity that needs no eviction is tried at once.
    stored.node_put(node(1, 1, 1));
    let plan = round(&mut stored, &mut snapshot);
    assert_eq!(plan.placements.len(), 3, "{plan:?}");
}

#[test]
fn a_gang_stays_parked_while_others_are_placed() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let mut gang = spec("ann", "gang", 6, 1000, 64);
    gang.min_member = 6;
    stored.job_submit(JobId(1), &gang);
    stored.job_submit(JobId(2), &spec("bob", "other", 1, 100, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    let first = round(&mut stored, &mut snapshot);
    assert_eq!((first.placements.len(), first.unplaced.len()), (1, 1));
    stored.job_change(JobId(2), |row| row.count = 2);
    let second = round(&mut stored, &mut snapshot);
    assert_eq!((second.placements.len(), second.unplaced.len()), (1, 0));
}

/// The member in back-off is the only small one. No event says that its back-off has ended.
#[test]
fn a_gang_is_tried_again_when_a_member_ends_its_back_off() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 2, 2));
    let mut gang = spec("ann", "gang", 3, 1500, 1);
    gang.min_member = 2;
    let small = Some(Resources { cpu_millis: 100, ..gang.task.resources.clone() });
    gang.overrides.insert(0, TaskOverride { resources: small, ..TaskOverride::default() });
    stored.job_submit(JobId(1), &gang);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
    let until_ms = stored.now_ms + 5_000;
    let placed: Vec<TaskId> = stored.resident(JobId(1)).map(|row| row.id).collect();
    for task in placed {
        stored.task_end(task, None, |row| {
            row.state = TaskState::Pending;
            row.not_before_ms = if row.id.index == 0 { until_ms } else { 0 };
        });
    }
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    stored.now_ms = until_ms - 1;
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    stored.now_ms = until_ms;
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
}

#[test]
fn a_lost_commit_parks_nobody() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 2, 2));
    stored.job_submit(JobId(1), &spec("ann", "job", 3, 1000, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    stored.journal_apply(&mut snapshot);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let lost = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    assert_eq!((lost.placements.len(), lost.unplaced.len()), (2, 1));
    snapshot.remember(&lost, stored.now_ms);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
}

/// Unschedulable tasks cost work only when an event could help them.
#[test]
fn waiting_costs_almost_nothing() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for number in 0..500 {
        stored.node_put(node(number, 4, 8));
    }
    for job in 0..200 {
        // Each job has a shape of its own, larger than any node.
        stored.job_submit(JobId(job), &spec("ann", &format!("large-{job}"), 10, 5000 + job, 64));
    }
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 200);
    let found_out = snapshot.waiting_checks();
    assert_eq!(found_out, 200 * 500, "each shape is held against each node once");
    for job in 0..50 {
        let job = stored.job_submit(JobId(1000 + job), &spec("bob", &format!("small-{job}"), 20, 100, 64));
        assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 20);
        let ended: Vec<TaskId> = stored.resident(job).map(|row| row.id).take(10).collect();
        for task in ended {
            stored.task_end(task, None, |row| row.state = TaskState::Dead);
        }
        let outcome = round(&mut stored, &mut snapshot);
        assert_eq!((outcome.placements.len(), outcome.unplaced.len()), (0, 0));
        assert_eq!(outcome.counters.nodes_examined, 0);
    }
    assert_eq!(snapshot.waiting_checks(), found_out, "the freed capacity is too little for any of them");
    // A node that fits some of the shapes is checked for those, once each.
    stored.node_put(node(900, 5, 8));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    let checks = snapshot.waiting_checks() - found_out;
    assert!(checks <= 3 * 501, "{checks} checks");
}
