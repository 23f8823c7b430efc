//! Reads and changes the settings of a cell, for operators.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::job::file::nearest;
use borough_model::job::scheduler_rules_check;
use borough_model::node::label_check;
use borough_model::queue::{QueueSpec, SHARE_WHOLE, queue_leaves, queues_check};
use borough_model::quota::GrantPool;
use borough_model::{Name, Resources};
use borough_proto::bounds::{
    AUDIT_RETENTION_MS, CELL_DRAIN_DELAY_MS_MAX, DNS_TTL_MS_MAX, ENDED_JOBS, FRESH_START_MS_MAX,
    JOURNAL_BYTES, RETENTION_MS,
};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_scheduler_core::{Queueing, QueueingError, QueueingPolicy, ScoringProfile};
use borough_store::cell::{CellMeta, cell_meta_change, cell_meta_read};
use borough_store::journal::Cursor;
use borough_store::quota::oversell_check;
use borough_store::{RefusalRemedy, StoreError, StoreResult};
use tonic::Status;

use super::context::{Caller, CellContext};
use super::keyed::{KeyedRequest, keyed_run};
use super::loads::loads_follow;
use super::oversell::OversellChange;
use crate::status::{status_from_field, status_from_profile, status_from_store, status_from_validation};

const DOMAINS_MAX: usize = 8;

/// The requested changes. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SettingsChange {
    profile: Option<String>,
    failure_domains: Option<Vec<String>>,
    lost_per_minute_max: Option<u32>,
    job_retention_ms: Option<u64>,
    journal_retention_ms: Option<u64>,
    audit_retention_ms: Option<u64>,
    journal_bytes_max: Option<u64>,
    ended_jobs_max: Option<u64>,
    queueing: Option<String>,
    queues: Option<Vec<QueueSpec>>,
    schedulers: Option<BTreeMap<String, Name>>,
    fresh_start_ms: Option<u64>,
    reclaim: Option<bool>,
    dns_ttl_ms: Option<u64>,
    dns_negative_ttl_ms: Option<u64>,
    drain_delay_ms: Option<u64>,
    pub(super) oversell: OversellChange,
    /// The revision that the change was made for; 0: any.
    expected_revision: u64,
}

impl SettingsChange {
    /// Checks every field of a request.
    pub(super) fn of(request: &v1::UpdateCellRequest) -> Result<Self, Status> {
        let missing = v1::CellSettings::default();
        let settings = request.settings.as_ref().unwrap_or(&missing);
        let profile = match &settings.profile {
            None => None,
            Some(text) => {
                let profile: Result<ScoringProfile, _> = text.parse();
                let refused = |error| status_from_profile("settings.profile", text, &error);
                Some(profile.map_err(refused)?.to_string())
            }
        };
        let queueing = match &settings.queueing {
            None => None,
            Some(text) => {
                let queueing: Result<Queueing, _> = text.parse();
                let refused = |error: QueueingError| {
                    status_from_field(&FieldRefused::new("settings.queueing", text, error.to_string()))
                };
                Some(queueing.map_err(refused)?.to_string())
            }
        };
        let queues =
            settings.queues.as_ref().map(|queues| queues.queues.iter().map(queue_of_message).collect());
        let schedulers = match &settings.schedulers {
            None => None,
            Some(rules) => Some(
                scheduler_rules_check("settings.schedulers", rules.of.clone())
                    .map_err(|errors| status_from_validation(&errors))?,
            ),
        };
        let keys = settings.failure_domains.as_ref().map(|domains| domains.keys.clone());
        let change = Self {
            profile,
            failure_domains: keys,
            lost_per_minute_max: settings.lost_per_minute_max,
            job_retention_ms: settings.job_retention_ms,
            journal_retention_ms: settings.journal_retention_ms,
            audit_retention_ms: settings.audit_retention_ms,
            journal_bytes_max: settings.journal_bytes_max,
            ended_jobs_max: settings.ended_jobs_max,
            queueing,
            queues,
            schedulers,
            fresh_start_ms: settings.fresh_start_ms,
            reclaim: settings.reclaim,
            dns_ttl_ms: settings.dns_ttl_ms,
            dns_negative_ttl_ms: settings.dns_negative_ttl_ms,
            drain_delay_ms: settings.drain_delay_ms,
            oversell: OversellChange::of(settings),
            expected_revision: request.expected_revision,
        };
        change.checked().map_err(|refused| status_from_field(&refused.within("settings")))?;
        queues_check(change.queues.as_deref().unwrap_or_default())
            .map_err(|errors| status_from_validation(&errors))?;
        Ok(change)
    }

    fn checked(&self) -> Result<(), FieldRefused> {
        let keys = self.failure_domains.as_deref().unwrap_or_default();
        if keys.len() > DOMAINS_MAX {
            let accepted = format!("{DOMAINS_MAX} at most");
            return Err(FieldRefused::new("failure_domains", keys.len().to_string(), &accepted));
        }
        for (place, key) in keys.iter().enumerate() {
            // The same key as of an attribute or a label: no other could name one.
            let fine = label_check(key, "").is_ok();
            if !fine || keys.iter().filter(|other| *other == key).count() > 1 {
                let accepted = "keys of node attributes or labels, each once: 1 to 128 of a-z, A-Z, 0-9, '.', '_', '/' \
                                and '-'";
                return Err(FieldRefused::new(format!("failure_domains[{place}]"), key, accepted));
            }
        }
        if self.lost_per_minute_max == Some(0) {
            return Err(FieldRefused::new("lost_per_minute_max", "0", "1 or more"));
        }
        if let Some(value) = self.fresh_start_ms.filter(|value| *value > FRESH_START_MS_MAX) {
            let accepted = format!("0 to {FRESH_START_MS_MAX} milliseconds");
            return Err(FieldRefused::new("fresh_start_ms", value.to_string(), &accepted));
        }
        if let Some(value) = self.journal_bytes_max.filter(|value| !JOURNAL_BYTES.contains(value)) {
            let accepted = format!("{} to {} bytes", JOURNAL_BYTES.start(), JOURNAL_BYTES.end());
            return Err(FieldRefused::new("journal_bytes_max", value.to_string(), &accepted));
        }
        if let Some(value) = self.ended_jobs_max.filter(|value| !ENDED_JOBS.contains(value)) {
            let accepted = format!("{} to {} jobs", ENDED_JOBS.start(), ENDED_JOBS.end());
            return Err(FieldRefused::new("ended_jobs_max", value.to_string(), &accepted));
        }
        let kept = [
            ("job_retention_ms", self.job_retention_ms, RETENTION_MS),
            ("journal_retention_ms", self.journal_retention_ms, RETENTION_MS),
            ("audit_retention_ms", self.audit_retention_ms, AUDIT_RETENTION_MS),
        ];
        for (field, value, within) in kept {
            let Some(value) = value.filter(|value| !within.contains(value)) else { continue };
            let accepted = format!("{} to {} milliseconds", within.start(), within.end());
            return Err(FieldRefused::new(field, value.to_string(), &accepted));
        }
        self.oversell.checked()?;
        self.names_checked()
    }

    /// Checks how names are published.
    fn names_checked(&self) -> Result<(), FieldRefused> {
        let ttls = [("dns_ttl_ms", self.dns_ttl_ms), ("dns_negative_ttl_ms", self.dns_negative_ttl_ms)];
        for (field, value) in ttls {
            let fits = |value: &u64| *value <= DNS_TTL_MS_MAX && value.is_multiple_of(1_000);
            let Some(value) = value.filter(|value| !fits(value)) else { continue };
            let accepted = format!("0 to {DNS_TTL_MS_MAX} milliseconds, in whole seconds");
            return Err(FieldRefused::new(field, value.to_string(), &accepted));
        }
        if let Some(value) = self.drain_delay_ms.filter(|value| *value > CELL_DRAIN_DELAY_MS_MAX) {
            let accepted = format!("0 to {CELL_DRAIN_DELAY_MS_MAX} milliseconds");
            return Err(FieldRefused::new("drain_delay_ms", value.to_string(), &accepted));
        }
        Ok(())
    }

    fn made(&self, meta: &mut CellMeta) {
        fn set<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                *to = from.clone();
            }
        }
        set(&mut meta.profile, self.profile.as_ref());
        set(&mut meta.failure_domains, self.failure_domains.as_ref());
        set(&mut meta.lost_per_minute_max, self.lost_per_minute_max.as_ref());
        set(&mut meta.job_retention_ms, self.job_retention_ms.as_ref());
        set(&mut meta.journal_retention_ms, self.journal_retention_ms.as_ref());
        meta.audit_retention_ms = self.audit_retention_ms.or(meta.audit_retention_ms);
        meta.journal_bytes_max = self.journal_bytes_max.or(meta.journal_bytes_max);
        meta.ended_jobs_max = self.ended_jobs_max.or(meta.ended_jobs_max);
        set(&mut meta.queueing, self.queueing.as_ref());
        set(&mut meta.queues, self.queues.as_ref());
        if let Some(rules) = &self.schedulers {
            meta.schedulers = Some(rules.clone()).filter(|rules| !rules.is_empty());
        }
        if let Some(fresh_start_ms) = self.fresh_start_ms {
            meta.fresh_start_ms = Some(fresh_start_ms).filter(|ms| *ms > 0);
        }
        if let Some(reclaim) = self.reclaim {
            meta.reclaim = Some(reclaim).filter(|reclaim| *reclaim);
        }
        meta.dns_ttl_ms = self.dns_ttl_ms.or(meta.dns_ttl_ms);
        meta.dns_negative_ttl_ms = self.dns_negative_ttl_ms.or(meta.dns_negative_ttl_ms);
        meta.drain_delay_ms = self.drain_delay_ms.or(meta.drain_delay_ms);
        meta.oversell = self.oversell.made(meta.oversell()).or(meta.oversell);
    }
}

/// How long an answer waits for the tolerance of the cell.
const TOLERANCE_WAIT: Duration = Duration::from_secs(1);

/// For how many milliseconds a node may be silent before the controller declares it lost, about. `None`: the store does
/// not say.
pub(crate) async fn lost_after_ms(cell: &CellContext) -> Option<u64> {
    let meta = tokio::time::timeout(TOLERANCE_WAIT, settings_read(cell)).await.ok()?.ok()?;
    Some(meta.lost_after_ms)
}

/// Reads the settings from the store.
pub(crate) async fn settings_read(cell: &CellContext) -> StoreResult<CellMeta> {
    let space = &cell.space;
    let meta = cell.db.run("cell_meta_read", Idempotency::ReadOnly, |tx, _| async move {
        cell_meta_read(&tx, space).await
    });
    meta.await
}

/// Makes a change under the caller's request id. Returns the revision of the settings after it, and a cursor from which
/// the mirror shows it. `capacity` is that of [`capacity_ready`](super::oversell::capacity_ready), for a change of the
/// factors by which quotas may exceed it.
pub(super) async fn settings_change(
    cell: &CellContext,
    caller: &Caller,
    asked: &v1::UpdateCellRequest,
    change: &SettingsChange,
    capacity: Option<&Resources>,
) -> StoreResult<(u64, Option<Cursor>)> {
    let space = &cell.space;
    loads_follow(cell, change.profile.as_deref()).await?;
    let request = KeyedRequest::new(caller, "cell_settings", asked);
    // Keyed: if the result of a commit was unknown, the retry finds it. Otherwise the retry would fail on the revision
    // that the first try has made.
    let changed = keyed_run(cell, &request, |tx, mut changes| async move {
        let expected = change.expected_revision;
        let revision = if expected == 0 { 0 } else { cell_meta_read(&tx, space).await?.revision };
        if expected != revision {
            return Err(StoreError::refused_with(
                RefusalRemedy::ReadAgain,
                format!(
                    "the settings of cell {space} are at revision {revision}, the change was made for {expected}; look again"
                ),
            ));
        }
        let before = cell_meta_read(&tx, space).await?.oversell();
        if let Some(factors) = change.oversell.made(before) {
            oversell_check(&tx, space, factors, capacity, changes.at_ms()).await?;
        }
        let meta = cell_meta_change(&tx, &mut changes, |meta| change.made(meta)).await?;
        Ok((meta.revision, changes))
    });
    changed.await
}

/// A warning if queues reclaim their guarantees but the cell does not order tasks by queue.
pub(super) fn reclaim_idle(meta: &CellMeta) -> Option<String> {
    let queueing: Queueing = meta.queueing.parse().unwrap_or_default();
    let idle = meta.reclaim == Some(true) && queueing.policy != QueueingPolicy::Hierarchical;
    idle.then(|| {
        format!(
            "reclaim is set, and does nothing with queueing {}: it is for hierarchical",
            queueing.policy.name()
        )
    })
}

/// Converts the settings to a message.
pub(super) fn settings_message(meta: CellMeta) -> v1::CellSettings {
    let (audit_retention_ms, journal_bytes_max) =
        (Some(meta.audit_retention_ms()), Some(meta.journal_bytes_max()));
    let ended_jobs_max = Some(meta.ended_jobs_max());
    let (dns_ttl_ms, dns_negative_ttl_ms) = (Some(meta.dns_ttl_ms()), Some(meta.dns_negative_ttl_ms()));
    let drain_delay_ms = Some(meta.drain_delay_ms());
    let oversell = meta.oversell();
    let oversell_batch = Some(oversell.percent(GrantPool::Batch).unwrap_or_default());
    let rules = meta.schedulers.unwrap_or_default().into_iter();
    v1::CellSettings {
        audit_retention_ms,
        journal_bytes_max,
        ended_jobs_max,
        profile: Some(meta.profile),
        failure_domains: Some(v1::FailureDomains { keys: meta.failure_domains }),
        lost_per_minute_max: Some(meta.lost_per_minute_max),
        job_retention_ms: Some(meta.job_retention_ms),
        journal_retention_ms: Some(meta.journal_retention_ms),
        queueing: Some(if meta.queueing.is_empty() {
            Queueing::default().to_string()
        } else {
            meta.queueing
        }),
        schedulers: Some(v1::SchedulerRules {
            of: rules.map(|(work, name)| (work, name.to_string())).collect(),
        }),
        queues: Some(v1::Queues { queues: meta.queues.iter().map(queue_message).collect() }),
        fresh_start_ms: Some(meta.fresh_start_ms.unwrap_or_default()),
        reclaim: Some(meta.reclaim.unwrap_or_default()),
        revision: meta.revision,
        dns_ttl_ms,
        dns_negative_ttl_ms,
        drain_delay_ms,
        oversell_production: oversell.percent(GrantPool::Production),
        oversell_batch,
    }
}

fn queue_message(queue: &QueueSpec) -> v1::Queue {
    v1::Queue {
        path: queue.path.clone(),
        weight: queue.weight,
        guaranteed_per_mille: queue.guaranteed_per_mille,
        limit_per_mille: queue.limit_per_mille,
    }
}

/// Converts a queue of a request. The default weight is 1, the default limit is the whole cell.
fn queue_of_message(queue: &v1::Queue) -> QueueSpec {
    let or = |number: u32, otherwise| if number == 0 { otherwise } else { number };
    QueueSpec {
        path: queue.path.clone(),
        weight: or(queue.weight, 1),
        guaranteed_per_mille: queue.guaranteed_per_mille,
        limit_per_mille: or(queue.limit_per_mille, SHARE_WHOLE),
    }
}

/// Refuses a job whose queue the cell does not have. The gateway's copy of the settings may be a moment old, so it
/// reads the store before it refuses.
pub(crate) async fn queue_check(cell: &CellContext, queue: Option<&str>) -> Result<(), Status> {
    let Some(queue) = queue else { return Ok(()) };
    if queue_known(&cell.scheduler.queues(), queue).is_ok() {
        return Ok(());
    }
    let meta = settings_read(cell).await.map_err(|error| status_from_store(&error))?;
    queue_known(&meta.queues, queue).map_err(|refused| status_from_field(&refused))
}

fn queue_known(queues: &[QueueSpec], queue: &str) -> Result<(), FieldRefused> {
    let leaves = queue_leaves(queues);
    if leaves.contains(queue) {
        return Ok(());
    }
    let known: Vec<&str> = leaves.into_iter().collect();
    let accepted = if known.is_empty() {
        "none: the cell has no queues".to_owned()
    } else {
        format!("a queue that takes jobs: {}", known.join(", "))
    };
    let refused = match nearest(queue, &known) {
        Some(near) => format!("{queue:?}, did you mean {near:?}?; accepted: {accepted}"),
        None => accepted,
    };
    Err(FieldRefused::new("spec.queue", queue, refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(settings: v1::CellSettings) -> Result<SettingsChange, String> {
        let request = v1::UpdateCellRequest { settings: Some(settings), ..Default::default() };
        SettingsChange::of(&request).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn what_is_absent_stays_and_what_is_there_is_set() {
        let mut meta = CellMeta::default();
        change(v1::CellSettings::default()).unwrap().made(&mut meta);
        assert_eq!(meta, CellMeta::default());
        let settings = v1::CellSettings {
            profile: Some("kubernetes:spread=0.5".to_owned()),
            failure_domains: Some(v1::FailureDomains { keys: vec!["rack".to_owned()] }),
            fresh_start_ms: Some(90_000),
            ..v1::CellSettings::default()
        };
        change(settings).unwrap().made(&mut meta);
        assert_eq!(
            (meta.profile.as_str(), meta.failure_domains),
            ("kubernetes:spread=0.50", vec!["rack".to_owned()])
        );
        assert_eq!(
            (meta.job_retention_ms, meta.fresh_start_ms),
            (CellMeta::default().job_retention_ms, Some(90_000))
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_field_and_what_would_be() {
        let refused = |settings| change(settings).unwrap_err();
        let with = |edit: fn(&mut v1::CellSettings)| {
            let mut settings = v1::CellSettings::default();
            edit(&mut settings);
            settings
        };
        let unknown = refused(with(|settings| settings.profile = Some("fastest".to_owned())));
        assert!(unknown.contains("settings.profile") && unknown.contains("best-fit"), "{unknown}");
        let infinite = refused(with(|settings| settings.profile = Some("kubernetes:spread=inf".to_owned())));
        assert!(infinite.contains("from 0 to 100"), "{infinite}");
        let twice = vec!["rack".to_owned(), "rack".to_owned()];
        for keys in [vec![String::new()], twice, vec!["x".repeat(129)], vec!["x".to_owned(); 9]] {
            let domains = Some(v1::FailureDomains { keys });
            let refusal = refused(v1::CellSettings { failure_domains: domains, ..Default::default() });
            assert!(refusal.contains("settings.failure_domains"), "{refusal}");
        }
        let fair = refused(with(|settings| settings.queueing = Some("fair".to_owned())));
        assert!(fair.contains("settings.queueing") && fair.contains("fair-share"), "{fair}");
        let rules = BTreeMap::from([("system".to_owned(), "fast".to_owned())]);
        let schedulers = Some(v1::SchedulerRules { of: rules });
        let system = refused(v1::CellSettings { schedulers, ..Default::default() });
        assert!(
            system.contains("settings.schedulers[system]") && system.contains("service, batch"),
            "{system}"
        );
        let over = v1::Queue { path: "ops".to_owned(), guaranteed_per_mille: 1001, ..Default::default() };
        let queues = Some(v1::Queues { queues: vec![over] });
        let over = refused(v1::CellSettings { queues, ..Default::default() });
        assert!(over.contains("queues[0].guaranteed_per_mille"), "{over}");
        assert!(refused(with(|settings| settings.lost_per_minute_max = Some(0))).contains("1 or more"));
        let protected = refused(with(|settings| settings.fresh_start_ms = Some(86_400_001)));
        assert!(
            protected.contains("settings.fresh_start_ms") && protected.contains("86400000"),
            "{protected}"
        );
        let long = refused(with(|settings| settings.dns_ttl_ms = Some(3_601_000)));
        assert!(long.contains("settings.dns_ttl_ms") && long.contains("whole seconds"), "{long}");
        let part = refused(with(|settings| settings.dns_negative_ttl_ms = Some(1_500)));
        assert!(part.contains("settings.dns_negative_ttl_ms") && part.contains("1500"), "{part}");
        let slow = refused(with(|settings| settings.drain_delay_ms = Some(10_001)));
        assert!(slow.contains("settings.drain_delay_ms") && slow.contains("10000"), "{slow}");
        let over = refused(with(|settings| settings.oversell_production = Some(101)));
        assert!(over.contains("settings.oversell_production") && over.contains("1 to 100 percent"), "{over}");
        let over = refused(with(|settings| settings.oversell_batch = Some(10_001)));
        assert!(over.contains("settings.oversell_batch") && over.contains("0 is any amount"), "{over}");
        let brief = refused(with(|settings| settings.job_retention_ms = Some(59_999)));
        assert!(brief.contains("settings.job_retention_ms") && brief.contains("60000"), "{brief}");
    }
}
