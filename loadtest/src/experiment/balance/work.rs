//! The work of the comparison, and its cell.

use std::path::Path;

use anyhow::bail;
use borough_kv::env::SeededRng;
use clap::ValueEnum;

use crate::experiment::alibaba::{self, BatchRow, MACHINE_CORES, MACHINE_MEMORY_MIB};
use crate::experiment::openb::{self, OpenbNode, OpenbTask};

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum BalanceWorkloadName {
    /// The tasks of openb that ask for no cards, on its 1,523 nodes of many sizes
    Openb,
    /// All tasks of openb, on its nodes that have cards
    OpenbGpu,
    /// Instances of Alibaba's batch jobs on 200 equal machines
    Alibaba,
}

/// Machines of Alibaba's work.
const ALIBABA_MACHINES: u32 = 200;

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

/// The requested works, or those whose trace is given.
pub(super) fn works(
    asked: &[BalanceWorkloadName],
    openb: Option<&Path>,
    alibaba: Option<&Path>,
) -> anyhow::Result<Vec<BalanceWorkloadName>> {
    let given = |name: BalanceWorkloadName| match name {
        BalanceWorkloadName::Openb | BalanceWorkloadName::OpenbGpu => openb.is_some(),
        BalanceWorkloadName::Alibaba => alibaba.is_some(),
    };
    if let Some(name) = asked.iter().find(|name| !given(**name)) {
        bail!("{} needs its trace: give the directory with --openb or --alibaba", name.text());
    }
    let chosen = BalanceWorkloadName::value_variants().iter().copied();
    let chosen: Vec<BalanceWorkloadName> =
        chosen.filter(|name| given(*name) && (asked.is_empty() || asked.contains(name))).collect();
    if chosen.is_empty() {
        bail!("there is no trace: give its directory with --openb or --alibaba");
    }
    Ok(chosen)
}

impl BalanceWorkloadName {
    /// Its name on the command line.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The work of a trace: as much as requests `until_percent` of the scarcest dimension.
    pub(super) fn work(
        self,
        directory: &Path,
        seed: u64,
        until_percent: u32,
    ) -> anyhow::Result<BalanceWorkload> {
        let (about, nodes, tasks) = match self {
            Self::Openb => {
                let mut tasks = openb::tasks(directory, "default")?;
                tasks.retain(|task| task.gpu_millis == 0);
                ("openb, tasks without cards", openb::nodes(directory)?, tasks)
            }
            Self::OpenbGpu => {
                let mut nodes = openb::nodes(directory)?;
                nodes.retain(|node| node.cards > 0);
                ("openb, all tasks", nodes, openb::tasks(directory, "default")?)
            }
            Self::Alibaba => {
                let tasks = alibaba_tasks(&alibaba::rows(directory)?, seed);
                ("Alibaba 2018, instances of batch jobs", alibaba_nodes(), tasks)
            }
        };
        anyhow::ensure!(!tasks.is_empty(), "the trace has no such tasks");
        Ok(BalanceWorkload::of(about, nodes, tasks, seed, f64::from(until_percent)))
    }
}

fn alibaba_nodes() -> Vec<OpenbNode> {
    let node = |number: u32| OpenbNode {
        name: format!("machine-{number}"),
        cpu_millis: MACHINE_CORES * 1000,
        memory_mib: MACHINE_MEMORY_MIB,
        cards: 0,
        model: String::new(),
    };
    (0..ALIBABA_MACHINES).map(node).collect()
}

/// Instances drawn so that each instance of the trace is equally likely.
fn alibaba_tasks(rows: &[BatchRow], seed: u64) -> Vec<OpenbTask> {
    let mut ends = Vec::with_capacity(rows.len());
    let mut total = 0_u64;
    for row in rows {
        total += u64::from(row.instances);
        ends.push(total);
    }
    let rng = SeededRng::shared(seed);
    let drawn = (0..50_000).filter_map(|_| {
        let at = rng.next_u64() % total.max(1);
        rows.get(ends.partition_point(|&end| end <= at))
    });
    let task = |row: &BatchRow| OpenbTask {
        cpu_millis: row.cpu_millis,
        memory_mib: row.memory_mib(),
        gpu_millis: 0,
        models: Vec::new(),
        service: false,
    };
    drawn.map(task).collect()
}

impl BalanceWorkload {
    fn of(about: &str, nodes: Vec<OpenbNode>, tasks: Vec<OpenbTask>, seed: u64, until_percent: f64) -> Self {
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
