//! Specs and cells that the tests begin with.

use std::collections::BTreeMap;

use borough_model::federation::{
    CellFacts, CellReason, FailedCell, FederatedJob, FederationSpec, ReleasePhase, ReleaseState, Split,
};
use borough_model::job::file::TreeNode;
use serde_json::{Value, json};

use crate::sample::name;

/// A job file with this part.
pub(super) fn file(federation: Value) -> Value {
    let mut file = json!({"name": "web", "count": 4, "task": {"command": ["true"]}});
    file["federation"] = federation;
    file
}

/// What the file says, or its problems.
pub(super) fn read(file: &Value) -> Result<FederatedJob, Vec<String>> {
    let read = FederatedJob::from_file(&TreeNode::from(file), &name("ada"));
    read.map(|(job, _)| job).map_err(|problems| problems.into_iter().map(|one| one.message).collect())
}

/// The part of a valid file.
pub(super) fn spec(federation: Value) -> FederationSpec {
    let file = file(federation);
    read(&file).unwrap_or_else(|problems| panic!("{problems:?}\n{file:#}")).federation
}

/// A part with every field.
pub(crate) fn federation_full() -> FederationSpec {
    spec(json!({
        "cells": ["b", "a"],
        "where": ["region=eu", "tier!=test"],
        "groups": [{"cells": ["b"], "where": ["zone=z1"]}, {"where": ["zone!=z1"]}],
        "split": "weight",
        "weights": {"a": 3},
        "cell_min": 1,
        "cell_max": 3,
        "limits": {"a": {"min": 2, "max": 4}},
        "spread": [{"by": "region", "min": 1, "max": 2}],
        "tolerations": [{"taint": "t", "value": "v", "effect": "no_execute"}],
        "away_from": ["other"],
        "overrides": {"a": {"task": {"environment": {"ZONE": "a"}}}},
        "failover_after": "10m",
        "returns": "keep_older",
        "avoid_disruption": false,
        "rollout": {
            "stages": [{"cells": ["a"], "where": ["zone=z1"], "prove": "10m", "at_once": 2, "approve": true}],
            "failures_max": 1,
            "revert": true
        }
    }))
}

/// The release of a job with every field.
pub(crate) fn release_full() -> ReleaseState {
    ReleaseState {
        version: 7,
        from: 5,
        phase: ReleasePhase::Rolling,
        stage: 1,
        stands_since_ms: Some(1_700_000_000_000),
        approved: [0, 1].into(),
        paused: true,
        failed: vec![FailedCell { cell: name("a"), why: "task 0 fails".to_owned() }],
        unproven: true,
    }
}

/// A cell with room for so many more tasks, and so many that run.
pub(super) fn cell(text: &str, room: u32, has: u32) -> CellFacts {
    CellFacts { room: Some(room), has, running: has, ..CellFacts::new(name(text)) }
}

/// The same cell with labels such as `region=eu`.
pub(super) fn labelled(facts: CellFacts, labels: &[&str]) -> CellFacts {
    let pairs = labels.iter().filter_map(|label| label.split_once('='));
    let labels: BTreeMap<String, String> =
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    CellFacts { labels, ..facts }
}

/// `a=3 b=1`.
pub(super) fn counts(split: &Split) -> String {
    let counts = split.counts.iter().map(|(cell, count)| format!("{cell}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

/// Why a cell gets what it gets.
pub(super) fn reason<'s>(split: &'s Split, cell: &str) -> &'s CellReason {
    &split.cells.iter().find(|verdict| verdict.cell.as_str() == cell).unwrap().reason
}

/// The cells after a split was carried out. A cell that would place no more has no room for those that do not run.
pub(super) fn carried_out(cells: &[CellFacts], split: &Split) -> Vec<CellFacts> {
    let after = |facts: &CellFacts| {
        let gets = split.counts.get(&facts.name).copied().unwrap_or(0);
        let full = facts.room == Some(0);
        let fits = if full { facts.running } else { facts.has + facts.room.unwrap_or(0) };
        let running = if full { facts.running.min(gets) } else { gets };
        let room = facts.room.map(|_| fits.saturating_sub(gets));
        CellFacts { has: gets, running, room, ..facts.clone() }
    };
    cells.iter().map(after).collect()
}
