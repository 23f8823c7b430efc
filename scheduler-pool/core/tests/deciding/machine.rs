//! What machines are like, by example: what they are short of, and what is installed there.

use borough_model::job::{Constraint, ConstraintOperator};
use borough_model::node::{Taint, TaintEffect, package_attribute};
use borough_model::{JobId, JobSpec};
use borough_scheduler_core::{
    PLAN_SEED, PlanCache, ScoringProfile, Snapshot, Vantage, explain, pending, plan_from,
};

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

#[test]
fn nodes_that_have_the_packages_are_preferred_and_only_that() {
    let packaged = |packages: &[&[&str]], job: &mut dyn FnMut(&mut JobSpec), count: u32| {
        let mut world = world(ScoringProfile::WORST_FIT);
        for (number, packages) in (0..).zip(packages) {
            // The later ones are the better ones by their fit.
            let mut row = node(number, 2 + 2 * number, 64);
            row.packages = packages.iter().map(|&package| package.to_owned()).collect();
            world.node_put(row);
        }
        let mut asking = spec("ann", "job", count, 1000, 64);
        asking.task.packages = vec!["web/1".to_owned(), "data/7".to_owned()];
        job(&mut asking);
        world.job_submit(JobId(1), &asking);
        per_node(&world, &planned(&world))
    };
    let (all, half, none): (&[&str], &[&str], &[&str]) = (&["data/7", "web/1"], &["web/1"], &["web/2"]);
    let mut plain = |_: &mut JobSpec| {};
    assert_eq!(packaged(&[all, half, none], &mut plain, 1), counts(&[("node-0", 1)]));
    assert_eq!(packaged(&[none, half, none], &mut plain, 1), counts(&[("node-1", 1)]));
    let full = counts(&[("node-0", 2), ("node-1", 4), ("node-2", 1)]);
    assert_eq!(packaged(&[all, half, none], &mut plain, 7), full, "no node is refused");
    // Half of them count for 25: less than a wish of 26, more than one of 24.
    let wish = |weight: u32| {
        let mut wishing = |job: &mut JobSpec| {
            job.constraints = vec![Constraint {
                attribute: "node.name".to_owned(),
                operator: ConstraintOperator::In,
                values: vec!["node-2".to_owned()],
                preference: Some(weight),
            }];
        };
        packaged(&[none, half, none], &mut wishing, 1)
    };
    assert_eq!(wish(24), counts(&[("node-1", 1)]));
    assert_eq!(wish(26), counts(&[("node-2", 1)]));
    // Whoever asks for it as a constraint has it as one.
    let mut hard = |job: &mut JobSpec| {
        job.constraints = vec![Constraint {
            attribute: package_attribute("data/7"),
            operator: ConstraintOperator::Exists,
            values: Vec::new(),
            preference: None,
        }];
    };
    assert_eq!(packaged(&[all, half, none], &mut hard, 7), counts(&[("node-0", 2)]));
}

#[test]
fn what_is_installed_later_counts_in_the_next_plan() {
    let mut world = world(ScoringProfile::BEST_FIT);
    world.node_put(node(0, 4, 4));
    world.node_put(node(1, 8, 8));
    let id = node(1, 8, 8).id;
    let mut asking = spec("ann", "job", 1, 1000, 64);
    asking.task.packages = vec!["web/1".to_owned()];
    world.job_submit(JobId(1), &asking);
    let mut snapshot = world.snapshot(0);
    world.journal.clear();
    let mut cache = PlanCache::default();
    let mut where_to = |snapshot: &mut Snapshot, now_ms: i64| {
        let queue = pending(snapshot, &|_| true, now_ms, usize::MAX);
        let plan = plan_from(snapshot, &queue, now_ms, Vantage::whole(PLAN_SEED), &mut cache);
        plan.placements[0].node
    };
    assert_eq!(where_to(&mut snapshot, world.now_ms), node(0, 4, 4).id);
    world.node_change(id, |row| {
        row.packages.insert("web/1".to_owned());
    });
    world.journal_apply(&mut snapshot);
    assert_eq!(where_to(&mut snapshot, world.now_ms), id);
}
