//! Broken histories of rollouts, made by hand.

use borough_model::job::{Rollout, RolloutFailure, UpdateSpec};

use super::*;

/// A job of three tasks, two of them healthy, whose rollout may miss `unavailable_max` tasks.
fn rolling(unavailable_max: u32) -> (Hand, [TaskRow; 2]) {
    let mut hand = Hand::new();
    let Some(Delta::Job { spec: Some(spec), .. }) = hand.entries.last_mut().unwrap().deltas.first_mut()
    else {
        panic!("the last entry is the job's")
    };
    spec.update = Some(UpdateSpec { unavailable_max: Some(unavailable_max), ..UpdateSpec::default() });
    let healthy = [(0, 20_000), (1, 20_001)].map(|(index, port)| {
        let row = attempt(index, NODE, 200, port);
        hand.place(&row);
        hand.publish(&row)
    });
    (hand, healthy)
}

impl Hand {
    /// Gives the job other rules of rollouts.
    fn update(&mut self, update: UpdateSpec) {
        for delta in self.entries.iter_mut().flat_map(|entry| &mut entry.deltas) {
            if let Delta::Job { spec: Some(spec), .. } = delta {
                spec.update = Some(update);
            }
        }
    }
}

/// A step of the rollout ends these attempts.
fn replace(hand: &mut Hand, rows: &[TaskRow]) {
    hand.job.revision += 1;
    let owned = rows.iter().filter(|row| row.id.index < hand.job.owner_count() && row.is_healthy()).count();
    if let Some(rollout) = &mut hand.job.rollout {
        rollout.disruptions += u32::try_from(owned).unwrap();
    }
    let mut deltas = vec![Delta::Job { row: hand.job.clone().into(), spec: None }];
    for row in rows {
        deltas.push(Delta::Task { row: TaskRow { state: TaskState::Stopping, ..next(row) } });
        deltas.push(Delta::EndpointWithdrawn {
            user: name("ada"),
            job: name("web"),
            task: row.id,
            revision: row.revision + 1,
        });
    }
    hand.push("rollout_replace", deltas);
}

#[test]
fn a_step_beyond_the_budget_of_a_job_is_caught() {
    for (unavailable_max, broken) in [(1, vec!["rollout_budget"]), (2, vec![])] {
        let (mut hand, healthy) = rolling(unavailable_max);
        replace(&mut hand, &healthy[..1]);
        assert_eq!(hand.rules(), broken, "one is missing, and {unavailable_max} may be");
    }
    let (mut hand, healthy) = rolling(2);
    replace(&mut hand, &healthy);
    assert_eq!(hand.rules(), ["rollout_budget"], "both at once");
}

/// A drain keeps to the same budget as a rollout, and ends what keeps failing or is not healthy at any time.
#[test]
fn a_move_beyond_the_budget_of_a_job_is_caught() {
    // Task 2 was never placed: no move has taken it.
    for (unavailable_max, moved, broken) in
        [(1, 1, vec![]), (1, 2, vec!["move_budget"]), (2, 2, vec![]), (3, 2, vec![])]
    {
        let (mut hand, healthy) = rolling(unavailable_max);
        replace(&mut hand, &healthy[..moved]);
        let last = hand.entries.last_mut().unwrap();
        last.action = "task_move".to_owned();
        last.deltas.retain(|delta| !matches!(delta, Delta::Job { .. }));
        assert_eq!(hand.rules(), broken, "{moved} are moved, and {unavailable_max} may be away");
    }
}

/// What surges stands in for what is replaced. One that does not serve stands in for nobody.
#[test]
fn a_step_without_a_healthy_one_that_surges_is_caught() {
    for (surges, broken) in [(false, vec!["rollout_budget"]), (true, vec![])] {
        let (mut hand, healthy) = rolling(0);
        hand.update(UpdateSpec { unavailable_max: Some(0), surge_max: Some(1), ..UpdateSpec::default() });
        let owner = hand.job.clone();
        hand.job(|job| job.rollout = Some(Rollout::begin(&owner, 0, "user/ada", 2_000).with_surge(1).into()));
        // The owner wants two, so task 2 surges.
        if surges {
            let third = attempt(2, OTHER, 200, 20_002);
            hand.place(&third);
            hand.publish(&third);
        }
        replace(&mut hand, &healthy[..1]);
        assert_eq!(hand.rules(), broken, "{surges}");
    }
}

#[test]
fn an_attempt_that_is_not_healthy_may_always_be_ended() {
    let (mut hand, _) = rolling(1);
    let starting = attempt(2, OTHER, 200, 20_000);
    hand.place(&starting);
    replace(&mut hand, &[starting]);
    assert_eq!(hand.rules(), [] as [&str; 0]);
}

#[test]
fn a_revert_of_a_revert_is_caught() {
    for reverts in [None, Some(1)] {
        let (mut hand, _) = rolling(1);
        let owner = hand.job.clone();
        hand.job(|job| {
            job.rollout = Some(Rollout { reverts, ..Rollout::begin(&owner, 0, "user/ada", 2_000) }.into());
            job.spec_version = 2;
        });
        let failure = RolloutFailure::TaskFails { index: 0, failures: 3 };
        let back = Rollout::revert(&hand.job, Some(failure), "controller", 3_000);
        hand.job(|job| {
            job.rollout = Some(back.into());
            job.spec_version = 3;
        });
        hand.entries.last_mut().unwrap().action = "rollout_fail".to_owned();
        let broken = if reverts.is_some() { vec!["rollout_loop"] } else { vec![] };
        assert_eq!(hand.rules(), broken);
    }
}
