//! The formula of each scoring policy, restated plainly from its source. `policy.rs` compares the scheduler with it.

use std::collections::BTreeMap;

use borough_model::node::card_dimension;
use borough_model::{JobSpec, NodeAlloc, NodeRow, Resources};

use crate::stored::StoredCell;

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

/// The amounts of a request or a node: processor, memory, disk and cards.
fn amounts(of: &Resources) -> [f64; 4] {
    [of.cpu_millis, of.memory_bytes, of.disk_bytes, gpus(of)].map(|amount| amount as f64)
}

/// A dimension that the cell's tasks ask for, with their mean request and what the largest node has.
struct Demanded {
    dimension: usize,
    mean: f64,
    largest: f64,
}

fn demanded(stored: &StoredCell) -> Vec<Demanded> {
    let tasks: f64 = stored.jobs.values().map(|(row, _)| f64::from(row.count)).sum();
    let of = |dimension: usize| {
        let jobs = stored.jobs.values();
        let sum: f64 =
            jobs.map(|(row, spec)| f64::from(row.count) * amounts(&spec.task.resources)[dimension]).sum();
        // Means have seven binary digits.
        let mean = (sum / tasks).floor();
        let digit = (mean.max(1.0).log2().floor() - 6.0).max(0.0).exp2();
        let largest =
            stored.nodes.values().map(|(row, _)| amounts(&row.capacity)[dimension]).fold(0.0, f64::max);
        Demanded { dimension, mean: (mean / digit).floor() * digit, largest }
    };
    (0..4).map(of).filter(|demanded| demanded.mean > 0.0 && demanded.largest > 0.0).collect()
}

/// What a node has free, and what is left of it with the task.
fn free_and_left((row, alloc): (&NodeRow, &NodeAlloc), asked: &Resources) -> ([f64; 4], [f64; 4]) {
    let (has, used, asked) = (amounts(&row.capacity), amounts(&alloc.used), amounts(asked));
    let free = std::array::from_fn(|dimension| has[dimension] - used[dimension]);
    (free, std::array::from_fn(|dimension| free[dimension] - asked[dimension]))
}

/// Minus what the task leaves, in parts of the largest node.
fn best_fit(stored: &StoredCell, asked: &Resources, node: (&NodeRow, &NodeAlloc)) -> f64 {
    let (_, left) = free_and_left(node, asked);
    -demanded(stored).iter().map(|demanded| left[demanded.dimension] / demanded.largest).sum::<f64>()
}

/// Minus the mean tasks that the task strands, and three times what it leaves.
fn borg_hybrid(stored: &StoredCell, asked: &Resources, node: (&NodeRow, &NodeAlloc)) -> f64 {
    let (free, left) = free_and_left(node, asked);
    let has = amounts(&node.0.capacity);
    let stranded = |amounts: [f64; 4]| {
        let tasks: Vec<f64> = demanded(stored)
            .iter()
            .filter(|demanded| has[demanded.dimension] > 0.0)
            .map(|demanded| amounts[demanded.dimension] / demanded.mean)
            .collect();
        let least = tasks.iter().copied().fold(f64::INFINITY, f64::min);
        tasks.iter().map(|tasks| tasks - least).sum::<f64>()
    };
    stranded(free) - stranded(left) + 3.0 * best_fit(stored, asked, node)
}

/// The free part of a node's cards that tasks of a kind could not use, in thousandths. Processors and memory bound what
/// they can use to twice the cards of as many tasks as they suffice for.
fn fragment(task: &Resources, free: &Resources, cards: &BTreeMap<String, u64>) -> f64 {
    let wanted = task.device_millis.get("gpu").copied().unwrap_or(0);
    let (count, each) = if wanted <= 1000 { (1, wanted) } else { (wanted / 1000, 1000) };
    let all: u64 = cards.values().sum();
    let usable: Vec<u64> = cards.values().copied().filter(|&free| free >= each).collect();
    let fits = task.cpu_millis <= free.cpu_millis
        && task.memory_bytes <= free.memory_bytes
        && usable.len() as u64 >= count;
    if !fits {
        return all as f64;
    }
    let tasks = |free: u64, asked: u64| if asked == 0 { f64::INFINITY } else { free as f64 / asked as f64 };
    let tasks = tasks(free.cpu_millis, task.cpu_millis).min(tasks(free.memory_bytes, task.memory_bytes));
    let bound = 2.0 * tasks * (count * each) as f64;
    all as f64 - bound.min(usable.iter().sum::<u64>() as f64)
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
pub(crate) fn formula(
    profile: &str,
    stored: &StoredCell,
    spec: &JobSpec,
    node: (&NodeRow, &NodeAlloc),
) -> (f64, f64) {
    let nodes: Nodes<'_> = stored.nodes.values().map(|(row, alloc)| (row, alloc)).collect();
    let (row, alloc) = node;
    let asked = &spec.task.resources;
    let (before, after) = (parts(row, alloc, asked, false), parts(row, alloc, asked, true));
    match profile {
        "best-fit" => (best_fit(stored, asked, node), 0.0002),
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
        "borg-hybrid" => (borg_hybrid(stored, asked, node), 0.0005),
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
        // The kinds' parts of all tasks are counted in five-hundred-and-twelfths.
        "fgd" if uses_devices(stored) => (fgd(stored, spec, node), 30.0),
        "fgd" => (best_fit(stored, asked, node), 0.0002),
        other => panic!("no formula of {other} is written down here"),
    }
}
