//! Merged services, and how their traffic is divided.

use borough_model::merged::PART_WHOLE;
use borough_proto::v1;
use serde::Serialize;

use super::table::{Tabular, table};
use super::text::time;
use super::{Foreign, Style};

/// A merged service as its owner has set it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MergedServiceView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    /// Conditions such as `app=shop` and `tier!=db`.
    pub(crate) selector: Vec<Foreign>,
    pub(crate) shares: Vec<JobShareView>,
    pub(crate) revision: u64,
    pub(crate) changed_ms: i64,
    pub(crate) changed_by: Foreign,
}

/// The share of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JobShareView {
    pub(crate) job: Foreign,
    pub(crate) percent: u32,
}

impl From<v1::MergedService> for MergedServiceView {
    fn from(service: v1::MergedService) -> Self {
        let condition = |condition: v1::LabelMatch| {
            let operator = if condition.not { "!=" } else { "=" };
            format!("{}{operator}{}", condition.key, condition.value).into()
        };
        let share = |share: v1::JobShare| JobShareView { job: share.job.into(), percent: share.percent };
        Self {
            user: service.user.into(),
            name: service.name.into(),
            selector: service.selector.into_iter().map(condition).collect(),
            shares: service.shares.into_iter().map(share).collect(),
            revision: service.revision,
            changed_ms: service.changed_ms,
            changed_by: service.changed_by.into(),
        }
    }
}

impl MergedServiceView {
    fn selector_text(&self) -> String {
        self.selector.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Tabular for MergedServiceView {
    const PLURAL: &'static str = "services";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["USER", "NAME", "LABELS", "SHARES"], vec!["REVISION", "CHANGED", "BY"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let shares = self.shares.iter().map(|share| format!("{} {}%", share.job, share.percent));
        let cells = vec![
            self.user.to_string(),
            self.name.to_string(),
            self.selector_text(),
            shares.collect::<Vec<_>>().join(", "),
        ];
        (cells, vec![self.revision.to_string(), time(self.changed_ms), self.changed_by.to_string()])
    }

    fn key(&self) -> String {
        format!("{}/{}", self.user, self.name)
    }
}

/// A job of a merged service, now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MergedJobView {
    pub(crate) job: Foreign,
    /// Its published endpoints.
    pub(crate) endpoints: u32,
    /// Those that take traffic.
    pub(crate) usable: u32,
    /// Null: it has no share.
    pub(crate) share_percent: Option<u32>,
    /// What it gets of the traffic now, in per cent.
    pub(crate) traffic_percent: f64,
}

impl From<v1::MergedJob> for MergedJobView {
    fn from(job: v1::MergedJob) -> Self {
        Self {
            job: job.job.into(),
            endpoints: job.endpoints,
            usable: job.usable,
            share_percent: job.share_percent,
            traffic_percent: f64::from(job.part_ppm) * 100.0 / f64::from(PART_WHOLE),
        }
    }
}

impl Tabular for MergedJobView {
    const PLURAL: &'static str = "jobs";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["JOB", "ENDPOINTS", "SHARE", "TRAFFIC"], Vec::new())
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            self.job.to_string(),
            format!("{}/{} usable", self.usable, self.endpoints),
            self.share_percent.map(|share| format!("{share}%")).unwrap_or_default(),
            format!("{:.1}%", self.traffic_percent),
        ];
        (cells, Vec::new())
    }
}

/// A merged service with its jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MergedStatusView {
    #[serde(flatten)]
    pub(crate) service: MergedServiceView,
    pub(crate) jobs: Vec<MergedJobView>,
    /// Jobs with a share that the labels do not choose.
    pub(crate) unselected: Vec<Foreign>,
}

impl From<v1::GetMergedServiceResponse> for MergedStatusView {
    fn from(answer: v1::GetMergedServiceResponse) -> Self {
        Self {
            service: answer.service.unwrap_or_default().into(),
            jobs: answer.jobs.into_iter().map(MergedJobView::from).collect(),
            unselected: answer.unselected.into_iter().map(Foreign::from).collect(),
        }
    }
}

impl MergedStatusView {
    /// The service in one line, then its jobs.
    pub(crate) fn text(&self, style: &Style) -> String {
        let MergedServiceView { user, name, .. } = &self.service;
        let head = format!("service {user}/{name}: jobs with {}\n", self.service.selector_text());
        if self.jobs.is_empty() { head } else { head + &table(&self.jobs, style) }
    }

    /// What a reader may not have meant.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let MergedServiceView { user, .. } = &self.service;
        let selector = self.service.selector_text();
        let none = || format!("no running job of {user} has the labels {selector}");
        let unselected = self.unselected.iter().map(|job| {
            format!("the share of job {user}/{job} has no effect: the job does not run, or lacks the labels {selector}")
        });
        self.jobs.is_empty().then(none).into_iter().chain(unselected).collect()
    }
}
