//! Cells of the traces: their nodes, and the tasks that were made for them.

use std::path::Path;

use anyhow::bail;
use borough_kv::env::SeededRng;
use clap::ValueEnum;

use super::alibaba::{self, BatchRow, MACHINE_CORES, MACHINE_MEMORY_MIB};
use super::openb::{self, OpenbNode, OpenbTask};

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TraceName {
    /// The tasks of openb that ask for no cards, on its 1,523 nodes of many sizes
    Openb,
    /// All tasks of openb, on its nodes that have cards
    OpenbGpu,
    /// Instances of Alibaba's batch jobs on 200 equal machines
    Alibaba,
}

/// Machines of Alibaba's work.
const ALIBABA_MACHINES: u32 = 200;

/// The directories of the traces.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceDirectories<'a> {
    pub openb: Option<&'a Path>,
    pub alibaba: Option<&'a Path>,
}

/// The nodes and the tasks of a trace.
#[derive(Debug)]
pub(super) struct TraceCell {
    pub about: &'static str,
    pub nodes: Vec<OpenbNode>,
    pub tasks: Vec<OpenbTask>,
}

impl<'a> TraceDirectories<'a> {
    fn of(self, name: TraceName) -> Option<&'a Path> {
        match name {
            TraceName::Openb | TraceName::OpenbGpu => self.openb,
            TraceName::Alibaba => self.alibaba,
        }
    }

    /// The requested traces, or those whose directory is given.
    pub(super) fn chosen(self, asked: &[TraceName]) -> anyhow::Result<Vec<TraceName>> {
        if let Some(name) = asked.iter().find(|name| self.of(**name).is_none()) {
            bail!("{} needs its trace: give the directory with --openb or --alibaba", name.text());
        }
        let all = TraceName::value_variants().iter().copied();
        let chosen: Vec<TraceName> = all
            .filter(|name| self.of(*name).is_some() && (asked.is_empty() || asked.contains(name)))
            .collect();
        if chosen.is_empty() {
            bail!("there is no trace: give its directory with --openb or --alibaba");
        }
        Ok(chosen)
    }

    /// Reads a trace. The seed draws the instances of Alibaba's.
    pub(super) fn read(self, name: TraceName, seed: u64) -> anyhow::Result<TraceCell> {
        let Some(directory) = self.of(name) else { bail!("the directory of {} is not given", name.text()) };
        let (about, nodes, tasks) = match name {
            TraceName::Openb => {
                let mut tasks = openb::tasks(directory, "default")?;
                tasks.retain(|task| task.gpu_millis == 0);
                ("openb, tasks without cards", openb::nodes(directory)?, tasks)
            }
            TraceName::OpenbGpu => {
                let mut nodes = openb::nodes(directory)?;
                nodes.retain(|node| node.cards > 0);
                ("openb, all tasks", nodes, openb::tasks(directory, "default")?)
            }
            TraceName::Alibaba => {
                let tasks = alibaba_tasks(&alibaba::rows(directory)?, seed);
                ("Alibaba 2018, instances of batch jobs", alibaba_nodes(), tasks)
            }
        };
        anyhow::ensure!(!tasks.is_empty(), "the trace has no such tasks");
        Ok(TraceCell { about, nodes, tasks })
    }
}

impl TraceName {
    /// Its name on the command line.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
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
