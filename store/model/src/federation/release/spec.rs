//! What the owner of a federated job says of its releases: in which stages a new version reaches the cells.

use std::collections::BTreeMap;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::federation::check::{label_conditions_check, names_check, quoted};
use crate::federation::job::condition;
use crate::federation::read::{cells_schema, conditions_decode, conditions_schema, map_of, names_decode};
use crate::federation::spec::FederationSpec;
use crate::field_error::{FieldErrors, delay_text};
use crate::id::Name;
use crate::job::file::kind::{Truth, Whole, delay_schema_within};
use crate::job::file::write::{FileMap, delay};
use crate::job::file::{FieldReader, FileItem, described};
use crate::merged::LabelCondition;

/// Most stages of a release, without the last one for all other cells.
pub const STAGES_MAX: usize = 16;
/// The longest time in which a stage proves itself: a week.
const PROVE_MS_MAX: u64 = 604_800_000;
/// The most cells at once: as many as a federation has.
const AT_ONCE_MAX: u32 = 1_024;
/// The cells at once where a stage names no number.
const AT_ONCE_DEFAULT: u32 = 1;

/// How a new version of a federated job reaches its cells.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, FileMessage)]
#[serde(default)]
pub struct ReleaseSpec {
    /// Cells that get the version together, in this order. All other cells follow as a last stage.
    #[n(0)]
    #[field(
        read = stages_read,
        check = stages_check,
        schema = stages_schema,
        value = "at most 16 maps of `cells` and `where` (which cells), `prove` (how long the stage must stand before the \
                 next one, 0s to 168h), `at_once` (how many cells change at a time, 1 to 1024) and `approve` (whether a \
                 person lets the next stage begin)",
        default = "one stage of all cells, one after the other",
        example = [{"cells": ["a"], "prove": "10m"}]
    )]
    pub stages: Vec<ReleaseStage>,
    /// In how many cells the version may fail before nothing further gets it.
    #[n(1)]
    #[field(kind = Whole::of(0, 1_024, "0 to 1024 cells"), default = "0", example = 1)]
    pub failures_max: u32,
    /// Whether the cells go back to the last proven version then.
    #[n(2)]
    #[field(kind = Truth, default = "`false`: the release stops", example = true)]
    pub revert: bool,
}

/// Cells that get a version together.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReleaseStage {
    /// Its cells by name. With conditions both must hold.
    #[n(0)]
    pub cells: Vec<Name>,
    /// Conditions on the labels of its cells.
    #[n(1)]
    #[serde(rename = "where")]
    pub conditions: Vec<LabelCondition>,
    /// For how long its cells must have the version and stand before the next stage begins.
    #[n(2)]
    pub prove_ms: u64,
    /// At most so many cells change at a time.
    #[n(3)]
    pub at_once: u32,
    /// Whether a person lets the next stage begin.
    #[n(4)]
    pub approve: bool,
}

impl Default for ReleaseStage {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            conditions: Vec::new(),
            prove_ms: 0,
            at_once: AT_ONCE_DEFAULT,
            approve: false,
        }
    }
}

impl ReleaseStage {
    fn has(&self, cell: &Name, labels: &BTreeMap<String, String>) -> bool {
        let named = self.cells.is_empty() || self.cells.contains(cell);
        named && self.conditions.iter().all(|condition| condition.is_met(labels))
    }

    fn to_file(&self) -> Value {
        let default = Self::default();
        let mut map = FileMap::default();
        map.put_list("cells", &self.cells, |cell| json!(cell.as_str()));
        map.put_list("where", &self.conditions, condition);
        map.put_unless("prove", &self.prove_ms, &default.prove_ms, |ms| delay(*ms));
        map.put_unless("at_once", &self.at_once, &default.at_once, |cells| json!(cells));
        map.put_unless("approve", &self.approve, &default.approve, |approve| json!(approve));
        map.done()
    }
}

impl ReleaseSpec {
    /// The place of the first stage that has the cell. The last stage, which the spec does not name, has all others.
    pub fn stage_of(&self, cell: &Name, labels: &BTreeMap<String, String>) -> usize {
        let found = self.stages.iter().position(|stage| stage.has(cell, labels));
        found.unwrap_or(self.stages.len())
    }

    /// The stage at a place; absent: the last one, which the spec does not name.
    pub fn stage(&self, place: usize) -> Option<&ReleaseStage> {
        self.stages.get(place)
    }

    /// How many cells of a stage change at a time.
    pub fn at_once(&self, place: usize) -> u32 {
        self.stage(place).map_or(AT_ONCE_DEFAULT, |stage| stage.at_once.max(1))
    }

    /// As a job file has it.
    pub(in crate::federation) fn to_file(&self) -> Value {
        let mut map = FileMap::default();
        map.put_list("stages", &self.stages, ReleaseStage::to_file);
        map.put_unless("failures_max", &self.failures_max, &0, |cells| json!(cells));
        map.put_unless("revert", &self.revert, &false, |revert| json!(revert));
        map.done()
    }
}

const STAGE_FIELDS: [&str; 5] = ["cells", "where", "prove", "at_once", "approve"];

/// A list of maps.
fn stages_read(reader: &mut FieldReader, item: &FileItem<'_>, _: &ReleaseSpec) -> Option<Vec<ReleaseStage>> {
    let items =
        reader.items(item, "a list of stages such as [{cells: [a], prove: 10m}, {where: [region=eu]}]");
    Some(items.iter().map(|item| stage_read(reader, item)).collect())
}

fn stage_read(reader: &mut FieldReader, item: &FileItem<'_>) -> ReleaseStage {
    let mut stage = ReleaseStage::default();
    let Some(fields) = reader.fields(item, &STAGE_FIELDS) else { return stage };
    if let Some(item) = fields.get("cells") {
        stage.cells = names_decode(reader, &item);
    }
    if let Some(item) = fields.get("where") {
        stage.conditions = conditions_decode(reader, &item);
    }
    if let Some(prove_ms) = fields.get("prove").and_then(|item| reader.duration(&item)) {
        stage.prove_ms = prove_ms;
    }
    let at_once = fields.get("at_once").and_then(|item| reader.whole(&item, "1 to 1024 cells"));
    stage.at_once = at_once.unwrap_or(stage.at_once);
    if let Some(approve) = fields.get("approve").and_then(|item| reader.truth(&item)) {
        stage.approve = approve;
    }
    stage
}

fn stages_schema() -> Value {
    let form = json!({
        "cells": described("Its cells by name. Default: every cell that meets where", cells_schema()),
        "where": described("Conditions on the labels of its cells. Default: no condition", conditions_schema()),
        "prove": described(
            "How long the stage must stand before the next one. Default: 0s", delay_schema_within(0, PROVE_MS_MAX)),
        "at_once": described(
            "How many of its cells change at a time. Default: 1",
            json!({"type": "integer", "minimum": 1, "maximum": AT_ONCE_MAX})),
        "approve": described(
            "Whether a person lets the next stage begin. Default: false", json!({"type": "boolean"})),
    });
    json!({"type": "array", "items": map_of(form, &[])})
}

fn stages_check(fields: &mut FieldErrors, path: &str, spec: &ReleaseSpec) {
    let stages = &spec.stages;
    let (given, accepted) = (format!("{} stages", stages.len()), format!("at most {STAGES_MAX}"));
    fields.require(stages.len() <= STAGES_MAX, path, given, accepted);
    let mut named: BTreeMap<&Name, usize> = BTreeMap::new();
    for (at, stage) in stages.iter().enumerate() {
        let path = format!("{path}[{at}]");
        stage_check(fields, &path, stage);
        let says = !stage.cells.is_empty() || !stage.conditions.is_empty();
        let selects = |other: &&ReleaseStage| {
            other.cells.is_empty() && stage.cells.is_empty() && other.conditions == stage.conditions
        };
        let earlier = stages.iter().take(at).position(|other| selects(&other)).filter(|_| says);
        if let Some(other) = earlier {
            let accepted = "other cells or conditions: a cell belongs to the first stage that has it";
            fields.refuse(&path, format!("the same cells as stages[{other}]"), accepted);
        }
        for (position, cell) in stage.cells.iter().enumerate() {
            let first = *named.entry(cell).or_insert(at);
            let accepted = format!("each cell in one stage: stages[{first}] has it");
            fields.require(first == at, &format!("{path}.cells[{position}]"), quoted(cell), accepted);
        }
    }
}

fn stage_check(fields: &mut FieldErrors, path: &str, stage: &ReleaseStage) {
    let says = !stage.cells.is_empty() || !stage.conditions.is_empty();
    let unread = fields.unread().touches(path);
    let accepted =
        "cells, where, or both: a stage says which cells it has, and the last stage has all others";
    fields.require(says || unread, path, "no cell and no condition", accepted);
    names_check(fields, &format!("{path}.cells"), &stage.cells);
    label_conditions_check(fields, &format!("{path}.where"), &stage.conditions);
    let accepted = format!("{} to {}", delay_text(0), delay_text(PROVE_MS_MAX));
    let fine = stage.prove_ms <= PROVE_MS_MAX;
    fields.require(fine, &format!("{path}.prove"), delay_text(stage.prove_ms), accepted);
    let fine = (1..=AT_ONCE_MAX).contains(&stage.at_once);
    fields.require(fine, &format!("{path}.at_once"), stage.at_once, format!("1 to {AT_ONCE_MAX} cells"));
}

/// The stages name only cells that the job names, if it names some.
pub(in crate::federation) fn stage_cells_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let Some(named) = spec.cells_named() else { return };
    for (at, stage) in spec.rollout.stages.iter().enumerate() {
        for (position, cell) in stage.cells.iter().enumerate() {
            let path = format!("{path}.stages[{at}].cells[{position}]");
            let accepted = "a cell that the job names in `cells` or in a group";
            let related = fields.related(&["federation.cells", "federation.groups"]);
            related.require(named.contains(cell), &path, quoted(cell), accepted);
        }
    }
}
