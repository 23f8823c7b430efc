//! Every scoring policy against a plain restatement of its formula. The cell is small enough for every node to be
//! scored. No node may score better by the formula than the chosen one.

use std::collections::BTreeMap;

use borough_model::node::{Card, LoadMeasured, card_dimension};
use borough_model::{JobId, JobSpec, NodeAlloc, NodeId, NodeRow, Resources, TaskId};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, PlanCache, ScoringProfile, StartOffset, plan, plan_from,
};
use proptest::option;
use proptest::prelude::*;

use crate::generators::load;
use crate::place::planned;
use crate::reference;
use crate::stored::{StoredCell, node, spec};

/// The nodes of a cell with their allocations, as formulas use them.
type Nodes<'w> = Vec<(&'w NodeRow, &'w NodeAlloc)>;

/// The used parts of processor, memory and every other requested dimension, with `added` more.
fn parts(row: &NodeRow, alloc: &NodeAlloc, asked: &Resources, added: bool) -> Vec<f64> {
    let part = |limit: u64, used: u64, asked: u64| {
        let used = used + if added { asked } else { 0 };
        if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
    };
    let (has, used) = (&row.capacity, &alloc.used);
    let mut parts = vec![
        part(has.cpu_millis, used.cpu_millis, asked.cpu_millis),
        part(has.memory_bytes, used.memory_bytes, asked.memory_bytes),
    ];
    if asked.disk_bytes > 0 {
        parts.push(part(has.disk_bytes, used.disk_bytes, asked.disk_bytes));
    }
    for (kind, &millis) in &asked.device_millis {
        let of = |amounts: &Resources| amounts.device_millis.get(kind).copied().unwrap_or(0);
        parts.push(part(of(has), of(used), millis));
    }
    parts
}

fn gpus(of: &Resources) -> u64 {
    of.device_millis.get("gpu").copied().unwrap_or(0)
}

/// The free processor, memory, disk, network and cards, as an amount and as a part.
fn free(row: &NodeRow, alloc: &NodeAlloc) -> [(f64, f64); 5] {
    let (has, used) = (&row.capacity, &alloc.used);
    let of = |has: u64, used: u64| {
        let free = (has - used) as f64;
        (free, if has == 0 { 1.0 } else { free / has as f64 })
    };
    [
        of(has.cpu_millis, used.cpu_millis),
        of(has.memory_bytes, used.memory_bytes),
        of(has.disk_bytes, used.disk_bytes),
        of(has.network_bytes_per_s, used.network_bytes_per_s),
        of(gpus(has), gpus(used)),
    ]
}

fn mean(nodes: &Nodes<'_>, dimension: usize) -> f64 {
    nodes.iter().map(|(row, alloc)| free(row, alloc)[dimension].0).sum::<f64>() / nodes.len() as f64
}

fn demands(asked: &Resources) -> [f64; 5] {
    let Resources { cpu_millis, memory_bytes, disk_bytes, network_bytes_per_s, .. } = *asked;
    [cpu_millis, memory_bytes, disk_bytes, network_bytes_per_s, gpus(asked)].map(|amount| amount as f64)
}

/// Published: score = sum over resources of free part x 10 x weight, weight = demand over the mean demand, demand =
/// request over the mean of what is free.
fn dynamic_weight(nodes: &Nodes<'_>, asked: &Resources, (row, alloc): (&NodeRow, &NodeAlloc)) -> f64 {
    let asked: Vec<(usize, f64)> =
        demands(asked).into_iter().enumerate().filter(|&(_, amount)| amount > 0.0).collect();
    let demand: Vec<f64> =
        asked.iter().map(|&(dimension, amount)| amount / mean(nodes, dimension).max(1.0)).collect();
    let average = demand.iter().sum::<f64>() / demand.len() as f64;
    let of = |(&(dimension, _), demand): (&(usize, f64), &f64)| {
        free(row, alloc)[dimension].1 * 10.0 * demand / average
    };
    asked.iter().zip(&demand).map(of).sum()
}

/// The fuzzy analytic hierarchy process, step by step as its literature writes it.
fn fahp(nodes: &Nodes<'_>, asked: &Resources, (row, alloc): (&NodeRow, &NodeAlloc)) -> f64 {
    let mut demand: Vec<f64> = demands(asked)
        .into_iter()
        .take(4)
        .enumerate()
        .map(|(dimension, amount)| amount / mean(nodes, dimension).max(1.0))
        .collect();
    let tasks = nodes.iter().map(|(_, alloc)| f64::from(alloc.tasks)).sum::<f64>() / nodes.len() as f64;
    demand.push(1.0 / (110.0 - tasks.floor()).max(1.0));
    let n = 5;
    let scored = |i: usize, j: usize| match demand[i] + demand[j] {
        0.0 => 0.5,
        sum => demand[i] / sum,
    };
    let row_sum = |i: usize| (0..n).map(|j| scored(i, j)).sum::<f64>();
    let consistent = |i: usize, j: usize| (row_sum(i) - row_sum(j)) / (2 * n) as f64 + 0.5;
    let a = (n - 1) as f64 / 2.0;
    let weight = |i: usize| {
        1.0 / n as f64 - 1.0 / (2.0 * a) + (0..n).map(|j| consistent(i, j)).sum::<f64>() / (n as f64 * a)
    };
    let idle = free(row, alloc)
        .into_iter()
        .take(4)
        .map(|(_, part)| part)
        .chain([1.0 - f64::from(alloc.tasks) / 110.0]);
    idle.enumerate().map(|(i, idle)| weight(i) * idle).sum()
}

/// The free part of a node's cards that a kind of task could not use, in thousandths.
fn fragment(task: &Resources, free: &Resources, cards: &BTreeMap<String, u64>) -> f64 {
    let wanted = task.device_millis.get("gpu").copied().unwrap_or(0);
    let (count, each) = if wanted <= 1000 { (1, wanted) } else { (wanted / 1000, 1000) };
    let all: u64 = cards.values().sum();
    let usable: Vec<u64> = cards.values().copied().filter(|&free| free >= each).collect();
    let fits = task.cpu_millis <= free.cpu_millis
        && task.memory_bytes <= free.memory_bytes
        && usable.len() as u64 >= count;
    if fits { (all - usable.iter().sum::<u64>()) as f64 } else { all as f64 }
}

/// Minus the rise of the mean fragment over the tasks of the cell.
fn fgd(stored: &StoredCell, spec: &JobSpec, (row, alloc): (&NodeRow, &NodeAlloc)) -> f64 {
    let free = borough_model::node::node_free(&row.capacity, alloc);
    let of_place = |place: u32| {
        let dimension = card_dimension("gpu", place);
        (dimension.clone(), free.device_millis.get(&dimension).copied().unwrap_or(0))
    };
    let before: BTreeMap<String, u64> = row.cards.iter().map(|card| of_place(card.place)).collect();
    let jobs = stored.jobs.values().filter(|(_, spec)| !spec.task.resources.device_millis.is_empty());
    let kinds: Vec<(f64, &Resources)> =
        jobs.map(|(row, spec)| (f64::from(row.count), &spec.task.resources)).collect();
    let all: f64 = kinds.iter().map(|(count, _)| count).sum();
    let of = |free: &Resources, cards: &BTreeMap<String, u64>| {
        kinds.iter().map(|(count, task)| count / all * fragment(task, free, cards)).sum::<f64>()
    };
    let asked = &spec.task.resources;
    let mut after = before.clone();
    let wanted = asked.device_millis.get("gpu").copied().unwrap_or(0);
    if wanted > 0 && wanted < 1000 {
        // A share goes to the fullest card that fits it.
        let fullest = after.iter_mut().filter(|(_, free)| **free >= wanted).min_by_key(|(_, free)| **free);
        if let Some((_, free)) = fullest {
            *free -= wanted;
        }
    } else {
        let complete = after.values_mut().filter(|free| **free == 1000).take((wanted / 1000) as usize);
        complete.for_each(|free| *free = 0);
    }
    let mut left = free.clone();
    left.cpu_millis = left.cpu_millis.saturating_sub(asked.cpu_millis);
    left.memory_bytes = left.memory_bytes.saturating_sub(asked.memory_bytes);
    of(&free, &before) - of(&left, &after)
}

/// Returns true if any task of the cell asks for devices.
fn uses_devices(stored: &StoredCell) -> bool {
    stored.jobs.values().any(|(_, spec)| !spec.task.resources.device_millis.is_empty())
}

/// The score of a node by the formula of a profile, and the smallest difference that counts, because policies count in
/// thousandths.
fn formula(profile: &str, stored: &StoredCell, spec: &JobSpec, node: (&NodeRow, &NodeAlloc)) -> (f64, f64) {
    let nodes: Nodes<'_> = stored.nodes.values().map(|(row, alloc)| (row, alloc)).collect();
    let (row, alloc) = node;
    let asked = &spec.task.resources;
    let (before, after) = (parts(row, alloc, asked, false), parts(row, alloc, asked, true));
    let fullness: f64 = after.iter().sum();
    match profile {
        "best-fit" => (fullness, 0.006),
        "worst-fit" => {
            let cost = |part: f64| {
                let (doublings, rest) = ((part * 8.0).floor(), (part * 8.0).fract());
                doublings.exp2() * (1.0 + rest)
            };
            let rise: f64 =
                after.iter().zip(&before).map(|(after, before)| cost(*after) - cost(*before)).sum();
            (-rise, 8.0)
        }
        "load-aware" => {
            let cost = |part: f64| {
                let steps = part.min(2.0) * 8.0;
                steps.floor().exp2() * (1.0 + steps.fract())
            };
            let mut expected = after;
            if let Some(load) = stored.loads.get(&row.id).and_then(|load| load.measured) {
                let of = |measured: u64, promised: u64, covered: u64, asked: u64, has: u64| {
                    (measured + promised.saturating_sub(covered) + asked) as f64 / has as f64
                };
                let (has, used) = (&row.capacity, &alloc.used);
                let (cpu, covered) = (load.cpu_millis, load.covered_cpu_millis);
                expected[0] = of(cpu, used.cpu_millis, covered, asked.cpu_millis, has.cpu_millis);
                let (memory, covered) = (load.memory_bytes, load.covered_memory_bytes);
                expected[1] = of(memory, used.memory_bytes, covered, asked.memory_bytes, has.memory_bytes);
            }
            (-expected.into_iter().map(cost).sum::<f64>().log2(), 0.02)
        }
        "swarm-spread" => (-f64::from(alloc.tasks), 0.5),
        "swarm-binpack" => (f64::from(alloc.tasks), 0.5),
        "random" => (0.0, 0.5),
        "borg-hybrid" => {
            let most = after.iter().copied().fold(0.0, f64::max);
            let stranded: f64 = after.iter().map(|part| most - part).sum();
            (fullness - stranded, 0.02)
        }
        "dot-product" => {
            let dimensions = demands(asked).into_iter().enumerate().filter(|&(_, amount)| amount > 0.0);
            let most = |dimension: usize| {
                nodes.iter().map(|(row, _)| demands(&row.capacity)[dimension]).fold(1.0, f64::max)
            };
            let product: f64 = dimensions
                .map(|(dimension, amount)| {
                    amount / most(dimension) * free(row, alloc)[dimension].0 / most(dimension)
                })
                .sum();
            (-product, 0.001)
        }
        "dynamic-weight" => (dynamic_weight(&nodes, asked, node), 0.5),
        "fahp" => (fahp(&nodes, asked, node), 0.02),
        "kubernetes" => {
            let least = (1.0 - after[0] + 1.0 - after[1]) / 2.0;
            let balanced = 1.0 - (after[0] - after[1]).abs() / 2.0;
            (least + balanced, 0.005)
        }
        // Rises within a tenth of a card are equal.
        "fgd" if uses_devices(stored) => (fgd(stored, spec, node), 130.0),
        "fgd" => (fullness, 0.006),
        other => panic!("no formula of {other} is written down here"),
    }
}

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
