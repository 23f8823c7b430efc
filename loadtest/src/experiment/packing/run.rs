//! One seed of the experiment.

use borough_scheduler_core::CellSettings;

use crate::decide::drive::thread_cpu_s;
use crate::experiment::arrival::{DemandLimit, TaskOrder, arrivals};
use crate::experiment::cell::ExperimentCell;
use crate::experiment::openb::{OpenbNode, OpenbTask};

/// The result of one seed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed {
    /// Allocated cards, in per cent of all, once 100 % were requested.
    pub arrived_percent: f64,
    /// The same at the end.
    pub saturated_percent: f64,
    pub nodes_scored_per_decision: f64,
    /// Processor time of the run.
    pub cpu_s: f64,
    pub tasks: u64,
    pub dropped: u64,
    /// Allocated processors and memory at the end.
    pub cpu_percent: f64,
    pub memory_percent: f64,
}

/// Mean of the allocation while the requested part rounds to 100 %: the authors sample their curves the same way.
struct AllocatedShare {
    sum: f64,
    count: u32,
    last: f64,
}

impl AllocatedShare {
    fn record(&mut self, arrived_percent: f64, allocated_percent: f64) {
        if (99.5..100.5).contains(&arrived_percent) {
            self.sum += allocated_percent;
            self.count += 1;
        }
        if arrived_percent <= 100.0 {
            self.last = allocated_percent;
        }
    }

    fn percent(&self) -> f64 {
        if self.count > 0 { self.sum / f64::from(self.count) } else { self.last }
    }
}

/// What all seeds of an experiment have in common.
pub(super) struct PackingSetup<'a> {
    pub nodes: &'a [OpenbNode],
    pub tasks: &'a [OpenbTask],
    pub settings: CellSettings,
    pub order: TaskOrder,
    /// The demand at which arrivals end, in thousandths of the cards.
    pub until_per_mille: u64,
    /// Tasks that are decided in one plan.
    pub batch: usize,
}

/// Runs one seed.
pub(super) fn pack(setup: &PackingSetup<'_>, seed: u64) -> anyhow::Result<Packed> {
    let PackingSetup { nodes, tasks, order, batch, .. } = *setup;
    let begin = thread_cpu_s();
    let mut cell = ExperimentCell::new(setup.settings.clone(), nodes, seed)?;
    let capacity = cell.gpu_capacity_millis();
    anyhow::ensure!(capacity > 0, "the trace's nodes have no cards");
    let percent = |millis: u64| millis as f64 * 100.0 / capacity as f64;
    let limit = DemandLimit { capacity_millis: capacity, per_mille: setup.until_per_mille };
    let arriving = arrivals(tasks, order, seed, limit);
    let arriving: Vec<&OpenbTask> = arriving.iter().filter_map(|&number| tasks.get(number)).collect();
    let (mut asked, mut allocated) = (0, 0);
    let mut arrived = AllocatedShare { sum: 0.0, count: 0, last: 0.0 };
    let mut packed = Packed::default();
    for together in arriving.chunks(batch.max(1)) {
        for (task, node) in together.iter().zip(cell.arrive(together)?) {
            asked += task.gpu_millis;
            allocated += if node.is_some() { task.gpu_millis } else { 0 };
            packed.dropped += u64::from(node.is_none());
            arrived.record(percent(asked), percent(allocated));
        }
    }
    // Compares the tasks' assignments with the nodes' commitments.
    anyhow::ensure!(
        allocated == cell.gpu_used_millis(),
        "the nodes gave other shares of cards than the tasks got"
    );
    packed.tasks = arriving.len() as u64;
    packed.arrived_percent = arrived.percent();
    packed.saturated_percent = percent(allocated);
    packed.nodes_scored_per_decision = cell.counters.nodes_scored as f64 / cell.decisions.max(1) as f64;
    (packed.cpu_percent, packed.memory_percent) = cell.fixed_percent();
    packed.cpu_s = thread_cpu_s() - begin;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::policy::{policies, settings};

    /// Two nodes of two cards, and tasks for half a card and for two whole ones.
    fn small() -> (Vec<OpenbNode>, Vec<OpenbTask>) {
        let node = |name: &str| OpenbNode {
            name: name.to_owned(),
            cpu_millis: 64_000,
            memory_mib: 65_536,
            cards: 2,
            model: "T4".to_owned(),
        };
        let task = |gpu_millis, model: &str| OpenbTask {
            cpu_millis: 1000,
            memory_mib: 1024,
            gpu_millis,
            models: if model.is_empty() { Vec::new() } else { vec![model.to_owned()] },
            service: false,
        };
        (vec![node("n0"), node("n1")], vec![task(500, ""), task(2000, "T4"), task(500, "A10")])
    }

    #[test]
    fn whatever_the_batch_the_order_of_arrival_decides() {
        let (nodes, tasks) = small();
        for policy in policies() {
            let run = |batch| {
                let (settings, order) = (settings(policy).unwrap(), TaskOrder::Drawn);
                let (nodes, tasks) = (&nodes, &tasks);
                let setup = PackingSetup { nodes, tasks, settings, order, until_per_mille: 3000, batch };
                pack(&setup, 5).unwrap()
            };
            let (one, many) = (run(1), run(64));
            assert_eq!((one.dropped, one.tasks), (many.dropped, many.tasks), "{policy}");
            assert!((one.saturated_percent - many.saturated_percent).abs() < 1e-9, "{policy}");
            assert!((one.arrived_percent - many.arrived_percent).abs() < 1e-9, "{policy}");
            assert!(one.saturated_percent <= 100.0 && one.saturated_percent > 0.0, "{policy}");
        }
    }

    #[test]
    fn a_task_for_a_model_that_no_node_has_is_dropped() {
        let (nodes, tasks) = small();
        let only = vec![tasks[2].clone()];
        let (settings, order) = (settings("best-fit").unwrap(), TaskOrder::Drawn);
        let (nodes, tasks) = (&nodes, &only);
        let setup = PackingSetup { nodes, tasks, settings, order, until_per_mille: 1000, batch: 8 };
        let packed = pack(&setup, 5).unwrap();
        assert_eq!((packed.dropped, packed.tasks), (8, 8));
        assert!(packed.saturated_percent.abs() < 1e-9);
    }
}
