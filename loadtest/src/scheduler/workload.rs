//! The workloads by name: nodes, what is there before, and what is measured. Node and task shapes are those of the
//! published benchmark of the same name (Kubernetes' `scheduler_perf`, Gödel's and others' papers).

use std::collections::BTreeMap;

use borough_model::job::{Constraint, ConstraintOperator, JobKind, JobSpec, RestartMode, Spread};
use borough_model::node::NodeFacts;
use borough_model::{Name, Resources};
use clap::ValueEnum;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadName {
    /// `scheduler_perf` SchedulingBasic: 5,000 nodes, 5,000 tasks before, 50,000 measured
    SchedulingBasic,
    /// `scheduler_perf` SchedulingDaemonset: 15,000 nodes and one more, to which 30,000 tasks are bound by its name
    SchedulingDaemonset,
    /// `scheduler_perf` Unschedulable: 5,000 nodes, 10,000 tasks while work that fits nowhere arrives
    Unschedulable,
    /// `scheduler_perf` SchedulingNodeAffinity: 5,000 nodes, 10,000 tasks bound to a zone
    NodeAffinity,
    /// `scheduler_perf` PreferredTopologySpreading: 5,000 nodes in three zones, 5,000 tasks spread over them
    PreferredTopologySpreading,
    /// Gödel's service workload: 10,000 nodes, 100,000 tasks
    Services10k,
    /// Gödel's larger cell: 30,000 nodes, tasks offered at 12,000 per second
    Offered30k,
    /// The cell of k8s-1m: 100,000 nodes, 100,000 tasks
    Nodes100k,
}

/// A workload.
pub struct Workload {
    /// Nodes of the usual shape.
    pub nodes: u32,
    /// One more node, with room for every task.
    pub vast_node: bool,
    /// Tasks placed before anything is measured.
    pub tasks_before: u32,
    /// Tasks measured.
    pub tasks: u32,
    /// Tasks offered per second; `None` is as fast as they can be admitted.
    pub offered_per_s: Option<u32>,
    /// Jobs per second of one task that fits nowhere, while it is measured.
    pub hopeless_per_s: u32,
    /// Where tasks may go.
    pub constraints: Vec<Constraint>,
    /// Over what they spread.
    pub spread: Vec<Spread>,
}

impl WorkloadName {
    /// Its name in result lines.
    pub fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its parts.
    pub fn workload(self) -> Workload {
        let plain = |nodes, tasks_before, tasks| Workload {
            nodes,
            vast_node: false,
            tasks_before,
            tasks,
            offered_per_s: None,
            hopeless_per_s: 0,
            constraints: Vec::new(),
            spread: Vec::new(),
        };
        let within = |attribute: &str, values: &[&str]| Constraint {
            attribute: attribute.to_owned(),
            operator: ConstraintOperator::In,
            values: values.iter().map(|&value| value.to_owned()).collect(),
            preference: None,
        };
        match self {
            Self::SchedulingBasic => plain(5_000, 5_000, 50_000),
            Self::SchedulingDaemonset => Workload {
                vast_node: true,
                constraints: vec![within("node.name", &["vast"])],
                ..plain(15_000, 0, 30_000)
            },
            Self::Unschedulable => Workload { hopeless_per_s: 5, ..plain(5_000, 20_000, 10_000) },
            Self::NodeAffinity => Workload {
                constraints: vec![within("zone", &["zone-0", "zone-1"])],
                ..plain(5_000, 5_000, 10_000)
            },
            Self::PreferredTopologySpreading => Workload {
                spread: vec![Spread::preferred("zone".to_owned(), 100)],
                ..plain(5_000, 5_000, 5_000)
            },
            Self::Services10k => plain(10_000, 0, 100_000),
            Self::Offered30k => Workload { offered_per_s: Some(12_000), ..plain(30_000, 0, 120_000) },
            Self::Nodes100k => plain(100_000, 0, 100_000),
        }
    }
}

/// A node of `scheduler_perf`: 4 cores, 32 GiB, here with three zones and racks of forty.
pub fn node_facts(number: u32) -> NodeFacts {
    let rack = number / 40;
    let attributes = [("zone", format!("zone-{}", number % 3)), ("rack", format!("rack-{rack}"))];
    facts(4_000, 32 * GIB, attributes.map(|(key, value)| (key.to_owned(), value)).into())
}

/// A node with room for everything.
pub fn vast_facts() -> NodeFacts {
    facts(10_000_000, 100_000 * GIB, BTreeMap::new())
}

fn facts(cpu_millis: u64, memory_bytes: u64, attributes: BTreeMap<String, String>) -> NodeFacts {
    NodeFacts {
        capacity: Resources { cpu_millis, memory_bytes, disk_bytes: 500 * GIB, ..Resources::default() },
        port_first: 20_000,
        port_last: 29_999,
        attributes,
        host: "127.0.0.1".to_owned(),
        boot_id: "boot".to_owned(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        cards: Vec::new(),
    }
}

/// A job of `count` pods of `scheduler_perf`: 100 thousandths of a core and 500 MiB each.
pub fn job_spec(name: &str, count: u32, workload: &Workload) -> anyhow::Result<JobSpec> {
    let resources =
        Resources { cpu_millis: 100, memory_bytes: 500 * MIB, disk_bytes: 10 * MIB, ..Resources::default() };
    let spec = spec(name, count, resources)?;
    Ok(JobSpec { constraints: workload.constraints.clone(), spread: workload.spread.clone(), ..spec })
}

/// A job of one task that no node has room for.
pub fn hopeless_spec(name: &str) -> anyhow::Result<JobSpec> {
    let resources = Resources { cpu_millis: 9_000, memory_bytes: 500 * MIB, ..Resources::default() };
    spec(name, 1, resources)
}

fn spec(name: &str, count: u32, resources: Resources) -> anyhow::Result<JobSpec> {
    let command = ["sleep", "3600"].map(str::to_owned).to_vec();
    let mut spec = JobSpec::defaults(Name::new("loadtest")?, Name::new(name)?, JobKind::Service, command);
    spec.count = count;
    spec.task.resources = resources;
    spec.restart.mode = RestartMode::Always;
    Ok(spec)
}
