//! The `rollout` of a job file.

use borough_model::federation::{ReleaseSpec, ReleaseStage};
use serde_json::{Value, json};

use super::super::sample::{file, read, spec};
use super::{cell, rollout};
use crate::sample::name;

fn refused(federation: Value) -> Vec<String> {
    read(&file(federation)).err().unwrap_or_default()
}

/// Each rollout has one problem, which begins so.
fn each_is_refused(cases: &[(Value, &str)]) {
    for (rollout, expected) in cases {
        let problems = refused(json!({ "rollout": rollout }));
        assert_eq!(problems.len(), 1, "{rollout}: {problems:?}");
        assert!(problems[0].starts_with(expected), "{rollout}\n{expected}\n{problems:?}");
    }
}

#[test]
fn a_rollout_is_read_and_written_as_it_is() {
    let written = json!({
        "stages": [
            {"cells": ["a", "b"], "where": ["region=eu"], "prove": "10m", "at_once": 2, "approve": true},
            {"where": ["tier!=last"]},
        ],
        "failures_max": 3,
        "revert": true,
    });
    let read = rollout(written.clone());
    let eu = "region=eu".to_owned();
    let stage = &read.stages[0];
    assert_eq!((stage.prove_ms, stage.at_once, stage.approve), (600_000, 2, true));
    assert_eq!(stage.conditions[0].to_string(), eu);
    assert_eq!(read.stages[1].at_once, ReleaseStage::default().at_once);
    assert_eq!((read.failures_max, read.revert), (3, true));
    assert_eq!(spec(json!({ "rollout": written })).to_file(), json!({ "rollout": written }));
    let default = rollout(json!({}));
    assert_eq!(default, ReleaseSpec::default());
    assert_eq!((default.at_once(0), default.failures_max, default.revert), (1, 0, false));
    assert_eq!(spec(json!({"rollout": {}})).to_file(), json!({}));
}

#[test]
fn a_part_that_was_stored_before_releases_has_the_default() {
    let spec = spec(json!({"cells": ["a"]}));
    let mut bytes = minicbor::to_vec(&spec).unwrap();
    let rollout = minicbor::to_vec(&spec.rollout).unwrap();
    assert_eq!(bytes[0], 0x90, "a list of 16");
    bytes[0] = 0x8f;
    bytes.truncate(bytes.len() - rollout.len());
    let read: borough_model::federation::FederationSpec = minicbor::decode(&bytes).unwrap();
    assert_eq!(read, spec);
}

#[test]
fn a_cell_belongs_to_the_first_stage_that_has_it() {
    let spec = rollout(
        json!({"stages": [{"cells": ["a", "b"], "where": ["tier=canary"]}, {"where": ["tier!=last"]}]}),
    );
    let stage_of = |text: &str, tier: &str| {
        let labels = [("tier".to_owned(), tier.to_owned())].into();
        spec.stage_of(&cell(text, 1).name, &labels)
    };
    assert_eq!([stage_of("a", "canary"), stage_of("a", "x"), stage_of("c", "canary")], [0, 1, 1]);
    assert_eq!(stage_of("b", "last"), 2);
    assert_eq!(spec.stage_of(&name("c"), &[].into()), 1, "a cell without the label meets !=");
}

#[test]
fn wrong_stages_are_named_with_what_is_accepted() {
    let many: Vec<Value> = (0..17).map(|at| json!({"cells": [format!("c{at}")]})).collect();
    let at = "federation.rollout";
    each_is_refused(&[
        (json!({"stages": many}), &format!("{at}.stages: 17 stages; accepted: at most 16")),
        (
            json!({"stages": [{}]}),
            &format!("{at}.stages[0]: no cell and no condition; accepted: cells, where, or both"),
        ),
        (
            json!({"stages": [{"cells": ["a"]}, {"cells": ["b", "a"]}]}),
            &format!("{at}.stages[1].cells[1]: \"a\"; accepted: each cell in one stage: stages[0] has it"),
        ),
        (
            json!({"stages": [{"cells": ["a", "a"]}]}),
            &format!("{at}.stages[0].cells[1]: \"a\"; accepted: each cell once"),
        ),
        (
            json!({"stages": [{"where": ["a=1"]}, {"where": ["a=1"], "at_once": 2}]}),
            &format!("{at}.stages[1]: the same cells as stages[0]; accepted: other cells or conditions"),
        ),
        (
            json!({"stages": [{"where": ["a=1", "a=2"]}]}),
            &format!("{at}.stages[0].where[1]: a=2; accepted: conditions that one cell can meet"),
        ),
        (
            json!({"stages": [{"cells": ["a"], "prove": "169h"}]}),
            &format!("{at}.stages[0].prove: 169h; accepted: 0s to 168h"),
        ),
        (
            json!({"stages": [{"cells": ["a"], "prove": 10}]}),
            &format!("{at}.stages[0].prove: \"10\" has no unit; accepted: a duration"),
        ),
        (
            json!({"stages": [{"cells": ["a"], "at_once": 0}]}),
            &format!("{at}.stages[0].at_once: 0; accepted: 1 to 1024 cells"),
        ),
        (
            json!({"stages": [{"cells": ["a"], "at_once": 1025}]}),
            &format!("{at}.stages[0].at_once: 1025; accepted: 1 to 1024 cells"),
        ),
        (
            json!({"stages": [{"cells": ["a"], "approve": "yes"}]}),
            &format!("{at}.stages[0].approve: \"yes\"; accepted: true or false"),
        ),
        (json!({"stages": [{"cell": "a"}]}), &format!("unknown field \"cell\" in {at}.stages[0]")),
        (json!({"stages": {"cells": ["a"]}}), &format!("{at}.stages: ")),
        (json!({"failures_max": 1025}), &format!("{at}.failures_max: 1025; accepted: 0 to 1024 cells")),
        (json!({"revert": 1}), &format!("{at}.revert: 1; accepted: true or false")),
    ]);
}

#[test]
fn a_stage_names_cells_of_the_job() {
    let stages = json!({"stages": [{"cells": ["b", "c"]}]});
    let problems = refused(json!({"cells": ["a", "b"], "rollout": stages}));
    let expected =
        "federation.rollout.stages[0].cells[1]: \"c\"; accepted: a cell that the job names in `cells`";
    assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
    let groups = json!([{"cells": ["a", "b"]}, {"where": ["region=eu"]}]);
    assert!(refused(json!({"groups": groups, "rollout": stages})).is_empty(), "c may be in the second group");
}
