//! Gangs: every state with every event, and holds that the epoch fences.

use borough_model::id::{GangId, JobId};
use borough_model::task::machine::{
    GangEvent, GangRefused, HoldStatus, gang_gathering, gang_transition, hold_status,
};
use borough_model::task::{GangRow, GangState, Placement, TaskEvent};
use proptest::prelude::*;

use crate::sample::{NOW, placed, placement, row_after};

const EXPIRES: i64 = NOW + 1000;

fn gathering() -> GangRow {
    gang_gathering(GangId(3), JobId(1), 4, EXPIRES)
}

/// The row that a batch writes whose members wait for victims.
fn waiting() -> GangRow {
    GangRow { state: GangState::Waiting, expires_ms: 0, ..gathering() }
}

fn after(row: &GangRow, event: GangEvent) -> GangRow {
    gang_transition(row, &event, NOW).unwrap().row
}

fn commit(epoch: u64, holding: u32) -> GangEvent {
    GangEvent::Commit { epoch, holding }
}

#[test]
fn enough_members_commit_and_too_few_do_not() {
    let gang = gathering();
    let few = gang_transition(&gang, &commit(1, 3), NOW);
    assert_eq!(few, Err(GangRefused::TooFew { holding: 3, min_member: 4 }));
    let committed = after(&gang, commit(1, 4));
    assert_eq!((committed.state, committed.epoch, committed.revision), (GangState::Committed, 1, 2));
    assert!(!gang_transition(&committed, &commit(1, 4), NOW).unwrap().changed);
}

#[test]
fn an_older_epoch_commits_nothing() {
    let released = after(&gathering(), GangEvent::GiveUp { epoch: 1 });
    assert_eq!((released.state, released.epoch), (GangState::Released, 2));
    let again = after(&released, GangEvent::Gather { expires_ms: EXPIRES });
    assert_eq!((again.state, again.epoch), (GangState::Gathering, 3));
    let late = gang_transition(&again, &commit(1, 4), NOW);
    assert_eq!(late, Err(GangRefused::StaleEpoch { epoch: 1, current: 3 }));
    let late = gang_transition(&again, &GangEvent::GiveUp { epoch: 1 }, NOW);
    assert_eq!(late, Err(GangRefused::StaleEpoch { epoch: 1, current: 3 }));
}

#[test]
fn holds_expire_at_their_time_and_not_before() {
    let gang = gathering();
    assert_eq!(gang_transition(&gang, &GangEvent::Expire, EXPIRES - 1), Err(GangRefused::NotExpired));
    assert_eq!(gang_transition(&gang, &commit(1, 4), EXPIRES), Err(GangRefused::Expired));
    let more = GangEvent::Gather { expires_ms: EXPIRES + 1 };
    assert_eq!(gang_transition(&gang, &more, EXPIRES), Err(GangRefused::Expired));
    let released = gang_transition(&gang, &GangEvent::Expire, EXPIRES).unwrap().row;
    assert_eq!((released.state, released.epoch), (GangState::Released, 2));
    assert!(!gang_transition(&released, &GangEvent::Expire, EXPIRES).unwrap().changed);
    assert_eq!(gang_transition(&released, &commit(2, 4), NOW), Err(GangRefused::Released));
    let longer = after(&gang, more);
    assert_eq!((longer.epoch, longer.expires_ms), (1, EXPIRES + 1));
    assert!(!gang_transition(&gang, &GangEvent::Gather { expires_ms: NOW }, NOW).unwrap().changed);
}

#[test]
fn a_committed_gang_does_not_expire_and_gathers_only_once_given_up() {
    let committed = after(&gathering(), commit(1, 4));
    assert!(!gang_transition(&committed, &GangEvent::Expire, EXPIRES + 1).unwrap().changed);
    let gather = GangEvent::Gather { expires_ms: EXPIRES };
    assert_eq!(gang_transition(&committed, &gather, NOW), Err(GangRefused::Committed));
    assert_eq!(after(&committed, GangEvent::GiveUp { epoch: 1 }).state, GangState::Released);
}

#[test]
fn a_gang_that_waits_for_victims_has_no_time_limit_and_no_new_members() {
    let waiting = waiting();
    assert!(!gang_transition(&waiting, &GangEvent::Expire, EXPIRES + 1).unwrap().changed);
    let gather = GangEvent::Gather { expires_ms: EXPIRES + 9 };
    assert_eq!(gang_transition(&waiting, &gather, NOW), Err(GangRefused::Waiting));
    let hold =
        row_after(&[TaskEvent::HoldPromised(Placement { gang: Some((GangId(3), 1)), ..placement(1) })]);
    assert_eq!(hold_status(&hold, &waiting, EXPIRES + 1), Some(HoldStatus::Waits));
    let short = gang_transition(&waiting, &commit(1, 3), EXPIRES + 1);
    assert_eq!(short, Err(GangRefused::TooFew { holding: 3, min_member: 4 }));
    let whole = gang_transition(&waiting, &commit(1, 4), EXPIRES + 1).unwrap().row;
    assert_eq!((whole.state, whole.epoch), (GangState::Committed, 1));
    let given_up = after(&waiting, GangEvent::GiveUp { epoch: 1 });
    assert_eq!((given_up.state, given_up.epoch), (GangState::Released, 2));
    assert_eq!(hold_status(&hold, &given_up, NOW), Some(HoldStatus::Void));
    assert_eq!(gang_transition(&given_up, &commit(2, 4), NOW), Err(GangRefused::Released));
}

#[test]
fn a_hold_is_worth_what_its_gangs_epoch_allows() {
    let hold = |epoch| {
        let gang = Some((GangId(3), epoch));
        row_after(&[TaskEvent::Hold(Placement { gang, ..placement(1) })])
    };
    let gang = gathering();
    let committed = after(&gang, commit(1, 4));
    let released = after(&gang, GangEvent::GiveUp { epoch: 1 });
    let again = after(&released, GangEvent::Gather { expires_ms: EXPIRES });
    let status = |gang: &GangRow, now_ms| hold_status(&hold(1), gang, now_ms);
    assert_eq!(status(&gang, NOW), Some(HoldStatus::Waits));
    assert_eq!(status(&gang, EXPIRES), Some(HoldStatus::Void));
    assert_eq!(status(&committed, EXPIRES), Some(HoldStatus::Placed));
    assert_eq!(status(&released, NOW), Some(HoldStatus::Void));
    assert_eq!(status(&again, NOW), Some(HoldStatus::Void));
    assert_eq!(hold_status(&hold(3), &again, NOW), Some(HoldStatus::Waits));
    assert_eq!(hold_status(&placed(), &gang, NOW), None);
}

fn events() -> impl Strategy<Value = Vec<(GangEvent, i64)>> {
    let event = prop_oneof![
        (0i64..3000).prop_map(|more| GangEvent::Gather { expires_ms: NOW + more }),
        (0u64..6, 0u32..8).prop_map(|(epoch, holding)| GangEvent::Commit { epoch, holding }),
        Just(GangEvent::Expire),
        (0u64..6).prop_map(|epoch| GangEvent::GiveUp { epoch }),
    ];
    prop::collection::vec((event, 0i64..300), 1..60)
}

proptest! {
    #[test]
    fn epochs_only_grow_and_revisions_count_changes(
        first in prop_oneof![Just(gathering()), Just(waiting())],
        events in events(),
    ) {
        let (mut row, mut now_ms) = (first, NOW);
        for (event, wait_ms) in events {
            now_ms += wait_ms;
            let Ok(transition) = gang_transition(&row, &event, now_ms) else { continue };
            let next = transition.row;
            prop_assert!(next.epoch >= row.epoch);
            prop_assert_eq!(next.revision, row.revision + u64::from(transition.changed));
            prop_assert_eq!(transition.changed, next.state != row.state || next.expires_ms != row.expires_ms);
            if next.state == GangState::Released && row.state != GangState::Released {
                prop_assert!(next.epoch > row.epoch, "holds of the old epoch are void");
            }
            if next.state == GangState::Committed && row.state != GangState::Committed {
                let in_time = row.state == GangState::Gathering && now_ms < row.expires_ms;
                prop_assert!(in_time || row.state == GangState::Waiting);
            }
            row = next;
        }
    }
}
