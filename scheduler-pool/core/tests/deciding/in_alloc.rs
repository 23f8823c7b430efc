//! Tasks in allocs: placed where an alloc of their set has room, charged to nothing else, and back in the same alloc.

use std::collections::BTreeMap;

use borough_model::job::{ALLOC_COMMAND, JobAlloc, JobKind};
use borough_model::node::AGENT_ALLOCS;
use borough_model::{JobId, JobSpec, NodeId, Resources, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{Plan, ScoringProfile, Snapshot, dry_run, explain};
use proptest::prelude::*;

use crate::place::stored_cell;
use crate::stored::{StoredCell, name, node, spec};
use crate::unschedulable::round;

const SET: JobId = JobId(1);
const WEB: JobId = JobId(2);
const LOGS: JobId = JobId(3);

fn of(job: JobId, index: u32) -> TaskId {
    TaskId { job, index }
}

fn set(count: u32, cpu_millis: u64) -> JobSpec {
    let command = ALLOC_COMMAND.map(str::to_owned).to_vec();
    let mut set = JobSpec::defaults(name("ann"), name("places"), JobKind::AllocSet, command);
    set.count = count;
    set.task.resources = spec("ann", "places", 1, cpu_millis, 512).task.resources;
    set
}

fn member(job: &str, count: u32, cpu_millis: u64) -> JobSpec {
    let mut member = spec("ann", job, count, cpu_millis, 64);
    (member.kind, member.alloc_set) = (JobKind::Service, Some(name("places")));
    member
}

/// Three nodes whose agents hold allocs, and a set of two allocs of a core that run.
fn cell() -> (StoredCell, Snapshot) {
    let mut stored = stored_cell(ScoringProfile::WORST_FIT);
    for number in 0..3 {
        let mut row = node(number, 4, 8);
        row.attributes.insert(AGENT_ALLOCS.to_owned(), "yes".to_owned());
        stored.node_put(row);
    }
    stored.job_submit(SET, &set(2, 1_000));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
    allocs_run(&mut stored);
    stored.journal_apply(&mut snapshot);
    (stored, snapshot)
}

fn allocs_run(stored: &mut StoredCell) {
    let assigned = stored.tasks.values().filter(|row| row.id.job == SET && row.state == TaskState::Assigned);
    for row in assigned.cloned().collect::<Vec<_>>() {
        stored.task_put(TaskRow { state: TaskState::Running, ..row });
    }
}

fn join(stored: &mut StoredCell, job: JobId, spec: &JobSpec) {
    stored.job_submit(job, spec);
    stored.job_change(job, |row| row.alloc = Some(Box::new(JobAlloc::Member { set: SET })));
}

/// The alloc of each placed task.
fn placed(outcome: &Plan) -> BTreeMap<TaskId, u32> {
    let alloc = |placement: &borough_scheduler_core::PlannedPlacement| {
        let alloc = placement.alloc.as_deref().expect("in an alloc");
        assert_eq!(placement.charge, Resources::default(), "its alloc is charged");
        assert!(placement.constrained && placement.dependencies == [alloc.alloc]);
        (placement.task, alloc.alloc.index)
    };
    outcome.placements.iter().map(alloc).collect()
}

fn node_of(stored: &StoredCell, task: TaskId) -> Option<NodeId> {
    stored.tasks[&task].node
}

#[test]
fn a_task_goes_into_the_alloc_of_its_index_or_the_next_one_with_room() {
    let (mut stored, mut snapshot) = cell();
    join(&mut stored, WEB, &member("web", 3, 400));
    join(&mut stored, LOGS, &member("logs", 2, 150));
    let found = placed(&round(&mut stored, &mut snapshot));
    let expected = [(of(WEB, 0), 0), (of(WEB, 1), 1), (of(WEB, 2), 0), (of(LOGS, 0), 0), (of(LOGS, 1), 1)];
    assert_eq!(found, BTreeMap::from(expected));
    for (task, alloc) in expected {
        assert_eq!(node_of(&stored, task), node_of(&stored, of(SET, alloc)));
    }
    stored.sums_checked();
    assert_eq!(stored.nodes.values().map(|(_, alloc)| alloc.used.cpu_millis).sum::<u64>(), 2_000);
}

#[test]
fn what_no_alloc_has_room_for_waits_and_says_how_much_each_has_left() {
    let (mut stored, mut snapshot) = cell();
    join(&mut stored, WEB, &member("web", 3, 400));
    round(&mut stored, &mut snapshot);
    join(&mut stored, LOGS, &member("logs", 1, 700));
    assert_eq!(round(&mut stored, &mut snapshot).unplaced.len(), 1);
    let why = explain(&snapshot, LOGS, 0, stored.now_ms).to_string();
    let (full, half) = ("places/0 on node-", "places/1 on node-");
    assert!(
        why.starts_with("waits for an alloc of set places with cpu 0.7 cores and memory 64MiB left: "),
        "{why}"
    );
    assert!(why.contains(full) && why.contains(half), "{why}");
    assert!(why.contains("has cpu 0.6 cores and memory 448MiB left"), "{why}");
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default(), "it is not planned again");
    stored.task_end(of(WEB, 1), None, |row| row.state = TaskState::Dead);
    assert_eq!(placed(&round(&mut stored, &mut snapshot)), BTreeMap::from([(of(LOGS, 0), 1)]));
    stored.sums_checked();
}

#[test]
fn a_task_follows_its_alloc_and_takes_no_other_place_meanwhile() {
    let (mut stored, mut snapshot) = cell();
    join(&mut stored, WEB, &member("web", 2, 400));
    round(&mut stored, &mut snapshot);
    let before = node_of(&stored, of(SET, 0)).expect("it runs");
    let ends = |stored: &mut StoredCell, task| {
        stored.task_end(task, None, |row| (row.state, row.node) = (TaskState::Pending, None));
    };
    stored.task_put(TaskRow { state: TaskState::Stopping, ..stored.tasks[&of(SET, 0)].clone() });
    ends(&mut stored, of(WEB, 0));
    assert_eq!(round(&mut stored, &mut snapshot).placements, [], "the other alloc has room");
    let why = explain(&snapshot, WEB, 0, stored.now_ms).to_string();
    assert!(why.starts_with("goes where its alloc places/0 goes"), "{why}");
    stored.node_change(before, |row| row.schedulable = false);
    ends(&mut stored, of(SET, 0));
    let outcome = round(&mut stored, &mut snapshot);
    assert_eq!(outcome.placements.iter().map(|placement| placement.task).collect::<Vec<_>>(), [of(SET, 0)]);
    allocs_run(&mut stored);
    assert_eq!(placed(&round(&mut stored, &mut snapshot)), BTreeMap::from([(of(WEB, 0), 0)]));
    assert_ne!(node_of(&stored, of(WEB, 0)), Some(before));
    // The alloc is about to leave a drained node, so a task that begins again waits.
    let now = node_of(&stored, of(SET, 0)).expect("it runs");
    ends(&mut stored, of(WEB, 0));
    stored.node_change(now, |row| (row.schedulable, row.draining) = (false, true));
    assert_eq!(round(&mut stored, &mut snapshot).placements, []);
    stored.node_change(now, |row| (row.schedulable, row.draining) = (true, false));
    assert_eq!(placed(&round(&mut stored, &mut snapshot)), BTreeMap::from([(of(WEB, 0), 0)]));
    // Without that alloc it is free to go elsewhere.
    stored.job_change(SET, |row| row.count = 1);
    ends(&mut stored, of(WEB, 1));
    assert_eq!(placed(&round(&mut stored, &mut snapshot)), BTreeMap::from([(of(WEB, 1), 0)]));
    stored.sums_checked();
}

#[test]
fn room_is_kept_for_a_task_that_comes_back() {
    let (mut stored, mut snapshot) = cell();
    join(&mut stored, WEB, &member("web", 1, 800));
    round(&mut stored, &mut snapshot);
    let later = stored.now_ms + 60_000;
    stored.task_end(of(WEB, 0), None, |row| {
        (row.state, row.node, row.not_before_ms) = (TaskState::Pending, None, later);
    });
    join(&mut stored, LOGS, &member("logs", 2, 300));
    let found = placed(&round(&mut stored, &mut snapshot));
    assert_eq!(found, BTreeMap::from([(of(LOGS, 0), 1), (of(LOGS, 1), 1)]), "alloc 0 keeps what web/0 had");
    stored.now_ms = later;
    assert_eq!(placed(&round(&mut stored, &mut snapshot)), BTreeMap::from([(of(WEB, 0), 0)]));
}

#[test]
fn an_agent_that_knows_no_allocs_holds_none() {
    let mut stored = stored_cell(ScoringProfile::WORST_FIT);
    stored.node_put(node(0, 4, 8));
    stored.job_submit(SET, &set(1, 1_000));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    assert_eq!(round(&mut stored, &mut snapshot).placements, []);
    let why = explain(&snapshot, SET, 0, stored.now_ms).to_string();
    assert!(why.contains("agent.allocs in [yes]"), "{why}");
}

#[test]
fn a_dry_run_places_a_new_job_into_the_allocs() {
    let (mut stored, mut snapshot) = cell();
    stored.journal_apply(&mut snapshot);
    let none = Default::default();
    let dry = dry_run(&snapshot, &member("web", 3, 600), None, &none, stored.now_ms);
    assert_eq!(dry.placements.iter().map(|task| task.index).collect::<Vec<_>>(), [0, 1]);
    let why = dry.unplaced[0].1.to_string();
    assert!(why.starts_with("waits for an alloc of set places"), "{why}");
}

#[derive(Clone, Debug)]
enum Step {
    Round,
    Ends(u32),
    AllocMoves(u32),
    SetScaled(u32),
}

/// What each alloc has given out, by the rows.
fn given(stored: &StoredCell) -> BTreeMap<TaskId, u64> {
    let mut given = BTreeMap::new();
    for row in stored.tasks.values() {
        let Some(place) = row.in_alloc() else { continue };
        let alloc = &stored.tasks[&place.alloc];
        if alloc.incarnation == place.attempt && alloc.state.is_charged() {
            assert_eq!(row.node, alloc.node, "{} is where its alloc is", row.id);
            *given.entry(place.alloc).or_default() += place.resources.cpu_millis;
        }
    }
    given
}

proptest! {
    /// Whatever happens, no alloc gives more than it holds, nodes are charged for allocs alone, and no task waits while
    /// an alloc that takes it has room.
    #[test]
    fn no_alloc_gives_more_than_it_holds_and_none_is_left_with_room(
        steps in prop::collection::vec(prop_oneof![
            4 => Just(Step::Round),
            3 => (0..8u32).prop_map(Step::Ends),
            1 => (0..2u32).prop_map(Step::AllocMoves),
            1 => (1..4u32).prop_map(Step::SetScaled),
        ], 1..40),
    ) {
        let (mut stored, mut snapshot) = cell();
        join(&mut stored, WEB, &member("web", 5, 350));
        join(&mut stored, LOGS, &member("logs", 3, 250));
        let members: Vec<TaskId> = (0..5).map(|index| of(WEB, index)).chain((0..3).map(|index| of(LOGS, index))).collect();
        for step in steps {
            match step {
                Step::Round => {
                    round(&mut stored, &mut snapshot);
                    allocs_run(&mut stored);
                    round(&mut stored, &mut snapshot);
                    let given = given(&stored);
                    let open = members.iter().filter(|task| stored.tasks.get(task).is_none_or(|row| row.state == TaskState::Pending));
                    let least = open.map(|task| if task.job == WEB { 350 } else { 250 }).min();
                    let bound = stored.tasks.values().any(|row| row.state == TaskState::Pending && row.alloc.is_some());
                    let roomy = |index: u32| 1_000 - given.get(&of(SET, index)).copied().unwrap_or(0) >= least.unwrap_or(u64::MAX);
                    let count = stored.jobs[&SET].0.count;
                    prop_assert!(bound || least.is_none() || !(0..count).any(roomy), "{given:?}");
                }
                Step::Ends(number) => {
                    stored.task_end(members[number as usize], None, |row| (row.state, row.node) = (TaskState::Pending, None));
                }
                Step::AllocMoves(index) => {
                    // What is in it ends first, as its agent has it.
                    let inside = stored.tasks.values().filter(|row| row.in_alloc().is_some_and(|place| place.alloc == of(SET, index)));
                    for task in inside.map(|row| row.id).collect::<Vec<_>>() {
                        stored.task_end(task, None, |row| (row.state, row.node) = (TaskState::Pending, None));
                    }
                    stored.task_end(of(SET, index), None, |row| (row.state, row.node) = (TaskState::Pending, None));
                }
                Step::SetScaled(count) => stored.job_change(SET, |row| row.count = count),
            }
            for (alloc, given) in given(&stored) {
                prop_assert!(given <= 1_000, "{alloc} gives {given}");
            }
            stored.sums_checked();
        }
    }
}
