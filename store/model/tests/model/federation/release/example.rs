//! Releases step by step.

use borough_model::federation::{
    CellProgress, CellReach, RELEASE_SKIP_MS, ReleasePhase, ReleaseReason, ReleaseRefusal, ReleaseSpec,
    ReleaseState,
};
use serde_json::json;

use super::{Carried, cell, fails, rollout};
use crate::sample::name;

const COMPLETE: CellProgress = CellProgress::Complete;

#[test]
fn without_a_spec_one_cell_follows_the_other() {
    let mut release = Carried::of(ReleaseSpec::default(), &["a", "b"]);
    assert_eq!(release.does(), "a=2");
    assert_eq!(release.does(), "a is changing; it goes on when that has ended");
    release.ends("a", COMPLETE);
    assert_eq!(release.does(), "b=2");
    release.ends("b", COMPLETE);
    assert_eq!(release.does(), "done");
    assert_eq!((release.state.phase, release.state.proven()), (ReleasePhase::Done, 2));
    assert!(release.does().starts_with("every cell that can be reached has its version"));
}

#[test]
fn without_a_spec_nothing_follows_a_cell_that_fails() {
    let mut release = Carried::of(ReleaseSpec::default(), &["a", "b"]);
    release.step();
    release.ends("a", fails("task 0 fails"));
    assert_eq!(release.does(), "fail");
    assert!(release.does().starts_with("the version has failed in 1 cell, and the job bears 0"));
    let step = release.decide();
    assert_eq!(
        step.cells[0].to_string(),
        "a: version 2: its own rolling update has failed: task 0 fails; a newer version or `federation job undo` would replace it"
    );
    assert_eq!(step.cells[1].reason, ReleaseReason::Stopped);
    assert_eq!(release.cell("b").assigned, Some(1));
}

#[test]
fn a_canary_proves_the_version_and_a_person_approves_it() {
    let stages =
        json!([{"cells": ["c"], "prove": "10m", "approve": true}, {"cells": ["a", "b"], "at_once": 2}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b", "c", "d"]);
    assert_eq!(release.does(), "c=2");
    release.ends("c", COMPLETE);
    release.now_ms = 1_000;
    let proves =
        "601000: the cells of stage 0 have the version and prove it; it goes on when they have stood";
    assert_eq!(release.does(), proves);
    assert_eq!(release.decide().cells[0].reason, ReleaseReason::LaterStage { under_way: 0 });
    release.now_ms = 600_999;
    assert_eq!(release.does(), proves);
    release.now_ms = 601_000;
    assert_eq!(release.does(), "stage 0 has proved the version; it goes on when a person approves the stage");
    assert_eq!(release.state.approve(1), Err(ReleaseRefusal::OtherStage { stage: 1, current: 0 }));
    release.state.approve(0).unwrap();
    assert_eq!(release.does(), "next");
    assert_eq!(release.does(), "a=2 b=2");
    release.ends("b", COMPLETE);
    assert_eq!(release.does(), "a is changing; it goes on when that has ended");
    release.ends("a", COMPLETE);
    assert_eq!([release.does(), release.does()], ["next", "d=2"]);
}

#[test]
fn a_canary_that_changes_again_has_to_prove_itself_again() {
    let stages = json!([{"cells": ["a"], "prove": "10m"}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b"]);
    release.step();
    release.ends("a", COMPLETE);
    release.step();
    release.now_ms = 500_000;
    release.ends("a", CellProgress::Rolling);
    assert_eq!(release.does(), "a is changing; it goes on when that has ended");
    release.ends("a", COMPLETE);
    assert!(release.does().starts_with("1100000: "));
}

#[test]
fn a_cell_that_joins_a_proving_stage_begins_its_time_again() {
    let stages = json!([{"cells": ["a", "b"], "prove": "10m"}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b", "c"]);
    release.cell("b").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    release.step();
    release.ends("a", COMPLETE);
    assert!(release.does().starts_with("600000: "));
    release.cell("b").reach = CellReach::Reachable;
    assert_eq!(release.does(), "b=2");
    // It is ready before anybody looks again.
    release.ends("b", COMPLETE);
    release.now_ms = 700_000;
    assert!(release.does().starts_with("1300000: "));
    // All are lost, and have to stand again when they are back.
    for text in ["a", "b"] {
        release.cell(text).reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    }
    release.now_ms = 1_000_000;
    assert!(release.does().starts_with("no cell of stage 0 can be reached"));
    release.cell("a").reach = CellReach::Reachable;
    release.now_ms = 2_000_000;
    assert!(release.does().starts_with("2600000: "));
    // An approval from now counts for a stage that has proved itself, and not for one that is lost again.
    release.state.approve(0).unwrap();
    release.cell("a").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    assert!(release.does().starts_with("no cell of stage 0 can be reached"));
}

#[test]
fn a_stage_whose_cells_have_the_version_already_proves_it_for_its_own_time() {
    let stages = json!([{"cells": ["a"]}, {"cells": ["b"], "prove": "10m"}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b", "c"]);
    release.cell("b").assigned = Some(2);
    release.step();
    release.ends("a", COMPLETE);
    release.now_ms = 700_000;
    assert_eq!(release.does(), "next");
    release.now_ms = 900_000;
    assert!(release.does().starts_with("1500000: "));
}

#[test]
fn nobody_approves_the_last_stage_with_tasks_and_a_dark_one_is_not_done() {
    let stages = json!([{"cells": ["a"], "approve": true}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b"]);
    release.cell("b").has_tasks = false;
    release.step();
    release.ends("a", COMPLETE);
    assert_eq!(release.does(), "done");
    let mut dark = Carried::of(ReleaseSpec::default(), &["a"]);
    dark.cell("a").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    assert!(dark.does().starts_with("no cell of stage 0 can be reached"));
}

#[test]
fn a_revert_waits_for_no_cell_that_it_does_not_concern() {
    let mut release = Carried::of(rollout(json!({"stages": [{"cells": ["a"]}]})), &["a", "b"]);
    release.step();
    release.ends("b", CellProgress::Rolling);
    release.state.revert().unwrap();
    assert_eq!(release.does(), "a=1");
    release.ends("a", COMPLETE);
    assert_eq!(release.does(), "reverted");
}

#[test]
fn a_lost_canary_proves_nothing_and_an_early_approval_does_not_replace_it() {
    let stages = json!([{"cells": ["a"], "approve": true}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b"]);
    release.step();
    release.state.approve(0).unwrap();
    release.cell("a").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS - 1_000 };
    release.now_ms = 5_000;
    assert_eq!(
        release.does(),
        "6000: a has been unreachable for 4m59s; it goes on when the cell is back, or without it after 5m"
    );
    release.cell("a").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    let unproven = "no cell of stage 0 can be reached and has the version, so nothing shows that the version works; it \
                    goes on when one has proved it, or when a person approves the stage";
    assert_eq!([release.does(), release.does()], [unproven, unproven]);
    assert_eq!(release.decide().cells[0].reason, ReleaseReason::Skipped { for_ms: RELEASE_SKIP_MS });
    release.state.approve(0).unwrap();
    assert_eq!([release.does(), release.does()], ["next", "b=2"]);
}

#[test]
fn a_stage_without_tasks_proves_nothing() {
    let mut release = Carried::of(rollout(json!({"stages": [{"cells": ["a"]}]})), &["a", "b"]);
    release.cell("a").has_tasks = false;
    assert!(release.does().starts_with("no cell of stage 0 has tasks of the job, so nothing shows"));
    // Tasks of the canary come late.
    release.cell("a").has_tasks = true;
    release.cell("a").assigned = None;
    assert_eq!(release.does(), "a=2");
    // With no tasks in a later stage nothing is at risk.
    let mut alone = Carried::of(ReleaseSpec::default(), &["a"]);
    alone.cell("a").has_tasks = false;
    assert_eq!(alone.does(), "done");
}

#[test]
fn an_unreachable_cell_is_skipped_and_gets_what_is_current_when_it_is_back() {
    let stages = json!([{"cells": ["a"]}, {"cells": ["b", "c"]}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages })), &["a", "b", "c"]);
    release.cell("b").reach = CellReach::Unreachable { for_ms: RELEASE_SKIP_MS };
    release.step();
    release.ends("a", COMPLETE);
    assert_eq!([release.does(), release.does()], ["next", "c=2"]);
    release.ends("c", COMPLETE);
    assert_eq!(release.does(), "done");
    release.cell("b").reach = CellReach::Reachable;
    assert_eq!(release.does(), "b=2");
    assert_eq!(release.decide().cells[1].reason, ReleaseReason::Changes);
    // It was away for two versions. Its stage has not begun, so it gets the last proven one.
    release.cell("b").assigned = Some(1);
    release.state = release.state.superseded_by(3).unwrap();
    assert_eq!(release.does(), "a=3 b=2");
}

#[test]
fn a_revert_goes_from_the_last_stage_to_the_first() {
    let stages = json!([{"cells": ["a"]}, {"cells": ["b", "c", "d"], "at_once": 2}]);
    let spec = rollout(json!({ "stages": stages, "failures_max": 1, "revert": true }));
    let mut release = Carried::of(spec, &["a", "b", "c", "d", "e"]);
    release.step();
    release.ends("a", COMPLETE);
    assert_eq!([release.does(), release.does()], ["next", "b=2 c=2"]);
    release.ends("b", fails("x"));
    assert_eq!(release.does(), "d=2");
    release.ends("d", fails("y"));
    assert_eq!(release.does(), "revert");
    assert_eq!(release.state.failed.iter().map(|failed| failed.cell.as_str()).collect::<String>(), "bd");
    assert_eq!(release.does(), "c=1 b=1", "one that is changing already comes first");
    assert_eq!(release.decide().cells[0].reason, ReleaseReason::RevertsLater);
    assert_eq!(release.does(), "b and 1 more cells are changing; it goes on when they have ended");
    release.ends("b", COMPLETE);
    assert_eq!(release.does(), "d=1");
    assert_eq!(release.does(), "a=1");
    for text in ["a", "c", "d"] {
        release.ends(text, COMPLETE);
    }
    assert_eq!(release.does(), "reverted");
    assert_eq!((release.state.phase, release.state.proven()), (ReleasePhase::Reverted, 1));
    assert_eq!(release.cell("e").assigned, Some(1), "its stage never began");
}

#[test]
fn a_newer_version_begins_with_the_canaries_and_goes_back_to_the_proven_one() {
    let stages = json!([{"cells": ["a"]}]);
    let mut release = Carried::of(rollout(json!({ "stages": stages, "revert": true })), &["a", "b", "c"]);
    release.step();
    release.ends("a", COMPLETE);
    assert_eq!([release.does(), release.does()], ["next", "b=2"]);
    release.state.pause().unwrap();
    release.state = release.state.superseded_by(3).unwrap();
    assert_eq!((release.state.from, release.state.stage, release.state.paused), (1, 0, false));
    // The cell with the version between keeps it: nobody takes it through a third one.
    assert_eq!([release.does(), release.does()], ["a=3", "a is changing; it goes on when that has ended"]);
    release.ends("a", fails("x"));
    assert_eq!([release.does(), release.does()], ["revert", "b=1"]);
    release.ends("b", COMPLETE);
    assert_eq!(release.does(), "a=1");
}

#[test]
fn a_person_stops_resumes_and_reverts() {
    let mut release = Carried::of(ReleaseSpec::default(), &["a", "b"]);
    release.state.pause().unwrap();
    assert_eq!(release.does(), "a person has paused it; it goes on when it is resumed");
    assert_eq!(release.decide().cells[0].reason, ReleaseReason::Paused);
    release.state.resume().unwrap();
    release.state.resume().expect("one that was not paused goes on as well");
    assert_eq!(release.does(), "a=2");
    release.state.pause().unwrap();
    release.state.revert().unwrap();
    assert_eq!([release.does(), release.does()], ["a=1", "a is changing; it goes on when that has ended"]);
    release.ends("a", COMPLETE);
    assert_eq!(release.does(), "reverted");
    let phase = ReleasePhase::Reverted;
    assert_eq!(release.state.revert(), Err(ReleaseRefusal::NothingToRevert { version: 2, phase }));
    assert_eq!(release.state.pause(), Err(ReleaseRefusal::NotRolling { version: 2, phase }));
    let refusal = release.state.superseded_by(2).unwrap_err();
    assert_eq!(refusal.to_string(), "version 2; accepted: one after 2, which a release has brought already");
}

#[test]
fn a_failure_is_over_when_the_cell_has_the_version() {
    let mut release = Carried::of(rollout(json!({"failures_max": 1})), &["a", "b"]);
    release.step();
    release.ends("a", fails(&"x".repeat(500)));
    assert_eq!(release.does(), "b=2");
    assert_eq!(release.state.failed[0].why.len(), 200);
    release.ends("a", CellProgress::Rolling);
    release.step();
    assert_eq!(release.state.failed[0].cell, name("a"), "it tries again, and has not succeeded");
    release.ends("a", COMPLETE);
    release.step();
    assert!(release.state.failed.is_empty());
}

#[test]
fn the_cells_of_a_job_have_the_first_version_from_the_beginning() {
    let state = ReleaseState::first(7);
    assert_eq!((state.phase, state.proven(), state.version), (ReleasePhase::Done, 7, 7));
    let mut release =
        Carried { state, cells: vec![cell("a", 7)], ..Carried::of(ReleaseSpec::default(), &[]) };
    assert!(release.does().starts_with("every cell that can be reached has its version"));
}
