//! Where tasks are placed, by example: best fit, preferences, spread, crashed tasks, gangs, large cells.

use std::collections::BTreeMap;

use borough_model::job::{Constraint, ConstraintOperator, JobState, Spread};
use borough_model::{JobId, JobSpec, Name, NodeId, TaskId, TaskState};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, Plan, ReplacedAttempts, ScoringProfile, Snapshot, dry_run, explain,
    explain_unplaced, plan,
};

use crate::reference;
use crate::stored::{StoredCell, name, node, spec};

pub(crate) fn stored_cell(profile: ScoringProfile) -> StoredCell {
    let settings = CellSettings { profile, ..CellSettings::default() };
    StoredCell { settings, now_ms: 1_000_000, ..StoredCell::default() }
}

pub(crate) fn planned(stored: &StoredCell) -> Plan {
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    reference::plan_checked(stored, &queue, &outcome);
    outcome
}

/// Why a plan by [`planned`] left tasks of a job without a node.
fn reasons(stored: &StoredCell, plan: &Plan, job: u64) -> Vec<String> {
    let snapshot = stored.snapshot(0);
    let own = plan.unplaced.iter().filter(|unplaced| unplaced.job == JobId(job));
    own.map(|unplaced| explain_unplaced(snapshot.tables(), unplaced).to_string()).collect()
}

/// How many tasks a plan puts on each node.
pub(crate) fn per_node(stored: &StoredCell, plan: &Plan) -> BTreeMap<Name, usize> {
    let mut counts = BTreeMap::new();
    for placement in &plan.placements {
        let (row, _) = stored.nodes.get(&placement.node).expect("a known node");
        *counts.entry(row.name.clone()).or_default() += 1;
    }
    counts
}

pub(crate) fn counts(expected: &[(&str, usize)]) -> BTreeMap<Name, usize> {
    expected.iter().map(|&(node, count)| (name(node), count)).collect()
}

fn racked(stored: &mut StoredCell, number: u64, rack: &str) -> NodeId {
    let mut row = node(number, 4, 4);
    row.labels.insert("rack".to_owned(), rack.to_owned());
    let id = row.id;
    stored.node_put(row);
    id
}

fn prefers(attribute: &str, value: &str, weight: u32) -> Constraint {
    Constraint {
        attribute: attribute.to_owned(),
        operator: ConstraintOperator::In,
        values: vec![value.to_owned()],
        preference: Some(weight),
    }
}

#[test]
fn best_fit_fills_the_fullest_node_that_fits() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    stored.node_put(node(1, 2, 2));
    stored.job_submit(JobId(1), &spec("ann", "small", 3, 1000, 1024));
    assert_eq!(per_node(&stored, &planned(&stored)), counts(&[("node-0", 1), ("node-1", 2)]));
}

#[test]
fn worst_fit_and_spread_even_out() {
    for profile in [ScoringProfile::WORST_FIT, ScoringProfile::SWARM_SPREAD] {
        let mut stored = stored_cell(profile);
        stored.node_put(node(0, 4, 4));
        stored.node_put(node(1, 4, 4));
        stored.job_submit(JobId(1), &spec("ann", "even", 4, 500, 512));
        assert_eq!(per_node(&stored, &planned(&stored)), counts(&[("node-0", 2), ("node-1", 2)]));
    }
}

#[test]
fn a_job_spreads_over_racks_and_then_over_nodes() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for (number, rack) in ["a", "a", "b", "b", "c", "c"].into_iter().enumerate() {
        racked(&mut stored, number as u64, rack);
    }
    let mut web = spec("ann", "web", 6, 100, 64);
    let by = |attribute: &str, weight| Spread::preferred(attribute.to_owned(), weight);
    web.spread = vec![by("rack", 50), by("node.name", 10)];
    stored.job_submit(JobId(1), &web);
    let each: Vec<usize> = per_node(&stored, &planned(&stored)).into_values().collect();
    assert_eq!(each, [1; 6]);

    stored.job_change(JobId(1), |row| row.count = 3);
    let plan = planned(&stored);
    let rack = |id: NodeId| stored.nodes.get(&id).expect("a node").0.labels.get("rack").cloned();
    let mut racks: Vec<_> = plan.placements.iter().map(|placement| rack(placement.node)).collect();
    racks.sort();
    racks.dedup();
    assert_eq!(racks.len(), 3);
}

#[test]
fn siblings_that_run_already_count_for_spread() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let first = racked(&mut stored, 0, "a");
    let second = racked(&mut stored, 1, "b");
    let mut web = spec("ann", "web", 1, 100, 64);
    web.spread = vec![Spread::preferred("rack".to_owned(), 1)];
    stored.job_submit(JobId(1), &web);
    let before = planned(&stored);
    let taken = before.placements.first().expect("a placement").node;
    stored.commit(&before);
    stored.job_change(JobId(1), |row| row.count = 2);
    let after = planned(&stored);
    let other = if taken == first { second } else { first };
    assert_eq!(after.placements.first().map(|placement| placement.node), Some(other));
}

#[test]
fn a_preference_decides_before_fit_unless_its_node_is_full() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    racked(&mut stored, 0, "a");
    racked(&mut stored, 1, "b");
    let mut job = spec("ann", "job", 6, 1000, 64);
    job.constraints = vec![prefers("rack", "b", 1)];
    stored.job_submit(JobId(1), &job);
    assert_eq!(per_node(&stored, &planned(&stored)), counts(&[("node-0", 2), ("node-1", 4)]));
}

#[test]
fn a_task_that_can_never_fit_says_so_and_delays_nobody() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    stored.node_put(node(1, 2, 4));
    stored.job_submit(JobId(1), &spec("ann", "huge", 2, 64_000, 64));
    let mut misspelt = spec("ann", "misspelt", 1, 100, 64);
    let rule = |attribute: &str, operator, values: &[&str]| Constraint {
        attribute: attribute.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        preference: None,
    };
    misspelt.constraints = vec![rule("rakc", ConstraintOperator::In, &["r1"])];
    stored.job_submit(JobId(2), &misspelt);
    let mut contrary = spec("ann", "contrary", 1, 100, 64);
    contrary.constraints = vec![
        rule("node.name", ConstraintOperator::In, &["node-0"]),
        rule("node.name", ConstraintOperator::NotIn, &["node-0"]),
    ];
    stored.job_submit(JobId(3), &contrary);
    stored.job_submit(JobId(4), &spec("ann", "large", 2, 3000, 64));
    let plan = planned(&stored);
    assert_eq!(
        per_node(&stored, &plan),
        counts(&[("node-0", 1)]),
        "what fits is placed beside what never will"
    );
    stored.commit(&plan);
    let explanation = |job| explain(&stored.snapshot(0), JobId(job), 1, stored.now_ms).to_string();
    assert!(explanation(1).contains("can never fit any node here"), "{}", explanation(1));
    assert!(explanation(4).contains("waits for tasks to end on 1 node"), "{}", explanation(4));
    let explanation = |job| explain(&stored.snapshot(0), JobId(job), 0, stored.now_ms).to_string();
    assert!(explanation(2).contains("no node has an attribute or label rakc"), "{}", explanation(2));
    assert!(explanation(3).contains("constraint node.name in [node-0]"), "{}", explanation(3));
}

/// A node with cards of these models.
fn carded(number: u64, models: &[&str]) -> borough_model::NodeRow {
    use borough_model::node::{Card, cards_counted};
    let mut row = node(number, 64, 64);
    let card = |(place, model): (u32, &&str)| Card {
        kind: "gpu".to_owned(),
        place,
        id: place.to_string(),
        model: (*model).to_owned(),
        memory_bytes: 40 << 30,
    };
    row.cards = (0..).zip(models).map(card).collect();
    row.capacity = cards_counted(&row.capacity, &row.cards);
    row
}

#[test]
fn a_share_is_of_one_card_and_whole_cards_stay_whole() {
    use borough_model::node::CardSelector;
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(carded(0, &["A100", "A100", "L4"]));
    let mut given: Vec<Vec<(u32, u64)>> = Vec::new();
    let mut submit = |id, count, millis, selector: Option<(&str, u64)>| {
        let mut job = spec("ann", &format!("job-{id}"), count, 100, 64);
        job.task.resources.device_millis.insert("gpu".to_owned(), millis);
        let of = |(model, memory_bytes_min): (&str, u64)| {
            let models = if model.is_empty() { Vec::new() } else { vec![model.to_owned()] };
            ("gpu".to_owned(), CardSelector { models, memory_bytes_min })
        };
        job.task.device_selectors = selector.map(of).into_iter().collect();
        stored.job_submit(JobId(id), &job);
        let plan = planned(&stored);
        let cards = |charge: &borough_model::Resources| {
            charge.cards().into_iter().map(|(_, place, millis)| (place, millis)).collect()
        };
        given.extend(plan.placements.iter().map(|placement| cards(&placement.charge)));
        let reasons = reasons(&stored, &plan, id);
        stored.commit(&plan);
        reasons.join("\n")
    };
    assert_eq!(submit(1, 1, 600, None), "");
    assert_eq!(
        submit(2, 1, 600, Some(("H100", 0))),
        "fits on none of 1 node: 1 no gpu of model H100; can never fit any node here; would fit on 1 node without device gpu, or on 1 node with any gpu"
    );
    assert_eq!(submit(3, 1, 300, Some(("A100", 40 << 30))), "", "beside the first, not on a free card");
    assert_eq!(submit(4, 1, 1000, Some(("L4", 0))), "");
    assert_eq!(
        submit(5, 2, 600, None).lines().next().unwrap_or_default().split(';').next(),
        Some("fits on none of 1 node: 1 less than device gpu 0.6 free"),
        "one of them fits a card, the other would have to be split"
    );
    assert_eq!(given, [vec![(0, 600)], vec![(0, 300)], vec![(2, 1000)], vec![(1, 600)]]);
}

#[test]
fn several_cards_are_whole_ones() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(carded(0, &["a", "a", "a", "a"]));
    let mut share = spec("ann", "share", 1, 100, 64);
    share.task.resources.device_millis.insert("gpu".to_owned(), 100);
    stored.job_submit(JobId(1), &share);
    let plan = planned(&stored);
    stored.commit(&plan);
    let mut complete = spec("ann", "whole", 2, 100, 64);
    complete.task.resources.device_millis.insert("gpu".to_owned(), 2000);
    stored.job_submit(JobId(2), &complete);
    let plan = planned(&stored);
    let cards: Vec<_> = plan.placements.iter().map(|placement| placement.charge.cards()).collect();
    assert_eq!(cards, [[("gpu", 1, 1000), ("gpu", 2, 1000)]]);
    let reason = reasons(&stored, &plan, 2).concat();
    assert!(reason.ends_with("would fit on 1 node with device gpu <= 1"), "{reason}");
}

#[test]
fn a_task_stays_within_one_domain_or_waits_even_if_the_node_has_enough() {
    use borough_model::node::{NumaDomain, Within, confinement, domains_counted};
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let mut two = node(0, 8, 8);
    let domain = |place: u32| NumaDomain {
        place,
        socket: 0,
        cpus: (place * 4..place * 4 + 4).collect(),
        memory_bytes: 4 << 30,
    };
    two.domains = vec![domain(0), domain(1)];
    two.capacity = domains_counted(&two.capacity, &two.domains, 1000);
    stored.node_put(two.clone());
    let mut put = |id, count, cpu_millis, within| {
        let mut job = spec("ann", &format!("job-{id}"), count, cpu_millis, 512);
        job.task.within = Some(within);
        stored.job_submit(JobId(id), &job);
        let plan = planned(&stored);
        let reason = reasons(&stored, &plan, id).into_iter().next().unwrap_or_default();
        stored.commit(&plan);
        let places = |charge| confinement(charge, &two.domains).1;
        (plan.placements.iter().map(|placement| places(&placement.charge)).collect::<Vec<_>>(), reason)
    };
    let (places, reason) = put(1, 3, 2500, Within::OneNumaNode);
    assert_eq!(places, [[0], [1]]);
    let expected = "fits on none of 1 node: 1 too little free within one NUMA node; waits for tasks to end on 1 node; would fit on 1 node on more than one NUMA node";
    assert_eq!(reason, expected, "three cores are free on the node, and no domain has two and a half");
    assert_eq!(put(2, 1, 1500, Within::OneNumaNode), (vec![vec![0]], String::new()));
    assert_eq!(put(3, 1, 1500, Within::OneSocket), (vec![vec![0, 1]], String::new()));
}

#[test]
fn a_taint_keeps_away_or_counts_against_a_node_unless_it_is_tolerated() {
    use borough_model::job::{Toleration, TolerationOperator};
    use borough_model::node::{Taint, TaintEffect};
    let taint = |effect| Taint { key: "own".to_owned(), value: "db".to_owned(), effect, added_ms: 7 };
    let toleration = Toleration {
        key: "own".to_owned(),
        operator: TolerationOperator::Equal,
        value: "db".to_owned(),
        effect: None,
        evict_after_ms: None,
    };
    let placed = |effect, count: u32, tolerations: &[Toleration]| {
        let mut stored = stored_cell(ScoringProfile::WORST_FIT);
        let mut tainted = node(0, 8, 8);
        tainted.taints = vec![taint(effect)];
        stored.node_put(tainted);
        stored.node_put(node(1, 4, 8));
        let mut job = spec("ann", "job", count, 1000, 64);
        job.tolerations = tolerations.to_vec();
        stored.job_submit(JobId(1), &job);
        per_node(&stored, &planned(&stored))
    };
    for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
        assert_eq!(placed(effect, 6, &[]), counts(&[("node-1", 4)]));
        assert_eq!(placed(effect, 1, std::slice::from_ref(&toleration)), counts(&[("node-0", 1)]));
    }
    assert_eq!(placed(TaintEffect::PreferNoSchedule, 5, &[]), counts(&[("node-0", 1), ("node-1", 4)]));
    assert_eq!(placed(TaintEffect::PreferNoSchedule, 1, &[toleration]), counts(&[("node-0", 1)]));
}

#[test]
fn a_node_where_the_task_crashed_repeatedly_is_left_for_another_unless_it_is_the_only_one() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let full = racked(&mut stored, 0, "a");
    let job = spec("ann", "job", 1, 1000, 64);
    stored.job_submit(JobId(1), &job);
    stored.commit(&planned(&stored));
    let task = TaskId { job: JobId(1), index: 0 };
    let crashed = |stored: &mut StoredCell| {
        stored.task_end(task, None, |row| {
            row.state = TaskState::Pending;
            row.crashed_on = row.node;
            row.crashes_there = 5;
        });
    };
    crashed(&mut stored);
    let only = planned(&stored);
    assert_eq!(only.placements.first().map(|placement| placement.node), Some(full));
    let other = racked(&mut stored, 1, "b");
    let avoided = planned(&stored);
    let placement = avoided.placements.first().expect("a placement");
    assert_eq!((placement.node, placement.incarnation.0), (other, 2));
}

#[test]
fn a_gang_takes_nothing_if_it_does_not_fit_completely() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 4, 4));
    let mut gang = spec("ann", "gang", 5, 1000, 64);
    gang.min_member = 5;
    stored.job_submit(JobId(1), &gang);
    stored.job_submit(JobId(2), &spec("bob", "single", 4, 1000, 64));
    let plan = planned(&stored);
    assert!(plan.placements.iter().all(|placement| placement.task.job == JobId(2)));
    assert_eq!(plan.placements.len(), 4);
    assert!(plan.unplaced.iter().any(|unplaced| unplaced.job == JobId(1)));

    stored.node_put(node(1, 5, 4));
    stored.job_change(JobId(2), |row| row.state = JobState::Stopping);
    let plan = planned(&stored);
    assert_eq!(plan.placements.len(), 5);
    assert!(plan.placements.iter().all(|placement| placement.gang.is_some()));
}

/// A large cell: more nodes than are scored for one class.
fn large(nodes: u64) -> StoredCell {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for number in 0..nodes {
        stored.node_put(node(number, 4, 4));
    }
    stored
}

#[test]
fn a_large_cell_is_searched_until_enough_nodes_are_scored_and_further_when_they_are_full() {
    let mut stored = large(2500);
    stored.job_submit(JobId(1), &spec("ann", "few", 100, 1000, 64));
    let few = planned(&stored);
    assert_eq!(few.placements.len(), 100);
    assert!(few.counters.nodes_examined <= 400, "{:?}", few.counters);

    stored.job_change(JobId(1), |row| row.count = 10_001);
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let all = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    assert_eq!(all.placements.len(), 10_000, "every node is found in the end");
    assert_eq!(all.unplaced.first().map(|unplaced| unplaced.tasks.len()), Some(1));
}

#[test]
fn classes_that_contend_in_a_large_cell_fill_it_and_no_more() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for number in 0..1100 {
        stored.node_put(node(number, 2, 4));
    }
    let jobs = [("ann", 600, 1500), ("bob", 1500, 500), ("cat", 500, 2000)];
    for ((user, count, cpu_millis), id) in jobs.into_iter().zip(0..) {
        stored.job_submit(JobId(id), &spec(user, "job", count, cpu_millis, 64));
    }
    let plan = planned(&stored);
    assert!(!plan.unplaced.is_empty());
    stored.commit(&plan);
    for unplaced in &plan.unplaced {
        let (_, spec) = stored.jobs.get(&unplaced.job).expect("a known job");
        assert_eq!(reference::fit_count(&stored, spec, 0), 0, "{}", spec.user);
    }
}

#[test]
fn many_classes_of_one_shape_that_fits_nowhere_are_examined_once() {
    let mut stored = large(1500);
    for number in 0..200 {
        stored.job_submit(JobId(number), &spec("ann", &format!("job-{number}"), 5, 9000, 64));
    }
    let plan = planned(&stored);
    assert_eq!(plan.unplaced.len(), 200);
    assert!(plan.counters.nodes_examined <= 1500, "{:?}", plan.counters);
}

#[test]
fn a_dry_run_of_a_changed_count_keeps_and_stops() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    let mut job = spec("ann", "job", 4, 1000, 64);
    stored.job_submit(JobId(1), &job);
    stored.commit(&planned(&stored));
    let before = job.clone();
    job.count = 2;
    let fewer =
        dry_run(&stored.snapshot(0), &job, Some(&before), &ReplacedAttempts::default(), stored.now_ms);
    assert_eq!((fewer.kept, fewer.stopped, fewer.placements.len()), (2, vec![2, 3], 0));
    job.count = 10;
    let more = dry_run(&stored.snapshot(0), &job, Some(&before), &ReplacedAttempts::default(), stored.now_ms);
    let placed: Vec<u32> = more.placements.iter().map(|task| task.index).collect();
    assert_eq!((more.kept, placed), (4, vec![4, 5, 6, 7]));
    assert_eq!(more.unplaced.iter().map(|(tasks, _)| tasks.clone()).collect::<Vec<_>>(), [vec![8, 9]]);
}

/// A step of a rollout frees the room that its own tasks had, and no more.
#[test]
fn a_dry_run_of_a_changed_spec_replaces_step_by_step_until_one_does_not_fit() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    let before = spec("ann", "job", 4, 2000, 64);
    stored.job_submit(JobId(1), &before);
    stored.commit(&planned(&stored));
    let rows: Vec<_> = stored.resident(JobId(1)).cloned().collect();
    let shown = |cpu_millis, at_once| {
        let replaced = ReplacedAttempts { rows: rows.clone(), at_once, ..ReplacedAttempts::default() };
        let changed = spec("ann", "job", 4, cpu_millis, 64);
        let shown = dry_run(&stored.snapshot(0), &changed, Some(&before), &replaced, stored.now_ms);
        let placed: Vec<u32> = shown.placements.iter().map(|task| task.index).collect();
        assert!(shown.placements.iter().all(|task| task.again && task.ports.is_empty()));
        let unplaced: Vec<u32> = shown.unplaced.iter().flat_map(|(tasks, _)| tasks.clone()).collect();
        (placed, unplaced, shown.kept)
    };
    assert_eq!(shown(1000, 1), (vec![0, 1, 2, 3], vec![], 0));
    assert_eq!(shown(3000, 1), (vec![], vec![0], 3), "the first one needs more than it leaves");
    assert_eq!(shown(3000, 2), (vec![0], vec![1], 2));
    assert_eq!(shown(9000, 4), (vec![], vec![0, 1, 2, 3], 0));
}

#[test]
fn nothing_is_placed_under_a_spec_that_has_not_been_seen() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    stored.node_put(node(0, 8, 8));
    let job: JobSpec = spec("ann", "job", 1, 1000, 64);
    stored.job_submit(JobId(1), &job);
    let mut snapshot: Snapshot = stored.snapshot(0);
    let mut row = stored.jobs.get(&JobId(1)).expect("a job").0.clone();
    (row.revision, row.spec_version) = (2, 2);
    let row = row.into();
    snapshot.job_upsert(&row, None);
    assert!(snapshot.pending(&|_| true, stored.now_ms, 10).tasks.is_empty());
    snapshot.job_upsert(&row, Some(&job));
    let queue = snapshot.pending(&|_| true, stored.now_ms, 10);
    let outcome = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    assert_eq!(outcome.placements.first().map(|placement| placement.spec_version), Some(2));
}

#[test]
fn capacity_promised_to_a_preemptor_is_not_free() {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let id = racked(&mut stored, 0, "a");
    let (_, alloc) = stored.nodes.get_mut(&id).expect("a node");
    (alloc.promised.cpu_millis, alloc.tasks) = (3000, 1);
    let promised = alloc.clone();
    stored.job_submit(JobId(1), &spec("ann", "job", 2, 1000, 64));
    assert_eq!(stored.snapshot(0).tables().node_alloc(id), Some(promised));
    let plan = planned(&stored);
    assert_eq!((plan.placements.len(), plan.unplaced.len()), (1, 1));
    let after =
        plan.changes.first().map(|change| (change.alloc.used.cpu_millis, change.alloc.promised.cpu_millis));
    assert_eq!(after, Some((1000, 3000)));
}
