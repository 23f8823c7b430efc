//! What would become of a federated job.

use std::collections::BTreeMap;

use borough_proto::v1;
use serde::Serialize;

use super::super::table::{Tabular, table};
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
}

impl From<v1::PlanFederatedJobResponse> for FederatedPlanView {
    fn from(plan: v1::PlanFederatedJobResponse) -> Self {
        Self {
            changed: plan.changed,
            before: plan.before.map(FederatedJobView::from),
            after: plan.after.unwrap_or_default().into(),
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

impl FederatedPlanView {
    /// The revision that the plan is for; `None`: there is no such job.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.before.as_ref().map(|before| before.revision)
    }

    fn change_text(&self) -> String {
        let Self { before, after, changed } = self;
        match before {
            None => "would be new".to_owned(),
            Some(_) if !changed => "no change".to_owned(),
            Some(before) if before.version != after.version => format!(
                "version {} would follow version {}, in one stage after the other",
                after.version, before.version
            ),
            Some(_) => "its cells would go on with what they run".to_owned(),
        }
    }

    /// What running a file would do, for people.
    pub(crate) fn text(&self, style: &Style) -> String {
        self.text_of(&self.change_text(), style)
    }

    /// What a rebalance would do, for people.
    pub(crate) fn rebalance_text(&self, style: &Style) -> String {
        let change = if self.changed { "tasks would move" } else { "no task would move" };
        self.text_of(change, style)
    }

    fn text_of(&self, change: &str, style: &Style) -> String {
        let after = &self.after;
        let mut text = format!("{}/{}: {change}", after.user, after.name);
        let had = self.before.iter().flat_map(|before| &before.parts);
        let had: BTreeMap<&Foreign, u32> = had.map(|part| (&part.cell, part.target)).collect();
        let rows = after.parts.iter().map(|part| PlannedCell {
            cell: &part.cell,
            before: had.get(&part.cell).copied().unwrap_or(0),
            after: part.target,
        });
        let rows: Vec<PlannedCell<'_>> = rows.filter(|row| row.before > 0 || row.after > 0).collect();
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
