//! What machines are like, by example: what they are short of.

use borough_model::JobId;
use borough_model::node::{Taint, TaintEffect};
use borough_scheduler_core::{ScoringProfile, explain};

use crate::place::{counts, per_node, planned, world};
use crate::world::{node, spec};

#[test]
fn a_node_short_of_memory_is_kept_for_the_upper_bands_and_one_short_of_disk_for_nobody() {
    let short_of =
        |key: &str, effect| Taint { key: key.to_owned(), value: String::new(), effect, added_ms: 1 };
    let memory = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]
        .map(|effect| short_of("pressure/memory", effect));
    let disk = [short_of("pressure/disk", TaintEffect::NoSchedule)];
    let placed = |taints: &[Taint], priority: u32, count: u32| {
        let mut world = world(ScoringProfile::WORST_FIT);
        let mut short = node(0, 8, 8);
        short.taints = taints.to_vec();
        world.node_put(short);
        world.node_put(node(1, 4, 8));
        let mut job = spec("ann", "job", count, 1000, 64);
        job.priority = priority;
        world.job_submit(JobId(1), &job);
        per_node(&world, &planned(&world))
    };
    assert_eq!(placed(&memory, 100, 6), counts(&[("node-1", 4)]));
    assert_eq!(
        placed(&memory, 200, 6),
        counts(&[("node-0", 2), ("node-1", 4)]),
        "where there is no better one"
    );
    assert_eq!(placed(&disk, 399, 6), counts(&[("node-1", 4)]));
    // With its band a job changes what it tolerates.
    let mut world = world(ScoringProfile::WORST_FIT);
    let mut short = node(0, 8, 8);
    short.taints = memory.to_vec();
    world.node_put(short);
    let mut job = spec("ann", "job", 1, 1000, 64);
    job.priority = 100;
    world.job_submit(JobId(1), &job);
    let mut snapshot = world.snapshot(0);
    world.journal.clear();
    let told = explain(&snapshot, JobId(1), 0, world.now_ms).to_string();
    assert!(told.contains("fits on none of 1 node: 1 short of memory"), "{told}");
    assert!(told.contains("would fit on 1 node once not short of memory"), "{told}");
    world.job_change(JobId(1), |row| row.priority = 200);
    world.journal_apply(&mut snapshot);
    assert_eq!(explain(&snapshot, JobId(1), 0, world.now_ms).nodes_fit, 1);
}
