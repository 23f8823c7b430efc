//! Cells.

use std::collections::BTreeMap;

use borough_model::job::file::duration_text;
use borough_proto::v1;
use serde::Serialize;

use super::job::CountsView;
use super::table::{Tabular, table};
use super::text::{ResourcesView, bytes, facts, tally, word};
use super::{Foreign, Style};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CellOutput {
    pub(crate) name: Foreign,
    pub(crate) state: String,
    pub(crate) store: Foreign,
    pub(crate) store_epoch: u64,
    pub(crate) nodes: u32,
    pub(crate) nodes_ready: u32,
    pub(crate) capacity: ResourcesView,
    pub(crate) used: ResourcesView,
    pub(crate) jobs: u32,
    pub(crate) tasks: CountsView,
    pub(crate) schedulers: Vec<SchedulerOutput>,
    pub(crate) staleness_ms: u64,
    pub(crate) settings: SettingsView,
    pub(crate) warnings: Vec<Foreign>,
    /// Member cells of the federation that has its home here; 0: it is no home, or nobody has joined.
    pub(crate) members: u32,
}

/// The settings of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SettingsView {
    pub(crate) profile: Foreign,
    pub(crate) failure_domains: Vec<Foreign>,
    pub(crate) lost_per_minute_max: u32,
    pub(crate) job_retention_ms: u64,
    pub(crate) journal_retention_ms: u64,
    pub(crate) journal_bytes_max: u64,
    pub(crate) audit_retention_ms: u64,
    pub(crate) ended_jobs_max: u64,
    pub(crate) queueing: Foreign,
    pub(crate) queues: Vec<QueueView>,
    pub(crate) schedulers: BTreeMap<Foreign, Foreign>,
    pub(crate) fresh_start_ms: u64,
    pub(crate) reclaim: bool,
    pub(crate) dns_ttl_ms: u64,
    pub(crate) dns_negative_ttl_ms: u64,
    pub(crate) drain_delay_ms: u64,
    /// What the quotas of production and monitoring may grant together, in percent of the capacity.
    pub(crate) oversell_production: u32,
    /// The same of batch; 0: any amount.
    pub(crate) oversell_batch: u32,
    pub(crate) revision: u64,
}

/// A queue of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QueueView {
    pub(crate) path: Foreign,
    pub(crate) weight: u32,
    pub(crate) guaranteed_per_mille: u32,
    pub(crate) limit_per_mille: u32,
}

impl From<v1::Queue> for QueueView {
    fn from(queue: v1::Queue) -> Self {
        let v1::Queue { path, weight, guaranteed_per_mille, limit_per_mille } = queue;
        Self { path: path.into(), weight, guaranteed_per_mille, limit_per_mille }
    }
}

impl QueueView {
    fn text(&self) -> String {
        let percent = |per_mille: u32| f64::from(per_mille) / 10.0;
        let (guaranteed, limit) = (percent(self.guaranteed_per_mille), percent(self.limit_per_mille));
        format!("{} (weight {}, guaranteed {guaranteed}%, limit {limit}%)", self.path, self.weight)
    }
}

impl From<v1::CellSettings> for SettingsView {
    fn from(settings: v1::CellSettings) -> Self {
        let keys = settings.failure_domains.clone().map(|domains| domains.keys).unwrap_or_default();
        let pair = |(work, scheduler): (String, String)| (work.into(), scheduler.into());
        Self {
            lost_per_minute_max: settings.lost_per_minute_max(),
            job_retention_ms: settings.job_retention_ms(),
            journal_retention_ms: settings.journal_retention_ms(),
            journal_bytes_max: settings.journal_bytes_max(),
            audit_retention_ms: settings.audit_retention_ms(),
            ended_jobs_max: settings.ended_jobs_max(),
            fresh_start_ms: settings.fresh_start_ms(),
            reclaim: settings.reclaim(),
            dns_ttl_ms: settings.dns_ttl_ms(),
            dns_negative_ttl_ms: settings.dns_negative_ttl_ms(),
            drain_delay_ms: settings.drain_delay_ms(),
            oversell_production: settings.oversell_production(),
            oversell_batch: settings.oversell_batch(),
            revision: settings.revision,
            queueing: settings.queueing.clone().unwrap_or_default().into(),
            queues: settings
                .queues
                .clone()
                .unwrap_or_default()
                .queues
                .into_iter()
                .map(QueueView::from)
                .collect(),
            schedulers: settings
                .schedulers
                .map(|rules| rules.of)
                .unwrap_or_default()
                .into_iter()
                .map(pair)
                .collect(),
            failure_domains: keys.into_iter().map(Foreign::from).collect(),
            profile: settings.profile.unwrap_or_default().into(),
        }
    }
}

impl SettingsView {
    /// How long the cell keeps jobs after their end.
    fn ended_jobs_text(&self) -> String {
        let time = duration_text(self.job_retention_ms);
        format!("kept for {time}, {} at most", self.ended_jobs_max)
    }

    /// How long the cell keeps entries of the journal.
    fn journal_text(&self) -> String {
        let time = duration_text(self.journal_retention_ms);
        format!("kept for {time}, {} at most", bytes(self.journal_bytes_max))
    }

    /// How long resolvers keep answers about its names.
    fn dns_text(&self) -> String {
        let (time, negative) = (duration_text(self.dns_ttl_ms), duration_text(self.dns_negative_ttl_ms));
        format!("kept for {time} by resolvers, {negative} if there are no records")
    }

    /// How long tasks with ports wait for load balancers; empty: they do not, unless their job says so.
    fn drain_text(&self) -> String {
        match self.drain_delay_ms {
            0 => String::new(),
            ms => format!("{} for jobs with ports and without their own", duration_text(ms)),
        }
    }

    /// What quotas may grant together; empty: as by default.
    fn oversell_text(&self) -> String {
        let of_capacity = |band: &str, percent: u32| format!("{band} {percent}% of the capacity");
        let batch = (self.oversell_batch > 0).then(|| of_capacity("batch", self.oversell_batch));
        let own = ![0, 100].contains(&self.oversell_production);
        let production = own.then(|| of_capacity("production", self.oversell_production));
        production.into_iter().chain(batch).collect::<Vec<_>>().join(", ")
    }

    /// How long the cell keeps the calls of its audit.
    fn audit_text(&self) -> String {
        format!("kept for {}", duration_text(self.audit_retention_ms))
    }

    /// The rules that give new jobs a scheduler; empty if all go to the default one.
    fn rules_text(&self) -> String {
        let rules = self.schedulers.iter().map(|(work, scheduler)| format!("{work}={scheduler}"));
        rules.collect::<Vec<_>>().join(", ")
    }
}

/// A scheduler worker, by its lease.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SchedulerOutput {
    pub(crate) shard: u32,
    pub(crate) scheduler: Foreign,
    pub(crate) owner: Foreign,
    pub(crate) epoch: u64,
    pub(crate) stats: Option<WorkerStatsOutput>,
    /// True if the owner stands by without a shard.
    pub(crate) standby: bool,
}

/// A scheduler worker's report about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WorkerStatsOutput {
    pub(crate) at_ms: i64,
    pub(crate) waiting: u64,
    pub(crate) unschedulable: u64,
    pub(crate) rate_per_s: f64,
    pub(crate) placed: u64,
    pub(crate) commits: u64,
    pub(crate) conflicts: u64,
    pub(crate) scored_per_task: f64,
    pub(crate) cached_share: f64,
    pub(crate) age_versions: u64,
    pub(crate) age_ms: u64,
    pub(crate) part_first: u32,
    pub(crate) part_nodes: u32,
    pub(crate) batch_tasks: u32,
    pub(crate) shards: u32,
}

impl From<v1::SchedulerWorker> for SchedulerOutput {
    fn from(worker: v1::SchedulerWorker) -> Self {
        let stats = |stats: v1::WorkerStats| WorkerStatsOutput {
            at_ms: stats.at_ms,
            waiting: stats.waiting,
            unschedulable: stats.unschedulable,
            rate_per_s: stats.rate_per_s,
            placed: stats.placed,
            commits: stats.commits,
            conflicts: stats.conflicts,
            scored_per_task: stats.scored_per_task,
            cached_share: stats.cached_share,
            age_versions: stats.age_versions,
            age_ms: stats.age_ms,
            part_first: stats.part_first,
            part_nodes: stats.part_nodes,
            batch_tasks: stats.batch_tasks,
            shards: stats.shards,
        };
        Self {
            shard: worker.shard,
            scheduler: worker.scheduler.into(),
            owner: worker.owner.into(),
            epoch: worker.epoch,
            stats: worker.stats.map(stats),
            standby: worker.standby,
        }
    }
}

impl Tabular for SchedulerOutput {
    const PLURAL: &'static str = "schedulers";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec![
            "SCHEDULER",
            "SHARD",
            "WORKER",
            "WAITING",
            "UNSCHEDULABLE",
            "PER SECOND",
            "CONFLICTS",
            "SCORED",
            "CACHED",
            "AGE",
            "NODES",
            "BATCH",
        ];
        (heads, vec!["EPOCH", "PLACED", "COMMITS", "AGE VERSIONS", "SHARDS HELD"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let owner = if self.owner.is_empty() { "nobody".to_owned() } else { self.owner.to_string() };
        let shard = if self.standby { "standby".to_owned() } else { self.shard.to_string() };
        let mut cells = vec![self.scheduler.to_string(), shard, owner];
        let mut more = vec![self.epoch.to_string()];
        let Some(stats) = &self.stats else {
            cells.resize(12, String::new());
            more.resize(5, String::new());
            return (cells, more);
        };
        cells.extend([
            stats.waiting.to_string(),
            stats.unschedulable.to_string(),
            format!("{:.0}", stats.rate_per_s),
            stats.conflicts.to_string(),
            format!("{:.1}", stats.scored_per_task),
            format!("{:.0}%", stats.cached_share * 100.0),
            format!("{}ms", stats.age_ms),
            format!("{}+{}", stats.part_first, stats.part_nodes),
            stats.batch_tasks.to_string(),
        ]);
        more.extend([
            stats.placed.to_string(),
            stats.commits.to_string(),
            stats.age_versions.to_string(),
            stats.shards.to_string(),
        ]);
        (cells, more)
    }
}

impl From<v1::Cell> for CellOutput {
    fn from(cell: v1::Cell) -> Self {
        Self {
            state: word(cell.state().as_str_name(), "CELL_STATE_"),
            name: cell.name.into(),
            store: cell.store.into(),
            store_epoch: cell.store_epoch,
            nodes: cell.nodes,
            nodes_ready: cell.nodes_ready,
            capacity: cell.capacity.unwrap_or_default().into(),
            used: cell.used.unwrap_or_default().into(),
            jobs: cell.jobs,
            tasks: cell.tasks.unwrap_or_default().into(),
            schedulers: cell.schedulers.into_iter().map(SchedulerOutput::from).collect(),
            staleness_ms: cell.staleness_ms,
            settings: cell.settings.unwrap_or_default().into(),
            warnings: cell.warnings.into_iter().map(Foreign::from).collect(),
            members: cell.members,
        }
    }
}

impl Tabular for CellOutput {
    const PLURAL: &'static str = "cells";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["CELL", "STATE", "NODES READY", "JOBS", "TASKS", "STORE"], vec!["CAPACITY", "CHARGED"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![
            self.name.to_string(),
            self.state_text(),
            format!("{}/{}", self.nodes_ready, self.nodes),
            self.jobs.to_string(),
            self.tasks.text(),
            self.store.to_string(),
        ];
        (cells, vec![self.capacity.text_of_whole(), self.used.text_of_whole()])
    }
}

impl CellOutput {
    /// The state, and of how many cells it is the home.
    fn state_text(&self) -> String {
        match self.members {
            0 => self.state.clone(),
            members => {
                let cells = tally(usize::try_from(members).unwrap_or(usize::MAX), "cell");
                format!("{}, home of {cells}", self.state)
            }
        }
    }

    pub(crate) fn text(&self, style: &Style) -> String {
        let mut text = facts(&[
            ("cell", self.name.to_string()),
            ("state", self.state_text()),
            (
                "store",
                format!("{} (epoch {}), read {} ms ago", self.store, self.store_epoch, self.staleness_ms),
            ),
            ("nodes", format!("{} of {} ready", self.nodes_ready, self.nodes)),
            ("capacity", self.capacity.text_of_whole()),
            ("charged", self.used.text_of_whole()),
            ("jobs", self.jobs.to_string()),
            ("tasks", self.tasks.text()),
            ("profile", self.settings.profile.to_string()),
            ("queueing", self.settings.queueing.to_string()),
            ("queues", self.settings.queues.iter().map(QueueView::text).collect::<Vec<_>>().join(", ")),
            ("schedulers", self.settings.rules_text()),
            ("failure domains", joined(&self.settings.failure_domains)),
            (
                "reclaim",
                if self.settings.reclaim { "queues take back their guarantee" } else { "" }.to_owned(),
            ),
            ("fresh start", fresh_start_text(self.settings.fresh_start_ms)),
            ("node losses", format!("{} a minute at most", self.settings.lost_per_minute_max)),
            ("ended jobs", self.settings.ended_jobs_text()),
            ("journal", self.settings.journal_text()),
            ("audit", self.settings.audit_text()),
            ("dns", self.settings.dns_text()),
            ("drain delay", self.settings.drain_text()),
            ("quotas", self.settings.oversell_text()),
        ]);
        for warning in &self.warnings {
            text.push_str(&format!("{}\n", style.paint(&format!("warning: {warning}"), 33)));
        }
        if !self.schedulers.is_empty() {
            text.push('\n');
            text.push_str(&table(&self.schedulers, style));
        }
        text
    }
}

fn joined(texts: &[Foreign]) -> String {
    texts.iter().map(Foreign::to_string).collect::<Vec<_>>().join(", ")
}

/// For how long tasks are protected after their start; empty if they are not.
fn fresh_start_text(fresh_start_ms: u64) -> String {
    match fresh_start_ms {
        0 => String::new(),
        ms => format!("spared from preemption for {}", duration_text(ms)),
    }
}
