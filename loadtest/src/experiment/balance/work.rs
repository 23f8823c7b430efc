//! The work of the comparison, and its cell.

use borough_kv::env::SeededRng;

use crate::experiment::openb::{OpenbNode, OpenbTask};
use crate::experiment::trace::TraceCell;

/// A cell with its arriving work.
pub(super) struct BalanceWorkload {
    pub about: String,
    pub nodes: Vec<OpenbNode>,
    pub tasks: Vec<OpenbTask>,
    /// The tasks that arrive, in order.
    pub arriving: Vec<usize>,
    /// The mean request of a task of this work.
    pub cpu_millis_mean: u64,
    pub memory_mib_mean: u64,
    capacity: [f64; 3],
    /// The dimension with the most demand relative to its capacity.
    scarce: usize,
}

/// The request: processors, memory, cards.
fn asked(task: &OpenbTask) -> [f64; 3] {
    [task.cpu_millis as f64, task.memory_mib as f64, task.gpu_millis as f64]
}

impl BalanceWorkload {
    /// The work of a trace: as much as requests `until_percent` of the scarcest dimension.
    pub(super) fn of(cell: TraceCell, seed: u64, until_percent: f64) -> Self {
        let TraceCell { about, nodes, tasks } = cell;
        let mut capacity = [0.0; 3];
        for node in &nodes {
            let of_node = [node.cpu_millis as f64, node.memory_mib as f64, f64::from(node.cards) * 1000.0];
            capacity.iter_mut().zip(of_node).for_each(|(sum, amount)| *sum += amount);
        }
        let mut sums = [0.0; 3];
        for task in &tasks {
            sums.iter_mut().zip(asked(task)).for_each(|(sum, amount)| *sum += amount);
        }
        let share = |dimension: &usize| sums[*dimension] / f64::max(capacity[*dimension], 1.0);
        let scarce = (0..3).max_by(|left, right| share(left).total_cmp(&share(right))).unwrap_or(0);
        let count = tasks.len().max(1) as f64;
        let mut work = Self {
            about: about.to_owned(),
            nodes,
            cpu_millis_mean: (sums[0] / count) as u64,
            memory_mib_mean: (sums[1] / count) as u64,
            tasks,
            arriving: Vec::new(),
            capacity,
            scarce,
        };
        let rng = SeededRng::shared(seed);
        let mut percent = 0.0;
        while percent < until_percent {
            let number = usize::try_from(rng.next_u64() % work.tasks.len() as u64).unwrap_or(0);
            percent += work.tasks.get(number).map_or(until_percent, |task| work.scarce_percent(task));
            work.arriving.push(number);
        }
        work
    }

    /// A task's request of the scarcest dimension, in per cent of its capacity.
    pub(super) fn scarce_percent(&self, task: &OpenbTask) -> f64 {
        asked(task)[self.scarce] * 100.0 / self.capacity[self.scarce].max(1.0)
    }
}
