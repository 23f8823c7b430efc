//! Compares the ordered groups of a class with asking every group at every choice.

use std::cell::Cell;
use std::collections::BTreeMap;

use borough_model::job::{Affinity, AffinityKind, Constraint, ConstraintOperator, JobKind, Spread, job_new};
use borough_model::node::{NodeFacts, NodeState, node_new};
use borough_model::task::task_transition;
use borough_model::{Delta, JobId, JobSpec, Name, NodeAlloc, NodeId, NodeRow, RequestId, Resources, TaskRow};
use proptest::prelude::*;
use proptest::sample::select;

use super::{GROUP_SCAN, GroupScan};
use crate::{CellSettings, PLAN_SEED, Plan, ScoringProfile, Snapshot, plan};

thread_local! {
    static GROUP_SCAN_HERE: Cell<GroupScan> = const { Cell::new(GROUP_SCAN) };
}

pub(super) fn group_scan() -> GroupScan {
    GROUP_SCAN_HERE.get()
}

const NODES: u64 = 60;

fn node(number: u64, cores: u64) -> NodeRow {
    let capacity = Resources { cpu_millis: cores * 1000, memory_bytes: 64 << 30, ..Resources::default() };
    let facts = NodeFacts {
        capacity,
        port_first: Default::default(),
        port_last: Default::default(),
        attributes: Default::default(),
        host: Default::default(),
        boot_id: Default::default(),
        agent_version: Default::default(),
        cards: Default::default(),
        domains: Default::default(),
    };
    let name = Name::new(format!("n{number}")).unwrap();
    let mut row = node_new(NodeId(number + 1), name, facts, 0);
    row.state = NodeState::Ready;
    row.labels = BTreeMap::from([
        ("rack".to_owned(), format!("r{}", number / 4)),
        ("zone".to_owned(), format!("z{}", number % 3)),
    ]);
    row
}

/// A job with rules between tasks.
#[derive(Clone, Debug)]
struct Wanted {
    count: u32,
    cpu_millis: u64,
    color: &'static str,
    /// Attribute, weight, skew, cap.
    spread: Vec<(&'static str, u32, Option<u32>, Option<u32>)>,
    /// Kind, attribute, color of the selected jobs, and the weight of a soft affinity.
    affinity: Vec<(AffinityKind, &'static str, &'static str, Option<u32>)>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let attribute = || select(vec!["node.name", "rack", "zone"]);
    let color = || select(vec!["red", "green"]);
    let spread =
        (attribute(), 1..5u32, proptest::option::of(1..3u32), proptest::option::weighted(0.2, 1..6u32));
    let kind = select(vec![AffinityKind::Near, AffinityKind::Apart]);
    let affinity = (kind, attribute(), color(), proptest::option::weighted(0.6, 1..100u32));
    let spread = proptest::collection::vec(spread, 0..3);
    let affinity = proptest::collection::vec(affinity, 0..2);
    (1..70u32, 100..2_000u64, color(), spread, affinity).prop_map(
        |(count, cpu_millis, color, spread, affinity)| Wanted { count, cpu_millis, color, spread, affinity },
    )
}

fn spec(number: usize, wanted: &Wanted) -> JobSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let job = name(&format!("job-{number}"));
    let mut spec = JobSpec::defaults(name("ann"), job, JobKind::Batch, vec!["/bin/true".to_owned()]);
    spec.count = wanted.count;
    spec.task.resources = Resources { cpu_millis: wanted.cpu_millis, ..Resources::default() };
    spec.labels.insert("color".to_owned(), wanted.color.to_owned());
    let spread = |&(attribute, weight, max_skew, tasks_max): &(&str, u32, Option<u32>, Option<u32>)| Spread {
        max_skew,
        tasks_max,
        ..Spread::preferred(attribute.to_owned(), weight)
    };
    spec.spread = wanted.spread.iter().map(spread).collect();
    spec.spread.dedup_by(|left, right| left.attribute == right.attribute);
    let affinity =
        |&(kind, attribute, color, preference): &(AffinityKind, &str, &str, Option<u32>)| Affinity {
            kind,
            attribute: attribute.to_owned(),
            jobs: vec![Constraint {
                attribute: "color".to_owned(),
                operator: ConstraintOperator::In,
                values: vec![color.to_owned()],
                preference: None,
            }],
            preference,
        };
    spec.affinity = wanted.affinity.iter().map(affinity).collect();
    spec
}

fn committed(snapshot: &mut Snapshot, planned: &Plan) {
    for placement in &planned.placements {
        let before = snapshot
            .tables()
            .task_row(placement.task)
            .cloned()
            .unwrap_or_else(|| TaskRow::never_placed(placement.task));
        let mut row = task_transition(&before, &placement.event(None), 0).unwrap().row;
        row.revision = before.revision + 1;
        snapshot.apply(&Delta::Task { row });
    }
    for change in &planned.changes {
        snapshot.apply(&Delta::NodeAlloc { node: change.node, alloc: change.alloc.clone() });
    }
}

/// Plans batch after batch until nothing more can be placed.
fn planned(jobs: &[Wanted], profile: &str, batch: usize, group_scan: GroupScan) -> Vec<Plan> {
    GROUP_SCAN_HERE.set(group_scan);
    let profile: ScoringProfile = profile.parse().unwrap();
    let mut snapshot = Snapshot::new(CellSettings { profile, ..CellSettings::default() });
    for number in 0..NODES {
        snapshot.apply(&Delta::Node { row: node(number, 2 + number % 3) });
        let alloc = NodeAlloc { epoch: 1, ..NodeAlloc::default() };
        snapshot.apply(&Delta::NodeAlloc { node: NodeId(number + 1), alloc });
    }
    for (number, wanted) in jobs.iter().enumerate() {
        let spec = spec(number, wanted);
        let row = job_new(JobId(number as u64 + 1), &spec, RequestId::default(), number as i64);
        snapshot.apply(&Delta::Job { row: row.into(), spec: Some(Box::new(spec)) });
    }
    let mut plans = Vec::new();
    loop {
        let queue = snapshot.pending(&|_| true, 0, batch);
        let mut made = plan(snapshot.tables(), &queue, 0, PLAN_SEED);
        snapshot.remember(&made, 0);
        committed(&mut snapshot, &made);
        made.counters = Default::default();
        let placed = made.placements.len();
        plans.push(made);
        if placed == 0 && !queue.more {
            return plans;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn groups_in_order_give_the_plan_that_asking_all_of_them_gives(
        jobs in proptest::collection::vec(wanted(), 1..6), batch in select(vec![7usize, 64, 1_000]),
        profile in select(ScoringProfile::names()),
    ) {
        let asked = planned(&jobs, profile, batch, GroupScan { few_groups: u32::MAX, rescans: true });
        let ordered = planned(&jobs, profile, batch, GroupScan { few_groups: 0, rescans: false });
        prop_assert_eq!(asked, ordered);
    }
}
