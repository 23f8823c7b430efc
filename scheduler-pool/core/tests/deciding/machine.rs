//! Facts of machines, by example: shortages, installed packages, the speed of cores, and exclusive cores.

use borough_model::job::{Constraint, ConstraintOperator};
use borough_model::node::{
    CORE_SPEED, NumaDomain, Taint, TaintEffect, Within, core_speed, domains_counted, package_attribute,
};
use borough_model::{JobId, JobSpec, NodeRow};
use borough_scheduler_core::{
    PLAN_SEED, PlanCache, ScoringProfile, Snapshot, StartOffset, explain, plan_from,
};

use crate::place::{counts, per_node, planned, stored_cell};
use crate::stored::{StoredCell, node, spec};

#[test]
fn a_node_short_of_memory_is_kept_for_the_upper_bands_and_one_short_of_disk_for_nobody() {
    let short_of =
        |key: &str, effect| Taint { key: key.to_owned(), value: String::new(), effect, added_ms: 1 };
    let memory = [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]
        .map(|effect| short_of("pressure/memory", effect));
    let disk = [short_of("pressure/disk", TaintEffect::NoSchedule)];
    let placed = |taints: &[Taint], priority: u32, count: u32| {
        let mut stored = stored_cell(ScoringProfile::WORST_FIT);
        let mut short = node(0, 8, 8);
        short.taints = taints.to_vec();
        stored.node_put(short);
        stored.node_put(node(1, 4, 8));
        let mut job = spec("ann", "job", count, 1000, 64);
        job.priority = priority;
        stored.job_submit(JobId(1), &job);
        per_node(&stored, &planned(&stored))
    };
    assert_eq!(placed(&memory, 100, 6), counts(&[("node-1", 4)]));
    assert_eq!(
        placed(&memory, 200, 6),
        counts(&[("node-0", 2), ("node-1", 4)]),
        "where there is no better one"
    );
    assert_eq!(placed(&disk, 399, 6), counts(&[("node-1", 4)]));
    // A job in another band has other tolerations.
    let mut stored = stored_cell(ScoringProfile::WORST_FIT);
    let mut short = node(0, 8, 8);
    short.taints = memory.to_vec();
    stored.node_put(short);
    let mut job = spec("ann", "job", 1, 1000, 64);
    job.priority = 100;
    stored.job_submit(JobId(1), &job);
    let mut snapshot = stored.snapshot(0);
    stored.journal.clear();
    let explanation = explain(&snapshot, JobId(1), 0, stored.now_ms).to_string();
    assert!(explanation.contains("fits on none of 1 node: 1 short of memory"), "{explanation}");
    assert!(explanation.contains("would fit on 1 node once not short of memory"), "{explanation}");
    stored.job_change(JobId(1), |row| row.priority = 200);
    stored.journal_apply(&mut snapshot);
    assert_eq!(explain(&snapshot, JobId(1), 0, stored.now_ms).nodes_fit, 1);
}

#[test]
fn nodes_that_have_the_packages_are_preferred_and_only_that() {
    let packaged = |packages: &[&[&str]], job: &mut dyn FnMut(&mut JobSpec), count: u32| {
        let mut stored = stored_cell(ScoringProfile::WORST_FIT);
        for (number, packages) in (0..).zip(packages) {
            // The later ones are the better ones by their fit.
            let mut row = node(number, 2 + 2 * number, 64);
            row.packages = packages.iter().map(|&package| package.to_owned()).collect();
            stored.node_put(row);
        }
        let mut asking = spec("ann", "job", count, 1000, 64);
        asking.task.packages = vec!["web/1".to_owned(), "data/7".to_owned()];
        job(&mut asking);
        stored.job_submit(JobId(1), &asking);
        per_node(&stored, &planned(&stored))
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
fn a_package_installed_later_counts_in_the_next_plan() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.node_put(node(1, 8, 8));
    let id = node(1, 8, 8).id;
    let mut asking = spec("ann", "job", 1, 1000, 64);
    asking.task.packages = vec!["web/1".to_owned()];
    stored.job_submit(JobId(1), &asking);
    let mut snapshot = stored.snapshot(0);
    stored.journal.clear();
    let mut cache = PlanCache::default();
    let mut where_to = |snapshot: &mut Snapshot, now_ms: i64| {
        let queue = snapshot.pending(&|_| true, now_ms, usize::MAX);
        let plan =
            plan_from(snapshot.tables(), &queue, now_ms, StartOffset::undivided(PLAN_SEED), &mut cache);
        plan.placements[0].node
    };
    assert_eq!(where_to(&mut snapshot, stored.now_ms), node(0, 4, 4).id);
    stored.node_change(id, |row| {
        row.packages.insert("web/1".to_owned());
    });
    stored.journal_apply(&mut snapshot);
    assert_eq!(where_to(&mut snapshot, stored.now_ms), id);
}

/// A node of two NUMA domains of two cores of that speed, each with 4 GiB.
fn domained(number: u64, speed: u64) -> NodeRow {
    let mut row = node(number, 0, 8);
    row.capacity.cpu_millis = 4 * speed;
    row.attributes.insert(CORE_SPEED.to_owned(), speed.to_string());
    let domain = |place: u32| NumaDomain {
        place,
        socket: 0,
        cpus: vec![2 * place, 2 * place + 1],
        memory_bytes: 4 << 30,
    };
    row.domains = vec![domain(0), domain(1)];
    row.capacity = domains_counted(&row.capacity, &row.domains, core_speed(&row.attributes));
    row
}

#[test]
fn exclusive_cores_are_complete_and_never_shared() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(domained(0, 1000));
    let submit =
        |stored: &mut StoredCell, id: u64, count: u32, cpu_millis: u64, edit: &dyn Fn(&mut JobSpec)| {
            let mut job = spec("ann", &format!("job-{id}"), count, cpu_millis, 64);
            edit(&mut job);
            stored.job_submit(JobId(id), &job);
            let plan = planned(stored);
            stored.commit(&plan);
            plan.placements.len()
        };
    let own = |job: &mut JobSpec| job.task.exclusive_cores = true;
    let inside = |job: &mut JobSpec| job.task.within = Some(Within::OneNumaNode);
    // A part of a core is taken within one domain, so only one complete core is left there.
    assert_eq!(submit(&mut stored, 1, 1, 300, &inside), 1);
    assert_eq!(submit(&mut stored, 2, 4, 1000, &own), 3);
    let explanation = explain(&stored.snapshot(0), JobId(2), 3, stored.now_ms).to_string();
    assert!(explanation.contains("1 less than cpu 1 core free"), "{explanation}");
    // What is left of the fourth core is for those that share.
    assert_eq!(submit(&mut stored, 3, 9, 100, &|_| {}), 7);
    // Two cores of its own are of one domain, unless one socket will do.
    let mut stored =
        StoredCell { settings: stored.settings.clone(), now_ms: stored.now_ms, ..StoredCell::default() };
    stored.node_put(domained(0, 1000));
    assert_eq!(submit(&mut stored, 1, 1, 1000, &own), 1);
    assert_eq!(submit(&mut stored, 2, 1, 3000, &own), 0);
    let explanation = explain(&stored.snapshot(0), JobId(2), 0, stored.now_ms).to_string();
    assert!(explanation.contains("no whole cores free within one NUMA node"), "{explanation}");
    assert!(explanation.contains("would fit on 1 node sharing cores anywhere"), "{explanation}");
    let socket =
        |job: &mut JobSpec| (job.task.exclusive_cores, job.task.within) = (true, Some(Within::OneSocket));
    assert_eq!(submit(&mut stored, 3, 1, 3000, &socket), 1);
}

#[test]
fn a_fast_core_does_the_work_of_more_and_own_cores_come_whole() {
    let placed = |speed: u64, cpu_millis: u64, exclusive_cores: bool| {
        let mut stored = stored_cell(ScoringProfile::BEST_FIT);
        stored.node_put(domained(0, speed));
        let mut job = spec("ann", "job", 9, cpu_millis, 64);
        job.task.exclusive_cores = exclusive_cores;
        stored.job_submit(JobId(1), &job);
        planned(&stored).placements.len()
    };
    assert_eq!([placed(1000, 1000, false), placed(1500, 1000, false), placed(500, 1000, false)], [4, 6, 2]);
    // 3000 thousandths of the reference are two cores of speed 1500. 1000 thousandths are no number of such cores.
    assert_eq!([placed(1500, 3000, true), placed(1500, 1000, true), placed(500, 1000, true)], [2, 0, 2]);
}

#[test]
fn small_changes_of_a_node_leave_candidate_caches_in_force() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for number in 0..1000 {
        stored.node_put(node(number, 8, 8));
    }
    let changed = node(7, 8, 8).id;
    let mut snapshot = stored.snapshot(0);
    let mut cache = PlanCache::default();
    let mut counters = Vec::new();
    for round in 1..=5u64 {
        stored.job_submit(JobId(round), &spec("ann", &format!("job-{round}"), 1, 1000, 64));
        // The agent has found a few bytes more or less, as after each restart.
        stored.node_change(changed, |row| {
            row.capacity.memory_bytes = (8 << 30) - round * 4096;
            row.capacity.cpu_millis = 8000 - round;
        });
        stored.journal_apply(&mut snapshot);
        let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
        let plan = plan_from(
            snapshot.tables(),
            &queue,
            stored.now_ms,
            StartOffset::undivided(PLAN_SEED),
            &mut cache,
        );
        stored.commit(&plan);
        stored.journal_apply(&mut snapshot);
        counters.push(plan.counters);
    }
    assert_eq!((counters[0].searches_begun, counters[0].nodes_examined), (1, 51));
    for after in &counters[1..] {
        assert_eq!((after.searches_begun, after.searches_reused), (0, 1), "{after:?}");
        assert!(after.nodes_examined <= 4, "only what has changed is looked at again: {after:?}");
    }
}
