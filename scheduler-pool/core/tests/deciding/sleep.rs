//! Work that fits nowhere sleeps, and is woken by what could help it.

use borough_model::{JobId, TaskId, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, ScoringProfile, Snapshot, plan};

use crate::place::world;
use crate::world::{World, node, spec};

/// Plans once; the plan is not committed.
fn round(world: &mut World, snapshot: &mut Snapshot) -> Plan {
    world.journal_apply(snapshot);
    let queue = snapshot.pending(&|_| true, world.now_ms, usize::MAX);
    let outcome = plan(snapshot.tables(), &queue, world.now_ms, PLAN_SEED);
    world.commit(&outcome);
    world.journal_apply(snapshot);
    snapshot.remember(&outcome, world.now_ms);
    outcome
}

fn asleep() -> (World, Snapshot) {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 2, 2));
    world.job_submit(JobId(1), &spec("ann", "large", 100, 4000, 64));
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert_eq!(round(&mut world, &mut snapshot).unplaced.len(), 1);
    (world, snapshot)
}

#[test]
fn what_fits_nowhere_is_not_looked_at_again() {
    let (mut world, mut snapshot) = asleep();
    let again = round(&mut world, &mut snapshot);
    assert_eq!(again, Plan::default());
    // Another job of the same shape is known to fit nowhere before it is planned.
    world.job_submit(JobId(2), &spec("bob", "as-large", 5, 4000, 64));
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
    // A node that cannot help wakes nobody.
    world.node_put(node(1, 3, 3));
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
}

#[test]
fn a_node_that_can_help_wakes_it() {
    let (mut world, mut snapshot) = asleep();
    world.node_put(node(1, 8, 8));
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 2);
    let placed = world.resident(JobId(1)).next().expect("a task").id;
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
    world.task_end(placed, None, |row| row.state = TaskState::Dead);
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 1);
}

#[test]
fn uncordoning_and_relabelling_requeue_it() {
    let mut world = world(ScoringProfile::BEST_FIT);
    let mut row = node(0, 8, 8);
    let id = row.id;
    row.schedulable = false;
    world.node_put(row);
    world.job_submit(JobId(1), &spec("ann", "job", 1, 1000, 64));
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert!(round(&mut world, &mut snapshot).placements.is_empty());
    world.node_change(id, |row| drop(row.labels.insert("rack".to_owned(), "a".to_owned())));
    assert!(round(&mut world, &mut snapshot).placements.is_empty());
    world.node_change(id, |row| row.schedulable = true);
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 1);
}

#[test]
fn a_port_that_has_cooled_down_wakes_it() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 8, 8));
    let mut job = spec("ann", "job", 2, 100, 64);
    let port = borough_model::job::PortSpec { name: crate::world::name("http"), number: Some(80) };
    job.task.ports = vec![port];
    world.job_submit(JobId(1), &job);
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 1);
    world.task_end(TaskId { job: JobId(1), index: 0 }, Some(10_000), |row| row.state = TaskState::Dead);
    assert!(round(&mut world, &mut snapshot).placements.is_empty());
    let cooled_ms = world.now_ms + 10_000;
    let later_ms = snapshot.clone().pending(&|_| true, world.now_ms, 10).later_ms;
    assert_eq!(later_ms, Some(cooled_ms), "nothing else would tell when to look again");
    world.now_ms += 9_999;
    assert!(round(&mut world, &mut snapshot).placements.is_empty());
    world.now_ms += 1;
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 1);
}

#[test]
fn a_gang_sleeps_until_there_is_more_room() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 4, 4));
    let mut gang = spec("ann", "gang", 6, 1000, 64);
    gang.min_member = 6;
    world.job_submit(JobId(1), &gang);
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert_eq!(round(&mut world, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
    world.node_put(node(1, 2, 2));
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 6);
}

/// What a gang could have by evictions only a plan knows, and asks many tasks for it: not at each end of one of them.
#[test]
fn a_gang_for_which_evictions_are_too_few_is_tried_again_at_most_once_a_second() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 4, 64));
    world.job_submit(JobId(1), &spec("ann", "stays", 2, 1_000, 1));
    let mut low = spec("bob", "low", 4, 500, 1);
    low.priority = 1;
    world.job_submit(JobId(2), &low);
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 6);
    let mut gang = spec("ann", "gang", 3, 1_000, 1);
    gang.min_member = 3;
    world.job_submit(JobId(3), &gang);
    assert_eq!(round(&mut world, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
    world.task_end(TaskId { job: JobId(2), index: 0 }, None, |row| row.state = TaskState::Dead);
    assert_eq!(round(&mut world, &mut snapshot), Plan::default(), "too soon");
    world.now_ms += 1_000;
    assert_eq!(round(&mut world, &mut snapshot).unplaced.len(), 1);
    assert_eq!(round(&mut world, &mut snapshot), Plan::default());
    // Room that needs no eviction is tried at once.
    world.node_put(node(1, 1, 1));
    let plan = round(&mut world, &mut snapshot);
    assert_eq!(plan.placements.len(), 3, "{plan:?}");
}

#[test]
fn a_gang_sleeps_while_others_are_placed() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 4, 4));
    let mut gang = spec("ann", "gang", 6, 1000, 64);
    gang.min_member = 6;
    world.job_submit(JobId(1), &gang);
    world.job_submit(JobId(2), &spec("bob", "other", 1, 100, 64));
    let mut snapshot = Snapshot::new(world.settings.clone());
    let first = round(&mut world, &mut snapshot);
    assert_eq!((first.placements.len(), first.unplaced.len()), (1, 1));
    world.job_change(JobId(2), |row| row.count = 2);
    let second = round(&mut world, &mut snapshot);
    assert_eq!((second.placements.len(), second.unplaced.len()), (1, 0));
}

#[test]
fn a_lost_commit_puts_nobody_to_sleep() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 2, 2));
    world.job_submit(JobId(1), &spec("ann", "job", 3, 1000, 64));
    let mut snapshot = Snapshot::new(world.settings.clone());
    world.journal_apply(&mut snapshot);
    let queue = snapshot.pending(&|_| true, world.now_ms, usize::MAX);
    let lost = plan(snapshot.tables(), &queue, world.now_ms, PLAN_SEED);
    assert_eq!((lost.placements.len(), lost.unplaced.len()), (2, 1));
    snapshot.remember(&lost, world.now_ms);
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 2);
}

/// What waits is looked at when something happens that could help it, and otherwise costs nothing.
#[test]
fn waiting_costs_next_to_nothing() {
    let mut world = world(ScoringProfile::BEST_FIT);
    for number in 0..500 {
        world.node_put(node(number, 4, 8));
    }
    for job in 0..200 {
        // Each asks for something of its own, and more than any node has.
        world.job_submit(JobId(job), &spec("ann", &format!("large-{job}"), 10, 5000 + job, 64));
    }
    let mut snapshot = Snapshot::new(world.settings.clone());
    assert_eq!(round(&mut world, &mut snapshot).unplaced.len(), 200);
    let found_out = snapshot.waiting_checks();
    assert_eq!(found_out, 200 * 500, "each shape is held against each node once");
    for job in 0..50 {
        let job = world.job_submit(JobId(1000 + job), &spec("bob", &format!("small-{job}"), 20, 100, 64));
        assert_eq!(round(&mut world, &mut snapshot).placements.len(), 20);
        let ended: Vec<TaskId> = world.resident(job).map(|row| row.id).take(10).collect();
        for task in ended {
            world.task_end(task, None, |row| row.state = TaskState::Dead);
        }
        let outcome = round(&mut world, &mut snapshot);
        assert_eq!((outcome.placements.len(), outcome.unplaced.len()), (0, 0));
        assert_eq!(outcome.counters.nodes_examined, 0);
    }
    assert_eq!(snapshot.waiting_checks(), found_out, "what is given back is not room enough for any of them");
    // A node that has room for a part of them is held against that part, once each.
    world.node_put(node(900, 5, 8));
    assert_eq!(round(&mut world, &mut snapshot).placements.len(), 1);
    let checks = snapshot.waiting_checks() - found_out;
    assert!(checks <= 3 * 501, "{checks} checks");
}
