//! Samples of a cell's nodes.

use super::work::BalanceWorkload;
use crate::experiment::cell::{ExperimentCell, GPU, MIB};

/// Shares of the nodes' capacity at a time, in per cent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    /// Mean over nodes of the allocated processors, and its standard deviation.
    pub cpu: MeanSpread,
    pub memory: MeanSpread,
    /// The same for the mean of a node's processors and memory.
    pub load: MeanSpread,
    /// Mean over nodes of the difference between a node's processors and memory.
    pub skew_mean: f64,
    /// Free processors and memory of the cell on nodes that a task of mean size no longer fits.
    pub stranded_cpu: f64,
    pub stranded_memory: f64,
    /// Allocated part of the cell's processors and memory.
    pub cpu_of_cell: f64,
    pub memory_of_cell: f64,
    pub gpu_of_cell: f64,
    /// Nodes without any task.
    pub empty: f64,
}

/// A mean over nodes, with the standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MeanSpread {
    pub mean: f64,
    pub deviation: f64,
}

impl MeanSpread {
    /// Of these values.
    pub(super) fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self { mean, deviation: variance.sqrt() }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

impl Nodes {
    /// Samples the nodes of a cell.
    pub(super) fn of(cell: &ExperimentCell, work: &BalanceWorkload) -> Self {
        let (mut cpu, mut memory, mut load) = (Vec::new(), Vec::new(), Vec::new());
        // Used and limit of processors, memory and cards; stranded processors and memory.
        let mut sums = [0_u64; 8];
        let (mut skew, mut empty) = (0.0, 0_u32);
        for node in cell.snapshot.tables().nodes() {
            let (used, limits) = (&node.alloc.used, &node.limits);
            let of_cpu = percent(used.cpu_millis, limits.cpu_millis);
            let of_memory = percent(used.memory_bytes, limits.memory_bytes);
            cpu.push(of_cpu);
            memory.push(of_memory);
            load.push((of_cpu + of_memory) / 2.0);
            skew += (of_cpu - of_memory).abs();
            empty += u32::from(node.alloc.tasks == 0);
            let free_cpu = limits.cpu_millis.saturating_sub(used.cpu_millis);
            let free_memory = limits.memory_bytes.saturating_sub(used.memory_bytes);
            let fits = free_cpu >= work.cpu_millis_mean && free_memory >= work.memory_mib_mean * MIB;
            let gpu =
                |amounts: &borough_model::Resources| amounts.device_millis.get(GPU).copied().unwrap_or(0);
            let of_node = [
                used.cpu_millis,
                limits.cpu_millis,
                used.memory_bytes,
                limits.memory_bytes,
                gpu(used),
                gpu(limits),
                if fits { 0 } else { free_cpu },
                if fits { 0 } else { free_memory },
            ];
            sums.iter_mut().zip(of_node).for_each(|(sum, amount)| *sum += amount);
        }
        let [cpu_used, cpu_limit, memory_used, memory_limit, gpu_used, gpu_limit, cpu_lost, memory_lost] =
            sums;
        let count = cpu.len().max(1) as f64;
        Self {
            cpu: MeanSpread::of(&cpu),
            memory: MeanSpread::of(&memory),
            load: MeanSpread::of(&load),
            skew_mean: skew / count,
            stranded_cpu: percent(cpu_lost, cpu_limit),
            stranded_memory: percent(memory_lost, memory_limit),
            cpu_of_cell: percent(cpu_used, cpu_limit),
            memory_of_cell: percent(memory_used, memory_limit),
            gpu_of_cell: percent(gpu_used, gpu_limit),
            empty: f64::from(empty) * 100.0 / count,
        }
    }
}

/// Samples over the work that has arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// Arrived work, in per cent of the scarcest dimension; tasks without a node by then; the nodes.
    pub points: Vec<(f64, u64, Nodes)>,
    pub nodes_scored_per_decision: f64,
}

impl Curve {
    /// Adds a sample.
    pub(super) fn sampled(&mut self, arrived_percent: f64, refused: u64, nodes: &Nodes) {
        self.points.push((arrived_percent, refused, *nodes));
    }

    /// The last sample at or before so much had arrived.
    pub(super) fn at(&self, arrived_percent: f64) -> Option<&(f64, u64, Nodes)> {
        self.points.iter().rev().find(|(arrived, ..)| *arrived <= arrived_percent)
    }

    /// The last sample.
    pub(super) fn end(&self) -> Option<&(f64, u64, Nodes)> {
        self.points.last()
    }

    /// Mean of a value over all samples until so much had arrived.
    pub(super) fn mean_until(&self, arrived_percent: f64, stat: impl Fn(&Nodes) -> f64) -> f64 {
        let until = self.points.iter().filter(|(arrived, ..)| *arrived <= arrived_percent);
        let values: Vec<f64> = until.map(|(_, _, nodes)| stat(nodes)).collect();
        MeanSpread::of(&values).mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_at_what_has_arrived() {
        let mut curve = Curve::default();
        for (arrived, mean) in [(1.0, 4.0), (2.0, 6.0), (3.0, 50.0)] {
            let cpu = MeanSpread { mean, deviation: 0.0 };
            curve.sampled(arrived, 0, &Nodes { cpu, ..Nodes::default() });
        }
        assert_eq!(curve.at(2.5).unwrap().2.cpu.mean as u32, 6);
        assert!(curve.at(0.5).is_none());
        assert_eq!(curve.mean_until(2.0, |nodes| nodes.cpu.mean) as u32, 5);
        assert_eq!(curve.end().unwrap().0 as u32, 3);
    }
}
