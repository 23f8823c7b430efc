//! Which tasks are evicted, by example: cases that random cells rarely meet.

use borough_model::job::{JobKind, PreemptionSpec, UpdateSpec};
use borough_model::resource::resources_add;
use borough_model::task::{Charge, ChargeOwner};
use borough_model::{
    Delta, GangId, Incarnation, JobId, JobSpec, NodeAlloc, NodeId, TaskId, TaskRow, TaskState,
};
use borough_scheduler_core::{PLAN_SEED, Plan, ScoringProfile, plan};

use crate::place;
use crate::stored::{StoredCell, node, spec};

const LOW: JobId = JobId(1);
const OTHER: JobId = JobId(2);
const HIGH: JobId = JobId(9);

/// A cell of nodes with this many cores each.
fn stored_cell(nodes: u64, cores: u64) -> StoredCell {
    let mut stored = place::stored_cell(ScoringProfile::BEST_FIT);
    (0..nodes).for_each(|number| stored.node_put(node(number, cores, 64)));
    stored
}

fn node_id(number: u64) -> NodeId {
    node(number, 1, 1).id
}

/// Tasks of one core each.
fn job(name: &str, count: u32, priority: u32, down_max: Option<u32>) -> JobSpec {
    let mut spec = spec("ann", name, count, 1_000, 1);
    spec.priority = priority;
    spec.preemption = down_max.map(|_| PreemptionSpec { down_max, ..PreemptionSpec::default() });
    spec
}

/// A task that has run on a node for some seconds, or as `change` makes it.
fn resident(
    stored: &mut StoredCell,
    (job, index): (JobId, u32),
    number: u64,
    seconds: i64,
    change: impl FnOnce(&mut TaskRow),
) {
    let (id, resources) = (node_id(number), stored.jobs[&job].1.task.resources.clone());
    let (_, alloc) = stored.nodes.get_mut(&id).expect("a known node");
    let used = resources_add(&alloc.used, &resources).expect("in range");
    *alloc = NodeAlloc { used, tasks: alloc.tasks + 1, epoch: alloc.epoch + 1, ..alloc.clone() };
    stored.journal.push(Delta::NodeAlloc { node: id, alloc: alloc.clone() });
    let mut row = TaskRow {
        state: TaskState::Running,
        node: Some(id),
        incarnation: Incarnation(1),
        charge: Charge { owner: ChargeOwner::Task, resources },
        spec_version: 1,
        started_ms: Some(stored.now_ms - seconds * 1_000),
        changed_ms: stored.now_ms - seconds * 1_000,
        ..TaskRow::never_placed(TaskId { job, index })
    };
    change(&mut row);
    stored.task_put(row);
}

fn planned(stored: &StoredCell) -> Plan {
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED)
}

fn victims(plan: &Plan) -> Vec<TaskId> {
    let victims = plan.placements.iter().flat_map(|placement| &placement.victims);
    let mut victims: Vec<TaskId> = victims.map(|victim| victim.task).collect();
    victims.sort_unstable();
    victims
}

#[test]
fn evictions_of_the_same_plan_count_against_a_budget() {
    let mut stored = stored_cell(4, 1);
    stored.job_submit(LOW, &job("low", 2, 100, Some(1)));
    stored.job_submit(OTHER, &job("other", 2, 100, None));
    for index in 0..2 {
        resident(&mut stored, (LOW, index), u64::from(index), 10, |_| ());
        resident(&mut stored, (OTHER, index), u64::from(index) + 2, 1_000, |_| ());
    }
    stored.job_submit(HIGH, &job("high", 2, 150, None));
    let victims = victims(&planned(&stored));
    // The cheapest of all, and then not the next cheapest: that would be beyond the budget.
    let of = |job| victims.iter().filter(|task| task.job == job).count();
    assert_eq!((of(LOW), of(OTHER)), (1, 1), "{victims:?}");
}

/// What a service says for rollouts and drains is a preference for evictions by a higher band, which gets the room
/// anyway. It is a bound for evictions within its band.
#[test]
fn evictions_keep_to_the_budget_of_a_service_while_other_victims_suffice() {
    let update = UpdateSpec { unavailable_max: Some(1), ..UpdateSpec::default() };
    let service =
        |down_max| JobSpec { kind: JobKind::Service, update: Some(update), ..job("low", 2, 100, down_max) };
    let evicted_by = |spec: &JobSpec, others: u32, by: u32| {
        let mut stored = stored_cell(2 + u64::from(others), 1);
        stored.job_submit(LOW, spec);
        stored.job_submit(OTHER, &job("other", 2, 100, None));
        for index in 0..2 {
            resident(&mut stored, (LOW, index), u64::from(index), 10, |_| ());
        }
        for index in 0..others {
            resident(&mut stored, (OTHER, index), u64::from(index) + 2, 1_000, |_| ());
        }
        stored.job_submit(HIGH, &job("high", 2, by, None));
        let victims = victims(&planned(&stored));
        victims.iter().filter(|task| task.job == LOW).count()
    };
    let evicted = |spec: &JobSpec, others: u32| evicted_by(spec, others, 150);
    assert_eq!(evicted(&job("low", 2, 100, None), 2), 2, "the cheapest of all");
    assert_eq!(evicted(&service(None), 2), 1, "one may be away");
    assert_eq!(evicted(&service(Some(2)), 2), 2, "a bound of its own for evictions");
    assert_eq!(evicted(&service(None), 0), 1, "nothing else helps, and its band waits");
    assert_eq!(evicted_by(&service(None), 0, 250), 2, "a higher band does not");
    assert_eq!(evicted_by(&service(None), 2, 250), 1, "if other victims suffice, it takes these");
    assert_eq!(evicted(&job("low", 2, 100, Some(1)), 0), 2, "batch work serves nobody");
}

#[test]
fn a_budget_goes_to_those_that_have_done_least() {
    for (long, short) in [(0, 1), (1, 0)] {
        let mut stored = stored_cell(1, 2);
        stored.job_submit(LOW, &job("low", 2, 100, Some(1)));
        resident(&mut stored, (LOW, long), 0, 1_000, |_| ());
        resident(&mut stored, (LOW, short), 0, 10, |_| ());
        stored.job_submit(HIGH, &job("high", 1, 150, None));
        assert_eq!(victims(&planned(&stored)), [TaskId { job: LOW, index: short }]);
    }
}

#[test]
fn a_member_of_a_gathering_gang_is_never_evicted() {
    let gathers = |row: &mut TaskRow| {
        (row.state, row.started_ms) = (TaskState::Held, None);
        (row.gang, row.gang_epoch) = (Some(GangId(3)), 1);
    };
    let holds = |row: &mut TaskRow| (row.state, row.started_ms) = (TaskState::Held, None);
    for (gathering, expected) in [(true, 0), (false, 1)] {
        let mut stored = stored_cell(1, 1);
        stored.job_submit(LOW, &job("low", 1, 100, None));
        resident(&mut stored, (LOW, 0), 0, 10, |row| if gathering { gathers(row) } else { holds(row) });
        stored.job_submit(HIGH, &job("high", 1, 150, None));
        assert_eq!(planned(&stored).placements.len(), expected);
    }
}

/// What one plan evicts is one transaction: it has an end, and the next plan goes on.
#[test]
fn a_storm_of_preemptors_is_planned_in_pieces_that_can_be_committed() {
    let mut stored = stored_cell(40, 100);
    stored.job_submit(LOW, &job("low", 4_000, 50, None));
    let filled = planned(&stored);
    stored.commit(&filled);
    stored.job_submit(HIGH, &spec("ann", "high", 40, 100_000, 1));
    stored.job_change(HIGH, |row| row.priority = 250);
    let mut placed = 0;
    for _ in 0..3 {
        let outcome = planned(&stored);
        let victims: usize = outcome.placements.iter().map(|placement| placement.victims.len()).sum();
        placed += outcome.placements.len();
        assert!(victims <= 1_500 + 99 && outcome.preemption_cut == (placed < 40), "{victims} {placed}");
        stored.commit(&outcome);
    }
    assert_eq!(placed, 40);
    let mut gang = spec("ann", "gang", 30, 100_000, 1);
    (gang.priority, gang.min_member) = (350, 30);
    stored.job_submit(OTHER, &gang);
    assert_eq!(planned(&stored).placements.len(), 30, "one for each of its members");
    gang.task.resources.cpu_millis = 50_000;
    let mut stored = self::stored_cell(40, 100);
    stored.job_submit(LOW, &job("low", 4_000, 50, None));
    let filled = planned(&stored);
    stored.commit(&filled);
    stored.job_submit(OTHER, &gang);
    assert_eq!(planned(&stored).placements.len(), 30, "1,500 of them");
    gang.task.resources.cpu_millis = 52_000;
    stored.job_submit(OTHER, &gang);
    assert_eq!(planned(&stored).placements.len(), 0, "it would have to be 1,560");
}
