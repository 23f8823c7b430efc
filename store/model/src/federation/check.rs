//! Decides whether the `federation` part of a job file can be admitted, beside the job and without it. Each error names
//! the field, its value and what is accepted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::patch::{PATCH_REFUSED, canonical};
use super::read::{FAILOVER_MS_MAX, FAILOVER_MS_MIN};
use super::spec::{CellLimits, FailoverAfter, FederationSpec, SPREAD_BY_CELL, SplitPolicy};
use crate::field_error::{FieldError, FieldErrors, delay_text};
use crate::id::Name;
use crate::job::{COUNT_MAX, JobKind, JobSpec, SPEC_BYTES_MAX, toleration_list_check};
use crate::merged::{LabelCondition, LabelOperator};
use crate::node::TaintEffect;

/// Most cells that a job names in one list.
pub const CELLS_NAMED_MAX: usize = 1_024;
/// Most groups of cells.
pub const GROUPS_MAX: usize = 16;
/// Most conditions of the job, and of each group.
pub const CONDITIONS_MAX: usize = 16;
/// Most rules of spread over cells.
pub const CELL_SPREAD_MAX: usize = 8;
/// Most jobs that a job keeps away from.
pub const AWAY_FROM_MAX: usize = 64;
/// The largest weight of a cell.
pub const CELL_WEIGHT_MAX: u32 = 1_000;

const WHERE: &str = "federation.where";

pub(super) fn cells_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    names_check(fields, path, &spec.cells);
}

/// A list of cells, each once.
pub(super) fn names_check(fields: &mut FieldErrors, path: &str, cells: &[Name]) {
    let accepted = format!("at most {CELLS_NAMED_MAX}");
    fields.require(cells.len() <= CELLS_NAMED_MAX, path, format!("{} cells", cells.len()), accepted);
    let mut seen = BTreeSet::new();
    for (at, cell) in cells.iter().enumerate() {
        let path = format!("{path}[{at}]");
        fields.require(seen.insert(cell), &path, quoted(cell), "each cell once");
    }
}

pub(super) fn quoted(name: &Name) -> String {
    format!("{:?}", name.as_str())
}

pub(super) fn conditions_check(fields: &mut FieldErrors, _: &str, spec: &FederationSpec) {
    label_conditions_check(fields, WHERE, &spec.conditions);
}

/// Conditions that one cell can meet together.
pub(super) fn label_conditions_check(fields: &mut FieldErrors, path: &str, conditions: &[LabelCondition]) {
    let accepted = format!("at most {CONDITIONS_MAX}");
    let given = format!("{} conditions", conditions.len());
    fields.require(conditions.len() <= CONDITIONS_MAX, path, given, accepted);
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        fields.key(&path, &condition.key);
        fields.line(&path, &condition.value);
        let earlier = conditions.get(..at).unwrap_or_default();
        let contradicts = |other: &LabelCondition| {
            let same_value = other.value == condition.value;
            let both_are = (other.operator, condition.operator) == (LabelOperator::Is, LabelOperator::Is);
            other.key == condition.key
                && ((same_value && other.operator != condition.operator) || (both_are && !same_value))
        };
        if earlier.contains(condition) {
            fields.refuse(&path, condition, "each condition once");
        } else if let Some(other) = earlier.iter().find(|other| contradicts(other)) {
            let accepted = format!("conditions that one cell can meet beside {other}");
            fields.refuse(&path, condition, accepted);
        }
    }
}

pub(super) fn groups_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let groups = &spec.groups;
    let given = format!("{} groups", groups.len());
    fields.require(groups.len() <= GROUPS_MAX, path, given.clone(), format!("at most {GROUPS_MAX}"));
    fields.related(&["federation.split"]).require(
        groups.is_empty() || spec.split != SplitPolicy::Duplicate,
        path,
        given,
        "none with `split: duplicate`: each cell has the whole count, so nothing overflows",
    );
    let candidates: BTreeSet<&Name> = spec.cells.iter().collect();
    let mut named: BTreeMap<&Name, usize> = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let (cells, conditions) = (format!("{path}.cells"), format!("{path}.where"));
        let says = !group.cells.is_empty() || !group.conditions.is_empty();
        let unread = fields.unread().touches(&path);
        let accepted = "cells, where, or both: a group says which cells it has";
        fields.require(says || unread, &path, "no cell and no condition", accepted);
        names_check(fields, &cells, &group.cells);
        label_conditions_check(fields, &conditions, &group.conditions);
        let repeats = groups.iter().take(at).position(|other| other == group);
        let earlier = repeats.filter(|_| says && group.cells.is_empty());
        if let Some(other) = earlier {
            let accepted = "other cells or conditions: a cell belongs to the first group that has it";
            fields.refuse(&path, format!("the same as groups[{other}]"), accepted);
        }
        for (position, cell) in group.cells.iter().enumerate() {
            let path = format!("{cells}[{position}]");
            let beside = candidates.is_empty() || candidates.contains(cell);
            let accepted = "a cell that `federation.cells` names too";
            fields.related(&["federation.cells"]).require(beside, &path, quoted(cell), accepted);
            let first = *named.entry(cell).or_insert(at);
            let accepted = format!("each cell in one group: groups[{first}] has it");
            fields.require(first == at, &path, quoted(cell), accepted);
        }
    }
}

impl FederationSpec {
    /// The cells that may have tasks, if the job names each of them.
    pub(super) fn cells_named(&self) -> Option<BTreeSet<&Name>> {
        if !self.cells.is_empty() {
            return Some(self.cells.iter().collect());
        }
        let by_name = !self.groups.is_empty() && self.groups.iter().all(|group| !group.cells.is_empty());
        by_name.then(|| self.groups.iter().flat_map(|group| &group.cells).collect())
    }
}

/// The keys of a map are cells that may have tasks.
fn keys_check<T>(fields: &mut FieldErrors, path: &str, map: &BTreeMap<Name, T>, spec: &FederationSpec) {
    let accepted = format!("at most {CELLS_NAMED_MAX}");
    fields.require(map.len() <= CELLS_NAMED_MAX, path, format!("{} cells", map.len()), accepted);
    let Some(named) = spec.cells_named() else { return };
    for cell in map.keys().filter(|cell| !named.contains(cell)) {
        let accepted = "a cell that the job names in `cells` or in a group";
        let related = fields.related(&["federation.cells", "federation.groups"]);
        related.refuse(&of_cell(path, cell), quoted(cell), accepted);
    }
}

fn of_cell(path: &str, cell: &Name) -> String {
    format!("{path}[{:?}]", cell.as_str())
}

pub(super) fn weights_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let given = if spec.weights.len() == 1 {
        "1 weight".to_owned()
    } else {
        format!("{} weights", spec.weights.len())
    };
    fields.related(&["federation.split"]).require(
        spec.weights.is_empty() || spec.split == SplitPolicy::Weight,
        path,
        given,
        format!("none with `split: {}`; weights count with `split: weight`", spec.split.name()),
    );
    keys_check(fields, path, &spec.weights, spec);
    for (cell, weight) in &spec.weights {
        let fine = (1..=CELL_WEIGHT_MAX).contains(weight);
        let accepted =
            format!("1 to {CELL_WEIGHT_MAX}; a cell that is to have no tasks is left out of the cells");
        fields.require(fine, &of_cell(path, cell), weight, accepted);
    }
}

pub(super) fn limits_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let both = CellLimits { min: spec.cell_min, max: spec.cell_max };
    limits_pair_check(fields.related(&["federation.cell_max"]), "federation.cell_min", both);
    keys_check(fields, path, &spec.limits, spec);
    for (cell, limits) in &spec.limits {
        let path = of_cell(path, cell);
        for (name, tasks) in [("min", limits.min), ("max", limits.max)] {
            let fine = tasks.is_none_or(|tasks| (1..=COUNT_MAX).contains(&tasks));
            let accepted = format!("1 to {COUNT_MAX} tasks");
            fields.require(fine, &format!("{path}.{name}"), tasks.unwrap_or(0), accepted);
        }
        let says = limits.min.is_some() || limits.max.is_some() || fields.unread().touches(&path);
        fields.require(says, &path, "no limit", "min, max, or both");
        let merged = CellLimits { min: Some(spec.min_of(cell)), max: spec.max_of(cell) };
        let own = if limits.min.is_some() { "min" } else { "max" };
        let related = fields.related(&["federation.cell_min", "federation.cell_max"]);
        if limits.min.is_some() || limits.max.is_some() {
            limits_pair_check(related, &format!("{path}.{own}"), merged);
        }
    }
}

fn limits_pair_check(fields: &mut FieldErrors, path: &str, limits: CellLimits) {
    let (Some(min), Some(max)) = (limits.min, limits.max) else { return };
    // Without a task the bounds are refused by themselves.
    if min <= max || max == 0 {
        return;
    }
    if path.ends_with("max") {
        fields.refuse(path, max, format!("at least {min}, the fewest tasks of the cell"));
    } else {
        fields.refuse(path, min, format!("at most {max}, the most tasks of the cell"));
    }
}

pub(super) fn spread_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let spread = &spec.spread;
    let given = format!("{} rules", spread.len());
    fields.require(spread.len() <= CELL_SPREAD_MAX, path, given, format!("at most {CELL_SPREAD_MAX}"));
    let named = spec.cells_named().map(|cells| cells.len());
    let mut seen = BTreeSet::new();
    for (at, rule) in spread.iter().enumerate() {
        let path = |field: &str| format!("{path}[{at}].{field}");
        fields.key(&path("by"), &rule.by);
        fields.require(seen.insert(&rule.by), &path("by"), format!("{:?}", rule.by), "each label once");
        let says = rule.min.is_some() || rule.max.is_some() || fields.unread().touches(&path("by"));
        fields.require(says, &path("min"), "no limit", "min, max, or both");
        for (name, values) in [("min", rule.min), ("max", rule.max)] {
            let accepted = "1 or more different values";
            fields.require(values != Some(0), &path(name), 0, accepted);
        }
        let (Some(min), most) = (rule.min, rule.max) else { continue };
        if let Some(most) = most {
            fields.require(min <= most, &path("min"), min, format!("at most {most}, as max says"));
        }
        if let Some(named) = named.filter(|_| rule.by == SPREAD_BY_CELL) {
            let fine = usize::try_from(min).is_ok_and(|min| min <= named);
            let accepted = format!("at most {named}, as many cells as the job names");
            fields.related(&["federation.cells", "federation.groups"]).require(
                fine,
                &path("min"),
                min,
                accepted,
            );
        }
    }
}

/// A cell is no node: it has no room that would be better than another, and its tasks leave by moves.
pub(super) fn tolerations_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    toleration_list_check(fields, path, &spec.tolerations);
    for (at, toleration) in spec.tolerations.iter().enumerate() {
        if toleration.effect == Some(TaintEffect::PreferNoSchedule) {
            let accepted = "no_schedule or no_execute: a cell takes new tasks or does not";
            fields.refuse(&format!("{path}[{at}].effect"), TaintEffect::PreferNoSchedule.name(), accepted);
        }
        if let Some(evict_after_ms) = toleration.evict_after_ms {
            let accepted = "none: a cell's taint is tolerated for good or not";
            fields.refuse(&format!("{path}[{at}].evict_after"), delay_text(evict_after_ms), accepted);
        }
    }
}

pub(super) fn away_from_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    let jobs = &spec.away_from;
    fields.require(
        jobs.len() <= AWAY_FROM_MAX,
        path,
        format!("{} jobs", jobs.len()),
        format!("at most {AWAY_FROM_MAX}"),
    );
    let mut seen = BTreeSet::new();
    for (at, job) in jobs.iter().enumerate() {
        fields.require(seen.insert(job), &format!("{path}[{at}]"), quoted(job), "each job once");
    }
}

pub(super) fn overrides_check(fields: &mut FieldErrors, path: &str, spec: &FederationSpec) {
    keys_check(fields, path, &spec.overrides, spec);
    for (cell, text) in &spec.overrides {
        let path = of_cell(path, cell);
        let patch: Option<Value> = serde_json::from_str(text).ok();
        let Some(Value::Object(patch)) = patch else {
            fields.refuse(&path, text, "a JSON map of fields of a job file");
            continue;
        };
        fields.require(!patch.is_empty(), &path, "no field", "at least one field of a job file");
        for field in patch.keys().filter(|field| PATCH_REFUSED.contains(&field.as_str())) {
            let given = patch.get(field).map(ToString::to_string).unwrap_or_default();
            let accepted = format!("any field except {}: they say which job it is", PATCH_REFUSED.join(", "));
            fields.refuse(&format!("{path}.{field}"), given, accepted);
        }
        let one_form = canonical(&Value::Object(patch));
        let accepted = "JSON without spaces, the keys of each map sorted";
        fields.require(one_form == *text, &path, text, accepted);
    }
}

pub(super) fn failover_check(fields: &mut FieldErrors, _: &str, spec: &FederationSpec) {
    let FailoverAfter::Ms(ms) = spec.failover_after else { return };
    let fine = (FAILOVER_MS_MIN..=FAILOVER_MS_MAX).contains(&ms);
    let bounds = [FAILOVER_MS_MIN, FAILOVER_MS_MAX].map(delay_text).join(" to ");
    let accepted = format!("{bounds}, or never: shorter silences are common");
    fields.require(fine, "federation.failover_after", delay_text(ms), accepted);
}

impl FederationSpec {
    /// Checks what the count decides, for a job that is new and for one that is scaled.
    ///
    /// # Errors
    /// Each limit that the count cannot meet. A count of 0 parks the job, and meets all.
    pub fn count_check(&self, count: u32) -> Result<(), Vec<FieldError>> {
        let mut fields = FieldErrors::default();
        self.count_check_beside(&mut fields, count);
        fields.done()
    }

    fn count_check_beside(&self, fields: &mut FieldErrors, count: u32) {
        if count == 0 {
            return;
        }
        let accepted = format!("at most {count}, the count of the job");
        let related = ["count"];
        let mut require = |path: &str, least: Option<u32>| {
            let least = least.unwrap_or(0);
            fields.related(&related).require(least <= count, path, least, accepted.clone());
        };
        require("federation.cell_min", self.cell_min);
        for (cell, limits) in &self.limits {
            require(&format!("{}.min", of_cell("federation.limits", cell)), limits.min);
        }
        if self.split != SplitPolicy::Duplicate {
            for (at, rule) in self.spread.iter().enumerate() {
                require(&format!("federation.spread[{at}].min"), rule.min);
            }
        }
    }

    /// Checks what the job decides.
    pub(super) fn job_check(&self, fields: &mut FieldErrors, job: &JobSpec) {
        if job.kind == JobKind::Daemon {
            let accepted = "service, batch or alloc_set: a daemon job has no count that cells could divide";
            fields.refuse("kind", "daemon", accepted);
            return;
        }
        self.count_check_beside(fields, job.count);
        if let Some(at) = self.away_from.iter().position(|other| *other == job.name) {
            let accepted = "another job: a job cannot keep away from itself";
            let path = format!("federation.away_from[{at}]");
            fields.related(&["name"]).refuse(&path, quoted(&job.name), accepted);
        }
        let gang = job.min_member > 1 || job.gang.is_some();
        let accepted = "`duplicate` for a gang: its tasks run together in one cell";
        let related = ["federation.split", "min_member", "roles", "gang_topology"];
        fields.related(&related).require(
            !gang || self.split == SplitPolicy::Duplicate,
            "federation.split",
            self.split.name(),
            accepted,
        );
        let bytes = minicbor::to_vec(self).map_or(usize::MAX, |bytes| bytes.len());
        let accepted = format!("at most {SPEC_BYTES_MAX} bytes as stored");
        fields.require(bytes <= SPEC_BYTES_MAX, "federation", format!("{bytes} bytes"), accepted);
    }
}
