//! Reads the fields of the `federation` part that have a form of their own.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::patch::{canonical, patch_json};
use super::spec::{CellGroup, CellLimits, CellSpread, FailoverAfter, FederationSpec};
use crate::id::Name;
use crate::job::COUNT_MAX;
use crate::job::file::kind::{FieldKind, NameText, delay_schema_within};
use crate::job::file::{FieldReader, FileItem, TreeKey, TreeValue, described, map_schema};
use crate::merged::LabelCondition;

/// The least time of silence before a failover: shorter ones are pauses of a network.
pub(super) const FAILOVER_MS_MIN: u64 = 30_000;
/// The longest: a week.
pub(super) const FAILOVER_MS_MAX: u64 = 604_800_000;

const TASKS: &str = "a whole number of tasks from 1";
const VALUES: &str = "a whole number of different values from 1";

/// A list of names.
pub(super) fn cells_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<Vec<Name>> {
    Some(names_decode(reader, item))
}

pub(super) fn away_from_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<Vec<Name>> {
    Some(names_decode(reader, item))
}

pub(super) fn names_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Vec<Name> {
    let items = reader.items(item, "a list of names such as [a, b]");
    items.iter().map(|item| reader.name_or_stand_in(item)).collect()
}

/// A list such as `[region=eu, tier!=test]`.
pub(super) fn conditions_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<Vec<LabelCondition>> {
    Some(conditions_decode(reader, item))
}

pub(super) fn conditions_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Vec<LabelCondition> {
    let items = reader.items(item, "a list of conditions such as [region=eu, tier!=test]");
    let one = |item: &FileItem<'_>| {
        let text = reader.text(item)?;
        let condition = LabelCondition::from_text(&text);
        if condition.is_none() {
            reader.refuse(item, "key=value or key!=value");
        }
        condition
    };
    items.iter().filter_map(one).collect()
}

/// A list of maps of `cells` and `where`.
pub(super) fn groups_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<Vec<CellGroup>> {
    let items = reader.items(item, "a list of groups such as [{cells: [a, b]}, {where: [region=eu]}]");
    let mut groups = Vec::new();
    for item in &items {
        let mut group = CellGroup::default();
        if let Some(fields) = reader.fields(item, &["cells", "where"]) {
            group.cells = fields.get("cells").map(|item| names_decode(reader, &item)).unwrap_or_default();
            let conditions = fields.get("where").map(|item| conditions_decode(reader, &item));
            group.conditions = conditions.unwrap_or_default();
        }
        groups.push(group);
    }
    Some(groups)
}

/// The values of a map from cells, without those that could not be read.
fn by_cell<T>(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    accepted: &str,
    value: impl Fn(&mut FieldReader, &FileItem<'_>) -> Option<T>,
) -> BTreeMap<Name, T> {
    let entries: Vec<(&TreeKey, FileItem<'_>)> = reader.entries(item, accepted);
    let mut values = BTreeMap::new();
    for (key, inner) in entries {
        // What is said of no cell is in no check, which would name a stand-in.
        let is_cell = Name::new(key.text.as_str()).is_ok();
        let cell = reader.key_name(item, key, &inner.path);
        if let Some(value) = value(reader, &inner).filter(|_| is_cell) {
            values.entry(cell).or_insert(value);
        }
    }
    values
}

pub(super) fn weights_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<BTreeMap<Name, u32>> {
    let weight = |reader: &mut FieldReader, item: &FileItem<'_>| reader.whole(item, "a weight of 1 to 1000");
    Some(by_cell(reader, item, "a map from cells to weights such as {a: 3, b: 1}", weight))
}

pub(super) fn limits_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<BTreeMap<Name, CellLimits>> {
    let limits = |reader: &mut FieldReader, item: &FileItem<'_>| {
        let fields = reader.fields(item, &["min", "max"])?;
        let min = fields.get("min").and_then(|item| reader.whole(&item, TASKS));
        let max = fields.get("max").and_then(|item| reader.whole(&item, TASKS));
        Some(CellLimits { min, max })
    };
    Some(by_cell(reader, item, "a map from cells to limits such as {a: {min: 2, max: 5}}", limits))
}

pub(super) fn spread_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<Vec<CellSpread>> {
    let items = reader.items(item, "a list such as [{by: region, min: 2}]");
    let mut spread = Vec::new();
    for item in &items {
        let Some(fields) = reader.fields(item, &["by", "min", "max"]) else {
            spread.push(CellSpread::default());
            continue;
        };
        let by = match fields.get("by") {
            Some(item) => reader.text(&item),
            None => {
                reader.missing(item, "by", "cell, or a label of cells such as region");
                None
            }
        };
        let min = fields.get("min").and_then(|item| reader.whole(&item, VALUES));
        let max = fields.get("max").and_then(|item| reader.whole(&item, VALUES));
        spread.push(CellSpread { by: by.unwrap_or_default(), min, max });
    }
    Some(spread)
}

/// A map from cells to patches. The check says which fields a patch may not have.
pub(super) fn overrides_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<BTreeMap<Name, String>> {
    let patch = |reader: &mut FieldReader, item: &FileItem<'_>| {
        let TreeValue::Map(_) = &item.node.value else {
            reader.refuse(item, "a map of fields of a job file");
            return None;
        };
        Some(canonical(&patch_json(reader, item)))
    };
    let accepted = "a map from cells to fields of a job file such as {a: {task: {environment: {ZONE: a}}}}";
    Some(by_cell(reader, item, accepted, patch))
}

pub(super) fn failover_read(
    reader: &mut FieldReader,
    item: &FileItem<'_>,
    _: &FederationSpec,
) -> Option<FailoverAfter> {
    match &item.node.value {
        TreeValue::Text(text) if text == "never" => Some(FailoverAfter::Never),
        _ => reader.duration(item).map(FailoverAfter::Ms),
    }
}

fn name_schema() -> Value {
    FieldKind::<Name>::schema(&NameText)
}

pub(super) fn cells_schema() -> Value {
    json!({"type": "array", "items": name_schema()})
}

pub(super) fn conditions_schema() -> Value {
    let one = json!({"title": "key=value or key!=value", "type": "string", "pattern": "^[^=!]+!?=.*$"});
    json!({"type": "array", "items": one})
}

pub(super) fn map_of(properties: Value, required: &[&str]) -> Value {
    let properties = if let Value::Object(properties) = properties { properties } else { Map::new() };
    map_schema(properties, required)
}

fn map_by_cell(values: &Value) -> Value {
    json!({"type": "object", "propertyNames": name_schema(), "additionalProperties": values})
}

pub(super) fn groups_schema() -> Value {
    let form = json!({
        "cells": described("Its cells by name. Default: every cell that meets where", cells_schema()),
        "where": described("Conditions on the labels of its cells. Default: no condition", conditions_schema()),
    });
    json!({"type": "array", "items": map_of(form, &[])})
}

pub(super) fn weights_schema() -> Value {
    map_by_cell(&json!({"type": "integer", "minimum": 1, "maximum": 1000}))
}

pub(super) fn limits_schema() -> Value {
    let tasks = json!({"type": "integer", "minimum": 1, "maximum": COUNT_MAX});
    let form = json!({
        "min": described("At least so many tasks, or none. Default: cell_min", tasks.clone()),
        "max": described("At most so many tasks. Default: cell_max", tasks),
    });
    map_by_cell(&map_of(form, &[]))
}

pub(super) fn spread_schema() -> Value {
    let values = json!({"type": "integer", "minimum": 1});
    let form = json!({
        "by": described("The word cell, or a label of cells such as region.", json!({"type": "string"})),
        "min": described("At least so many different values have tasks. Default: 1", values.clone()),
        "max": described("At most so many different values have tasks. Default: no limit", values),
    });
    json!({"type": "array", "items": map_of(form, &["by"])})
}

pub(super) fn overrides_schema() -> Value {
    map_by_cell(&json!({"title": "fields of a job file", "type": "object"}))
}

pub(super) fn failover_schema() -> Value {
    json!({"anyOf": [delay_schema_within(FAILOVER_MS_MIN, FAILOVER_MS_MAX), {"const": "never"}]})
}
