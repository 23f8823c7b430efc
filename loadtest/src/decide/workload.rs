//! The cells and jobs of the benchmark.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::env::{Rng, SeededRng};
use borough_model::job::{Constraint, ConstraintOperator, JobKind, JobState, PortSpec, Spread, job_new};
use borough_model::node::{NodeState, NumaDomain, Within, domains_counted};
use borough_model::{
    Delta, Incarnation, JobId, JobSpec, Name, NodeAlloc, NodeId, NodeRow, RequestId, Resources, TaskId,
    TaskRow, TaskState,
};
use borough_scheduler_core::CellSettings;

/// A cell and the jobs for it.
pub(crate) struct DecideCell {
    pub settings: CellSettings,
    pub deltas: Vec<Delta>,
    pub nodes: usize,
    pub tasks: u64,
}

/// The settings of every workload: services spread over racks.
pub(crate) fn settings() -> CellSettings {
    CellSettings { failure_domains: vec!["rack".to_owned()], ..CellSettings::default() }
}

const GIB: u64 = 1 << 30;
/// Bytes of a mebibyte.
pub(crate) const MIB: u64 = 1 << 20;

/// Builds a workload step by step.
pub(crate) struct Maker {
    rng: Arc<dyn Rng>,
    deltas: Vec<Delta>,
    nodes: usize,
    tasks: u64,
    jobs: u64,
}

/// A cell's ids are random. These are spread as well, and the same in every run.
pub(crate) fn id_of(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[expect(clippy::expect_used, reason = "the names are made here, of letters and numbers")]
fn named(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A node of so many cores and GiB with the facts that an agent finds.
pub(crate) fn node_row(number: u64, cores: u64, gib: u64) -> NodeRow {
    let rack = number / 40;
    let attribute = |key: &str, value: String| (key.to_owned(), value);
    let attributes = [
        attribute("arch", if number.is_multiple_of(8) { "arm64" } else { "amd64" }.to_owned()),
        attribute("kernel", format!("6.{}", number % 12)),
        attribute("os", "linux".to_owned()),
        attribute("cgroup", "v2".to_owned()),
        attribute("cpu.model", format!("model-{}", number % 5)),
        attribute("disk.kind", if number.is_multiple_of(3) { "ssd" } else { "disk" }.to_owned()),
        attribute("generation", (number % 7).to_string()),
        attribute("rack", format!("rack-{rack}")),
        attribute("power", format!("power-{}", rack / 10)),
        attribute("zone", format!("zone-{}", number % 3)),
    ];
    NodeRow {
        id: NodeId(id_of(number)),
        name: named(&format!("node-{number}")),
        state: NodeState::Ready,
        schedulable: true,
        draining: false,
        capacity: Resources {
            cpu_millis: cores * 1000,
            memory_bytes: gib * GIB,
            disk_bytes: 500 * GIB,
            ..Resources::default()
        },
        port_first: 20_000,
        port_last: 29_999,
        attributes: attributes.into_iter().collect(),
        labels: BTreeMap::from([("pool".to_owned(), format!("pool-{}", number % 100))]),
        host: format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255),
        boot_id: String::new(),
        agent_version: String::new(),
        revision: 1,
        changed_ms: 0,
        taints: Vec::new(),
        cards: Vec::new(),
        domains: Vec::new(),
        packages: Default::default(),
        identity: None,
    }
}

impl Maker {
    /// An empty workload, whose random parts follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: SeededRng::shared(seed), deltas: Vec::new(), nodes: 0, tasks: 0, jobs: 0 }
    }

    fn below(&self, end: u64) -> u64 {
        self.rng.next_u64() % end.max(1)
    }

    /// Adds a node with so much of it in use.
    pub(crate) fn node(&mut self, cores: u64, gib: u64, used_per_mille: u64) {
        self.node_of(node_row(self.nodes as u64, cores, gib), used_per_mille);
    }

    fn node_of(&mut self, row: NodeRow, used_per_mille: u64) {
        let share = |amount: u64| amount / 1000 * used_per_mille;
        let used = Resources {
            cpu_millis: share(row.capacity.cpu_millis),
            memory_bytes: share(row.capacity.memory_bytes),
            ..Resources::default()
        };
        let tasks = u32::from(used_per_mille > 0);
        let alloc = NodeAlloc { epoch: 1, used, tasks, ..NodeAlloc::default() };
        self.deltas.push(Delta::NodeAlloc { node: row.id, alloc });
        self.deltas.push(Delta::Node { row });
        self.nodes += 1;
    }

    /// Adds a job.
    pub(crate) fn job(
        &mut self,
        kind: JobKind,
        count: u32,
        resources: Resources,
        change: impl FnOnce(&mut JobSpec),
    ) {
        let (user, name) = (format!("user-{}", self.jobs % 20), format!("job-{}", self.jobs));
        let mut spec = JobSpec::defaults(named(&user), named(&name), kind, vec!["/bin/true".to_owned()]);
        spec.count = count;
        spec.task.resources = resources;
        change(&mut spec);
        let mut row = job_new(JobId(id_of(self.jobs)), &spec, RequestId::default(), 0);
        row.state = JobState::Running;
        self.deltas.push(Delta::Job { row: row.into(), spec: Some(Box::new(spec)) });
        self.jobs += 1;
        self.tasks += u64::from(count);
    }

    /// Ends the workload.
    pub(crate) fn done(self, settings: CellSettings) -> DecideCell {
        DecideCell { settings, deltas: self.deltas, nodes: self.nodes, tasks: self.tasks }
    }
}

/// A request of processors and memory alone.
pub(crate) fn amounts(cpu_millis: u64, memory_bytes: u64) -> Resources {
    Resources { cpu_millis, memory_bytes, ..Resources::default() }
}

/// 10,000 nodes of 4 cores and 32 GiB, and 10 jobs of 10,000 tasks. Each job has a shape of its own, about 100 m and
/// 500 MiB (the node and task of scheduler_perf).
pub(crate) fn ten_classes(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..10_000).for_each(|_| maker.node(4, 32, 0));
    for class in 0..10 {
        maker.job(JobKind::Batch, 10_000, amounts(80 + class * 5, (400 + class * 20) * MIB), |_| {});
    }
    maker.done(CellSettings::default())
}

/// 10,000 nodes of 4 cores and 32 GiB, and so many tasks of ten classes in jobs of 50, for workers that divide the
/// jobs.
pub(crate) fn shared_out(seed: u64, tasks: u32) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..10_000).for_each(|_| maker.node(4, 32, 0));
    for job in 0..u64::from(tasks / 50) {
        let class = job % 10;
        maker.job(JobKind::Batch, 50, amounts(80 + class * 5, (400 + class * 20) * MIB), |_| {});
    }
    maker.done(CellSettings::default())
}

/// A hard constraint.
pub(crate) fn constraint(attribute: &str, operator: ConstraintOperator, values: &[String]) -> Constraint {
    let (attribute, values) = (attribute.to_owned(), values.to_vec());
    Constraint { attribute, operator, values, preference: None }
}

/// One to three hard constraints of different selectivity, and sometimes a preference.
fn constraints_mixed(maker: &Maker, job: u64) -> Vec<Constraint> {
    use ConstraintOperator::{GreaterThan, In, NotIn};
    let mut found = vec![match job % 4 {
        0 => constraint("zone", In, &[format!("zone-{}", maker.below(3))]),
        1 => constraint(
            "pool",
            In,
            &[format!("pool-{}", maker.below(100)), format!("pool-{}", maker.below(100))],
        ),
        2 => constraint("power", In, &[format!("power-{}", maker.below(25))]),
        _ => constraint("arch", In, &["amd64".to_owned()]),
    }];
    match job % 3 {
        0 => found.push(constraint("disk.kind", In, &["ssd".to_owned()])),
        1 => found.push(constraint("generation", GreaterThan, &[maker.below(4).to_string()])),
        _ => found.push(constraint("cpu.model", NotIn, &[format!("model-{}", maker.below(5))])),
    }
    if job.is_multiple_of(2) {
        let values = [format!("6.{}", maker.below(12)), format!("6.{}", maker.below(12))];
        found.push(Constraint { preference: Some(50), ..constraint("kernel", In, &values) });
    }
    found
}

/// 10,000 nodes, 1,000 jobs of 100 tasks, each with constraints of its own.
pub(crate) fn thousand_classes(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..10_000).for_each(|_| maker.node(4, 32, 0));
    for job in 0..1_000 {
        let constraints = constraints_mixed(&maker, job);
        let resources = amounts(60 + maker.below(80), (200 + maker.below(400)) * MIB);
        maker.job(JobKind::Batch, 100, resources, |spec| spec.constraints = constraints);
    }
    maker.done(CellSettings::default())
}

/// 10,000 nodes, 100,000 jobs of one task. 4,000 classes of two hundred amounts and twenty constraints take turns, so
/// that a class comes again after thousands of others.
pub(crate) fn many_classes(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..10_000).for_each(|_| maker.node(4, 32, 0));
    for job in 0..100_000_u64 {
        let class = job % 4_000;
        let pool = [format!("pool-{}", class % 20), format!("pool-{}", 20 + class % 20)];
        let bound = constraint("pool", ConstraintOperator::In, &pool);
        let resources = amounts(50 + class / 20, 200 * MIB);
        maker.job(JobKind::Batch, 1, resources, |spec| spec.constraints = vec![bound]);
    }
    maker.done(CellSettings::default())
}

/// 10,000 nodes of four sizes and 150,000 tasks: large and small jobs, services with ports that spread, batch work,
/// four bands of priority, a fifth with constraints. They request about nine tenths of the processors.
pub(crate) fn full_cell(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    for _ in 0..10_000 {
        let (cores, gib) = [(16, 64), (32, 128), (32, 256), (64, 256)][maker.below(4) as usize % 4];
        maker.node(cores, gib, 0);
    }
    let mut left = 150_000_u32;
    while left > 0 {
        let size = [1, 5, 20, 100, 500, 2_000][maker.below(6) as usize % 6];
        let count = (1 + maker.below(size)).min(u64::from(left)) as u32;
        left -= count;
        let cpu = [250, 500, 1000, 2000, 3000, 6000][maker.below(6) as usize % 6];
        let resources = amounts(cpu + maker.below(200), cpu * (2 + maker.below(5)) * MIB);
        let constraints = match maker.below(5) {
            0 => constraints_mixed(&maker, u64::from(left)),
            _ => Vec::new(),
        };
        let service = maker.below(3) == 0;
        let priority = maker.below(400) as u32;
        let kind = if service { JobKind::Service } else { JobKind::Batch };
        maker.job(kind, count, resources, |spec| {
            (spec.constraints, spec.priority) = (constraints, priority);
            if service {
                spec.task.ports = vec![PortSpec { name: named("http"), number: None }];
                spec.spread = vec![Spread::preferred("rack".to_owned(), 10)];
            }
        });
    }
    maker.done(settings())
}

/// The same node with so many NUMA domains on two sockets.
fn domains_put(row: &mut NodeRow, domains: u32) {
    let (cpus, memory) = (row.capacity.cpu_millis / 1000, row.capacity.memory_bytes);
    let each = u32::try_from(cpus).unwrap_or(0) / domains.max(1);
    let domain = |place: u32| NumaDomain {
        place,
        socket: place * 2 / domains.max(1),
        cpus: (place * each..(place + 1) * each).collect(),
        memory_bytes: memory / u64::from(domains.max(1)),
    };
    row.domains = (0..domains).map(domain).collect();
    row.capacity = domains_counted(&row.capacity, &row.domains, 1000);
}

/// Nodes of which about half are too full for any of the tasks, and 20,000 tasks of 10 classes. With NUMA domains,
/// every second class must stay within one.
pub(crate) fn scale(seed: u64, nodes: u32, numa_domains: u32) -> DecideCell {
    let mut maker = Maker::new(seed);
    for _ in 0..nodes {
        let used_per_mille = if maker.below(2) == 0 { 990 } else { maker.below(500) };
        let mut row = node_row(maker.nodes as u64, 16, 64);
        if numa_domains > 0 {
            domains_put(&mut row, numa_domains);
        }
        maker.node_of(row, used_per_mille);
    }
    for class in 0..10 {
        maker.job(JobKind::Batch, 2_000, amounts(160 + class * 5, (400 + class * 20) * MIB), |spec| {
            let within = numa_domains > 0 && class.is_multiple_of(2);
            spec.task.within = within.then_some(Within::OneNumaNode);
        });
    }
    maker.done(CellSettings::default())
}

/// 15,000 nodes and two tasks for each, bound to it by its name: 30,000 classes (SchedulingDaemonset with every node as
/// a target).
pub(crate) fn daemons(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..15_000).for_each(|_| maker.node(4, 32, 0));
    for job in 0..30_000_u64 {
        let node = [format!("node-{}", job % 15_000)];
        let bound = constraint("node.name", ConstraintOperator::In, &node);
        maker.job(JobKind::Batch, 1, amounts(100, 500 * MIB), |spec| spec.constraints = vec![bound]);
    }
    maker.done(CellSettings::default())
}

/// 10,000 nodes. 200 jobs of 100 tasks, each of its own shape and too large for every node, come before 50,000 tasks
/// that fit.
pub(crate) fn unschedulable(seed: u64) -> DecideCell {
    let mut maker = Maker::new(seed);
    (0..10_000).for_each(|_| maker.node(4, 32, 0));
    for job in 0..200 {
        maker.job(JobKind::Batch, 100, amounts(9_000 + job, 500 * MIB), |spec| spec.priority = 190);
    }
    for class in 0..10 {
        maker.job(JobKind::Batch, 5_000, amounts(80 + class * 5, (400 + class * 20) * MIB), |_| {});
    }
    maker.done(CellSettings::default())
}

/// Nodes of the memory workload.
const MEMORY_NODES: u32 = 20_000;
/// Tasks per node of the memory workload.
const MEMORY_TASKS: u32 = 20;

/// Visits nodes with facts, labels and commitments. Returns how many.
pub(crate) fn memory_nodes(_seed: u64, mut visit: impl FnMut(Delta)) -> u32 {
    for number in 0..MEMORY_NODES {
        let row = node_row(u64::from(number), 32, 128);
        let ports = (0..MEMORY_TASKS as u16 / 2).map(|port| 20_000 + port).collect();
        let used = amounts(u64::from(MEMORY_TASKS) * 1000, u64::from(MEMORY_TASKS) * GIB);
        let alloc = NodeAlloc { epoch: 1, used, tasks: MEMORY_TASKS, ports, ..NodeAlloc::default() };
        visit(Delta::NodeAlloc { node: row.id, alloc });
        visit(Delta::Node { row });
    }
    MEMORY_NODES
}

/// Visits tasks that run on those nodes, in jobs of a hundred, half of them services that spread. Returns how many.
pub(crate) fn memory_tasks(nodes: u32, mut visit: impl FnMut(Delta)) -> u32 {
    let tasks = nodes * MEMORY_TASKS;
    for job in 0..tasks / 100 {
        let kind = if job.is_multiple_of(2) { JobKind::Service } else { JobKind::Batch };
        let mut spec = JobSpec::defaults(
            named("user"),
            named(&format!("job-{job}")),
            kind,
            vec!["/bin/true".to_owned()],
        );
        spec.count = 100;
        let id = JobId(id_of(u64::from(job)));
        let mut row = job_new(id, &spec, RequestId::default(), 0);
        row.state = JobState::Running;
        visit(Delta::Job { row: row.into(), spec: Some(Box::new(spec)) });
        for index in 0..100 {
            let node = u64::from((job * 100 + index) % nodes);
            let mut row = TaskRow::never_placed(TaskId { job: id, index });
            row.state = TaskState::Running;
            row.node = Some(NodeId(id_of(node)));
            (row.incarnation, row.spec_version, row.revision) = (Incarnation(1), 1, 4);
            visit(Delta::Task { row });
        }
    }
    tasks
}
