//! Generators of nodes, jobs and events that are small enough to get in each other's way.

use borough_model::job::{
    Affinity, AffinityKind, Constraint, ConstraintOperator, JobKind, PortSpec, PreemptionSpec, Spread,
    TaskOverride, Toleration, TolerationOperator,
};
use borough_model::node::{
    CORE_SPEED, Card, CardSelector, LoadMeasured, NumaDomain, Taint, TaintEffect, Within, cards_counted,
    core_speed, domains_counted,
};
use borough_model::queue::{QueueSpec, SHARE_WHOLE};
use borough_model::{JobSpec, NodeRow, Resources};
use borough_scheduler_core::{CellSettings, Overcommit, Queueing, QueueingPolicy, ScoringProfile};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::stored::{name, node};

/// An event in a cell.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    NodeAdded(RandomNode),
    /// The n-th node is cordoned or uncordoned. Indexes are modulo the number of nodes.
    NodeCordoned(usize, bool),
    NodeDrained(usize),
    NodeLost(usize),
    NodeBack(usize),
    NodeRacked(usize, u8),
    NodeResized(usize, u64),
    NodeTainted(usize, Option<Taint>),
    NodeLoaded(usize, Option<LoadMeasured>),
    Submitted(Box<RandomJob>),
    /// Several jobs are submitted before the next plan.
    SubmittedTogether(Vec<RandomJob>),
    JobStopped(usize),
    JobCounted(usize, u32),
    /// The n-th placed task ends: it crashed and backs off, or it is done.
    TaskCrashed(usize, u16),
    TaskDone(usize),
    /// The n-th stopping task has exited.
    TaskGone(usize),
    JobPrioritized(usize, u32),
    TimePassed(u16),
    /// The commit of the plan that follows is lost.
    CommitLost,
    /// The plan that follows is cut short.
    Limited(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct RandomNode {
    pub cores: u64,
    pub gib: u64,
    pub gpus: u64,
    /// The models of its cards. `None`: the node only counts them.
    pub models: Option<Vec<&'static str>>,
    pub rack: Option<u8>,
    pub ports: u16,
    pub generation: Option<u8>,
    pub taint: Option<Taint>,
    pub packages: Vec<&'static str>,
    /// Processors and GiB of each NUMA domain. A socket has two domains.
    pub domains: Vec<(u32, u64)>,
    /// The speed of its cores.
    pub speed: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct RandomJob {
    pub user: &'static str,
    pub priority: u32,
    pub count: u32,
    pub min_member: u32,
    pub service: bool,
    pub cpu_millis: u64,
    pub mib: u64,
    pub gpu_millis: u64,
    pub gpu_model: Option<&'static str>,
    pub within: Option<Within>,
    pub packages: Vec<&'static str>,
    pub exclusive_cores: bool,
    pub own: Option<(u32, u64)>,
    pub ports_fixed: Option<u16>,
    pub ports_dynamic: usize,
    pub constraints: Vec<Constraint>,
    pub spread: Option<(&'static str, u32)>,
    /// The limits of its spread: skew, tasks, per cent.
    pub limits: (Option<u32>, Option<u32>, Option<u32>),
    pub app: Option<&'static str>,
    pub affinity: Vec<Affinity>,
    pub tolerations: Vec<Toleration>,
    pub preemption: Option<PreemptionSpec>,
}

impl RandomNode {
    pub(crate) fn row(&self, number: u64) -> NodeRow {
        let mut row = node(number, self.cores, self.gib);
        if self.gpus > 0 {
            row.capacity.device_millis.insert("gpu".to_owned(), self.gpus * 1000);
        }
        if let Some(models) = &self.models {
            let card = |(place, model): (u32, &&str)| Card {
                kind: "gpu".to_owned(),
                place,
                id: format!("GPU-{place}"),
                model: (*model).to_owned(),
                memory_bytes: 0,
            };
            row.cards = (0..).zip(models).map(card).collect();
            row.capacity = cards_counted(&row.capacity, &row.cards);
        }
        let domain = |(place, &(cpus, gib)): (u32, &(u32, u64))| NumaDomain {
            place,
            socket: place / 2,
            cpus: (place * 100..place * 100 + cpus).collect(),
            memory_bytes: gib << 30,
        };
        row.domains = (0..).zip(&self.domains).map(domain).collect();
        let explanation = self.speed.map(|speed| (CORE_SPEED.to_owned(), speed.to_string()));
        row.attributes.extend(explanation);
        row.capacity = domains_counted(&row.capacity, &row.domains, core_speed(&row.attributes));
        row.port_last = row.port_first + self.ports;
        if let Some(rack) = self.rack {
            row.labels.insert("rack".to_owned(), format!("r{rack}"));
        }
        if let Some(generation) = self.generation {
            row.attributes.insert("generation".to_owned(), generation.to_string());
        }
        row.taints.extend(self.taint.clone());
        row.packages = self.packages.iter().map(|&package| package.to_owned()).collect();
        row
    }
}

impl RandomJob {
    pub(crate) fn spec(&self, number: usize) -> JobSpec {
        let kind = if self.service { JobKind::Service } else { JobKind::Batch };
        let job = name(&format!("job-{number}"));
        let mut spec = JobSpec::defaults(name(self.user), job, kind, vec!["true".to_owned()]);
        spec.priority = self.priority;
        spec.count = self.count;
        spec.min_member = self.min_member.min(self.count);
        let memory_bytes = self.mib << 20;
        spec.task.resources = Resources { cpu_millis: self.cpu_millis, memory_bytes, ..Resources::default() };
        if self.gpu_millis > 0 {
            spec.task.resources.device_millis.insert("gpu".to_owned(), self.gpu_millis);
            let of = |model: &str| CardSelector { models: vec![model.to_owned()], memory_bytes_min: 0 };
            let selector = self.gpu_model.map(|model| ("gpu".to_owned(), of(model)));
            spec.task.device_selectors = selector.into_iter().collect();
        }
        spec.task.within = self.within;
        spec.task.exclusive_cores = self.exclusive_cores;
        spec.task.packages = self.packages.iter().map(|&package| package.to_owned()).collect();
        if let Some((index, cpu_millis)) = self.own {
            let resources = Some(Resources { cpu_millis, ..spec.task.resources.clone() });
            spec.overrides.insert(index, TaskOverride { resources, ..TaskOverride::default() });
        }
        let fixed = self.ports_fixed.map(|number| PortSpec { name: name("fixed"), number: Some(number) });
        let dynamic = (0..self.ports_dynamic)
            .map(|number| PortSpec { name: name(&format!("p{number}")), number: None });
        spec.task.ports = dynamic.chain(fixed).collect();
        spec.constraints.clone_from(&self.constraints);
        let (max_skew, tasks_max, percent_max) = self.limits;
        let spread = |(attribute, weight): (&str, u32)| Spread {
            max_skew,
            tasks_max,
            percent_max,
            ..Spread::preferred(attribute.to_owned(), weight)
        };
        spec.spread = self.spread.into_iter().map(spread).collect();
        spec.labels = self.app.iter().map(|app| ("app".to_owned(), (*app).to_owned())).collect();
        spec.affinity.clone_from(&self.affinity);
        spec.tolerations.clone_from(&self.tolerations);
        spec.preemption = self.preemption;
        spec
    }
}

fn taint() -> impl Strategy<Value = Taint> {
    let effects = TaintEffect::NAMES.map(|(_, effect)| effect).to_vec();
    (
        select(vec!["own", "old", "pressure/memory", "pressure/disk"]),
        select(vec!["", "x"]),
        select(effects),
        0..9i64,
    )
        .prop_map(|(key, value, effect, added_ms)| Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect,
            added_ms,
        })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    (taint(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(taint, exists, of_effect, every)| {
        let operator = if exists { TolerationOperator::Exists } else { TolerationOperator::Equal };
        Toleration {
            key: if exists && every { String::new() } else { taint.key },
            operator,
            value: if exists { String::new() } else { taint.value },
            effect: of_effect.then_some(taint.effect),
            evict_after_ms: None,
        }
    })
}

/// A subset of the values.
fn sample_of(values: Vec<&'static str>) -> impl Strategy<Value = Vec<&'static str>> {
    let most = values.len();
    proptest::sample::subsequence(values, 0..=most)
}

pub(crate) fn random_node() -> impl Strategy<Value = RandomNode> {
    let size = (1..=4u64, 1..=4u64, prop_oneof![3 => Just(0u64), 1 => 1..=2u64]);
    let taint = option::weighted(0.2, taint());
    let models = option::weighted(0.3, vec(select(vec!["a", "b"]), 1..4));
    let domains = prop_oneof![2 => Just(Vec::new()), 1 => vec((0..3u32, 0..3u64), 1..4)];
    let domains = (domains, option::weighted(0.2, select(vec![500u64, 1000, 2000])));
    let packages = sample_of(vec!["a/1", "b/2"]);
    (size, models, domains, option::of(0..3u8), 0..6u16, option::of(1..12u8), taint, packages).prop_map(
        |((cores, gib, gpus), models, (domains, speed), rack, ports, generation, taint, packages)| {
            RandomNode { packages, speed, cores, gib, gpus, models, domains, rack, ports, generation, taint }
        },
    )
}

fn constraint() -> impl Strategy<Value = Constraint> {
    use ConstraintOperator::{Absent, Exists, GreaterThan, In, LessThan, NotIn};
    let racks = |values: Vec<u8>| values.into_iter().map(|rack| format!("r{rack}")).collect::<Vec<_>>();
    let rack = (select(vec![In, NotIn]), vec(0..4u8, 1..3))
        .prop_map(move |(operator, values)| ("rack", operator, racks(values)));
    let there = (select(vec!["rack", "generation", "nothing", "package/a/1"]), select(vec![Exists, Absent]))
        .prop_map(|(attribute, operator)| (attribute, operator, Vec::new()));
    let number = (select(vec![GreaterThan, LessThan]), 0..12u8)
        .prop_map(|(operator, value)| ("generation", operator, vec![value.to_string()]));
    let named = (select(vec![In, NotIn]), 0..6u8)
        .prop_map(|(operator, number)| ("node.name", operator, vec![format!("node-{number}")]));
    (prop_oneof![3 => rack, 1 => there, 1 => number, 1 => named], option::weighted(0.4, 1..=100u32)).prop_map(
        |((attribute, operator, values), preference)| Constraint {
            attribute: attribute.to_owned(),
            operator,
            values,
            preference,
        },
    )
}

fn affinity() -> impl Strategy<Value = Affinity> {
    use ConstraintOperator::{Exists, In, NotIn};
    let text = |operator, values: Vec<&str>| {
        let values = values.into_iter().map(str::to_owned).collect();
        Constraint { attribute: "app".to_owned(), operator, values, preference: None }
    };
    let jobs = select(vec![
        text(In, vec!["a"]),
        text(In, vec!["b", "a"]),
        text(NotIn, vec!["a"]),
        text(Exists, vec![]),
        Constraint { attribute: "job.name".to_owned(), ..text(In, vec!["job-0", "job-1"]) },
    ]);
    let anybody = Constraint { attribute: "job.user".to_owned(), ..text(Exists, vec![]) };
    let kind = select(vec![AffinityKind::Near, AffinityKind::Apart]);
    let attribute = select(vec!["rack", "node.name", "nothing"]);
    (kind, attribute, jobs, any::<bool>(), option::weighted(0.3, 1..=100u32)).prop_map(
        move |(kind, attribute, one, all_users, preference)| Affinity {
            kind,
            attribute: attribute.to_owned(),
            jobs: if all_users { vec![anybody.clone(), one] } else { vec![one] },
            preference,
        },
    )
}

fn preemption() -> impl Strategy<Value = PreemptionSpec> {
    let never = prop_oneof![3 => Just(false), 1 => Just(true)];
    (never, option::of(0..500u64), option::of(0..4u32))
        .prop_map(|(never, notice_max_ms, down_max)| PreemptionSpec { never, notice_max_ms, down_max })
}

pub(crate) fn random_job() -> impl Strategy<Value = RandomJob> {
    let owner = (select(vec!["ann", "bob", "cat"]), select(vec![50, 60, 120, 150, 250, 260, 350]));
    let size = (0..7u32, prop_oneof![3 => Just(1u32), 1 => 2..5u32], any::<bool>());
    let need =
        (0..=20u64, 0..=12u64, prop_oneof![3 => Just(0u64), 2 => select(vec![250u64, 300, 500, 1000, 2000])]);
    let ports = (option::weighted(0.15, select(vec![80u16, 20001])), select(vec![0usize, 0, 0, 1, 2]));
    let own = option::weighted(0.2, (0..4u32, select(vec![100u64, 1500, 9000])));
    let where_ = (
        vec(constraint(), 0..3),
        option::weighted(0.5, (select(vec!["rack", "node.name", "nothing"]), 1..=100u32)),
        (
            option::weighted(0.2, 1..3u32),
            option::weighted(0.2, 1..4u32),
            option::weighted(0.2, select(vec![1u32, 25, 40, 100])),
        ),
        option::weighted(0.6, select(vec!["a", "b", "c"])),
        prop_oneof![2 => Just(Vec::new()), 1 => vec(affinity(), 1..3)],
        (
            vec(toleration(), 0..3),
            option::weighted(0.3, select(vec!["a", "b", "c"])),
            option::weighted(0.15, select(Within::NAMES.map(|(_, within)| within).to_vec())),
            sample_of(vec!["a/1", "c/3"]),
            option::weighted(0.3, preemption()),
            prop::bool::weighted(0.1),
        ),
    );
    (owner, size, need, ports, own, where_).prop_map(
        |((user, priority), (count, min_member, service), (cpu, mib, gpu_millis), ports, own, where_)| {
            RandomJob {
                user,
                priority,
                count,
                min_member,
                service,
                cpu_millis: cpu * 100,
                mib: mib * 128,
                gpu_millis,
                gpu_model: where_.5.1,
                within: where_.5.2,
                packages: where_.5.3,
                exclusive_cores: where_.5.5,
                own,
                ports_fixed: ports.0,
                ports_dynamic: ports.1,
                constraints: where_.0,
                spread: where_.1,
                limits: where_.2,
                app: where_.3,
                affinity: where_.4,
                tolerations: where_.5.0,
                preemption: where_.5.4,
            }
        },
    )
}

/// The measured load of a small node.
pub(crate) fn load() -> impl Strategy<Value = LoadMeasured> {
    let amounts = (0..5_000u64, 0..8u64, 0..5_000u64, 0..8u64);
    amounts.prop_map(|(cpu_millis, gib, covered_cpu_millis, covered_gib)| LoadMeasured {
        cpu_millis,
        memory_bytes: gib << 30,
        covered_cpu_millis,
        covered_memory_bytes: covered_gib << 30,
    })
}

/// An event of a cell in which `narrow` shapes each submitted job.
pub(crate) fn event(narrow: fn(RandomJob) -> RandomJob) -> impl Strategy<Value = Event> {
    let at = 0..64usize;
    prop_oneof![
        2 => random_node().prop_map(Event::NodeAdded),
        1 => (at.clone(), any::<bool>()).prop_map(|(at, cordoned)| Event::NodeCordoned(at, cordoned)),
        1 => at.clone().prop_map(Event::NodeDrained),
        1 => at.clone().prop_map(Event::NodeLost),
        2 => at.clone().prop_map(Event::NodeBack),
        1 => (at.clone(), 0..3u8).prop_map(|(at, rack)| Event::NodeRacked(at, rack)),
        1 => (at.clone(), 1..=5u64).prop_map(|(at, cores)| Event::NodeResized(at, cores)),
        1 => (at.clone(), option::of(taint())).prop_map(|(at, taint)| Event::NodeTainted(at, taint)),
        2 => (at.clone(), option::of(load())).prop_map(|(at, load)| Event::NodeLoaded(at, load)),
        8 => random_job().prop_map(move |random| Event::Submitted(Box::new(narrow(random)))),
        3 => vec(random_job().prop_map(narrow), 2..6).prop_map(Event::SubmittedTogether),
        1 => at.clone().prop_map(Event::JobStopped),
        2 => (at.clone(), 0..8u32).prop_map(|(at, count)| Event::JobCounted(at, count)),
        3 => (at.clone(), 0..5000u16).prop_map(|(at, pause_ms)| Event::TaskCrashed(at, pause_ms)),
        3 => at.clone().prop_map(Event::TaskGone),
        1 => (at.clone(), select(vec![40u32, 130, 240, 330])).prop_map(|(at, to)| Event::JobPrioritized(at, to)),
        3 => at.prop_map(Event::TaskDone),
        3 => (0..45_000u16).prop_map(Event::TimePassed),
        1 => Just(Event::CommitLost),
    ]
}

/// The same, with plans that are cut short.
pub(crate) fn event_or_cut(narrow: fn(RandomJob) -> RandomJob) -> impl Strategy<Value = Event> {
    prop_oneof![30 => event(narrow), 1 => (1..4usize).prop_map(Event::Limited)]
}

/// Random settings of a cell in which queues reclaim nothing.
pub(crate) fn settings_without_reclaim() -> impl Strategy<Value = CellSettings> {
    settings().prop_map(|settings| CellSettings { reclaim: false, ..settings })
}

/// Random settings of a cell in which queues reclaim what they are guaranteed.
pub(crate) fn settings_with_reclaim() -> impl Strategy<Value = CellSettings> {
    settings().prop_map(|settings| CellSettings {
        reclaim: true,
        queueing: queueing_of("hierarchical"),
        ..settings
    })
}

/// Random settings of a cell.
pub(crate) fn settings() -> impl Strategy<Value = CellSettings> {
    let profile = select(ScoringProfile::all());
    let domains =
        select(vec![vec![], vec!["rack".to_owned()], vec!["node.name".to_owned(), "rack".to_owned()]]);
    let queueing = select(vec!["round-robin", "fifo", "drf", "fair-share:ann=3", "hierarchical"]);
    (profile, domains, select(vec![1000u32, 1500]), queueing, (select(vec![0u64, 0, 5_000]), any::<bool>()))
        .prop_map(|(profile, failure_domains, memory_per_mille, queueing, (fresh_start_ms, reclaim))| {
            CellSettings {
                overcommit: Overcommit { memory_per_mille, ..Overcommit::default() },
                failure_domains,
                profile,
                queueing: queueing_of(queueing),
                fresh_start_ms,
                reclaim,
            }
        })
}

/// A queueing policy. The hierarchical one gets queues for the generated users.
fn queueing_of(policy: &str) -> Queueing {
    let queue = |path: &str, weight, guaranteed_per_mille| QueueSpec {
        path: path.to_owned(),
        weight,
        guaranteed_per_mille,
        limit_per_mille: SHARE_WHOLE,
    };
    let queueing: Queueing = policy.parse().expect("a policy");
    let queues = match queueing.policy {
        QueueingPolicy::Hierarchical => vec![
            queue("lab", 2, 600),
            queue("lab/ann", 1, 350),
            queue("lab/bob", 3, 0),
            queue("default", 1, 150),
        ],
        _ => Vec::new(),
    };
    Queueing { queues, ..queueing }
}
