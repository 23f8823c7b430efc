//! What plans find is kept for later plans: it changes what deciding costs, and never what is decided.

use borough_model::job::{Constraint, ConstraintOperator, JobKind, PortSpec, Spread};
use borough_model::node::LoadMeasured;
use borough_model::{JobId, JobSpec, TaskId, TaskState};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, Plan, PlanCache, PlanCounters, ScoringProfile, Snapshot, StartOffset, plan_from,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::draft::load;
use crate::naive;
use crate::place::world;
use crate::world::{World, name, node, spec};

/// More than are all looked at.
const NODES: u64 = 320;

/// What happens between two plans.
#[derive(Clone, Debug)]
enum Step {
    /// So many jobs of a form, each of so many tasks.
    Jobs(usize, u32, u32),
    /// So many standing tasks end.
    Ended(usize),
    NodeAdded,
    NodeCordoned(u64, bool),
    NodeRacked(u64, u8),
    NodeResized(u64, u64),
    /// So many nodes from one on are measured.
    NodesLoaded(u64, u64, Option<LoadMeasured>),
    /// The plan that follows is not committed.
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..NODES;
    prop_oneof![
        6 => (0..6usize, 1..40u32, select(vec![1u32, 1, 3])).prop_map(|(form, jobs, tasks)| Step::Jobs(form, jobs, tasks)),
        3 => (1..60usize).prop_map(Step::Ended),
        1 => Just(Step::NodeAdded),
        1 => (at.clone(), any::<bool>()).prop_map(|(at, cordoned)| Step::NodeCordoned(at, cordoned)),
        1 => (at.clone(), 0..4u8).prop_map(|(at, rack)| Step::NodeRacked(at, rack)),
        1 => (at.clone(), 1..NODES, option::of(load())).prop_map(|(at, count, load)| Step::NodesLoaded(at, count, load)),
        1 => (at, 1..6u64).prop_map(|(at, cores)| Step::NodeResized(at, cores)),
        1 => Just(Step::Lost),
    ]
}

fn form(number: usize, job: &str, count: u32) -> JobSpec {
    let racks = |operator, values: &[&str], preference| Constraint {
        attribute: "rack".to_owned(),
        operator,
        values: values.iter().map(|&value| value.to_owned()).collect(),
        preference,
    };
    let user = ["ann", "bob"].get(number % 2).copied().unwrap_or("ann");
    let mut spec = spec(user, job, count, 100 + 300 * number as u64, 64);
    match number {
        1 => spec.constraints = vec![racks(ConstraintOperator::In, &["r0"], None)],
        2 => spec.constraints = vec![racks(ConstraintOperator::NotIn, &["r1"], Some(10))],
        3 => spec.spread = vec![Spread::preferred("rack".to_owned(), 5)],
        4 => spec.task.ports = vec![PortSpec { name: name("http"), number: Some(80) }],
        5 => spec.kind = JobKind::Service,
        _ => {}
    }
    spec
}

struct Cell {
    world: World,
    snapshot: Snapshot,
    cache: PlanCache,
    start_offset: StartOffset,
    jobs: u64,
    lost: bool,
}

impl Cell {
    fn new(profile: ScoringProfile, (part, parts): (u32, u32)) -> Self {
        let mut world = world(profile);
        world.settings.failure_domains = vec!["rack".to_owned()];
        for number in 0..NODES {
            let mut row = node(number, 1 + number % 4, 8);
            row.labels.insert("rack".to_owned(), format!("r{}", number % 16));
            world.node_put(row);
        }
        let snapshot = Snapshot::new(CellSettings { profile, ..world.settings.clone() });
        let start_offset = StartOffset { part, parts, ..StartOffset::undivided(PLAN_SEED) };
        Self { world, snapshot, cache: PlanCache::default(), start_offset, jobs: 0, lost: false }
    }

    fn happens(&mut self, step: &Step) {
        let world = &mut self.world;
        let at = |at: u64| node(at, 1, 1).id;
        match *step {
            Step::Jobs(number, jobs, tasks) => {
                for _ in 0..jobs {
                    self.jobs += 1;
                    world.job_submit(JobId(self.jobs), &form(number, &format!("job-{}", self.jobs), tasks));
                }
            }
            Step::Ended(count) => {
                let resident: Vec<TaskId> =
                    world.tasks.values().filter(|row| row.node.is_some()).map(|row| row.id).collect();
                for task in resident.into_iter().step_by(3).take(count) {
                    world.task_end(task, Some(10), |row| row.state = TaskState::Dead);
                }
            }
            Step::NodeAdded => {
                let number = world.nodes.len() as u64;
                world.node_put(node(number, 4, 8));
            }
            Step::NodeCordoned(number, cordoned) => {
                world.node_change(at(number), |row| row.schedulable = !cordoned)
            }
            Step::NodeRacked(number, rack) => {
                world.node_change(at(number), |row| {
                    drop(row.labels.insert("rack".to_owned(), format!("r{rack}")))
                });
            }
            Step::NodeResized(number, cores) => {
                world.node_change(at(number), |row| row.capacity.cpu_millis = cores * 1000);
            }
            Step::NodesLoaded(first, count, load) => {
                (first..NODES.min(first + count)).for_each(|number| world.load_put(at(number), load));
            }
            Step::Lost => self.lost = true,
        }
    }

    /// Plans with what is kept and with nothing kept, which must come to the same.
    fn planned(&mut self) -> PlanCounters {
        self.world.journal_apply(&mut self.snapshot);
        self.world.now_ms += 7;
        let now_ms = self.world.now_ms;
        let queue = self.snapshot.pending(&|_| true, now_ms, 64);
        let kept = plan_from(self.snapshot.tables(), &queue, now_ms, self.start_offset, &mut self.cache);
        let again =
            plan_from(self.snapshot.tables(), &queue, now_ms, self.start_offset, &mut PlanCache::default());
        let counters = kept.counters;
        let told = |plan: Plan| Plan { counters: PlanCounters::default(), ..plan };
        let (kept, again) = (told(kept), told(again));
        assert_eq!(kept, again);
        naive::plan_checked(&self.world, &queue, &kept);
        if !std::mem::take(&mut self.lost) {
            self.world.commit(&kept);
            self.world.journal_apply(&mut self.snapshot);
        }
        self.snapshot.remember(&kept, now_ms);
        counters
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_the_same_with_and_without_what_earlier_plans_found(
        profile in select(ScoringProfile::all()),
        part in select(vec![(0u32, 1u32), (1, 3), (11, 12)]),
        steps in vec(step(), 1..40),
    ) {
        let mut cell = Cell::new(profile, part);
        for step in &steps {
            cell.happens(step);
            cell.planned();
        }
    }
}

/// Jobs of one task each, of one shape: few nodes are scored for each, however they arrive.
#[test]
fn jobs_of_one_shape_are_planned_as_one_class() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, (0, 1));
    let (mut scored, mut placed, mut made) = (0, 0, 0);
    for batch in 0..20 {
        cell.happens(&Step::Jobs(0, 40, 1));
        let counters = cell.planned();
        assert_eq!(counters.classes, 1);
        made += counters.searches_begun;
        if batch > 0 {
            scored += counters.nodes_scored;
            placed += 40;
        }
    }
    assert_eq!((cell.world.tasks.len(), made), (800, 1));
    assert!(scored <= 3 * placed, "{scored} scored for {placed}");
}

/// What agents measure is followed node by node: no search begins again for it, and none goes by what was measured
/// before.
#[test]
fn a_measurement_is_followed_and_voids_no_search() {
    let mut cell = Cell::new("load-aware".parse().expect("it is listed"), (0, 1));
    let mut made = 0;
    for round in 0..8 {
        cell.happens(&Step::Jobs(0, 8, 1));
        made += cell.planned().searches_begun;
        let cpu_millis = [4_000, 0, 2_000][round % 3];
        let measured = Some(LoadMeasured { cpu_millis, ..LoadMeasured::default() });
        cell.happens(&Step::NodesLoaded(round as u64 % 2 * 160, 160, measured));
    }
    assert_eq!((cell.world.tasks.len(), made), (64, 1));
}

/// A service of one task spreads over nothing, whatever the cell's failure domains.
#[test]
fn services_of_one_task_share_a_search_too() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, (0, 1));
    cell.happens(&Step::Jobs(5, 40, 1));
    assert_eq!(cell.planned().classes, 1);
    cell.happens(&Step::Jobs(5, 4, 3));
    assert_eq!(cell.planned().classes, 4);
}

#[test]
fn a_worker_fills_its_part_first_and_others_when_there_is_no_room() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, (1, 4));
    let mut order: Vec<_> = cell.world.nodes.keys().copied().collect();
    order.sort_unstable();
    let part = order.get(80..160).expect("a quarter").to_vec();
    // Racks divide the nodes otherwise: a job may have no node in the part.
    let mut outside = 0;
    for _ in 0..40 {
        let before = cell.world.tasks.len();
        let room: u64 = part
            .iter()
            .map(|id| {
                let (row, alloc) = cell.world.nodes.get(id).expect("a node");
                (row.capacity.cpu_millis - alloc.used.cpu_millis) / 100
            })
            .sum();
        cell.happens(&Step::Jobs(0, 64, 1));
        cell.planned();
        let placed: Vec<_> = cell.world.tasks.values().filter_map(|row| row.node).collect();
        let beyond = placed.iter().filter(|node| !part.contains(node)).count();
        if room >= 64 {
            assert_eq!(beyond, 0, "{before} placed before, room for {room}");
        }
        outside = beyond;
    }
    assert!(outside > 0, "the part has been filled");
}

/// Jobs of one task each that are held against each other by their labels are one class as well.
#[test]
fn jobs_of_one_rule_share_a_search() {
    use borough_model::job::{Affinity, AffinityKind};
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, (0, 1));
    let label = |key: &str| Constraint {
        attribute: key.to_owned(),
        operator: ConstraintOperator::In,
        values: vec!["green".to_owned()],
        preference: None,
    };
    let submit = |cell: &mut Cell, number: u64, kind| {
        let mut job = form(0, &format!("job-{number}"), 1);
        job.labels.insert("color".to_owned(), "green".to_owned());
        job.affinity = vec![Affinity {
            kind,
            attribute: "node.name".to_owned(),
            jobs: vec![label("color")],
            preference: None,
        }];
        cell.world.job_submit(JobId(number), &job);
    };
    for number in 0..60 {
        submit(&mut cell, 1000 + number, AffinityKind::Apart);
    }
    let counters = cell.planned();
    assert_eq!((counters.classes, cell.world.tasks.len()), (1, 60));
    let nodes: std::collections::BTreeSet<_> = cell.world.tasks.values().filter_map(|row| row.node).collect();
    assert_eq!(nodes.len(), 60, "each has a node of its own");
    assert!(counters.nodes_scored <= 250 + 2 * 60, "{counters:?}");
    // Two rules are two classes.
    for number in 0..10 {
        let kind = if number % 2 == 0 { AffinityKind::Apart } else { AffinityKind::Near };
        submit(&mut cell, 2000 + number, kind);
    }
    assert_eq!(cell.planned().classes, 2);
}
