//! The machines of a compacted cell: their order, and bounds of their number.

use borough_kv::env::Rng;

use crate::experiment::openb::{OpenbNode, OpenbTask};

/// A cell that is too small grows by copies of all its machines, up to so many times its size.
const COPIES: usize = 4;

/// The machines of the trace and copies of them, in the random order of a seed. A compacted cell has the first ones.
pub(super) fn machines_shuffled(nodes: &[OpenbNode], rng: &dyn Rng) -> Vec<OpenbNode> {
    let copy = |number: usize| {
        nodes.iter().map(move |node| OpenbNode { name: format!("{}-{number}", node.name), ..node.clone() })
    };
    let mut all: Vec<OpenbNode> = (0..COPIES).flat_map(copy).collect();
    shuffle(&mut all, rng);
    all
}

/// Puts items into a random order.
pub(super) fn shuffle<T>(items: &mut [T], rng: &dyn Rng) {
    for place in (1..items.len()).rev() {
        let other = usize::try_from(rng.next_u64() % (place as u64 + 1)).unwrap_or(0);
        items.swap(place, other);
    }
}

fn amounts_of_node(node: &OpenbNode) -> [u64; 3] {
    [node.cpu_millis, node.memory_mib, u64::from(node.cards) * 1000]
}

fn amounts_of_task(task: &OpenbTask) -> [u64; 3] {
    [task.cpu_millis, task.memory_mib, task.gpu_millis]
}

fn sums(amounts: impl Iterator<Item = [u64; 3]>) -> [f64; 3] {
    amounts.fold([0.0; 3], |mut sums, amounts| {
        sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount as f64);
        sums
    })
}

/// The number of mean machines that the tasks fill in the dimension of which they ask for most.
pub(super) fn lower_bound(nodes: &[OpenbNode], tasks: &[OpenbTask]) -> f64 {
    let has = sums(nodes.iter().map(amounts_of_node));
    let asked = sums(tasks.iter().map(amounts_of_task));
    let parts = has.iter().zip(asked).filter(|&(&has, _)| has > 0.0).map(|(has, asked)| asked / has);
    parts.fold(0.0, f64::max) * nodes.len() as f64
}

/// The fewest of the first machines that have as much of each dimension as the tasks ask for. No cell with fewer fits.
pub(super) fn fewest_by_amount(machines: &[OpenbNode], tasks: &[&OpenbTask]) -> usize {
    let asked = sums(tasks.iter().map(|task| amounts_of_task(task)));
    let mut has = [0.0; 3];
    for (number, node) in machines.iter().enumerate() {
        if has.iter().zip(asked).all(|(has, asked)| *has >= asked) {
            return number;
        }
        has.iter_mut().zip(amounts_of_node(node)).for_each(|(sum, amount)| *sum += amount as f64);
    }
    machines.len()
}

/// Returns true if an empty machine takes the task.
pub(super) fn could_take(node: &OpenbNode, task: &OpenbTask) -> bool {
    amounts_of_node(node).iter().zip(amounts_of_task(task)).all(|(has, asked)| *has >= asked)
        && (task.gpu_millis == 0 || task.models.is_empty() || task.models.contains(&node.model))
}

/// The 90th percentile by nearest rank: of eleven numbers, the second largest. `None` is larger than any number.
pub(super) fn rank_90(numbers: &[Option<usize>]) -> Option<usize> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by_key(|number| number.unwrap_or(usize::MAX));
    let rank = (sorted.len() * 9).div_ceil(10);
    sorted.get(rank.saturating_sub(1)).copied().flatten()
}

#[cfg(test)]
mod tests {
    use borough_kv::env::SeededRng;

    use super::*;

    fn node(cpu_millis: u64, cards: u32, model: &str) -> OpenbNode {
        OpenbNode { name: "n".to_owned(), cpu_millis, memory_mib: 100, cards, model: model.to_owned() }
    }

    fn task(cpu_millis: u64, gpu_millis: u64, model: &str) -> OpenbTask {
        let models = if model.is_empty() { Vec::new() } else { vec![model.to_owned()] };
        OpenbTask { cpu_millis, memory_mib: 1, gpu_millis, models, service: false }
    }

    #[test]
    fn bounds_are_of_the_scarcest_dimension() {
        let nodes = [node(10, 1, "T4"), node(30, 1, "T4")];
        assert!((lower_bound(&nodes, &[task(60, 500, ""), task(1, 3000, "")]) - 3.5).abs() < 1e-9);
        assert_eq!(fewest_by_amount(&nodes, &[&task(5, 0, "")]), 1);
        assert_eq!(fewest_by_amount(&nodes, &[&task(11, 0, "")]), 2);
        assert_eq!(fewest_by_amount(&nodes, &[&task(5, 2000, "")]), 2);
    }

    #[test]
    fn an_empty_machine_takes_what_it_has() {
        assert!(could_take(&node(10, 1, "T4"), &task(10, 1000, "T4")));
        assert!(!could_take(&node(10, 1, "T4"), &task(11, 0, "")));
        assert!(!could_take(&node(10, 1, "T4"), &task(1, 2000, "")));
        assert!(!could_take(&node(10, 1, "T4"), &task(1, 500, "A10")));
    }

    #[test]
    fn the_90th_percentile_of_eleven_is_the_second_largest() {
        let eleven = [5, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11].map(Some);
        assert_eq!((rank_90(&eleven), rank_90(&[Some(7)]), rank_90(&[])), (Some(10), Some(7), None));
        assert_eq!(rank_90(&[None, Some(1), Some(2)]), None);
    }

    #[test]
    fn the_order_of_machines_follows_from_the_seed() {
        let nodes = [node(1, 0, "a"), node(2, 0, "b"), node(3, 0, "c")];
        let shuffled = |seed| machines_shuffled(&nodes, SeededRng::shared(seed).as_ref());
        assert_eq!(shuffled(3), shuffled(3));
        assert_ne!(shuffled(3), shuffled(4));
        assert_eq!(shuffled(3).iter().map(|node| node.cpu_millis).sum::<u64>(), 24);
    }
}
