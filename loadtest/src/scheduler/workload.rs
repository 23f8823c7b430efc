//! The parts of a workload: nodes, earlier tasks, measured tasks, and background load.

use std::collections::BTreeMap;

use borough_model::job::{
    Affinity, AffinityKind, After, AfterCondition, Constraint, ConstraintOperator, JobKind, JobSpec,
    RestartMode, Spread,
};
use borough_model::node::NodeFacts;
use borough_model::{Name, Resources};

use super::gangs::GangShape;
use crate::spec::machine_facts;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The job that gated work waits for: it never ends.
pub(super) const GATE: &str = "gate";

/// The priority of `scheduler_perf`'s pods whose template names none.
const PRIORITY_USUAL: u32 = 0;
/// The priority of its pods that preempt, or try to: the unschedulable ones and those of the preemption workloads.
const PRIORITY_HIGH: u32 = 10;

/// A workload.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// The source of its shape.
    pub reference: &'static str,
    /// Nodes of the usual shape.
    pub nodes: u32,
    /// Nodes of a rack.
    pub rack_nodes: u32,
    /// Values of the attribute `zone` over them.
    pub zones: u32,
    /// The first so many nodes are tainted: no new task goes there.
    pub tainted: u32,
    /// Whether to add one node with room for every task.
    pub vast_node: bool,
    /// Batches placed before the measurement, one after the other.
    pub before: Vec<Batch>,
    pub measured: Batch,
    /// Tasks offered per second; `None` is as fast as they can be admitted.
    pub offered_per_s: Option<u32>,
    /// What goes on while it is measured.
    pub background: BackgroundLoad,
}

impl Workload {
    /// Whether its tasks come in rounds: each round needs the cell as it was before. If they went on, they would take
    /// the places that earlier ones leave, and would neither wait for nodes nor preempt.
    pub(super) fn by_rounds(&self) -> bool {
        let preempts = self.measured.priority > PRIORITY_USUAL;
        self.background.nodes_late > 0 || preempts
    }
}

/// What goes on while a workload is measured.
#[derive(Clone, Debug, Default)]
pub(super) struct BackgroundLoad {
    /// Jobs per second of one task that fits nowhere.
    pub unschedulable_per_s: u32,
    /// A node without capacity and a task that fits nowhere come in one second, and go in the next.
    pub churn: bool,
    /// Earlier tasks that are deleted per second, one by one.
    pub deleted_per_s: u32,
    /// What becomes of them.
    pub deleted: DeletedTasks,
    /// Jobs per second of one task that preempts others.
    pub preempting_per_s: u32,
    /// Whether ends of victims are confirmed, as by agents whose tasks have no grace.
    pub confirms: bool,
    /// So many nodes are added only when all measured tasks wait for them.
    pub nodes_late: u32,
}

/// What becomes of a deleted task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DeletedTasks {
    /// It ends, and frees its share of the node.
    #[default]
    End,
    /// Its job is stopped, and it keeps its share: elsewhere this is a pod with a finalizer.
    Stay,
}

/// A label of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub key: &'static str,
    pub value: &'static str,
}

/// Tasks of one shape.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The prefix of its jobs' names.
    pub prefix: &'static str,
    pub tasks: u32,
    /// Users that its jobs are divided among: elsewhere these are namespaces.
    pub users: u32,
    /// Whether all tasks belong to one job, whose rule counts the job's own tasks.
    pub one_job: bool,
    /// Tasks of each of its jobs; `None` is the number that the caller asks for.
    pub tasks_per_job: Option<u32>,
    /// Whether its jobs, or some of them, are gangs.
    pub gang: Option<GangShape>,
    /// Whether they are admitted but not placed: they wait for a job that never ends.
    pub gated: bool,
    pub labels: Vec<(&'static str, &'static str)>,
    pub constraints: Vec<Constraint>,
    pub spread: Vec<Spread>,
    pub affinity: Vec<Affinity>,
    /// Thousandths of a core of each task.
    pub cpu_millis: u64,
    /// The priority of its jobs.
    pub priority: u32,
}

impl Batch {
    /// Pods of `scheduler_perf` that only request 100 thousandths of a core and 500 MiB.
    pub(super) fn plain(prefix: &'static str, tasks: u32) -> Self {
        Self {
            prefix,
            tasks,
            users: 1,
            one_job: false,
            tasks_per_job: None,
            gang: None,
            gated: false,
            labels: Vec::new(),
            constraints: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            cpu_millis: 100,
            priority: PRIORITY_USUAL,
        }
    }

    /// With the priority of a preemptor.
    pub(super) fn high(self) -> Self {
        Self { priority: PRIORITY_HIGH, ..self }
    }

    /// With each task in a job of its own, as pods are.
    pub(super) fn singles(self) -> Self {
        Self { tasks_per_job: Some(1), ..self }
    }

    /// Adds a label.
    pub(super) fn label(mut self, label: Label) -> Self {
        self.labels.push((label.key, label.value));
        self
    }

    /// Adds an affinity to the tasks of any user's jobs that have a label.
    pub(super) fn affinity(
        mut self,
        kind: AffinityKind,
        attribute: &str,
        label: Label,
        preference: Option<u32>,
    ) -> Self {
        let anybody = Constraint { preference: None, ..exists("job.user") };
        let jobs = vec![within(label.key, &[label.value]), anybody];
        self.affinity.push(Affinity { kind, attribute: attribute.to_owned(), jobs, preference });
        self
    }

    /// The spec of one of its jobs.
    pub(super) fn job_spec(&self, number: u32, count: u32) -> anyhow::Result<JobSpec> {
        let user = match self.users {
            0 | 1 => "loadtest".to_owned(),
            users => format!("{}-{}", self.prefix, number % users),
        };
        let name = format!("{}-{number}", self.prefix);
        let memory_bytes = 500 * MIB;
        let resources = Resources {
            cpu_millis: self.cpu_millis,
            memory_bytes,
            disk_bytes: 10 * MIB,
            ..Resources::default()
        };
        let mut spec = spec(&user, &name, count, resources)?;
        spec.labels =
            self.labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        spec.constraints.clone_from(&self.constraints);
        spec.spread.clone_from(&self.spread);
        spec.affinity.clone_from(&self.affinity);
        if let Some(gang) = self.gang {
            gang.shape(number, &mut spec)?;
        }
        spec.priority = self.priority;
        if self.gated {
            spec.after = vec![After { job: Name::new(GATE)?, condition: AfterCondition::Finished }];
        }
        Ok(spec)
    }
}

/// Requires that the attribute or label is one of these.
pub(super) fn within(attribute: &str, values: &[&str]) -> Constraint {
    Constraint {
        attribute: attribute.to_owned(),
        operator: ConstraintOperator::In,
        values: values.iter().map(|&value| value.to_owned()).collect(),
        preference: None,
    }
}

fn exists(attribute: &str) -> Constraint {
    Constraint { operator: ConstraintOperator::Exists, values: Vec::new(), ..within(attribute, &[]) }
}

/// A node of `scheduler_perf`: 4 cores, 32 GiB, here with zones and racks of forty.
pub(super) fn node_facts(number: u32, zones: u32) -> NodeFacts {
    let (rack, zone) = (number / 40, number % zones.max(1));
    let attributes = [("zone", format!("zone-{zone}")), ("rack", format!("rack-{rack}"))];
    facts(4_000, 32 * GIB, attributes.map(|(key, value)| (key.to_owned(), value)).into())
}

/// A node of a workload.
pub(super) fn node_of(workload: &Workload, number: u32) -> NodeFacts {
    let mut facts = node_facts(number, workload.zones);
    let rack = number / workload.rack_nodes.max(1);
    facts.attributes.insert("rack".to_owned(), format!("rack-{rack}"));
    facts
}

/// A node with room for everything.
pub(super) fn vast_facts() -> NodeFacts {
    let attributes = [("zone", "zone-0"), ("rack", "rack-vast")];
    facts(10_000_000, 100_000 * GIB, attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
}

fn facts(cpu_millis: u64, memory_bytes: u64, attributes: BTreeMap<String, String>) -> NodeFacts {
    let capacity = Resources { cpu_millis, memory_bytes, disk_bytes: 500 * GIB, ..Resources::default() };
    NodeFacts { attributes, ..machine_facts(capacity) }
}

/// A node that takes no task: the churned node of `scheduler_perf` has room for no pod.
pub(super) fn churn_facts() -> NodeFacts {
    facts(0, 0, BTreeMap::new())
}

/// The job of [`GATE`]: no node has room for its task, and it preempts nobody.
pub(super) fn gate_spec() -> anyhow::Result<JobSpec> {
    single(Name::new("loadtest")?, GATE, 1_000_000_000, PRIORITY_USUAL)
}

/// A job of one task that no node has room for. It may preempt every task of the usual priority, so that the scheduler
/// searches for victims in vain.
pub(super) fn unschedulable_spec(name: &str) -> anyhow::Result<JobSpec> {
    single(Name::new("loadtest")?, name, 9_000, PRIORITY_HIGH)
}

/// A job of one task that needs three of four tasks of a node evicted.
pub(super) fn preempting_spec(name: &str) -> anyhow::Result<JobSpec> {
    single(Name::new("loadtest-high")?, name, 3_000, PRIORITY_HIGH)
}

fn single(user: Name, name: &str, cpu_millis: u64, priority: u32) -> anyhow::Result<JobSpec> {
    let resources = Resources { cpu_millis, memory_bytes: 500 * MIB, ..Resources::default() };
    Ok(JobSpec { priority, ..spec(user.as_str(), name, 1, resources)? })
}

fn spec(user: &str, name: &str, count: u32, resources: Resources) -> anyhow::Result<JobSpec> {
    let command = ["sleep", "3600"].map(str::to_owned).to_vec();
    let mut spec = JobSpec::defaults(Name::new(user)?, Name::new(name)?, JobKind::Service, command);
    spec.count = count;
    spec.task.resources = resources;
    spec.restart.mode = RestartMode::Always;
    Ok(spec)
}
