//! Broken histories of gangs that gather by holds, of promises and of quotas, made by hand.

use borough_model::task::{GangRow, GangState};
use borough_model::{GangId, task};

use super::*;

const GANG: GangId = GangId(5);

/// A cell whose job is a gang of two.
fn gang() -> Hand {
    let mut hand = Hand::new();
    let Some(Delta::Job { spec: Some(spec), .. }) = hand.entries.last_mut().unwrap().deltas.first_mut()
    else {
        panic!("the last entry is the job's")
    };
    spec.min_member = 2;
    hand
}

fn gang_is(hand: &mut Hand, state: GangState, revision: u64) {
    let row = GangRow { id: GANG, job: JOB, min_member: 2, state, epoch: 1, expires_ms: 60_000, revision };
    hand.push("gang", vec![Delta::Gang { row }]);
}

/// A member takes its hold.
fn hold(hand: &mut Hand, index: u32) -> TaskRow {
    let row = TaskRow {
        state: TaskState::Held,
        gang: Some(GANG),
        gang_epoch: 1,
        ports: Vec::new(),
        ..attempt(index, NODE, 200, 0)
    };
    hand.place(&row);
    row
}

/// A member begins: its hold becomes a placement.
fn begin(hand: &mut Hand, held: &TaskRow) {
    let row = TaskRow { state: TaskState::Assigned, ..next(held) };
    hand.push("gang_settle", vec![Delta::Task { row }]);
}

#[test]
fn a_gang_that_gathers_as_it_must_passes() {
    let mut hand = gang();
    gang_is(&mut hand, GangState::Gathering, 1);
    let held = [hold(&mut hand, 0), hold(&mut hand, 1)];
    gang_is(&mut hand, GangState::Committed, 2);
    held.iter().for_each(|row| begin(&mut hand, row));
    assert_eq!(hand.rules(), [] as [&str; 0]);
}

#[test]
fn a_gang_that_comes_together_with_too_few_or_begins_before_that_is_caught() {
    let mut hand = gang();
    gang_is(&mut hand, GangState::Gathering, 1);
    let held = hold(&mut hand, 0);
    let before = hand.entries.len();
    gang_is(&mut hand, GangState::Committed, 2);
    assert_eq!(hand.rules(), ["gang_commit_short", "gang_short"]);
    hand.entries.truncate(before);
    hold(&mut hand, 1);
    begin(&mut hand, &held);
    assert_eq!(hand.rules(), ["gang_alone"]);
}

#[test]
fn an_eviction_of_a_member_that_gathers_is_caught() {
    let mut hand = gang();
    gang_is(&mut hand, GangState::Gathering, 1);
    let held = hold(&mut hand, 0);
    let job = other_job(&mut hand, 300, 1);
    let preemptor = TaskRow { id: TaskId { job, index: 0 }, ..attempt(0, NODE, 200, 20_001) };
    evict(&mut hand, &held, preemptor);
    assert_eq!(hand.rules(), ["evicted_gathering"]);
}

#[test]
fn a_promise_that_is_kept_before_its_victim_left_is_caught() {
    for gone in [true, false] {
        let mut hand = Hand::new();
        let job = other_job(&mut hand, 100, 1);
        let victim = TaskRow { id: TaskId { job, index: 0 }, ..attempt(0, NODE, 300, 20_000) };
        hand.place(&victim);
        let (stopping, held) = evict(&mut hand, &victim, attempt(0, NODE, 300, 20_001));
        if gone {
            hand.leave(&stopping);
        }
        let row = TaskRow { state: TaskState::Assigned, promised: false, ..next(&held) };
        let cpu_millis = row.charge.resources.cpu_millis;
        let alloc = hand.alloc(NODE, |alloc| {
            alloc.promised.cpu_millis -= cpu_millis;
            alloc.used.cpu_millis += cpu_millis;
        });
        hand.push("task_report", vec![alloc, Delta::Task { row }]);
        assert_eq!(hand.rules(), if gone { vec![] } else { vec!["promise_early"] });
    }
}

#[test]
fn more_than_a_quota_allows_is_caught() {
    let (user, _, most) = borough_simulation::audit::QUOTAS[0];
    for (count, broken) in [(most, vec![]), (most + 1, vec!["quota"])] {
        let mut hand = Hand::new();
        hand.job(|job| {
            (job.user, job.priority) = (name(user), 150);
            job.count = u32::try_from(count).unwrap();
        });
        assert_eq!(hand.rules(), broken);
    }
    // An ended task is no longer charged, although its row exists.
    let mut hand = Hand::new();
    let charge = Charge { owner: task::ChargeOwner::Released, ..Charge::default() };
    let dead = TaskRow {
        state: TaskState::Dead,
        charge,
        revision: 1,
        ..TaskRow::never_placed(TaskId { job: JOB, index: 0 })
    };
    hand.push("task_report", vec![Delta::Task { row: dead }]);
    hand.job(|job| {
        (job.user, job.priority) = (name(user), 150);
        job.count = u32::try_from(most + 1).unwrap();
    });
    assert_eq!(hand.rules(), [] as [&str; 0]);
}
