//! Candidate caches between plans change what deciding costs, and never what is decided.

use borough_model::job::{Constraint, ConstraintOperator, JobKind, PortSpec, Spread};
use borough_model::node::{LoadMeasured, Taint, TaintEffect, package_attribute};
use borough_model::{JobId, JobSpec, TaskId, TaskState};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, Plan, PlanCache, PlanCounters, ScoringProfile, Snapshot, StartOffset, plan_from,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::generators::load;
use crate::place::stored_cell;
use crate::reference;
use crate::stored::{StoredCell, name, node, spec};

/// More nodes than a search examines completely.
const NODES: u64 = 320;

/// An event between two plans.
#[derive(Clone, Debug)]
enum Step {
    /// Submits jobs of a form: the form, the number of jobs, and the tasks of each.
    Jobs(usize, u32, u32),
    /// So many placed tasks end.
    Ended(usize),
    NodeAdded,
    NodeCordoned(u64, bool),
    NodeRacked(u64, u8),
    NodeResized(u64, u64),
    /// A package is installed on a node, or removed from it.
    NodePackaged(u64, &'static str),
    NodeTainted(u64, Option<TaintEffect>),
    /// The same row with a newer revision.
    NodeRewritten(u64),
    /// So many nodes from one on are measured.
    NodesLoaded(u64, u64, Option<LoadMeasured>),
    /// The plan that follows is not committed.
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..NODES;
    prop_oneof![
        6 => (0..FORMS, 1..40u32, select(vec![1u32, 1, 3])).prop_map(|(form, jobs, tasks)| Step::Jobs(form, jobs, tasks)),
        3 => (1..60usize).prop_map(Step::Ended),
        1 => Just(Step::NodeAdded),
        1 => (at.clone(), any::<bool>()).prop_map(|(at, cordoned)| Step::NodeCordoned(at, cordoned)),
        1 => (at.clone(), 0..4u8).prop_map(|(at, rack)| Step::NodeRacked(at, rack)),
        1 => (at.clone(), 1..NODES, option::of(load())).prop_map(|(at, count, load)| Step::NodesLoaded(at, count, load)),
        1 => (at.clone(), 1..6u64).prop_map(|(at, cores)| Step::NodeResized(at, cores)),
        2 => (at.clone(), select(vec!["web/1", "data/7"])).prop_map(|(at, package)| Step::NodePackaged(at, package)),
        1 => (at.clone(), option::of(select(vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule])))
            .prop_map(|(at, effect)| Step::NodeTainted(at, effect)),
        1 => at.prop_map(Step::NodeRewritten),
        1 => Just(Step::Lost),
    ]
}

/// The number of forms of jobs.
const FORMS: usize = 8;

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
        6 => spec.task.packages = vec!["web/1".to_owned(), "data/7".to_owned()],
        7 => spec.constraints = vec![racks(ConstraintOperator::In, &["r0", "r2"], None), packaged("data/7")],
        _ => {}
    }
    spec
}

/// A hard constraint on an installed package.
fn packaged(package: &str) -> Constraint {
    Constraint {
        attribute: package_attribute(package),
        operator: ConstraintOperator::Exists,
        values: Vec::new(),
        preference: None,
    }
}

struct Cell {
    stored: StoredCell,
    snapshot: Snapshot,
    cache: PlanCache,
    start_offset: StartOffset,
    jobs: u64,
    lost: bool,
}

impl Cell {
    fn new(profile: ScoringProfile, part: u32, parts: u32) -> Self {
        Self::sized(NODES, profile, part, parts)
    }

    fn sized(nodes: u64, profile: ScoringProfile, part: u32, parts: u32) -> Self {
        let mut stored = stored_cell(profile);
        stored.settings.failure_domains = vec!["rack".to_owned()];
        for number in 0..nodes {
            let mut row = node(number, 1 + number % 4, 8);
            row.labels.insert("rack".to_owned(), format!("r{}", number % 16));
            stored.node_put(row);
        }
        let snapshot = Snapshot::new(CellSettings { profile, ..stored.settings.clone() });
        let start_offset = StartOffset { part, parts, ..StartOffset::undivided(PLAN_SEED) };
        Self { stored, snapshot, cache: PlanCache::default(), start_offset, jobs: 0, lost: false }
    }

    fn happens(&mut self, step: &Step) {
        let stored = &mut self.stored;
        let at = |at: u64| node(at, 1, 1).id;
        match *step {
            Step::Jobs(number, jobs, tasks) => {
                for _ in 0..jobs {
                    self.jobs += 1;
                    stored.job_submit(JobId(self.jobs), &form(number, &format!("job-{}", self.jobs), tasks));
                }
            }
            Step::Ended(count) => {
                let resident: Vec<TaskId> =
                    stored.tasks.values().filter(|row| row.node.is_some()).map(|row| row.id).collect();
                for task in resident.into_iter().step_by(3).take(count) {
                    stored.task_end(task, Some(10), |row| row.state = TaskState::Dead);
                }
            }
            Step::NodeAdded => {
                let number = stored.nodes.len() as u64;
                stored.node_put(node(number, 4, 8));
            }
            Step::NodeCordoned(number, cordoned) => {
                stored.node_change(at(number), |row| row.schedulable = !cordoned)
            }
            Step::NodeRacked(number, rack) => {
                stored.node_change(at(number), |row| {
                    drop(row.labels.insert("rack".to_owned(), format!("r{rack}")))
                });
            }
            Step::NodeResized(number, cores) => {
                stored.node_change(at(number), |row| row.capacity.cpu_millis = cores * 1000);
            }
            Step::NodePackaged(number, package) => stored.node_change(at(number), |row| {
                if !row.packages.remove(package) {
                    row.packages.insert(package.to_owned());
                }
            }),
            Step::NodeTainted(number, effect) => stored.node_change(at(number), |row| {
                let taint =
                    |effect| Taint { key: "slow".to_owned(), value: String::new(), effect, added_ms: 1 };
                row.taints = effect.map(taint).into_iter().collect();
            }),
            Step::NodeRewritten(number) => stored.node_change(at(number), |_| {}),
            Step::NodesLoaded(first, count, load) => {
                (first..NODES.min(first + count)).for_each(|number| stored.load_put(at(number), load));
            }
            Step::Lost => self.lost = true,
        }
    }

    /// Plans with the cache and without one. Both plans must be equal.
    fn planned(&mut self) -> PlanCounters {
        self.stored.journal_apply(&mut self.snapshot);
        self.stored.now_ms += 7;
        let now_ms = self.stored.now_ms;
        let queue = self.snapshot.pending(&|_| true, now_ms, 64);
        let cached = plan_from(self.snapshot.tables(), &queue, now_ms, self.start_offset, &mut self.cache);
        let again =
            plan_from(self.snapshot.tables(), &queue, now_ms, self.start_offset, &mut PlanCache::default());
        let counters = cached.counters;
        let explanation = |plan: Plan| Plan { counters: PlanCounters::default(), ..plan };
        let (cached, again) = (explanation(cached), explanation(again));
        assert_eq!(cached, again);
        reference::plan_checked(&self.stored, &queue, &cached);
        if !std::mem::take(&mut self.lost) {
            self.stored.commit(&cached);
            self.stored.journal_apply(&mut self.snapshot);
        }
        self.snapshot.remember(&cached, now_ms);
        counters
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_the_same_with_and_without_what_earlier_plans_found(
        profile in select(ScoringProfile::all()),
        part in select(vec![(0u32, 1u32), (1, 3), (11, 12)]),
        bytes_max in select(vec![8 << 10, 32 << 10, usize::MAX]),
        steps in vec(step(), 1..40),
    ) {
        let mut cell = Cell::new(profile, part.0, part.1);
        cell.cache = PlanCache::bounded(bytes_max);
        for step in &steps {
            cell.happens(step);
            cell.planned();
            prop_assert!(cell.cache.bytes() <= bytes_max);
        }
    }
}

/// Jobs of one task each, with one shape: few nodes are scored for each, in whatever order they arrive.
#[test]
fn jobs_of_one_shape_are_planned_as_one_class() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
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
    assert_eq!((cell.stored.tasks.len(), made), (800, 1));
    assert!(scored <= 3 * placed, "{scored} scored for {placed}");
}

/// A measurement is followed node by node. No search begins again for it, and none uses the old measurement.
#[test]
fn a_measurement_is_followed_and_voids_no_search() {
    let mut cell = Cell::new("load-aware".parse().expect("it is listed"), 0, 1);
    let mut made = 0;
    for round in 0..8 {
        cell.happens(&Step::Jobs(0, 8, 1));
        made += cell.planned().searches_begun;
        let cpu_millis = [4_000, 0, 2_000][round % 3];
        let measured = Some(LoadMeasured { cpu_millis, ..LoadMeasured::default() });
        cell.happens(&Step::NodesLoaded(round as u64 % 2 * 160, 160, measured));
    }
    assert_eq!((cell.stored.tasks.len(), made), (64, 1));
}

/// Labels, packages, taints, cordons, capacities and new revisions of nodes are followed node by node, with every
/// policy. No more searches begin than without the changes.
#[test]
fn a_change_of_one_node_voids_no_search() {
    let begun = |profile: ScoringProfile, changes: bool| {
        // The means of these policies move with each capacity, and so do all their scores.
        let means = ["dynamic-weight", "fahp"].iter().any(|name| name.parse() == Ok(profile));
        let mut cell = Cell::new(profile, 0, 1);
        let mut begun = 0;
        for round in 0..24_u64 {
            for number in [0, 1, 2, 6] {
                cell.happens(&Step::Jobs(number, 1, 1));
            }
            begun += cell.planned().searches_begun;
            let at = round * 13 % NODES;
            let change = match round % 6 {
                0 => Step::NodePackaged(at, "web/1"),
                1 => Step::NodeRacked(at, (round % 4) as u8),
                2 => Step::NodeTainted(at, Some(TaintEffect::PreferNoSchedule)),
                3 if !means => Step::NodeCordoned(at, true),
                4 if !means => Step::NodeResized(at, 3),
                _ => Step::NodeRewritten(at),
            };
            if changes {
                cell.happens(&change);
            }
        }
        begun
    };
    for profile in ScoringProfile::all() {
        let (with, without) = (begun(profile, true), begun(profile, false));
        assert_eq!(with, without, "{profile:?}");
    }
}

/// A class that looks at no package examines and scores no node again after one was installed on all of them.
#[test]
fn a_class_ignores_attributes_that_it_does_not_look_at() {
    let scored = |number: usize| {
        let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
        let plan = |cell: &mut Cell| {
            cell.happens(&Step::Jobs(number, 1, 1));
            let counters = cell.planned();
            (counters.nodes_examined, counters.searches_reused)
        };
        plan(&mut cell);
        let quiet = plan(&mut cell);
        (0..NODES).for_each(|at| cell.happens(&Step::NodePackaged(at, "web/1")));
        (quiet, plan(&mut cell))
    };
    let (quiet, after) = scored(0);
    assert_eq!(quiet, after);
    // One that looks at it does.
    let (quiet, after) = scored(6);
    assert!(after.0 > quiet.0 + 40, "{quiet:?}, then {after:?}");
}

/// A search of the nodes with a label follows the label. A node that gets it is examined once, as if it had always had
/// it. One that loses it is no longer chosen. No other node is examined again.
#[test]
fn a_search_of_listed_nodes_follows_the_label() {
    for profile in [ScoringProfile::BEST_FIT, ScoringProfile::WORST_FIT] {
        let mut cell = Cell::new(profile, 0, 1);
        let plan = |cell: &mut Cell| {
            cell.happens(&Step::Jobs(1, 1, 1));
            let PlanCounters { searches_reused, nodes_examined, .. } = cell.planned();
            (searches_reused, nodes_examined)
        };
        plan(&mut cell);
        assert_eq!(plan(&mut cell), (1, 1), "{profile}: the node with the first task");
        for at in [1, 150, 318] {
            cell.happens(&Step::NodeRacked(at, 0));
            assert_eq!(plan(&mut cell), (1, 2), "{profile}: {at} has the label now");
            cell.happens(&Step::NodeRacked(at, 3));
            assert!(plan(&mut cell).1 <= 2, "{profile}: {at} has lost the label");
        }
    }
}

/// A search that has not come to the end of its list continues where it stopped, though nodes before have left the list
/// or joined it. So it finds all others: the plans fill every node with the label.
#[test]
fn a_search_of_listed_nodes_continues_after_the_list_has_changed() {
    let mut cell = Cell::sized(1_200, ScoringProfile::BEST_FIT, 0, 1);
    cell.happens(&Step::Jobs(1, 1, 1));
    cell.planned();
    (0..40).for_each(|place| cell.happens(&Step::NodeRacked(place * 16, 3)));
    cell.happens(&Step::Jobs(1, 1, 1));
    cell.planned();
    (0..20).for_each(|place| cell.happens(&Step::NodeRacked(place * 16, 0)));
    for _ in 0..4 {
        cell.happens(&Step::Jobs(1, 60, 1));
        let _ = cell.planned();
    }
    // 55 of the 75 nodes have the label in the end. Each has one core, for two tasks.
    assert!(cell.stored.tasks.len() >= 110, "{} placed", cell.stored.tasks.len());
}

/// Measurements concern only policies that go by load.
#[test]
fn a_measurement_of_every_node_costs_other_policies_nothing() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
    let plan = |cell: &mut Cell| {
        cell.happens(&Step::Jobs(0, 1, 1));
        cell.planned().nodes_examined
    };
    plan(&mut cell);
    let quiet = plan(&mut cell);
    cell.happens(&Step::NodesLoaded(0, NODES, Some(LoadMeasured::default())));
    assert_eq!(plan(&mut cell), quiet);
}

/// More classes take turns than the cache has bytes for. It keeps to its bytes, and those that it keeps serve: an order
/// by last use would drop each class before its next turn.
#[test]
fn a_cache_that_is_too_small_for_all_classes_serves_some() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
    let bytes_max = 128 << 10;
    cell.cache = PlanCache::bounded(bytes_max);
    let (classes, rounds) = (60, 8);
    let mut reused = 0;
    for round in 0..rounds {
        for class in 0..classes {
            let job = JobId(round * classes + class + 1);
            cell.stored.job_submit(job, &spec("ann", &format!("job-{}", job.0), 1, 10 + class, 1));
            let counters = cell.planned();
            reused += counters.searches_reused * u64::from(round >= rounds / 2);
            assert!(cell.cache.bytes() <= bytes_max);
        }
    }
    let turns = classes * rounds / 2;
    assert!(reused * 4 >= turns, "{reused} of {turns} searches were reused");
    assert!(reused < turns, "the cache is too small for all");
}

/// A service of one task spreads over nothing, whatever the cell's failure domains.
#[test]
fn services_of_one_task_share_a_search_too() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
    cell.happens(&Step::Jobs(5, 40, 1));
    assert_eq!(cell.planned().classes, 1);
    cell.happens(&Step::Jobs(5, 4, 3));
    assert_eq!(cell.planned().classes, 4);
}

#[test]
fn a_worker_fills_its_part_first_and_others_when_it_is_full() {
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 1, 4);
    let mut order: Vec<_> = cell.stored.nodes.keys().copied().collect();
    order.sort_unstable();
    let part = order.get(80..160).expect("a quarter").to_vec();
    // Jobs with racks have other parts: such a job may have no node in the part.
    let mut outside = 0;
    for _ in 0..40 {
        let before = cell.stored.tasks.len();
        let free: u64 = part
            .iter()
            .map(|id| {
                let (row, alloc) = cell.stored.nodes.get(id).expect("a node");
                (row.capacity.cpu_millis - alloc.used.cpu_millis) / 100
            })
            .sum();
        cell.happens(&Step::Jobs(0, 64, 1));
        cell.planned();
        let placed: Vec<_> = cell.stored.tasks.values().filter_map(|row| row.node).collect();
        let beyond = placed.iter().filter(|node| !part.contains(node)).count();
        if free >= 64 {
            assert_eq!(beyond, 0, "{before} placed before, free for {free}");
        }
        outside = beyond;
    }
    assert!(outside > 0, "the part has been filled");
}

/// Jobs of one task each with rules between them, by their labels, are one class as well.
#[test]
fn jobs_of_one_rule_share_a_search() {
    use borough_model::job::{Affinity, AffinityKind};
    let mut cell = Cell::new(ScoringProfile::BEST_FIT, 0, 1);
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
        cell.stored.job_submit(JobId(number), &job);
    };
    for number in 0..60 {
        submit(&mut cell, 1000 + number, AffinityKind::Apart);
    }
    let counters = cell.planned();
    assert_eq!((counters.classes, cell.stored.tasks.len()), (1, 60));
    let nodes: std::collections::BTreeSet<_> =
        cell.stored.tasks.values().filter_map(|row| row.node).collect();
    assert_eq!(nodes.len(), 60, "each has a node of its own");
    assert!(counters.nodes_scored <= 250 + 2 * 60, "{counters:?}");
    // Two rules are two classes.
    for number in 0..10 {
        let kind = if number % 2 == 0 { AffinityKind::Apart } else { AffinityKind::Near };
        submit(&mut cell, 2000 + number, kind);
    }
    assert_eq!(cell.planned().classes, 2);
}
