//! Daemon jobs: each task is placed on the node that it is for, or waits for that node alone.

use borough_model::job::{JobEvent, JobKind, job_transition};
use borough_model::task::{TaskEvent, task_transition};
use borough_model::{JobId, JobRow, JobSpec, NodeId, RequestId, TaskId, TaskRow, TaskState};
use borough_scheduler_core::{PLAN_SEED, Plan, ScoringProfile, Snapshot, explain, explain_job, plan};

use crate::place::stored_cell;
use crate::stored::{StoredCell, name, node, spec};
use crate::unschedulable::round;

const JOB: JobId = JobId(1);

fn daemon(cpu_millis: u64) -> JobSpec {
    let mut daemon = JobSpec::defaults(name("ann"), name("logs"), JobKind::Daemon, vec!["true".to_owned()]);
    let usual = spec("ann", "logs", 1, cpu_millis, 64);
    (daemon.priority, daemon.task.resources) = (usual.priority, usual.task.resources);
    daemon
}

/// Gives nodes a task each, as the controller does.
fn serve(stored: &mut StoredCell, job: JobId, nodes: &[NodeId]) {
    let (row, _) = stored.jobs.get(&job).expect("a job");
    let first = row.count;
    let count = first + u32::try_from(nodes.len()).expect("few");
    let event = JobEvent::NodesServed { count, again: 0, unadmitted: 0, left: 0 };
    let grown = job_transition(row, &event, RequestId(1), 0).expect("it runs").row;
    stored.job_change(job, |row| *row = JobRow { revision: row.revision, ..grown });
    for (index, node) in (first..).zip(nodes) {
        let new = TaskRow::never_placed(TaskId { job, index });
        let served = task_transition(&new, &TaskEvent::NodeServed { node: *node }, 0).expect("it is new");
        stored.task_put(served.row);
    }
}

fn cell(nodes: u64, cores: u64) -> (StoredCell, Vec<NodeId>) {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let rows: Vec<_> = (0..nodes).map(|number| node(number, cores, 8)).collect();
    let ids = rows.iter().map(|row| row.id).collect();
    rows.into_iter().for_each(|row| stored.node_put(row));
    (stored, ids)
}

fn placed(outcome: &Plan) -> Vec<(u32, NodeId)> {
    outcome.placements.iter().map(|placement| (placement.task.index, placement.node)).collect()
}

#[test]
fn each_task_goes_to_its_own_node_and_no_other_one_is_looked_at() {
    let (mut stored, ids) = cell(3_000, 4);
    stored.job_submit(JOB, &daemon(100));
    serve(&mut stored, JOB, &ids);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    let outcome = round(&mut stored, &mut snapshot);
    let expected: Vec<_> = (0..).zip(ids.iter().copied()).collect();
    let mut found = placed(&outcome);
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(
        (outcome.counters.nodes_examined, outcome.counters.nodes_scored),
        (0, 0),
        "nothing is searched"
    );
    assert!(outcome.is_independent());
    stored.sums_checked();
}

#[test]
fn a_cordoned_node_takes_it_and_one_that_is_drained_does_not() {
    let (mut stored, ids) = cell(3, 4);
    stored.node_change(ids[0], |row| row.schedulable = false);
    stored.node_change(ids[1], |row| (row.schedulable, row.draining) = (false, true));
    stored.job_submit(JOB, &daemon(100));
    serve(&mut stored, JOB, &ids);
    stored.job_submit(JobId(2), &spec("bob", "other", 3, 100, 64));
    let mut snapshot = Snapshot::new(stored.settings.clone());
    let outcome = round(&mut stored, &mut snapshot);
    let own = |outcome: &Plan| -> Vec<_> {
        let own = outcome.placements.iter().filter(|placement| placement.task.job == JOB);
        own.map(|placement| (placement.task.index, placement.node)).collect()
    };
    assert_eq!(own(&outcome), [(0, ids[0]), (2, ids[2])]);
    let others = outcome.placements.iter().filter(|placement| placement.task.job == JobId(2));
    assert!(others.map(|placement| placement.node).all(|node| node == ids[2]), "a cordon is for other jobs");
    let why = explain(&snapshot, JOB, 1, stored.now_ms).to_string();
    assert!(why.starts_with("does not fit its own node, and may run on no other: 1 drained"), "{why}");
    // Back to a cordon alone.
    stored.node_change(ids[1], |row| row.draining = false);
    assert_eq!(own(&round(&mut stored, &mut snapshot)), [(1, ids[1])]);
}

#[test]
fn a_task_waits_for_its_own_node_and_a_change_of_another_one_costs_nothing() {
    let (mut stored, ids) = cell(3, 2);
    let large = spec("bob", "large", 1, 1_950, 64);
    stored.job_submit(JobId(2), &large);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    round(&mut stored, &mut snapshot);
    let there = stored.resident(JobId(2)).next().expect("it is placed").clone();
    let full = there.node.expect("its node");
    stored.job_submit(JOB, &daemon(100));
    serve(&mut stored, JOB, &ids);
    let outcome = round(&mut stored, &mut snapshot);
    assert_eq!(outcome.placements.len(), 2);
    assert!(outcome.placements.iter().all(|placement| placement.node != full));
    let waits = explain_job(&snapshot, JOB, stored.now_ms);
    assert_eq!(waits.len(), 1);
    assert!(waits[0].1.to_string().contains("1 less than cpu 0.1 cores free"), "{}", waits[0].1);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default(), "it is not planned again");
    // An equal request that may run anywhere is not kept back with it.
    stored.job_submit(JobId(3), &spec("cat", "small", 1, 100, 64));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
    let other = ids.iter().find(|id| **id != full).copied().expect("another node");
    stored.node_change(other, |row| row.capacity.cpu_millis += 1_000);
    assert_eq!(round(&mut stored, &mut snapshot), Plan::default());
    stored.task_end(there.id, None, |row| row.state = TaskState::Dead);
    let outcome = round(&mut stored, &mut snapshot);
    assert_eq!(outcome.placements.iter().map(|placement| placement.node).collect::<Vec<_>>(), [full]);
    stored.sums_checked();
}

#[test]
fn a_daemon_evicts_lower_priorities_on_its_own_node_alone() {
    let (mut stored, ids) = cell(3, 2);
    let low = JobSpec { priority: 50, ..spec("bob", "low", 3, 1_950, 64) };
    stored.job_submit(JobId(2), &low);
    let mut snapshot = Snapshot::new(stored.settings.clone());
    round(&mut stored, &mut snapshot);
    let rows: Vec<TaskRow> = stored.resident(JobId(2)).cloned().collect();
    for row in rows {
        stored.task_put(TaskRow { state: TaskState::Running, pid: Some(1), started_ms: Some(0), ..row });
    }
    stored.job_submit(JOB, &daemon(100));
    serve(&mut stored, JOB, &ids[..1]);
    let outcome = round(&mut stored, &mut snapshot);
    assert_eq!(placed(&outcome), [(0, ids[0])]);
    let placement = &outcome.placements[0];
    assert!(placement.held && placement.victims.len() == 1);
    let victim = stored.tasks.get(&placement.victims[0].task).expect("a row");
    assert_eq!((victim.state, victim.node), (TaskState::Stopping, Some(ids[0])));
    stored.sums_checked();
}

/// However nodes and other work change, a task is placed on its own node if that takes it, and nowhere else.
#[test]
fn over_random_changes_a_task_is_placed_if_and_only_if_its_node_takes_it() {
    for seed in 0..60_u64 {
        let (mut stored, ids) = cell(12, 1);
        let mut snapshot = Snapshot::new(stored.settings.clone());
        let mut daemon = daemon(200);
        daemon.preemption = Some(borough_model::job::PreemptionSpec { never: true, ..Default::default() });
        stored.job_submit(JOB, &daemon);
        serve(&mut stored, JOB, &ids);
        let mut drawn = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |most: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % most
        };
        for step in 0..40 {
            let which = ids[usize::try_from(draw(12)).expect("small")];
            match draw(5) {
                0 => stored.node_change(which, |row| row.schedulable = !row.schedulable),
                1 => stored.node_change(which, |row| row.draining = !row.draining),
                2 => {
                    let job = JobId(100 + step);
                    stored.job_submit(job, &spec("bob", &format!("w{step}"), 1, 300 + 100 * draw(5), 64));
                }
                3 => {
                    let all: Vec<TaskId> = stored
                        .tasks
                        .values()
                        .filter(|row| row.node == Some(which))
                        .map(|row| row.id)
                        .collect();
                    for id in all {
                        stored.task_end(id, None, |row| {
                            (row.node, row.state) = (None, TaskState::Pending);
                            if row.id.job != JOB {
                                row.state = TaskState::Dead;
                            }
                        });
                    }
                }
                _ => {}
            }
            round(&mut stored, &mut snapshot);
            stored.sums_checked();
            for task in stored.tasks.values().filter(|row| row.id.job == JOB) {
                let own = task.node_served().expect("it is for a node");
                assert!(task.node.is_none_or(|node| node == own), "seed {seed}: {task:?}");
                let (row, alloc) = &stored.nodes[&own];
                let free = row.capacity.cpu_millis - alloc.used.cpu_millis;
                let fits = !row.draining && free >= 200;
                assert!(task.state != TaskState::Pending || !fits, "seed {seed}, step {step}: {task:?}");
            }
            // A worker that lists the cell decides the same.
            let mut listed = stored.snapshot(seed);
            let queue = listed.pending(&|job| job == JOB, stored.now_ms, usize::MAX);
            let again = plan(listed.tables(), &queue, stored.now_ms, PLAN_SEED);
            assert_eq!(again.placements, [], "seed {seed}, step {step}");
        }
    }
}
