//! Units: every state with every event, and holds that are fenced by the epoch.

use borough_model::id::{JobId, UnitId};
use borough_model::task::machine::{
    HoldStanding, UnitEvent, UnitRefused, hold_standing, unit_gathering, unit_transition,
};
use borough_model::task::{Placement, TaskEvent, UnitRow, UnitState};
use proptest::prelude::*;

use crate::sample::{NOW, placed, placement, row_after};

const EXPIRES: i64 = NOW + 1000;

fn gathering() -> UnitRow {
    unit_gathering(UnitId(3), JobId(1), 4, EXPIRES)
}

fn after(row: &UnitRow, event: UnitEvent) -> UnitRow {
    unit_transition(row, &event, NOW).unwrap().row
}

fn commit(epoch: u64, holding: u32) -> UnitEvent {
    UnitEvent::Commit { epoch, holding }
}

#[test]
fn enough_members_commit_and_too_few_do_not() {
    let unit = gathering();
    let few = unit_transition(&unit, &commit(1, 3), NOW);
    assert_eq!(few, Err(UnitRefused::TooFew { holding: 3, min_member: 4 }));
    let committed = after(&unit, commit(1, 4));
    assert_eq!((committed.state, committed.epoch, committed.revision), (UnitState::Committed, 1, 2));
    assert!(!unit_transition(&committed, &commit(1, 4), NOW).unwrap().changed);
}

#[test]
fn an_older_epoch_commits_nothing() {
    let released = after(&gathering(), UnitEvent::GiveUp { epoch: 1 });
    assert_eq!((released.state, released.epoch), (UnitState::Released, 2));
    let again = after(&released, UnitEvent::Gather { expires_ms: EXPIRES });
    assert_eq!((again.state, again.epoch), (UnitState::Gathering, 3));
    let late = unit_transition(&again, &commit(1, 4), NOW);
    assert_eq!(late, Err(UnitRefused::StaleEpoch { epoch: 1, current: 3 }));
    let late = unit_transition(&again, &UnitEvent::GiveUp { epoch: 1 }, NOW);
    assert_eq!(late, Err(UnitRefused::StaleEpoch { epoch: 1, current: 3 }));
}

#[test]
fn holds_expire_at_their_time_and_not_before() {
    let unit = gathering();
    assert_eq!(unit_transition(&unit, &UnitEvent::Expire, EXPIRES - 1), Err(UnitRefused::NotExpired));
    assert_eq!(unit_transition(&unit, &commit(1, 4), EXPIRES), Err(UnitRefused::Expired));
    let more = UnitEvent::Gather { expires_ms: EXPIRES + 1 };
    assert_eq!(unit_transition(&unit, &more, EXPIRES), Err(UnitRefused::Expired));
    let released = unit_transition(&unit, &UnitEvent::Expire, EXPIRES).unwrap().row;
    assert_eq!((released.state, released.epoch), (UnitState::Released, 2));
    assert!(!unit_transition(&released, &UnitEvent::Expire, EXPIRES).unwrap().changed);
    assert_eq!(unit_transition(&released, &commit(2, 4), NOW), Err(UnitRefused::Released));
    let longer = after(&unit, more);
    assert_eq!((longer.epoch, longer.expires_ms), (1, EXPIRES + 1));
    assert!(!unit_transition(&unit, &UnitEvent::Gather { expires_ms: NOW }, NOW).unwrap().changed);
}

#[test]
fn a_committed_unit_does_not_expire_and_gathers_only_once_given_up() {
    let committed = after(&gathering(), commit(1, 4));
    assert!(!unit_transition(&committed, &UnitEvent::Expire, EXPIRES + 1).unwrap().changed);
    let gather = UnitEvent::Gather { expires_ms: EXPIRES };
    assert_eq!(unit_transition(&committed, &gather, NOW), Err(UnitRefused::Committed));
    assert_eq!(after(&committed, UnitEvent::GiveUp { epoch: 1 }).state, UnitState::Released);
}

#[test]
fn a_unit_that_waits_for_victims_has_no_time_of_its_own_and_takes_nobody() {
    let wait = |epoch, holding| UnitEvent::Wait { epoch, holding };
    let few = unit_transition(&gathering(), &wait(1, 3), NOW);
    assert_eq!(few, Err(UnitRefused::TooFew { holding: 3, min_member: 4 }));
    assert_eq!(unit_transition(&gathering(), &wait(1, 4), EXPIRES), Err(UnitRefused::Expired));
    let waiting = after(&gathering(), wait(1, 4));
    assert_eq!((waiting.state, waiting.epoch, waiting.revision), (UnitState::Waiting, 1, 2));
    for event in [wait(1, 4), UnitEvent::Expire] {
        assert!(!unit_transition(&waiting, &event, EXPIRES + 1).unwrap().changed);
    }
    let gather = UnitEvent::Gather { expires_ms: EXPIRES + 9 };
    assert_eq!(unit_transition(&waiting, &gather, NOW), Err(UnitRefused::Waiting));
    let hold =
        row_after(&[TaskEvent::HoldPromised(Placement { unit: Some((UnitId(3), 1)), ..placement(1) })]);
    assert_eq!(hold_standing(&hold, &waiting, EXPIRES + 1), Some(HoldStanding::Waits));
    let short = unit_transition(&waiting, &commit(1, 3), EXPIRES + 1);
    assert_eq!(short, Err(UnitRefused::TooFew { holding: 3, min_member: 4 }));
    let whole = unit_transition(&waiting, &commit(1, 4), EXPIRES + 1).unwrap().row;
    assert_eq!((whole.state, whole.epoch), (UnitState::Committed, 1));
    let given_up = after(&waiting, UnitEvent::GiveUp { epoch: 1 });
    assert_eq!((given_up.state, given_up.epoch), (UnitState::Released, 2));
    assert_eq!(hold_standing(&hold, &given_up, NOW), Some(HoldStanding::Void));
    assert_eq!(unit_transition(&given_up, &wait(2, 4), NOW), Err(UnitRefused::Released));
}

#[test]
fn a_hold_is_worth_what_its_unit_says_at_its_epoch() {
    let hold = |epoch| {
        let unit = Some((UnitId(3), epoch));
        row_after(&[TaskEvent::Hold(Placement { unit, ..placement(1) })])
    };
    let unit = gathering();
    let committed = after(&unit, commit(1, 4));
    let released = after(&unit, UnitEvent::GiveUp { epoch: 1 });
    let again = after(&released, UnitEvent::Gather { expires_ms: EXPIRES });
    let standing = |unit: &UnitRow, now_ms| hold_standing(&hold(1), unit, now_ms);
    assert_eq!(standing(&unit, NOW), Some(HoldStanding::Waits));
    assert_eq!(standing(&unit, EXPIRES), Some(HoldStanding::Void));
    assert_eq!(standing(&committed, EXPIRES), Some(HoldStanding::Placed));
    assert_eq!(standing(&released, NOW), Some(HoldStanding::Void));
    assert_eq!(standing(&again, NOW), Some(HoldStanding::Void));
    assert_eq!(hold_standing(&hold(3), &again, NOW), Some(HoldStanding::Waits));
    assert_eq!(hold_standing(&placed(), &unit, NOW), None);
}

fn events() -> impl Strategy<Value = Vec<(UnitEvent, i64)>> {
    let event = prop_oneof![
        (0i64..3000).prop_map(|more| UnitEvent::Gather { expires_ms: NOW + more }),
        (0u64..6, 0u32..8).prop_map(|(epoch, holding)| UnitEvent::Commit { epoch, holding }),
        (0u64..6, 0u32..8).prop_map(|(epoch, holding)| UnitEvent::Wait { epoch, holding }),
        Just(UnitEvent::Expire),
        (0u64..6).prop_map(|epoch| UnitEvent::GiveUp { epoch }),
    ];
    prop::collection::vec((event, 0i64..300), 1..60)
}

proptest! {
    #[test]
    fn epochs_only_grow_and_revisions_count_changes(events in events()) {
        let (mut row, mut now_ms) = (gathering(), NOW);
        for (event, wait_ms) in events {
            now_ms += wait_ms;
            let Ok(transition) = unit_transition(&row, &event, now_ms) else { continue };
            let next = transition.row;
            prop_assert!(next.epoch >= row.epoch);
            prop_assert_eq!(next.revision, row.revision + u64::from(transition.changed));
            prop_assert_eq!(transition.changed, next.state != row.state || next.expires_ms != row.expires_ms);
            if next.state == UnitState::Released && row.state != UnitState::Released {
                prop_assert!(next.epoch > row.epoch, "holds of the old epoch are void");
            }
            if next.state == UnitState::Committed && row.state != UnitState::Committed {
                let in_time = row.state == UnitState::Gathering && now_ms < row.expires_ms;
                prop_assert!(in_time || row.state == UnitState::Waiting);
            }
            row = next;
        }
    }
}
