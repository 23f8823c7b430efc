//! Plans whose commit failed, held against what has become of those who were to give way.

use borough_model::JobId;
use borough_model::queue::QueueSpec;
use borough_scheduler_core::{CellSettings, PLAN_SEED, Placement, Plan, Queueing, pending, plan, recheck};

use crate::world::{World, node, spec};

fn submit(world: &mut World, number: u64, queue: &str, priority: u32, count: u32) {
    let mut job = spec("ann", &format!("job-{number}"), count, 1000, 1);
    (job.priority, job.queue) = (priority, Some(queue.to_owned()));
    world.job_submit(JobId(number), &job);
}

fn planned(world: &World) -> Plan {
    let mut snapshot = world.snapshot(0);
    let queue = pending(&mut snapshot, &|_| true, world.now_ms, usize::MAX);
    plan(&snapshot, &queue, world.now_ms, PLAN_SEED)
}

/// A full cell of four cores, and a job that evicts one task of the other.
fn evicting(settings: CellSettings, (own, other): (u32, u32)) -> (World, Vec<Placement>) {
    let mut world = World { settings, now_ms: 1_000_000, ..World::default() };
    world.node_put(node(0, 4, 4));
    submit(&mut world, 1, "ops", other, 4);
    let filled = planned(&world);
    world.commit(&filled);
    submit(&mut world, 2, "research", own, 1);
    let placements = planned(&world).placements;
    assert_eq!(placements.iter().map(|placement| placement.victims.len()).collect::<Vec<_>>(), [1]);
    (world, placements)
}

fn holds(world: &World, placements: &[Placement]) -> bool {
    let held = recheck(&world.snapshot(1), placements.to_vec(), world.now_ms);
    held.dropped.is_empty()
}

#[test]
fn nobody_gives_way_any_more_to_one_that_has_no_higher_priority_by_then() {
    let (mut world, placements) = evicting(CellSettings::default(), (150, 120));
    assert!(holds(&world, &placements));
    let untouched = world.clone();
    world.job_change(JobId(2), |row| row.priority = 50);
    assert!(!holds(&world, &placements), "the preemptor's is lower");
    world = untouched;
    world.job_change(JobId(1), |row| row.priority = 150);
    assert!(!holds(&world, &placements), "the victim's is higher");
}

#[test]
fn what_a_queue_takes_back_is_held_against_what_others_have_by_then() {
    let queue = |path: &str, guaranteed_per_mille| QueueSpec {
        path: path.to_owned(),
        weight: 1,
        guaranteed_per_mille,
        limit_per_mille: 1000,
    };
    let queues = vec![queue("research", 250), queue("ops", 750)];
    let queueing = Queueing { queues, .."hierarchical".parse().expect("a policy") };
    let settings = CellSettings { queueing, reclaim: true, ..CellSettings::default() };
    let (mut world, placements) = evicting(settings, (150, 150));
    assert!(placements[0].victims[0].reclaimed && holds(&world, &placements));
    // Another task of the queue that gives something back has ended: it has no more than it is guaranteed.
    let victim = placements[0].victims[0].task;
    let other = world.tasks.keys().copied().find(|task| *task != victim).expect("three others");
    world.task_end(other, None, |row| row.state = borough_model::TaskState::Dead);
    assert!(!holds(&world, &placements));
}
