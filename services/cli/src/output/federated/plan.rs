//! What would become of a federated job.

use std::collections::BTreeMap;

use borough_proto::v1;
use serde::Serialize;

use super::super::changes::{ChangedField, changes_text};
use super::super::table::{Tabular, table};
use super::super::text::tally;
use super::super::{Foreign, Style};
use super::FederatedJobView;

/// What would become of a federated job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FederatedPlanView {
    /// Whether the job would be another one.
    pub(crate) changed: bool,
    /// Null: there is no such job.
    before: Option<FederatedJobView>,
    after: FederatedJobView,
    /// What the file changes, in its terms, of the version that the cells have; empty for a new job.
    pub(crate) file_diff: Vec<ChangedField>,
}

impl From<v1::PlanFederatedJobResponse> for FederatedPlanView {
    fn from(plan: v1::PlanFederatedJobResponse) -> Self {
        Self {
            changed: plan.changed,
            before: plan.before.map(FederatedJobView::from),
            after: plan.after.unwrap_or_default().into(),
            file_diff: Vec::new(),
        }
    }
}

/// How many tasks a cell has, and would have.
struct PlannedCell<'p> {
    cell: &'p Foreign,
    before: u32,
    after: u32,
}

impl Tabular for PlannedCell<'_> {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "TASKS", "THEN"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        (vec![self.cell.to_string(), self.before.to_string(), self.after.to_string()], Vec::new())
    }
}

/// How many tasks cells would lose and get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PlannedMoves {
    less: u32,
    more: u32,
    cells_less: usize,
    cells_more: usize,
}

impl PlannedMoves {
    /// `2 tasks would move, and 1 task would end`; `None`: each cell would have as many tasks as before.
    fn text(self) -> Option<String> {
        let tasks = |count: u32| tally(usize::try_from(count).unwrap_or(usize::MAX), "task");
        let moved = self.less.min(self.more);
        let (ended, begun) = (self.less.saturating_sub(moved), self.more.saturating_sub(moved));
        match (moved, ended, begun) {
            (0, 0, 0) => None,
            (0, 0, begun) => {
                Some(format!("{} in {} would begin", tasks(begun), tally(self.cells_more, "cell")))
            }
            (0, ended, _) => {
                Some(format!("{} in {} would end", tasks(ended), tally(self.cells_less, "cell")))
            }
            (moved, 0, 0) => Some(format!("{} would move", tasks(moved))),
            (moved, 0, begun) => {
                Some(format!("{} would move, and {} would begin", tasks(moved), tasks(begun)))
            }
            (moved, ended, _) => Some(format!("{} would move, and {} would end", tasks(moved), tasks(ended))),
        }
    }
}

impl FederatedPlanView {
    /// The revision that the plan is for; `None`: there is no such job.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.before.as_ref().map(|before| before.revision)
    }

    /// The version that the file is compared with in place of the newest one: the last that all stages have proved, if
    /// the newest has failed or was taken back.
    pub(crate) fn version_earlier(&self) -> Option<u64> {
        let before = self.before.as_ref()?;
        Some(before.version_standing()).filter(|version| *version != before.version)
    }

    /// The cells that would have tasks.
    pub(crate) fn cells_wanted(&self) -> Vec<String> {
        self.after.parts.iter().filter(|part| part.target > 0).map(|part| part.cell.to_string()).collect()
    }

    fn change_text(&self) -> String {
        let Self { before, after, changed, .. } = self;
        let Some(before) = before else { return "would be new".to_owned() };
        if !changed {
            return "no change".to_owned();
        }
        let moves = self.moves().text();
        if before.version != after.version {
            let moves = moves.map_or_else(String::new, |moves| format!("; {moves}"));
            return format!(
                "version {} would follow version {}, in one stage after the other{moves}",
                after.version, before.version
            );
        }
        moves.unwrap_or_else(|| "its cells would go on with what they run".to_owned())
    }

    /// The cells that have tasks, or would have.
    fn rows(&self) -> Vec<PlannedCell<'_>> {
        let had = self.before.iter().flat_map(|before| &before.parts);
        let had: BTreeMap<&Foreign, u32> = had.map(|part| (&part.cell, part.target)).collect();
        let rows = self.after.parts.iter().map(|part| PlannedCell {
            cell: &part.cell,
            before: had.get(&part.cell).copied().unwrap_or(0),
            after: part.target,
        });
        rows.filter(|row| row.before > 0 || row.after > 0).collect()
    }

    fn moves(&self) -> PlannedMoves {
        self.rows().iter().fold(PlannedMoves::default(), |mut all, row| {
            let (less, more) = (row.before.saturating_sub(row.after), row.after.saturating_sub(row.before));
            all.less = all.less.saturating_add(less);
            all.more = all.more.saturating_add(more);
            all.cells_less += usize::from(less > 0);
            all.cells_more += usize::from(more > 0);
            all
        })
    }

    /// What running a file would do, for people.
    pub(crate) fn text(&self, style: &Style) -> String {
        self.text_of(&self.change_text(), style)
    }

    /// What a rebalance would do, for people.
    pub(crate) fn rebalance_text(&self, style: &Style) -> String {
        let moves = self.moves().text().filter(|_| self.changed);
        let other = if self.changed { "tasks would move" } else { "no task would move" };
        self.text_of(&moves.unwrap_or_else(|| other.to_owned()), style)
    }

    fn text_of(&self, change: &str, style: &Style) -> String {
        let after = &self.after;
        let mut text = format!("{}/{}: {change}", after.user, after.name);
        for line in changes_text(&self.file_diff, style).lines() {
            text = format!("{text}\n  {line}");
        }
        let rows = self.rows();
        if !rows.is_empty() {
            text = format!("{text}\n\n{}", table(&rows, style).trim_end());
        }
        match after.unplaced {
            0 => {}
            1 => text.push_str("\n1 task would have no cell"),
            count => text = format!("{text}\n{count} tasks would have no cell"),
        }
        if !after.shortfall.is_empty() {
            text = format!("{text}\n{}", after.shortfall);
        }
        format!("{text}{}{}", after.cells_missing_text(), after.reasons_text())
    }
}
