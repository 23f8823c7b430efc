//! Ports of nodes that share an address.

use std::collections::BTreeSet;

use borough_model::job::PortSpec;
use borough_model::node::{PORT_KEPT_BACK_MS, node_alloc_cool};
use borough_model::{JobId, JobSpec, TaskState};
use borough_scheduler_core::{
    CellSettings, PLAN_SEED, Plan, ScoringProfile, Snapshot, TermToken, explain_job, plan,
};

use crate::place::stored_cell;
use crate::stored::{StoredCell, name, node, spec};
use crate::unschedulable::round;

/// Two nodes of one address, written in two ways, and one of another.
fn shared() -> StoredCell {
    let mut stored = stored_cell(ScoringProfile::BEST_FIT);
    for (number, host) in [(0, "10.0.0.1"), (1, "::ffff:10.0.0.1"), (2, "10.0.0.2")] {
        let mut row = node(number, 8, 8);
        host.clone_into(&mut row.host);
        stored.node_put(row);
    }
    stored
}

/// Without the check against rows alone, which knows nothing of addresses.
fn planned(stored: &StoredCell) -> Plan {
    let mut snapshot = stored.snapshot(0);
    let queue = snapshot.pending(&|_| true, stored.now_ms, usize::MAX);
    plan(snapshot.tables(), &queue, stored.now_ms, PLAN_SEED)
}

fn with_port(count: u32, number: Option<u16>) -> JobSpec {
    let mut job = spec("ann", "job", count, 100, 64);
    job.task.ports = vec![PortSpec { name: name("http"), number }];
    job
}

#[test]
fn a_fixed_port_is_given_once_per_address() {
    let mut stored = shared();
    stored.job_submit(JobId(1), &with_port(3, Some(8080)));
    let plan = planned(&stored);
    assert_eq!(plan.placements.len(), 2, "{plan:?}");
    let token = TermToken { term: "ports".to_owned(), domain: "10.0.0.1".to_owned() };
    let own = node(2, 8, 8).id;
    for placement in &plan.placements {
        let expected = if placement.node == own { Vec::new() } else { vec![token.clone()] };
        assert_eq!(placement.terms, expected);
        assert_eq!(placement.constrained, placement.node != own, "it does not survive a conflict");
    }
    assert_eq!(plan.placements.iter().filter(|placement| placement.node == own).count(), 1);
    // The same over two plans: the second one knows the ports that the first one gave.
    stored.commit(&plan);
    assert!(planned(&stored).placements.is_empty());
    let explanation = explain_job(&stored.snapshot(0), JobId(1), stored.now_ms);
    let lost: Vec<String> =
        explanation[0].1.lost.iter().map(|loss| format!("{} {}", loss.nodes, loss.filter)).collect();
    assert_eq!(lost, ["3 port 8080 taken"]);
}

#[test]
fn ports_that_are_handed_out_differ_over_an_address_whatever_the_ranges() {
    let mut stored = shared();
    stored.job_submit(JobId(1), &with_port(25, None));
    let plan = planned(&stored);
    // Ten numbers of each range, and two of the ranges are the same ten ports.
    assert_eq!(plan.placements.len(), 20);
    let other = node(2, 8, 8).id;
    let of_address = |own: bool| {
        let there = plan.placements.iter().filter(|placement| (placement.node == other) == own);
        there.map(|placement| placement.ports[0].number).collect::<BTreeSet<u16>>()
    };
    assert_eq!((of_address(true).len(), of_address(false).len()), (10, 10));
}

/// Its process may still listen there, under an endpoint that is still published.
#[test]
fn a_port_of_a_lost_attempt_is_kept_back_over_its_address() {
    let (mut stored, mut snapshot) = (shared(), Snapshot::new(CellSettings::default()));
    stored.job_submit(JobId(1), &with_port(3, Some(8080)));
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 2);
    let lost = stored.resident(JobId(1)).find(|row| row.node != Some(node(2, 8, 8).id)).unwrap().clone();
    stored.job_change(JobId(1), |row| row.count = 0);
    let kept_back_ms = PORT_KEPT_BACK_MS - stored.now_ms;
    stored.task_end(lost.id, Some(kept_back_ms), |row| row.state = TaskState::Lost);
    stored.job_submit(JobId(2), &with_port(1, Some(8080)));
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    let later = |stored: &StoredCell, snapshot: &Snapshot| {
        snapshot.clone().pending(&|_| true, stored.now_ms, usize::MAX).later_ms
    };
    assert_eq!(later(&stored, &snapshot), None, "no time frees it");
    stored.now_ms += 1_000_000;
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    // The attempt is over.
    let until_ms = stored.now_ms + 10_000;
    stored.alloc_change(lost.node.unwrap(), |alloc| node_alloc_cool(alloc, &[8080], until_ms));
    assert!(round(&mut stored, &mut snapshot).placements.is_empty());
    assert_eq!(later(&stored, &snapshot), Some(until_ms));
    stored.now_ms = until_ms;
    assert_eq!(round(&mut stored, &mut snapshot).placements.len(), 1);
}
