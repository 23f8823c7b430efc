//! Every scoring policy against a plain restatement of its formula. The cell is small enough for every node to be
//! scored. No node may score better by the formula than the chosen one.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::node::{Card, LoadMeasured, card_dimension};
use borough_model::{JobId, NodeAlloc, NodeId, NodeRow, Resources, TaskId};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, PlanCache, ScoringProfile, StartOffset, plan, plan_from,
};
use proptest::option;
use proptest::prelude::*;

use crate::generators::load;
use crate::place::planned;
use crate::reference;
use crate::score_formula::formula;
use crate::stored::{StoredCell, node, spec};

/// A random node or task of a small cell.
#[derive(Clone, Debug)]
struct RandomNode {
    cores: u64,
    gib: u64,
    gpus: u32,
    /// Its present allocation: cores, GiB, thousandths of each card, and tasks.
    used: (u64, u64, u64, u32),
    load: Option<LoadMeasured>,
}

fn random_nodes() -> impl Strategy<Value = Vec<RandomNode>> {
    let used = (0..8u64, 0..16u64, 0..4u64, 0..40u32);
    let random = (2..32u64, 2..64u64, prop_oneof![Just(0u32), 1..4u32], used, option::of(load()));
    let random = random.prop_map(|(cores, gib, gpus, (cpu, memory, card, tasks), load)| RandomNode {
        cores,
        gib,
        gpus,
        used: (cpu.min(cores), memory.min(gib), card * 250, tasks),
        load,
    });
    prop::collection::vec(random, 2..12)
}

fn stored_cell_of(profile: ScoringProfile, random_nodes: &[RandomNode]) -> StoredCell {
    let settings = CellSettings { profile, ..CellSettings::default() };
    let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
    for (number, random) in (0..).zip(random_nodes) {
        let mut row = node(number, random.cores, random.gib);
        row.capacity.disk_bytes = 1 << 40;
        row.cards = (0..random.gpus)
            .map(|place| Card {
                kind: "gpu".to_owned(),
                place,
                id: place.to_string(),
                model: String::new(),
                memory_bytes: 0,
            })
            .collect();
        if random.gpus > 0 {
            row.capacity.device_millis.insert("gpu".to_owned(), u64::from(random.gpus) * 1000);
            for place in 0..random.gpus {
                row.capacity.device_millis.insert(card_dimension("gpu", place), 1000);
            }
        }
        let (cpu, memory, card, tasks) = random.used;
        let mut used =
            Resources { cpu_millis: cpu * 1000, memory_bytes: memory << 30, ..Resources::default() };
        for place in 0..random.gpus {
            used.device_millis.insert(card_dimension("gpu", place), card);
        }
        if random.gpus > 0 {
            used.device_millis.insert("gpu".to_owned(), card * u64::from(random.gpus));
        }
        let id = row.id;
        stored.node_put(row);
        let (_, alloc) = stored.nodes.get_mut(&id).expect("it was put");
        *alloc = NodeAlloc { used, tasks, epoch: alloc.epoch + 1, ..alloc.clone() };
        let alloc = alloc.clone();
        stored.journal.push(borough_model::Delta::NodeAlloc { node: id, alloc });
        stored.load_put(id, random.load);
    }
    stored
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_task_gets_the_node_that_the_formula_prefers(
        name in prop::sample::select(ScoringProfile::names()),
        random_nodes in random_nodes(),
        (cpu, mib, gpu) in (1..8000u64, 1..8192u64, prop_oneof![Just(0u64), Just(250), Just(500), Just(1000), Just(2000)]),
        (disk, of_job, others) in (0..2u64, any::<bool>(), prop::collection::vec((1..4u64, 1..4000u64), 0..3)),
    ) {
        let profile: ScoringProfile = name.parse().expect("it is listed");
        let mut stored = stored_cell_of(if of_job { ScoringProfile::default() } else { profile }, &random_nodes);
        let mut task = spec("ann", "one", 1, cpu, mib);
        task.task.resources.disk_bytes = disk << 30;
        if gpu > 0 {
            task.task.resources.device_millis.insert("gpu".to_owned(), gpu);
        }
        task.profile = of_job.then(|| name.to_owned());
        // Other jobs that ask for cards. They are not placed here.
        for (number, (quarters, cpu)) in (2..).zip(others) {
            let mut other = spec("bob", &format!("other-{number}"), 1, cpu, 1);
            other.task.resources.device_millis.insert("gpu".to_owned(), quarters * 250);
            let job = stored.job_submit(JobId(number), &other);
            stored.job_change(job, |row| row.state = borough_model::job::JobState::Waiting);
        }
        stored.job_submit(JobId(1), &task);
        let outcome = planned(&stored);
        let fits = |row: &NodeRow, alloc: &NodeAlloc| reference::fits(&stored, &task, 0, row, alloc);
        let open: Vec<(&NodeRow, &NodeAlloc)> =
            stored.nodes.values().filter(|(row, alloc)| fits(row, alloc)).map(|(row, alloc)| (row, alloc)).collect();
        let Some(placement) = outcome.placements.first() else {
            prop_assert!(open.is_empty(), "nothing was placed");
            return Ok(());
        };
        let (row, alloc) = &stored.nodes[&placement.node];
        let (chosen, apart) = formula(name, &stored, &task, (row, alloc));
        for &(row, alloc) in &open {
            let (score, _) = formula(name, &stored, &task, (row, alloc));
            prop_assert!(
                score <= chosen + apart,
                "{name}: {} scores {score}, {} was chosen with {chosen}", row.name, placement.node,
            );
        }
    }
}

/// A busy node is avoided even if little is promised there, and a burst does not go to one idle node.
#[test]
fn a_burst_goes_where_load_is_low_and_not_all_to_one_node() {
    let profile: ScoringProfile = "load-aware".parse().expect("it is listed");
    let settings = CellSettings { profile, ..CellSettings::default() };
    let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
    (0..4).for_each(|number| stored.node_put(node(number, 16, 64)));
    let busy = |cpu_millis| Some(LoadMeasured { cpu_millis, ..LoadMeasured::default() });
    for (number, cpu_millis) in [(0, 15_000), (1, 500), (2, 0), (3, 1_000)] {
        stored.load_put(node(number, 16, 64).id, busy(cpu_millis));
    }
    let on = |stored: &StoredCell| -> Vec<u32> {
        (0..4).map(|number| stored.nodes[&node(number, 16, 64).id].1.tasks).collect()
    };
    // Three in one plan, six in plans of their own, with no measurement in between.
    stored.job_submit(JobId(1), &spec("ann", "burst", 3, 1000, 64));
    let outcome = planned(&stored);
    stored.commit(&outcome);
    assert_eq!(on(&stored), [0, 1, 1, 1]);
    for number in 2..8 {
        stored.job_submit(JobId(number), &spec("ann", &format!("job-{number}"), 1, 1000, 64));
        let outcome = planned(&stored);
        stored.commit(&outcome);
    }
    assert_eq!(on(&stored), [0, 3, 3, 3]);
    // A new measurement: some of them are idle, some are not.
    for (number, cpu_millis) in [(1, 0), (2, 4_000), (3, 2_000)] {
        let covered_cpu_millis = 3_000;
        let measured = LoadMeasured { cpu_millis, covered_cpu_millis, ..LoadMeasured::default() };
        stored.load_put(node(number, 16, 64).id, Some(measured));
    }
    stored.job_submit(JobId(9), &spec("ann", "later", 3, 1000, 64));
    let outcome = planned(&stored);
    stored.commit(&outcome);
    assert_eq!(on(&stored), [0, 5, 3, 4]);
}

/// The journal has loads only for profiles that say that they read them. So no other may depend on them.
#[test]
fn only_a_profile_that_says_so_reads_loads() {
    for profile in ScoringProfile::all() {
        let placed = |busy: u64| -> Vec<NodeId> {
            let settings = CellSettings { profile, ..CellSettings::default() };
            let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
            (0..4).for_each(|number| stored.node_put(node(number, 16, 64)));
            for number in 0..4 {
                let cpu_millis = if number == busy { 0 } else { 15_000 };
                let measured = LoadMeasured { cpu_millis, ..LoadMeasured::default() };
                stored.load_put(node(number, 16, 64).id, Some(measured));
            }
            stored.job_submit(JobId(1), &spec("ann", "web", 2, 1000, 64));
            planned(&stored).placements.iter().map(|placement| placement.node).collect()
        };
        let plans: BTreeSet<Vec<NodeId>> = (0..4).map(placed).collect();
        assert_eq!(plans.len() > 1, profile.reads_load(), "{}: {plans:?}", profile.name());
    }
}

/// How many of 4,000 tasks each of ten nodes gets at random, in batches. Neither empty nor full nodes are preferred.
#[test]
fn random_is_even_on_average_and_not_by_design() {
    let profile: ScoringProfile = "random".parse().expect("it is listed");
    let settings = CellSettings { profile, ..CellSettings::default() };
    let mut stored = StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() };
    (0..10).for_each(|number| stored.node_put(node(number, 10_000, 10_000)));
    for number in 1..=400 {
        stored.job_submit(JobId(number), &spec("ann", &format!("job-{number}"), 10, 1, 1));
        let outcome = planned(&stored);
        stored.commit(&outcome);
    }
    let counts: Vec<f64> = stored.nodes.values().map(|(_, alloc)| f64::from(alloc.tasks)).collect();
    let variance = counts.iter().map(|count| (count - 400.0).powi(2)).sum::<f64>() / 10.0;
    assert!(counts.iter().all(|count| (count - 400.0).abs() < 100.0), "{counts:?}");
    // The expected variance of ten binomial draws is 360. An even distribution by design would have almost none.
    assert!((60.0..1500.0).contains(&variance), "{variance} {counts:?}");
}

/// The nodes of tasks that are planned in batches, each committed before the next.
fn placed_in_batches(stored: &StoredCell, limit: usize) -> BTreeMap<TaskId, NodeId> {
    let mut stored = stored.clone();
    let mut snapshot = stored.snapshot(0);
    stored.journal.clear();
    loop {
        let queue = snapshot.pending(&|_| true, stored.now_ms, limit);
        let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
        snapshot.remember(&outcome, stored.now_ms);
        if outcome.placements.is_empty() && !queue.more {
            break;
        }
        stored.commit(&outcome);
        for delta in stored.journal.drain(..) {
            snapshot.apply(&delta);
        }
    }
    stored.tasks.iter().filter_map(|(&task, row)| Some((task, row.node?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What a plan places later sees all that it placed before: in a cell of which few nodes are scored too, as long as
    /// all that fit are.
    #[test]
    fn a_batch_is_its_tasks_one_after_the_other(
        random_nodes in random_nodes(),
        copies in prop_oneof![Just(1usize), Just(30)],
        tasks in prop::collection::vec((1..8000u64, prop_oneof![Just(0u64), Just(250), Just(500), Just(1000), Just(2000)]), 1..40),
    ) {
        let random_nodes: Vec<RandomNode> = random_nodes.iter().cycle().take(random_nodes.len() * copies).cloned().collect();
        let mut stored = stored_cell_of("fgd".parse().expect("it is listed"), &random_nodes);
        for (number, &(cpu, gpu)) in (1..).zip(&tasks) {
            stored.now_ms += 1;
            let mut one = spec("ann", &format!("job-{number}"), 1, cpu, 64);
            if gpu > 0 {
                one.task.resources.device_millis.insert("gpu".to_owned(), gpu);
            }
            stored.job_submit(JobId(number), &one);
        }
        let topology = placed_in_batches(&stored, usize::MAX);
        let one_by_one = placed_in_batches(&stored, 1);
        prop_assert_eq!(topology, one_by_one);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The mix of the cell changes with each arrival. Plans with the candidate caches of earlier plans must still equal
    /// plans without them.
    #[test]
    fn arrivals_are_placed_alike_with_and_without_a_cache(
        random_nodes in random_nodes(),
        copies in prop_oneof![Just(1usize), Just(30)],
        tasks in prop::collection::vec((1..8u64, prop_oneof![Just(0u64), Just(250), Just(500), Just(1000), Just(2000)]), 1..80),
        batch in 1..20usize,
    ) {
        let random_nodes: Vec<RandomNode> = random_nodes.iter().cycle().take(random_nodes.len() * copies).cloned().collect();
        let mut stored = stored_cell_of("fgd".parse().expect("it is listed"), &random_nodes);
        let mut snapshot = stored.snapshot(0);
        stored.journal.clear();
        let mut cache = PlanCache::default();
        let mut number = 0;
        for arrived in tasks.chunks(batch) {
            for &(cores, gpu) in arrived {
                number += 1;
                stored.now_ms += 1;
                let mut one = spec("ann", &format!("job-{number}"), 1, cores * 1000, 64);
                if gpu > 0 {
                    one.task.resources.device_millis.insert("gpu".to_owned(), gpu);
                }
                stored.job_submit(JobId(number), &one);
            }
            for delta in stored.journal.drain(..) {
                snapshot.apply(&delta);
            }
            let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
            let fresh = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
            let cached = plan_from(snapshot.tables(), &queue, stored.now_ms, StartOffset::undivided(PLAN_SEED), &mut cache);
            prop_assert_eq!(&cached.placements, &fresh.placements);
            snapshot.remember(&cached, stored.now_ms);
            stored.commit(&cached);
            for delta in stored.journal.drain(..) {
                snapshot.apply(&delta);
            }
        }
    }
}
