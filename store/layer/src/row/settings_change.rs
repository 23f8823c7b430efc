//! Which settings of a cell differ, as its journal tells them to people.

use borough_model::job::file::duration_text;
use borough_model::journal::ValueChange;
use borough_model::queue::QueueSpec;
use borough_model::quota::{GrantPool, OversellFactors};

use super::CellMeta;

impl CellMeta {
    /// The settings that `after` has changed, by the names of the options that set them, without `--`.
    pub(crate) fn settings_changed(&self, after: &Self) -> Vec<ValueChange> {
        let pairs = self.settings().into_iter().zip(after.settings());
        let changed = pairs.filter(|((_, old), (_, new))| old != new);
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let change = |((key, old), (_, new)): ((&str, String), (&str, String))| ValueChange {
            key: key.to_owned(),
            old: given(old),
            new: given(new),
        };
        changed.map(change).collect()
    }

    /// Each setting with its value as text; empty if it has none.
    fn settings(&self) -> Vec<(&'static str, String)> {
        // By name, so that a further setting is not forgotten here. The rest is the cell's own.
        let Self {
            lost_after_ms,
            port_cool_down_ms: _,
            journal_retention_ms,
            request_retention_ms,
            job_retention_ms,
            failure_domains,
            profile,
            lost_per_minute_max,
            created_ms: _,
            revision: _,
            queueing,
            queues,
            fresh_start_ms,
            schedulers,
            reclaim,
            clock: _,
            journal_bytes_max: _,
            ended_jobs_max: _,
            loads: _,
            audit_retention_ms: _,
            dns_ttl_ms: _,
            dns_negative_ttl_ms: _,
            drain_delay_ms: _,
            oversell: _,
            quotas_indexed: _,
        } = self;
        let rules = schedulers.iter().flatten().map(|(work, scheduler)| format!("{work}={scheduler}"));
        vec![
            ("profile", profile.clone()),
            ("failure-domains", failure_domains.join(",")),
            ("lost-after", duration_text(*lost_after_ms)),
            ("lost-per-minute", lost_per_minute_max.to_string()),
            ("job-retention", duration_text(*job_retention_ms)),
            ("journal-retention", duration_text(*journal_retention_ms)),
            ("request-retention", duration_text(*request_retention_ms)),
            ("audit-retention", duration_text(self.audit_retention_ms())),
            ("journal-bytes", self.journal_bytes_max().to_string()),
            ("ended-jobs", self.ended_jobs_max().to_string()),
            ("queueing", queueing.clone()),
            ("queue", queues.iter().map(queue_text).collect::<Vec<_>>().join(" ")),
            ("scheduler", rules.collect::<Vec<_>>().join(",")),
            ("fresh-start", duration_text(fresh_start_ms.unwrap_or_default())),
            ("reclaim", reclaim.unwrap_or_default().to_string()),
            ("dns-ttl", duration_text(self.dns_ttl_ms())),
            ("dns-negative-ttl", duration_text(self.dns_negative_ttl_ms())),
            ("drain-delay", duration_text(self.drain_delay_ms())),
            ("oversell", oversell_text(&self.oversell())),
        ]
    }
}

/// The factors as `cell set --oversell` takes them.
fn oversell_text(factors: &OversellFactors) -> String {
    let of = |pool| factors.percent(pool).map_or_else(|| "none".to_owned(), |percent| percent.to_string());
    format!("production={} batch={}", of(GrantPool::Production), of(GrantPool::Batch))
}

/// A queue as `cell set --queue` takes it.
fn queue_text(queue: &QueueSpec) -> String {
    let QueueSpec { path, weight, guaranteed_per_mille, limit_per_mille } = queue;
    let percent = |per_mille: &u32| f64::from(*per_mille) / 10.0;
    let (guaranteed, limit) = (percent(guaranteed_per_mille), percent(limit_per_mille));
    format!("{path}:weight={weight},guaranteed={guaranteed}%,limit={limit}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named_with_both_values() {
        let before = CellMeta::default();
        let mut after =
            CellMeta { revision: 7, reclaim: Some(true), fresh_start_ms: Some(90_000), ..before.clone() };
        after.queues = vec![QueueSpec {
            path: "ops".to_owned(),
            weight: 2,
            guaranteed_per_mille: 0,
            limit_per_mille: 125,
        }];
        let texts: Vec<String> = before.settings_changed(&after).iter().map(ToString::to_string).collect();
        let queues = "queue: (none) -> ops:weight=2,guaranteed=0%,limit=12.5%";
        assert_eq!(texts, [queues, "fresh-start: 0s -> 1m30s", "reclaim: false -> true"]);
        assert!(before.settings_changed(&before).is_empty());
    }
}
