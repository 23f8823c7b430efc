//! The workloads by name. Node and task shapes are those of the published benchmark of the same name (Kubernetes'
//! `scheduler_perf`, Gödel's and others' papers). Namespaces are users here, and a pod's labels are its job's.

use borough_model::job::{AffinityKind, Spread};
use clap::ValueEnum;

use super::gangs::workload_of_gangs;
use super::workload::{BackgroundLoad, Batch, DeletedTasks, Label, Workload, within};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WorkloadName {
    /// 5,000 nodes, 5,000 tasks before, 50,000 measured
    SchedulingBasic,
    /// 15,000 nodes and one more, to which 30,000 tasks are bound by its name
    SchedulingDaemonset,
    /// 5,000 nodes, 20,000 tasks before, 10,000 measured while work that fits nowhere arrives
    Unschedulable,
    /// 5,000 nodes, 10,000 tasks while an empty node and a task that fits nowhere come in one second, go in the next
    SchedulingWithMixedChurn,
    /// 5,000 nodes of one zone, 10,000 tasks bound to that zone or another
    #[value(alias = "node-affinity")]
    SchedulingNodeAffinity,
    /// 5,000 nodes, 3,000 tasks that each need a node without another of them; 2,000 are measured
    SchedulingPodAntiAffinity,
    /// 5,000 nodes, 5,000 tasks that 1,000 others keep away from their nodes
    SchedulingPodMatchingAntiAffinity,
    /// 5,000 nodes of one zone, 5,000 tasks that must be in the zone of 5,000 others
    SchedulingPodAffinity,
    /// 5,000 nodes, 5,000 tasks that prefer the nodes of 5,000 others
    SchedulingPreferredPodAffinity,
    /// 5,000 nodes, 5,000 tasks that prefer nodes without any of 5,000 others
    SchedulingPreferredPodAntiAffinity,
    /// 6,000 nodes, 4,000 tasks of 100 users, each alone on its node, and 2,000 more that fill the rest
    #[value(name = "required-pod-anti-affinity-with-ns-selector")]
    RequiredPodAntiAffinityWithNsSelector,
    /// 5,000 nodes, 4,000 tasks of 100 users, 2,000 that prefer nodes without any of them
    #[value(name = "preferred-anti-affinity-with-ns-selector")]
    PreferredAntiAffinityWithNsSelector,
    /// 5,000 nodes of one zone, 5,000 tasks of 100 users, 2,000 that must be in their zone
    #[value(name = "required-pod-affinity-with-ns-selector")]
    RequiredPodAffinityWithNsSelector,
    /// 5,000 nodes, 5,000 tasks of 100 users, 5,000 that prefer their nodes
    #[value(name = "preferred-affinity-with-ns-selector")]
    PreferredAffinityWithNsSelector,
    /// 5,000 nodes, 2,000 tasks each of plain, near, apart, rather near and rather apart; 5,000 plain ones are measured
    MixedSchedulingBasePod,
    /// 5,000 nodes in three zones, 5,000 tasks within a skew of 5
    TopologySpreading,
    /// 5,000 nodes in three zones, 5,000 tasks that prefer the emptiest
    PreferredTopologySpreading,
    /// 5,000 nodes in three zones, 50,000 tasks of one service that prefer the emptiest nodes and zones
    DefaultTopologySpreading,
    /// 4,000 nodes and 1,000 tainted ones, 4,000 tasks within a skew of 1 over the nodes they may use
    SchedulingWithNodeInclusionPolicy,
    /// 1 node with room for everything, 10,000 tasks that wait for a job, 20,000 being deleted, 20,000 measured
    SchedulingWhileGated,
    /// 1 node, 10,000 tasks that wait for a job and have affinities to the 20,000 measured ones
    GatedPodsWithPodAffinity,
    /// 5,000 nodes, 5,000 tasks that stay stopping, 5,000 measured
    SchedulingDeletedPodsWithFinalizers,
    /// 500 tasks that wait for the nodes they fit on; 100 come at once
    EventHandlingNodeAdd,
    /// 1,000 nodes full of 4,000 tasks, 1,000 of a higher priority that each take the place of three
    #[value(name = "preemption-basic-1k")]
    PreemptionBasic1k,
    /// The same with 5,000 nodes, 20,000 tasks and 5,000
    #[value(name = "preemption-basic-5k")]
    PreemptionBasic5k,
    /// 5,000 nodes with 20,000 tasks, 5,000 that fit beside them while five a second take the places of others
    PreemptionAsync,
    /// Gödel's service workload: 10,000 nodes, 100,000 tasks
    #[value(name = "services-10k")]
    Services10k,
    /// Gödel's larger cell: 30,000 nodes, tasks offered at 12,000 per second
    #[value(name = "offered-30k")]
    Offered30k,
    /// The cell of k8s-1m: 100,000 nodes, 100,000 tasks
    #[value(name = "nodes-100k")]
    Nodes100k,
    /// 5,000 nodes, 1,000 gangs of 3 tasks
    #[value(name = "gangs-1000x3")]
    Gangs1000x3,
    /// 5,000 nodes, 3,000 gangs of 3 tasks
    #[value(name = "gangs-3000x3")]
    Gangs3000x3,
    /// 5,000 nodes, 3 gangs of 1,000 tasks
    #[value(name = "gangs-3x1000")]
    Gangs3x1000,
    /// 5,000 nodes, 9 gangs of 1,000 tasks
    #[value(name = "gangs-9x1000")]
    Gangs9x1000,
    /// 5,000 nodes, 10 gangs of 5,000 tasks, which gather by holds
    #[value(name = "gangs-10x5000")]
    Gangs10x5000,
    /// 5,000 nodes in 50 racks, 750 gangs of 4 tasks, each in one rack
    #[value(name = "tas-750x4")]
    Tas750x4,
    /// 5,000 nodes in 50 racks, 2,250 gangs of 4 tasks, each in one rack
    #[value(name = "tas-2250x4")]
    Tas2250x4,
    /// 5,000 nodes in 50 racks, 3 gangs of 1,000 tasks, each in one rack
    #[value(name = "tas-3x1000")]
    Tas3x1000,
    /// 5,000 nodes in 50 racks, 9 gangs of 1,000 tasks, each in one rack
    #[value(name = "tas-9x1000")]
    Tas9x1000,
    /// 5,000 nodes, 500 gangs of two roles with 3 tasks each
    #[value(name = "cpg-500x2x3")]
    Cpg500x2x3,
    /// 5,000 nodes, 1,500 gangs of two roles with 3 tasks each
    #[value(name = "cpg-1500x2x3")]
    Cpg1500x2x3,
    /// 10,000 nodes, 100,000 tasks, 0 per cent of their jobs gangs of ten
    #[value(name = "mixed-0")]
    Mixed0,
    /// 10,000 nodes, 100,000 tasks, 25 per cent of their jobs gangs of ten
    #[value(name = "mixed-25")]
    Mixed25,
    /// 10,000 nodes, 100,000 tasks, 50 per cent of their jobs gangs of ten
    #[value(name = "mixed-50")]
    Mixed50,
    /// 10,000 nodes, 100,000 tasks, 75 per cent of their jobs gangs of ten
    #[value(name = "mixed-75")]
    Mixed75,
    /// 10,000 nodes, 100,000 tasks, 100 per cent of their jobs gangs of ten
    #[value(name = "mixed-100")]
    Mixed100,
}

pub(super) fn plain(reference: &'static str, nodes: u32, before: u32, tasks: u32) -> Workload {
    shaped(reference, nodes, vec![Batch::plain("before", before)], Batch::plain("measured", tasks))
}

fn shaped(reference: &'static str, nodes: u32, before: Vec<Batch>, measured: Batch) -> Workload {
    Workload {
        reference,
        nodes,
        rack_nodes: 40,
        zones: 3,
        tainted: 0,
        vast_node: false,
        before,
        measured,
        offered_per_s: None,
        background: BackgroundLoad::default(),
    }
}

const BLUE: Label = Label { key: "color", value: "blue" };
const GREEN: Label = Label { key: "color", value: "green" };
const RED: Label = Label { key: "color", value: "red" };
const YELLOW: Label = Label { key: "color", value: "yellow" };
const NODE: &str = "node.name";

/// With each task alone on its node.
fn alone(batch: Batch) -> Batch {
    batch.label(GREEN).affinity(AffinityKind::Apart, NODE, GREEN, None)
}

/// With all tasks in one zone.
fn zonal(batch: Batch) -> Batch {
    batch.label(BLUE).affinity(AffinityKind::Near, "zone", BLUE, None)
}

/// With a preference for nodes near each other.
fn rather_near(batch: Batch) -> Batch {
    batch.label(RED).affinity(AffinityKind::Near, NODE, RED, Some(1))
}

/// With a preference for nodes apart from each other.
fn rather_apart(batch: Batch) -> Batch {
    batch.label(YELLOW).affinity(AffinityKind::Apart, NODE, YELLOW, Some(1))
}

/// Divided among a hundred users.
fn of_users(batch: Batch) -> Batch {
    Batch { users: 100, ..batch }
}

fn paired(
    reference: &'static str,
    nodes: u32,
    before: u32,
    tasks: u32,
    shape: impl Fn(Batch) -> Batch,
) -> Workload {
    let (before, measured) = (Batch::plain("before", before), Batch::plain("measured", tasks));
    shaped(reference, nodes, vec![shape(before)], shape(measured))
}

fn by_users(
    reference: &'static str,
    nodes: u32,
    before: u32,
    tasks: u32,
    shape: impl Fn(Batch) -> Batch,
) -> Workload {
    let mut workload = paired(reference, nodes, before, tasks, shape);
    workload.before = workload.before.into_iter().map(of_users).collect();
    workload
}

fn spread(reference: &'static str, tasks: u32, spread: Vec<Spread>) -> Workload {
    let measured = Batch { one_job: true, spread, ..Batch::plain("measured", tasks) };
    shaped(reference, 5_000, vec![Batch::plain("before", 5_000)], measured)
}

fn mixed() -> Workload {
    let batch = |prefix| Batch::plain(prefix, 2_000);
    let before = vec![
        batch("base"),
        zonal(batch("near")),
        alone(batch("apart")),
        rather_near(batch("rather-near")),
        rather_apart(batch("rather-apart")),
    ];
    let measured = Batch::plain("measured", 5_000);
    Workload { zones: 1, ..shaped("MixedSchedulingBasePod/5000Nodes_5000Pods", 5_000, before, measured) }
}

fn gated(
    reference: &'static str,
    gated: Batch,
    background: BackgroundLoad,
    before: u32,
    measured: Batch,
) -> Workload {
    let gated = Batch { gated: true, ..gated.singles() };
    let before = vec![gated, Batch::plain("before", before).singles()];
    Workload { vast_node: true, background, ..shaped(reference, 0, before, measured) }
}

/// Tasks of which four fill a node of four cores except for a tenth.
fn low(tasks: u32) -> Batch {
    Batch { cpu_millis: 900, ..Batch::plain("before", tasks) }
}

/// Nodes full of tasks. Each measured task needs three of them evicted. They have no grace.
fn preempting(reference: &'static str, nodes: u32) -> Workload {
    let measured = Batch { cpu_millis: 3_000, ..Batch::plain("measured", nodes).high() };
    let background = BackgroundLoad { confirms: true, ..BackgroundLoad::default() };
    with(background, shaped(reference, nodes, vec![low(4 * nodes)], measured))
}

fn with(background: BackgroundLoad, workload: Workload) -> Workload {
    Workload { background, ..workload }
}

fn zoned(zones: u32, workload: Workload) -> Workload {
    Workload { zones, ..workload }
}

impl WorkloadName {
    /// Its name in result lines.
    pub(super) fn text(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its composition.
    pub(super) fn workload(self) -> Workload {
        workload_of_gangs(self).unwrap_or_else(|| self.workload_of_tasks())
    }

    fn workload_of_tasks(self) -> Workload {
        let zone = |values: &[&str]| vec![within("zone", values)];
        match self {
            Self::SchedulingBasic => plain("SchedulingBasic/5000Nodes_50000Pods", 5_000, 5_000, 50_000),
            Self::SchedulingDaemonset => {
                let mut workload = plain("SchedulingDaemonset/15000Nodes", 15_000, 0, 30_000);
                workload.measured.constraints = vec![within(NODE, &["vast"])];
                Workload { vast_node: true, ..workload }
            }
            Self::Unschedulable => with(
                BackgroundLoad { unschedulable_per_s: 5, ..BackgroundLoad::default() },
                plain("Unschedulable/5kNodes/20kInit/10kPods", 5_000, 20_000, 10_000),
            ),
            Self::SchedulingWithMixedChurn => with(
                BackgroundLoad { churn: true, ..BackgroundLoad::default() },
                plain("SchedulingWithMixedChurn/5000Nodes_10000Pods", 5_000, 0, 10_000),
            ),
            Self::SchedulingNodeAffinity => {
                let bound = |batch| Batch { constraints: zone(&["zone-0", "zone-1"]), ..batch };
                let reference = "SchedulingNodeAffinity/5000Nodes_10000Pods";
                zoned(1, paired(reference, 5_000, 5_000, 10_000, bound))
            }
            Self::TopologySpreading => spread(
                "TopologySpreading/5000Nodes_5000Pods",
                5_000,
                vec![Spread { max_skew: Some(5), ..Spread::preferred("zone".to_owned(), 1) }],
            ),
            Self::PreferredTopologySpreading => spread(
                "PreferredTopologySpreading/5000Nodes_5000Pods",
                5_000,
                vec![Spread::preferred("zone".to_owned(), 100)],
            ),
            Self::DefaultTopologySpreading => {
                // What Kubernetes gives the pods of a service by default.
                let even = [NODE, "zone"].map(|attribute| Spread::preferred(attribute.to_owned(), 100));
                spread("DefaultTopologySpreading/5000Nodes_50000Pods", 50_000, even.into())
            }
            Self::SchedulingWithNodeInclusionPolicy => {
                let rule = Spread { max_skew: Some(1), ..Spread::preferred(NODE.to_owned(), 1) };
                let workload = spread("SchedulingWithNodeInclusionPolicy/5000Nodes", 4_000, vec![rule]);
                Workload { tainted: 1_000, before: Vec::new(), ..workload }
            }
            Self::PreemptionBasic1k => preempting("PreemptionBasic/1000Nodes", 1_000),
            Self::PreemptionBasic5k => preempting("PreemptionBasic/5000Nodes", 5_000),
            Self::PreemptionAsync => with(
                BackgroundLoad { preempting_per_s: 5, confirms: true, ..BackgroundLoad::default() },
                shaped(
                    "PreemptionAsync/5000Nodes",
                    5_000,
                    vec![low(20_000)],
                    Batch::plain("measured", 5_000),
                ),
            ),
            Self::Services10k => plain("Gödel, 10,000 nodes, services", 10_000, 0, 100_000),
            Self::Offered30k => Workload {
                offered_per_s: Some(12_000),
                ..plain("Gödel, 30,000 nodes, offered load", 30_000, 0, 120_000)
            },
            Self::Nodes100k => plain("k8s-1m, 100,000 nodes", 100_000, 0, 100_000),
            _ => self.between_tasks(),
        }
    }

    /// Workloads of tasks with rules about other tasks, and of tasks that must not be placed.
    fn between_tasks(self) -> Workload {
        match self {
            Self::SchedulingPodAntiAffinity => {
                paired("SchedulingPodAntiAffinity/5000Nodes_2000Pods", 5_000, 1_000, 2_000, alone)
            }
            Self::SchedulingPodMatchingAntiAffinity => shaped(
                "SchedulingPodMatchingAntiAffinity/5000Nodes_5000Pods",
                5_000,
                vec![alone(Batch::plain("before", 1_000))],
                Batch::plain("measured", 5_000).label(GREEN),
            ),
            Self::SchedulingPodAffinity => {
                zoned(1, paired("SchedulingPodAffinity/5000Nodes_5000Pods", 5_000, 5_000, 5_000, zonal))
            }
            Self::SchedulingPreferredPodAffinity => {
                paired("SchedulingPreferredPodAffinity/5000Nodes_5000Pods", 5_000, 5_000, 5_000, rather_near)
            }
            Self::SchedulingPreferredPodAntiAffinity => {
                let reference = "SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods";
                paired(reference, 5_000, 5_000, 5_000, rather_apart)
            }
            Self::RequiredPodAntiAffinityWithNsSelector => {
                let reference = "RequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods";
                by_users(reference, 6_000, 4_000, 2_000, alone)
            }
            Self::PreferredAntiAffinityWithNsSelector => {
                let reference = "PreferredAntiAffinityWithNSSelector/5000Nodes_2000Pods";
                by_users(reference, 5_000, 4_000, 2_000, rather_apart)
            }
            Self::RequiredPodAffinityWithNsSelector => {
                let reference = "RequiredPodAffinityWithNSSelector/5000Nodes_2000Pods";
                zoned(1, by_users(reference, 5_000, 5_000, 2_000, zonal))
            }
            Self::PreferredAffinityWithNsSelector => {
                let reference = "PreferredAffinityWithNSSelector/5000Nodes_5000Pods";
                by_users(reference, 5_000, 5_000, 5_000, rather_near)
            }
            Self::MixedSchedulingBasePod => mixed(),
            _ => self.not_to_be_placed(),
        }
    }

    fn not_to_be_placed(self) -> Workload {
        let deleting =
            |deleted_per_s, deleted| BackgroundLoad { deleted_per_s, deleted, ..BackgroundLoad::default() };
        match self {
            Self::SchedulingWhileGated => gated(
                "SchedulingWhileGated/1Node_10000GatedPods",
                Batch::plain("gated", 10_000),
                deleting(50, DeletedTasks::End),
                20_000,
                Batch::plain("measured", 20_000),
            ),
            Self::GatedPodsWithPodAffinity => gated(
                "GatedPodsWithPodAffinityImpactForThroughput",
                Batch::plain("gated", 10_000).label(BLUE).affinity(AffinityKind::Near, NODE, BLUE, None),
                BackgroundLoad::default(),
                0,
                Batch::plain("measured", 20_000).label(BLUE),
            ),
            Self::SchedulingDeletedPodsWithFinalizers => {
                let reference = "SchedulingDeletedPodsWithFinalizers/5000Node_5000DeletingPods";
                let before = vec![Batch::plain("before", 5_000).singles()];
                let workload = shaped(reference, 5_000, before, Batch::plain("measured", 5_000));
                with(deleting(100, DeletedTasks::Stay), workload)
            }
            _ => {
                let measured = Batch { cpu_millis: 700, ..Batch::plain("measured", 500) };
                let background = BackgroundLoad { nodes_late: 100, ..BackgroundLoad::default() };
                with(background, shaped("event_handling/NodeAdd", 0, Vec::new(), measured))
            }
        }
    }
}
