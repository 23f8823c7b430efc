//! What users of Karmada complain of again and again, as far as a split decides it. The numbers are those of its
//! issues.

use borough_model::federation::{CellFacts, CellReason, Split, SplitMode, split};
use serde_json::json;

use super::sample::{carried_out, cell, counts, reason, spec};

/// 1a. Fails over on a false alarm (1640, 5375). Silence alone moves nothing, and no task is promised twice.
#[test]
fn karmada_1_a_silent_cell_keeps_its_tasks_until_a_failover_is_decided() {
    let job = spec(json!({}));
    let mut silent = [cell("a", 5, 3), cell("b", 5, 3)];
    silent[0].silent_since_ms = Some(1);
    silent[0].room = None;
    for mode in [SplitMode::Again, SplitMode::Rebalance, SplitMode::RebalanceStuck] {
        let split = split(&job, 6, &silent, mode);
        assert_eq!((counts(&split).as_str(), split.unplaced), ("a=3 b=3", 0), "{mode:?}");
        assert_eq!(reason(&split, "a"), &CellReason::Silent { since_ms: 1 });
    }
}

/// 1b. Does not fail over (744, 2096, 3623, 6925, 6951, 7065). A decided failover gives the tasks to others at once.
#[test]
fn karmada_1_a_decided_failover_promises_each_task_elsewhere_once() {
    let job = spec(json!({}));
    let cells = [
        CellFacts { silent_since_ms: Some(1), failed_over: true, room: None, ..cell("a", 0, 3) },
        cell("b", 2, 3),
        cell("c", 9, 0),
    ];
    let after = split(&job, 6, &cells, SplitMode::Again);
    assert_eq!(after.unplaced, 0);
    assert_eq!(after.counts.values().sum::<u32>(), 6);
    assert!(!counts(&after).contains("a="), "{}", counts(&after));
    assert_eq!(reason(&after, "a"), &CellReason::FailedOver);
    // While it is back and not settled, it gets nothing.
    let mut back = cells;
    back[0].silent_since_ms = None;
    back[0].room = Some(9);
    assert_eq!(split(&job, 6, &back, SplitMode::Again).counts, after.counts);
}

/// 2a. No way back to the first group (4840, 5070, 5172, 6774). A rebalance goes there, as often as it is asked for. A
/// split that is only made again does not move what runs.
#[test]
fn karmada_2_a_rebalance_returns_to_the_first_group() {
    let job = spec(json!({"groups": [{"cells": ["own"]}, {"cells": ["rent"]}]}));
    let mut cells = vec![cell("own", 10, 0), cell("rent", 10, 0)];
    for _ in 0..2 {
        cells[0].room = None;
        let away = split(&job, 6, &cells, SplitMode::Rebalance);
        assert_eq!(counts(&away), "rent=6");
        cells = carried_out(&cells, &away);
        cells[0].room = Some(10);
        assert_eq!(counts(&split(&job, 6, &cells, SplitMode::Again)), "rent=6", "nothing that runs moves");
        let back = split(&job, 6, &cells, SplitMode::Rebalance);
        assert_eq!(counts(&back), "own=6");
        cells = vec![cell("own", 4, 6), cell("rent", 10, 0)];
        // The own cell is lost for a while, and the circle begins again.
        cells[0] = cell("own", 10, 0);
    }
    let moving =
        spec(json!({"avoid_disruption": false, "groups": [{"cells": ["own"]}, {"cells": ["rent"]}]}));
    let rented = [cell("own", 10, 0), cell("rent", 4, 6)];
    assert_eq!(counts(&split(&moving, 6, &rented, SplitMode::Again)), "own=6", "the job allows moves");
}

/// 2b. "Move only what cannot run" (7662).
#[test]
fn karmada_2_only_tasks_that_cannot_run_move() {
    let job = spec(json!({}));
    let stuck = |running: u32| CellFacts { running, ..cell("full", 0, 6) };
    let moved = |cells: &[CellFacts]| split(&job, 8, cells, SplitMode::RebalanceStuck);
    let after = moved(&[stuck(2), cell("roomy", 3, 2)]);
    assert_eq!((counts(&after).as_str(), after.unplaced), ("full=3 roomy=5", 0), "one has no other place");
    assert_eq!(reason(&after, "full"), &CellReason::Stuck { moved: 3 });
    let after = moved(&[stuck(6), cell("roomy", 9, 2)]);
    assert_eq!(counts(&after), "full=6 roomy=2", "all run");
    let starting = CellFacts { room: Some(1), ..stuck(2) };
    assert_eq!(
        counts(&moved(&[starting, cell("roomy", 9, 2)])),
        "full=6 roomy=2",
        "they have room where they are"
    );
}

/// 4a. Tasks go to clusters that cannot fit them (521, 1385, 2843, 4216, 5011).
#[test]
fn karmada_4_no_cell_gets_more_than_its_scheduler_has_room_for() {
    let cells = [cell("a", 2, 1), cell("b", 0, 0), CellFacts { room: None, ..cell("c", 0, 1) }];
    for policy in ["free", "weight", "pack", "order", "duplicate"] {
        let split = split(&spec(json!({"split": policy})), 10, &cells, SplitMode::Again);
        assert_eq!(counts(&split), "a=3 c=1", "{policy}");
        assert_eq!(reason(&split, "b"), &CellReason::RoomTaken { room: 0 });
        assert_eq!(reason(&split, "c"), &CellReason::RoomUnknown);
        assert!(split.unplaced > 0, "{policy}");
    }
}

/// 4b. What was promised and has not arrived is forgotten, also by a restart (7550). A split knows nothing but its
/// arguments: promises are in `has`, and the caller takes them off the room.
#[test]
fn karmada_4_a_promise_that_has_not_arrived_is_not_made_again() {
    let job = spec(json!({}));
    let cells = [cell("a", 5, 0), cell("b", 5, 0)];
    let first = split(&job, 8, &cells, SplitMode::Again);
    assert_eq!(counts(&first), "a=4 b=4");
    // Nothing has arrived: nothing runs, and the cells would still place 5. The promises are off the room.
    let promised = [
        CellFacts { has: 4, running: 0, ..cell("a", 1, 0) },
        CellFacts { has: 4, running: 0, ..cell("b", 1, 0) },
    ];
    for mode in [SplitMode::Again, SplitMode::Rebalance, SplitMode::RebalanceStuck] {
        assert_eq!(split(&job, 8, &promised, mode).counts, first.counts, "{mode:?}");
    }
    let more: Split = split(&job, 12, &promised, SplitMode::Again);
    assert_eq!((counts(&more).as_str(), more.unplaced), ("a=5 b=5", 2));
}

/// 7. A cap per cluster (1634) and head-room: a cell has no more than its limit, whatever room it has.
#[test]
fn karmada_7_a_cell_has_a_cap_of_its_own() {
    let job = spec(json!({"cell_max": 4, "limits": {"b": {"max": 2}}}));
    let split = split(&job, 9, &[cell("a", 50, 0), cell("b", 50, 0)], SplitMode::Again);
    assert_eq!((counts(&split).as_str(), split.unplaced), ("a=4 b=2", 3));
    assert_eq!(reason(&split, "b"), &CellReason::AtMax { max: 2 });
}
