//! Rules between tasks: near and apart, over jobs and users, and the limits of a spread.

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, Spread};
use borough_model::{JobId, JobSpec, TaskId, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, Snapshot, explain, plan};
use expect_test::expect;

use crate::stored::{StoredCell, node, spec};

fn label(key: &str, operator: ConstraintOperator, values: &[&str]) -> Constraint {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Constraint { attribute: key.to_owned(), operator, values, preference: None }
}

fn affinity(kind: AffinityKind, attribute: &str, jobs: Vec<Constraint>) -> Affinity {
    Affinity { kind, attribute: attribute.to_owned(), jobs, preference: None }
}

fn labelled(user: &str, job: &str, count: u32, app: &str) -> JobSpec {
    let mut made = spec(user, job, count, 100, 64);
    made.labels.insert("app".to_owned(), app.to_owned());
    made
}

/// Six nodes, two in each of three racks.
fn stored_cell() -> StoredCell {
    let mut stored = StoredCell { now_ms: 1_000_000, ..StoredCell::default() };
    for number in 0..6u64 {
        let mut row = node(number, 4, 4);
        row.labels.insert("rack".to_owned(), format!("r{}", number % 3));
        stored.node_put(row);
    }
    stored
}

fn round(stored: &mut StoredCell, snapshot: &mut Snapshot) -> Plan {
    stored.journal_apply(snapshot);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    let made = plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED);
    stored.commit(&made);
    stored.journal_apply(snapshot);
    snapshot.remember(&made, stored.now_ms);
    made
}

fn racks(stored: &StoredCell, job: JobId) -> Vec<String> {
    let nodes = stored.resident(job).filter_map(|row| stored.nodes.get(&row.node?));
    let mut racks: Vec<String> = nodes.filter_map(|(row, _)| row.labels.get("rack").cloned()).collect();
    racks.sort();
    racks
}

#[test]
fn tasks_keep_apart_over_users_both_ways() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    let mut shy = labelled("ann", "shy", 2, "shy");
    let anybody = label("job.user", ConstraintOperator::Exists, &[]);
    let loud = label("app", ConstraintOperator::In, &["loud"]);
    shy.affinity = vec![affinity(AffinityKind::Apart, "rack", vec![anybody, loud])];
    stored.job_submit(JobId(1), &labelled("bob", "loud", 1, "loud"));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    stored.job_submit(JobId(2), &shy);
    let made = round(&mut stored, &mut snapshot);
    assert_eq!(made.placements.len(), 2);
    let taken = racks(&stored, JobId(1));
    assert!(racks(&stored, JobId(2)).iter().all(|rack| !taken.contains(rack)));
    assert!(made.placements.iter().all(|placement| placement.constrained && placement.terms.len() == 1));

    // Anti-affinity works both ways, for jobs of all users, with the same tokens.
    stored.job_submit(JobId(3), &labelled("cat", "louder", 6, "loud"));
    let other = round(&mut stored, &mut snapshot);
    let shy_racks = racks(&stored, JobId(2));
    assert!(racks(&stored, JobId(3)).iter().all(|rack| !shy_racks.contains(rack)));
    assert!(other.placements.iter().all(|placement| placement.constrained));
    let terms = |plan: &Plan| plan.placements.iter().map(|one| one.terms[0].term.clone()).next();
    assert_eq!(terms(&made), terms(&other));
}

#[test]
fn a_task_that_ends_requeues_those_it_kept_away() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    let mut apart = labelled("ann", "apart", 4, "one");
    apart.affinity =
        vec![affinity(AffinityKind::Apart, "rack", vec![label("app", ConstraintOperator::In, &["one"])])];
    stored.job_submit(JobId(1), &apart);
    let made = round(&mut stored, &mut snapshot);
    assert_eq!((made.placements.len(), made.unplaced.len()), (3, 1), "one to a rack");
    assert_eq!(racks(&stored, JobId(1)), ["r0", "r1", "r2"]);
    assert!(snapshot.pending(&|_| true, stored.now_ms, 10).tasks.is_empty(), "it is parked");
    let explanation = explain(&snapshot, JobId(1), 3, stored.now_ms);
    expect!["fits on none of 6 nodes: 6 affinity apart from tasks of app in [one] in the same rack; waits for tasks to end on 6 nodes; would fit on 6 nodes without affinity apart from tasks of app in [one] in the same rack and once not kept apart by a task in the same rack"].assert_eq(&explanation.to_string());

    let first = TaskId { job: JobId(1), index: 0 };
    stored.task_end(first, None, |row| row.state = TaskState::Dead);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1, "its place is taken");
    assert_eq!(racks(&stored, JobId(1)), ["r0", "r1", "r2"]);
}

#[test]
fn tasks_gather_near_others_and_the_first_of_a_group_goes_anywhere() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    let mut near = labelled("ann", "near", 3, "web");
    near.affinity =
        vec![affinity(AffinityKind::Near, "rack", vec![label("app", ConstraintOperator::In, &["cache"])])];
    stored.job_submit(JobId(1), &near);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 0, "there is no cache yet");
    assert!(snapshot.pending(&|_| true, stored.now_ms, 10).tasks.is_empty(), "it is parked");

    let mut cache = labelled("ann", "cache", 4, "cache");
    cache.affinity =
        vec![affinity(AffinityKind::Near, "rack", vec![label("app", ConstraintOperator::In, &["cache"])])];
    stored.job_submit(JobId(2), &cache);
    let made = round(&mut stored, &mut snapshot);
    assert_eq!(made.placements.len(), 7, "what it can be near to requeues it");
    let first = made.placements.first().expect("a placement");
    assert_eq!(first.terms.iter().map(|token| token.domain.as_str()).collect::<Vec<_>>(), [""]);
    let rack = racks(&stored, JobId(2));
    assert!(rack.iter().all(|one| *one == rack[0]), "all in one rack: {rack:?}");

    assert!(racks(&stored, JobId(1)).iter().all(|one| *one == rack[0]));
}

#[test]
fn a_job_that_takes_other_labels_is_meant_by_them_and_keeps_its_attempts() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    stored.job_submit(JobId(1), &labelled("ann", "store", 1, "draft"));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    let mut near = labelled("ann", "near", 1, "web");
    near.affinity =
        vec![affinity(AffinityKind::Near, "rack", vec![label("app", ConstraintOperator::In, &["cache"])])];
    stored.job_submit(JobId(2), &near);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 0, "nothing has the label");
    let before: Vec<_> = stored.resident(JobId(1)).cloned().collect();

    stored.job_respec(JobId(1), &labelled("ann", "store", 1, "cache"));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1, "the new label requeues it");
    assert_eq!(racks(&stored, JobId(2)), racks(&stored, JobId(1)));
    assert_eq!(stored.resident(JobId(1)).cloned().collect::<Vec<_>>(), before);
}

#[test]
fn a_spread_keeps_its_limits() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    let spread = |max_skew, tasks_max, percent_max| {
        vec![Spread { max_skew, tasks_max, percent_max, ..Spread::preferred("rack".to_owned(), 1) }]
    };
    let mut even = labelled("ann", "even", 7, "even");
    even.spread = spread(Some(1), None, None);
    stored.job_submit(JobId(1), &even);
    let mut capped = labelled("ann", "capped", 8, "capped");
    capped.spread = spread(None, None, Some(25));
    stored.job_submit(JobId(2), &capped);
    let made = round(&mut stored, &mut snapshot);
    let of = |job, rack: &str| racks(&stored, job).iter().filter(|one| *one == rack).count();
    let mut counts: Vec<usize> = ["r0", "r1", "r2"].map(|rack| of(JobId(1), rack)).into();
    counts.sort_unstable();
    assert_eq!(counts, [2, 2, 3]);
    assert_eq!(["r0", "r1", "r2"].map(|rack| of(JobId(2), rack)), [2, 2, 2], "a quarter of eight in each");
    assert_eq!(made.unplaced.iter().map(|unplaced| unplaced.tasks.len()).sum::<usize>(), 2);
    let explanation = explain(&snapshot, JobId(2), 7, stored.now_ms);
    expect!["fits on none of 6 nodes: 6 spread over rack with at most 2 in each; waits for tasks to end on 6 nodes; would fit on 6 nodes without spread over rack with at most 2 in each"].assert_eq(&explanation.to_string());

    // More desired tasks: a quarter is more.
    stored.job_change(JobId(2), |row| row.count = 12);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 3);
}

#[test]
fn a_wish_gives_way_and_a_node_without_the_attribute_is_near_nothing() {
    let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
    let mut wish = labelled("ann", "wish", 8, "wish");
    wish.affinity = vec![Affinity {
        preference: Some(50),
        ..affinity(AffinityKind::Apart, "node.name", vec![label("app", ConstraintOperator::Exists, &[])])
    }];
    stored.job_submit(JobId(1), &wish);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 8);
    let nodes: std::collections::BTreeSet<_> = stored.resident(JobId(1)).filter_map(|row| row.node).collect();
    assert_eq!(nodes.len(), 6, "every node has one before any has two");

    let mut lost = labelled("ann", "lost", 1, "lost");
    lost.affinity =
        vec![affinity(AffinityKind::Apart, "switch", vec![label("app", ConstraintOperator::In, &["x"])])];
    stored.job_submit(JobId(2), &lost);
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 0);
    assert!(!explain(&snapshot, JobId(2), 0, stored.now_ms).lost.is_empty());
}

/// With tokens alone, two workers could tear a group apart. One places near a task that ends meanwhile. The other sees
/// neither that task nor the first one's placement, and begins the group elsewhere. Their tokens differ. The dependency
/// on the ended task fails the first one's commit.
#[test]
fn a_group_is_not_torn_by_the_end_of_what_it_gathered_around() {
    let (mut stored, mut first) = (stored_cell(), Snapshot::new(Default::default()));
    let group =
        || vec![affinity(AffinityKind::Near, "rack", vec![label("app", ConstraintOperator::In, &["db"])])];
    let mut placed = labelled("ann", "stands", 1, "db");
    (placed.affinity, placed.constraints) = (group(), vec![label("rack", ConstraintOperator::In, &["r0"])]);
    stored.job_submit(JobId(1), &placed);
    let begun = round(&mut stored, &mut first);
    let began = begun.placements.first().expect("placed");
    assert!(began.dependencies.is_empty(), "the first of a group is near nobody");
    assert_eq!(began.terms.len(), 1, "and writes that it begins the group");

    let mut joins = labelled("ann", "joins", 3, "db");
    joins.affinity = group();
    stored.job_submit(JobId(2), &joins);
    stored.journal_apply(&mut first);
    let queue = first.pending(&|_| true, stored.now_ms, usize::MAX);
    let near = plan(first.tables(), &queue, stored.now_ms, PLAN_SEED);
    let ended = TaskId { job: JobId(1), index: 0 };
    for placement in &near.placements {
        assert_eq!((placement.dependencies.as_slice(), placement.terms.as_slice()), (&[ended][..], &[][..]));
    }

    stored.task_end(ended, None, |row| row.state = TaskState::Dead);
    let mut elsewhere = labelled("ann", "elsewhere", 1, "db");
    (elsewhere.affinity, elsewhere.constraints) =
        (group(), vec![label("rack", ConstraintOperator::In, &["r2"])]);
    stored.job_submit(JobId(3), &elsewhere);
    let mut second = stored.snapshot(3);
    let queue = second.pending(&|job| job == JobId(3), stored.now_ms, usize::MAX);
    let begins = plan(second.tables(), &queue, stored.now_ms, PLAN_SEED);
    let begins = begins.placements.first().expect("it begins the group again");
    let nodes_met = near.placements.iter().any(|placement| placement.node == begins.node);
    let terms_met = near
        .placements
        .iter()
        .any(|placement| placement.terms.iter().any(|term| begins.terms.contains(term)));
    assert!(!nodes_met && !terms_met, "nothing else would tell the two of each other");
}

/// A task that ends may leave a domain with fewer tasks than others. A placement in flight was valid when it was
/// planned, so a removal needs no token.
#[test]
fn an_ended_task_breaks_no_limit_of_a_placement_in_flight() {
    let (mut stored, mut first) = (stored_cell(), Snapshot::new(Default::default()));
    let mut even = labelled("ann", "even", 6, "web");
    even.spread = vec![Spread { max_skew: Some(1), ..Spread::preferred("rack".to_owned(), 1) }];
    stored.job_submit(JobId(1), &even);
    assert_eq!(round(&mut stored, &mut first).placements.len(), 6);
    stored.job_change(JobId(1), |row| row.count = 7);
    stored.journal_apply(&mut first);
    let queue = first.pending(&|_| true, stored.now_ms, usize::MAX);
    let flight = plan(first.tables(), &queue, stored.now_ms, PLAN_SEED);
    let placed = flight.placements.first().expect("placed");
    let taken = stored.nodes.get(&placed.node).and_then(|(row, _)| row.labels.get("rack").cloned());
    // Committed in whichever order, the counts are those of placing first and ending then.
    let other = stored.resident(JobId(1)).find(|row| {
        row.node.and_then(|node| stored.nodes.get(&node)).and_then(|(row, _)| row.labels.get("rack").cloned())
            != taken
    });
    let other = other.expect("a task elsewhere").id;
    stored.task_end(other, None, |row| row.state = TaskState::Dead);
    stored.commit(&Plan { placements: flight.placements.clone(), ..Plan::default() });
    let counts =
        ["r0", "r1", "r2"].map(|rack| racks(&stored, JobId(1)).iter().filter(|one| *one == rack).count());
    assert_eq!(
        (counts.iter().sum::<usize>(), counts.iter().max(), counts.iter().min()),
        (6, Some(&3), Some(&1))
    );
    // The next task goes to the domain with the fewest. Every later placement keeps the limit.
    let next = round(&mut stored, &mut first);
    assert!(next.placements.iter().all(|placement| placement.task != placed.task));
}

/// A soft affinity of another job counts for a job like its own.
#[test]
fn a_wish_holds_both_ways() {
    for (kind, near) in [(AffinityKind::Near, true), (AffinityKind::Apart, false)] {
        let (mut stored, mut snapshot) = (stored_cell(), Snapshot::new(Default::default()));
        let mut wishes = labelled("ann", "wishes", 1, "web");
        let db = label("app", ConstraintOperator::In, &["db"]);
        wishes.affinity = vec![Affinity { preference: Some(50), ..affinity(kind, "rack", vec![db]) }];
        wishes.constraints = vec![label("rack", ConstraintOperator::In, &["r1"])];
        stored.job_submit(JobId(1), &wishes);
        round(&mut stored, &mut snapshot);
        // Both before and after the selected job is known.
        for (job, name) in [(2, "early"), (3, "late")] {
            stored.job_submit(JobId(job), &labelled("ann", name, 2, "db"));
            round(&mut stored, &mut snapshot);
            let racks = racks(&stored, JobId(job));
            assert_eq!(racks.iter().all(|rack| rack == "r1"), near, "{kind:?}: {racks:?}");
            assert_eq!(racks.iter().any(|rack| rack == "r1"), near, "{kind:?}: {racks:?}");
        }
        stored.job_submit(JobId(4), &labelled("ann", "other", 6, "cache"));
        round(&mut stored, &mut snapshot);
        // Without the wish, all racks are alike.
        stored.job_change(JobId(1), |row| row.state = borough_model::job::JobState::Stopping);
        stored.journal_apply(&mut snapshot);
        snapshot.apply(&borough_model::Delta::JobRemoved { job: JobId(1), name: None });
        stored.job_submit(JobId(5), &labelled("ann", "free", 60, "db"));
        assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 60);
    }
}
