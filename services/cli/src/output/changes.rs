//! The changes of a submission, and its effects.

use std::collections::BTreeMap;

use borough_model::job::FieldChange;
use borough_model::job::file::file_value_text;
use borough_model::job::is_fixed;
use borough_proto::v1;
use serde::Serialize;
use serde_json::Value;

use super::foreign::json_shown;
use super::task::ports_text;
use super::text::ranges;
use super::{ExplanationView, Foreign, SpecView, Style, VictimView, explanations_text, victims_text, word};

/// A field of a spec that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ChangedField {
    pub(crate) path: Foreign,
    /// Null if the field was absent.
    pub(crate) old: Value,
    /// Null if the field is absent.
    pub(crate) new: Value,
}

impl From<v1::FieldChange> for ChangedField {
    fn from(change: v1::FieldChange) -> Self {
        // A text that is not JSON is shown unchanged.
        let value = |text: String| {
            if text.is_empty() {
                return Value::Null;
            }
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Self { path: change.path.into(), old: value(change.old_json), new: value(change.new_json) }
    }
}

impl From<FieldChange> for ChangedField {
    fn from(change: FieldChange) -> Self {
        let value = Option::unwrap_or_default;
        Self { path: change.path.into(), old: value(change.old), new: value(change.new) }
    }
}

/// What one version changed, under its name.
pub(super) fn version_text(version: &str, changes: &[ChangedField], style: &Style) -> String {
    if changes.is_empty() {
        return format!("\n{version}: no field changed\n");
    }
    let lines = changes_text(changes, style);
    let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    format!("\n{version}\n{lines}")
}

/// A difference for people: one line per field, whole subtrees on one line.
pub(crate) fn changes_text(changes: &[ChangedField], style: &Style) -> String {
    let mut text = String::new();
    for change in changes {
        let (old, new) = (file_value_text(&change.old), file_value_text(&change.new));
        let (old, new) = (json_shown(&old), json_shown(&new));
        let line = match (&change.old, &change.new) {
            (Value::Null, _) => style.paint(&format!("+ {}: {new}", change.path), 32),
            (_, Value::Null) => style.paint(&format!("- {}: {old}", change.path), 31),
            _ => style.paint(&format!("~ {}: {old} -> {new}", change.path), 33),
        };
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// The effects of running a job file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PlanView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    pub(crate) cell: Foreign,
    pub(crate) changed: bool,
    /// The job's present revision, for `job run --check-revision`; 0 if the job does not exist.
    pub(crate) revision: u64,
    /// The present job, which alone has that revision; null if the job does not exist.
    pub(crate) id: Option<Foreign>,
    pub(crate) diff: Vec<ChangedField>,
    /// The difference in the terms of a job file.
    pub(crate) file_diff: Vec<ChangedField>,
    pub(crate) placements: Vec<PlacementOutput>,
    pub(crate) unplaced: Vec<ExplanationView>,
    pub(crate) stopped: Vec<u32>,
    /// The tasks whose attempts a rollout would replace.
    pub(crate) replaced: Vec<u32>,
    /// What each task of a running job needs, by groups.
    pub(crate) needs: Vec<NeedOutput>,
    /// The most tasks that may be away while it replaces healthy attempts; 0 without a surge: there is no rollout.
    pub(crate) unavailable_max: u32,
    /// Tasks that it runs beside the job's own meanwhile.
    pub(crate) surge: u32,
    /// Those of them that have the new version first.
    pub(crate) canaries: u32,
    /// The reason why the gateway would refuse it; null if it would not.
    pub(crate) refusal: Option<Foreign>,
    /// The cell's scheduler that would place it.
    pub(crate) scheduler: Foreign,
    /// What would keep it waiting although it is admitted.
    pub(crate) warnings: Vec<Foreign>,
    pub(crate) spec: SpecView,
}

/// The placement of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PlacementOutput {
    pub(crate) index: u32,
    pub(crate) node: Foreign,
    pub(crate) ports: std::collections::BTreeMap<Foreign, u32>,
    /// Whether it waits there until victims have exited.
    pub(crate) held: bool,
    pub(crate) victims: Vec<VictimView>,
    /// Whether a rollout ends an attempt of the task first. Its ports are not known then.
    pub(crate) again: bool,
    /// The node of that attempt; null: it has none, or the gateway does not say.
    pub(crate) from: Option<Foreign>,
    /// The alloc that it goes into; null: none.
    pub(crate) alloc: Option<Foreign>,
}

/// Tasks of a running job that need the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NeedOutput {
    /// `nothing`, `weight`, `resize` or `replace`.
    pub(crate) need: String,
    pub(crate) indexes: Vec<u32>,
    /// The fields that ask for it, and why nothing less suffices.
    pub(crate) why: Foreign,
}

impl PlanView {
    pub(crate) fn new(spec: &v1::JobSpec, cell: &str, plan: v1::PlanJobResponse) -> Self {
        let placement = |placed: v1::PlannedPlacement| PlacementOutput {
            index: placed.index,
            node: placed.node.into(),
            ports: placed.ports.into_iter().map(|port| (port.name.into(), port.number)).collect(),
            held: placed.held,
            victims: placed.victims.into_iter().map(VictimView::from).collect(),
            again: placed.again,
            from: Some(Foreign::from(placed.from)).filter(|from| !from.is_empty()),
            alloc: Some(Foreign::from(placed.alloc)).filter(|alloc| !alloc.is_empty()),
        };
        let need = |need: v1::PlannedNeed| NeedOutput {
            need: word(need.need().as_str_name(), ""),
            indexes: need.indexes,
            why: need.why.into(),
        };
        Self {
            user: spec.user.as_str().into(),
            name: spec.name.as_str().into(),
            cell: cell.into(),
            changed: plan.changed,
            revision: plan.revision,
            id: Some(Foreign::from(plan.job_id)).filter(|id| !id.is_empty()),
            diff: plan.diff.into_iter().map(ChangedField::from).collect(),
            file_diff: plan.file_diff.into_iter().map(ChangedField::from).collect(),
            placements: plan.placements.into_iter().map(placement).collect(),
            unplaced: plan.unplaced.into_iter().map(ExplanationView::from).collect(),
            stopped: plan.stopped,
            replaced: plan.replaced,
            needs: plan.needs.into_iter().map(need).collect(),
            unavailable_max: plan.unavailable_max,
            surge: plan.surge,
            canaries: plan.canaries,
            refusal: Some(plan.refusal).filter(|refusal| !refusal.is_empty()).map(Foreign::from),
            scheduler: plan.scheduler.into(),
            warnings: plan.warnings.into_iter().map(Foreign::from).collect(),
            spec: SpecView::new(Some(spec)),
        }
    }

    /// A field of the difference that a running job keeps.
    pub(crate) fn kept_field(&self) -> Option<String> {
        let changes = self.file_diff.iter().map(|change| change.path.raw());
        changes.filter(|path| is_fixed(path)).map(str::to_owned).next()
    }

    /// The changes for people. A gateway of an older version does not know the terms of the file.
    pub(crate) fn changes(&self) -> &[ChangedField] {
        if self.file_diff.is_empty() { &self.diff } else { &self.file_diff }
    }

    /// A line for each place. Tasks that differ in nothing else have one line together.
    fn placements_text(&self) -> String {
        let mut lines: Vec<(String, String, Vec<u32>)> = Vec::new();
        // Where the line of a place is: a plan may have many of both.
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for placed in &self.placements {
            let ports = ports_text(&placed.ports);
            let ports = if ports.is_empty() { ports } else { format!(" with ports {ports}") };
            let held = if placed.held { ", once tasks there have left" } else { "" };
            let again = if placed.again { " again" } else { "" };
            let from = match placed.from.as_ref().map(Foreign::raw) {
                None => String::new(),
                Some(from) if from == placed.node.raw() => ", its node".to_owned(),
                Some(_) => {
                    placed.from.as_ref().map(|from| format!(", moved from {from}")).unwrap_or_default()
                }
            };
            let alloc = placed.alloc.as_ref().map(|alloc| format!(" in alloc {alloc}")).unwrap_or_default();
            let place = format!("{again}{alloc} on {}{from}{ports}{held}\n", placed.node);
            let victims = victims_text(&placed.victims, None);
            let alike = known.get(&place).filter(|_| victims.is_empty()).and_then(|at| lines.get_mut(*at));
            match alike {
                Some((_, _, indexes)) => indexes.push(placed.index),
                None => {
                    // Whoever evicts nobody has no part in a line with victims.
                    if victims.is_empty() {
                        known.insert(place.clone(), lines.len());
                    }
                    lines.push((place, victims, vec![placed.index]));
                }
            }
        }
        let line = |(place, victims, indexes): (String, String, Vec<u32>)| {
            let is_one = indexes.len() == 1;
            let tasks = if is_one { "task" } else { "tasks" };
            let place = if is_one { place } else { place.replacen(", its node", ", their node", 1) };
            format!("place {tasks} {}{place}{victims}", ranges(&indexes))
        };
        lines.into_iter().map(line).collect()
    }

    pub(crate) fn text(&self, style: &Style) -> String {
        let job = format!("{}/{}", self.user, self.name);
        let mut text = if !self.changed {
            format!("{job}: no change\n")
        } else if self.revision == 0 {
            format!("{job}: a new job in cell {}\n", self.cell)
        } else {
            format!("{job}: a change of revision {} in cell {}\n", self.revision, self.cell)
        };
        // For a new job everything is new: its file shows it better.
        if self.revision > 0 {
            text.push_str(&changes_text(self.changes(), style));
        }
        text.push_str(&self.rollout_text());
        text.push_str(&self.needs_text());
        text.push_str(&self.placements_text());
        if !self.stopped.is_empty() {
            let tasks = if self.stopped.len() == 1 { "task" } else { "tasks" };
            text.push_str(&format!("stop {tasks} {}\n", ranges(&self.stopped)));
        }
        text.push_str(&explanations_text(&self.unplaced));
        if !matches!(self.scheduler.raw(), "" | "default") {
            text.push_str(&format!("scheduler {} decides over it\n", self.scheduler));
        }
        for warning in &self.warnings {
            text.push_str(&format!("{}\n", style.paint(&format!("warning: {warning}"), 33)));
        }
        if let Some(refusal) = &self.refusal {
            let line = style.paint(&format!("the gateway would refuse it: {refusal}"), 31);
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    /// Which running tasks change in place, and why others do not.
    fn needs_text(&self) -> String {
        let mut text = String::new();
        for need in &self.needs {
            let tasks = if need.indexes.len() == 1 { "task" } else { "tasks" };
            let (indexes, why) = (ranges(&need.indexes), &need.why);
            let keep = if need.indexes.len() == 1 { "keeps its process" } else { "keep their processes" };
            match need.need.as_str() {
                "weight" => {
                    text.push_str(&format!("weigh {tasks} {indexes} in place, which {keep}: {why}\n"));
                }
                "resize" => {
                    text.push_str(&format!("resize {tasks} {indexes} in place, which {keep}: {why}\n"))
                }
                "replace" => text.push_str(&format!("replace {tasks} {indexes}: {why}\n")),
                "nothing" if self.needs.len() > 1 => {
                    text.push_str(&format!("leave {tasks} {indexes} alone\n"))
                }
                _ => {}
            }
        }
        text
    }

    /// What a rollout does to attempts that there are.
    fn rollout_text(&self) -> String {
        if self.unavailable_max == 0 && self.surge == 0 {
            return String::new();
        }
        let canaries = self.canaries_text();
        if self.replaced.is_empty() {
            let kind = self.spec.0.as_ref().and_then(|spec| spec.get("kind"));
            return match kind.and_then(Value::as_str) {
                Some("batch") => {
                    "running attempts go on, and only later ones get the new version\n".to_owned()
                }
                _ => format!("{canaries}no attempt is replaced\n"),
            };
        }
        let tasks = if self.replaced.len() == 1 { "task" } else { "tasks" };
        let (indexes, most) = (ranges(&self.replaced), self.unavailable_max.saturating_add(self.surge));
        let surge = match self.surge {
            0 => String::new(),
            1 => ", while 1 more surges".to_owned(),
            surge => format!(", while {surge} more surge"),
        };
        format!("{canaries}replace the attempts of {tasks} {indexes}, at most {most} away at a time{surge}\n")
    }

    /// What a rollout begins with if it has canaries, up to what follows their promotion. They try other amounts too.
    fn canaries_text(&self) -> String {
        let named = |count: u32| {
            let tasks = if self.canaries == 1 { "task" } else { "tasks" };
            let first: Vec<u32> = (count..count.saturating_add(self.canaries)).collect();
            format!(", {tasks} {}", ranges(&first))
        };
        let first = self.spec.count().map(named).unwrap_or_default();
        match self.canaries {
            0 => String::new(),
            1 => format!("1 canary first{first}; once it is healthy and promoted:\n"),
            canaries => {
                format!("{canaries} canaries first{first}; once they are healthy and promoted:\n")
            }
        }
    }
}
