//! Member cells of a federation, with what is known of each.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_proto::v1::{self, MemberHealth};
use serde::Serialize;

use super::table::Tabular;
use super::text::{ResourcesView, facts, time, word};
use super::{Foreign, Style};

/// A member cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MemberView {
    pub(crate) cell: Foreign,
    pub(crate) gateways: Vec<Foreign>,
    pub(crate) labels: BTreeMap<Foreign, Foreign>,
    pub(crate) cordoned: bool,
    /// Its federated tasks go to other cells.
    pub(crate) draining: bool,
    pub(crate) revision: u64,
    pub(crate) joined_ms: i64,
    pub(crate) changed_ms: i64,
    pub(crate) changed_by: Foreign,
    /// `current`, `not_looked`, `unwatched`, `silent`, `refused` or `older_store`.
    pub(crate) health: String,
    /// Null: it is current, or nobody has looked yet.
    pub(crate) health_since_ms: Option<i64>,
    /// Why the last look brought no report; null: it did.
    pub(crate) problem: Option<Foreign>,
    /// What the cell has last reported; null: it never has.
    pub(crate) report: Option<MemberReportView>,
}

/// What a member cell has reported of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MemberReportView {
    pub(crate) age_ms: u64,
    pub(crate) store_epoch: u64,
    pub(crate) nodes: u32,
    pub(crate) nodes_ready: u32,
    pub(crate) capacity: ResourcesView,
    pub(crate) used: ResourcesView,
    pub(crate) jobs: u32,
    pub(crate) running: u32,
    pub(crate) pending: u32,
}

impl From<v1::Member> for MemberView {
    fn from(member: v1::Member) -> Self {
        let age_ms = member.report_age_ms;
        let report = |report: v1::MemberReport| MemberReportView {
            age_ms,
            store_epoch: report.store_epoch,
            nodes: report.nodes,
            nodes_ready: report.nodes_ready,
            capacity: report.capacity.unwrap_or_default().into(),
            used: report.used.unwrap_or_default().into(),
            jobs: report.jobs,
            running: report.running,
            pending: report.pending,
        };
        Self {
            health: word(member.health().as_str_name(), "MEMBER_HEALTH_"),
            health_since_ms: Some(member.health_since_ms).filter(|at_ms| *at_ms > 0),
            cell: member.cell.into(),
            gateways: member.gateways.into_iter().map(Foreign::from).collect(),
            labels: member.labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            cordoned: member.cordoned,
            draining: member.draining,
            revision: member.revision,
            joined_ms: member.joined_ms,
            changed_ms: member.changed_ms,
            changed_by: member.changed_by.into(),
            problem: Some(member.problem).filter(|problem| !problem.is_empty()).map(Foreign::from),
            report: member.report.map(report),
        }
    }
}

impl MemberView {
    fn is(&self, health: MemberHealth) -> bool {
        self.health == word(health.as_str_name(), "MEMBER_HEALTH_")
    }

    /// What is known: what an operator reads first.
    fn state_text(&self) -> String {
        let since = self.health_since_ms.map(|at_ms| format!(" since {}", time(at_ms))).unwrap_or_default();
        let state = if self.is(MemberHealth::Current) {
            "current".to_owned()
        } else if self.is(MemberHealth::NotLooked) {
            "not looked at yet".to_owned()
        } else {
            format!("unknown{since} ({})", self.health.replace('_', " "))
        };
        if self.draining {
            format!("{state}, draining")
        } else if self.cordoned {
            format!("{state}, cordoned")
        } else {
            state
        }
    }

    /// Why nothing is known; empty: it is.
    fn why_text(&self) -> String {
        if self.is(MemberHealth::Unwatched) {
            return "no federation process looks: borough federation --help".to_owned();
        }
        self.problem.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn labels_text(&self) -> String {
        self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    fn gateways_text(&self) -> String {
        self.gateways.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// All of it, in lines.
    pub(crate) fn text(&self, _style: &Style) -> String {
        let mut lines = vec![
            ("cell", self.cell.to_string()),
            ("state", self.state_text()),
            ("why", self.why_text()),
            ("gateways", self.gateways_text()),
            ("labels", self.labels_text()),
            ("joined", time(self.joined_ms)),
            ("changed", format!("{} by {}", time(self.changed_ms), self.changed_by)),
        ];
        if let Some(report) = &self.report {
            lines.extend([
                ("report", format!("{} old", report.age_text())),
                ("nodes", format!("{} of {} ready", report.nodes_ready, report.nodes)),
                ("capacity", report.capacity.text_of_whole()),
                ("charged", report.used.text_of_whole()),
                ("jobs", report.jobs.to_string()),
                ("tasks", format!("{} running, {} pending", report.running, report.pending)),
                ("store epoch", report.store_epoch.to_string()),
            ]);
        }
        facts(&lines)
    }
}

impl MemberReportView {
    /// In whole seconds.
    fn age_text(&self) -> String {
        humantime::format_duration(Duration::from_secs(self.age_ms / 1_000)).to_string()
    }
}

impl Tabular for MemberView {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec!["CELL", "STATE", "NODES READY", "JOBS", "RUNNING", "PENDING", "AGE", "LABELS"];
        (heads, vec!["CAPACITY", "CHARGED", "GATEWAYS", "WHY"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let of = |text: fn(&MemberReportView) -> String| self.report.as_ref().map(text).unwrap_or_default();
        let cells = vec![
            self.cell.to_string(),
            self.state_text(),
            of(|report| format!("{}/{}", report.nodes_ready, report.nodes)),
            of(|report| report.jobs.to_string()),
            of(|report| report.running.to_string()),
            of(|report| report.pending.to_string()),
            of(MemberReportView::age_text),
            self.labels_text(),
        ];
        let more = vec![
            of(|report| report.capacity.text_of_whole()),
            of(|report| report.used.text_of_whole()),
            self.gateways_text(),
            self.why_text(),
        ];
        (cells, more)
    }

    fn key(&self) -> String {
        self.cell.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(health: MemberHealth, since_ms: i64) -> MemberView {
        let report = v1::MemberReport { nodes: 3, nodes_ready: 2, jobs: 4, ..v1::MemberReport::default() };
        MemberView::from(v1::Member {
            cell: "eu1".to_owned(),
            gateways: vec!["a:1".to_owned(), "b:1".to_owned()],
            health: health.into(),
            health_since_ms: since_ms,
            report: Some(report),
            report_age_ms: 61_900,
            problem: if health == MemberHealth::Silent {
                "no gateway answered".to_owned()
            } else {
                String::new()
            },
            ..v1::Member::default()
        })
    }

    #[test]
    fn a_dark_cell_is_unknown_since_a_time_and_shows_how_old_its_report_is() {
        let (cells, more) = member(MemberHealth::Silent, 1_700_000_000_000).cells();
        assert_eq!(cells[..4], ["eu1", "unknown since 2023-11-14T22:13:20Z (silent)", "2/3", "4"]);
        assert_eq!((cells[6].as_str(), more[3].as_str()), ("1m 1s", "no gateway answered"));
        let unwatched = member(MemberHealth::Unwatched, 1_700_000_000_000);
        assert!(unwatched.why_text().starts_with("no federation process looks"), "{unwatched:?}");
    }

    #[test]
    fn a_cordoned_cell_is_current_as_well() {
        let cordoned = MemberView { cordoned: true, ..member(MemberHealth::Current, 0) };
        assert_eq!(cordoned.cells().0[1], "current, cordoned");
        assert_eq!(cordoned.why_text(), "");
        assert_eq!(member(MemberHealth::NotLooked, 0).state_text(), "not looked at yet");
    }
}
