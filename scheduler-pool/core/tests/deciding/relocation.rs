//! Moves off drained nodes, tried before anything is stopped.

use borough_model::job::{PortSpec, Rollout};
use borough_model::node::NodeState;
use borough_model::{JobId, NodeId, TaskId, TaskState};
use borough_scheduler_core::{Relocation, ScoringProfile, explain_elsewhere};

use crate::place::{planned, stored_cell};
use crate::stored::{StoredCell, name, node, spec};

fn task(job: u64) -> TaskId {
    TaskId { job: JobId(job), index: 0 }
}

/// Two jobs of a core each on one node that is drained, and a second node that has `free` cores.
fn drained(free: u64) -> (StoredCell, NodeId) {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    let (from, to) = (node(0, 2, 8), node(1, 8, 8));
    let (from_id, to_id) = (from.id, to.id);
    stored.node_put(from);
    for job in [1, 2] {
        stored.job_submit(JobId(job), &spec("ann", &format!("job-{job}"), 1, 1_000, 64));
        stored.commit(&planned(&stored));
    }
    stored.node_put(to);
    stored.job_submit(JobId(3), &spec("ann", "filler", 1, (8 - free) * 1_000, 64));
    stored.commit(&planned(&stored));
    stored.node_change(from_id, |row| (row.draining, row.schedulable) = (true, false));
    let on = |job| stored.tasks[&task(job)].node;
    assert_eq!([on(1), on(2), on(3)], [Some(from_id), Some(from_id), Some(to_id)]);
    (stored, from_id)
}

#[test]
fn a_task_moves_only_to_capacity_that_nobody_else_gets() {
    for (free, expected) in [(0, [false, false]), (1, [true, false]), (2, [true, true])] {
        let (stored, _) = drained(free);
        let mut relocation = Relocation::new(stored.snapshot(0), [], stored.now_ms);
        assert_eq!([relocation.fits(task(1)), relocation.fits(task(2))], expected, "{free} cores free");
    }
    // The first is moving and not placed yet: the free capacity is taken.
    let (mut stored, from) = drained(1);
    let stopping = |row: &mut borough_model::TaskRow| row.state = TaskState::Stopping;
    let mut row = stored.tasks[&task(1)].clone();
    stopping(&mut row);
    stored.task_put(row);
    let mut relocation = Relocation::new(stored.snapshot(0), [task(1)], stored.now_ms);
    assert!(!relocation.fits(task(2)));
    // So it is where something waits that was never placed.
    let (mut stored, _) = drained(1);
    stored.job_submit(JobId(4), &spec("ann", "waits", 1, 1_000, 64));
    let mut relocation = Relocation::new(stored.snapshot(0), [], stored.now_ms);
    assert!(!relocation.fits(task(1)));
    assert_eq!(stored.nodes[&from].0.state, NodeState::Ready);
}

/// It has the port of its own under the address of both nodes until it leaves. A port of another job stays taken.
#[test]
fn a_task_with_a_fixed_port_moves_to_a_node_of_the_same_address() {
    for other in [None, Some(JobId(2))] {
        let mut stored = stored_cell(ScoringProfile::BEST_FIT);
        let (from, to) = (node(0, 2, 8), node(1, 8, 8));
        let (from_id, to_id) = (from.id, to.id);
        let mut web = spec("ann", "web", 1, 1_000, 64);
        web.task.ports = vec![PortSpec { name: name("http"), number: Some(8080) }];
        stored.node_put(from);
        stored.job_submit(JobId(1), &web);
        stored.commit(&planned(&stored));
        let mut two = spec("ann", "two", 1, 1_000, 64);
        two.task.ports = vec![PortSpec { name: name("http"), number: Some(8081) }];
        stored.job_submit(JobId(2), &two);
        stored.commit(&planned(&stored));
        for id in [from_id, to_id] {
            if id == to_id {
                stored.node_put(to.clone());
            }
            stored.node_change(id, |row| "10.0.0.1".clone_into(&mut row.host));
        }
        stored.node_change(from_id, |row| (row.draining, row.schedulable) = (true, false));
        if other.is_some() {
            // The next version of the job asks for the port that the other job has.
            web.task.ports[0].number = Some(8081);
        }
        stored.job_respec(JobId(1), &web);
        stored.job_change(JobId(1), |row| {
            let rollout = Rollout::begin(row, 0, "user/ann", 0);
            row.rollout = Some(Box::new(if other.is_some() { rollout } else { rollout.done(0) }));
        });
        let mut relocation = Relocation::new(stored.snapshot(0), [], stored.now_ms);
        assert_eq!(relocation.fits(task(1)), other.is_none());
        assert_eq!(relocation.fits(task(1)), other.is_none(), "also if it is asked again");
    }
}

#[test]
fn a_task_that_stays_is_explained_as_one_that_waits() {
    let (stored, _) = drained(0);
    let explanation = explain_elsewhere(&stored.snapshot(0), JobId(1), 0, stored.now_ms);
    let losses: Vec<String> =
        explanation.lost.iter().map(|loss| format!("{} {}", loss.nodes, loss.filter)).collect();
    // The node that it leaves is not one of those that refuse it.
    assert_eq!(losses, ["1 less than cpu 1 core free"], "{explanation}");
    assert_eq!((explanation.nodes, explanation.nodes_fit), (1, 0));
    assert!(explanation.to_string().starts_with("fits on none of 1 other node: "), "{explanation}");
    let (stored, _) = drained(1);
    assert_eq!(explain_elsewhere(&stored.snapshot(0), JobId(1), 0, stored.now_ms).nodes_fit, 1);
}
