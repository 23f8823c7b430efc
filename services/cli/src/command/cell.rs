//! The verbs on cells.

use std::time::Duration;

use borough_proto::v1;

use super::list::list_page;
use super::member::{self, Cordon};
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::{CellSet, CellVerb, Global, ListArguments, OversellFactor};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{CellOutput, Printer};

pub(super) async fn run(global: &Global, verb: CellVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        CellVerb::List { watching } => {
            let client = connect::client(global)?;
            let fetch = async |_| Ok(list_page::<_, CellOutput>(client.cell_list().await?, String::new()));
            let listed = ListArguments { watching, ..ListArguments::default() };
            let none = none_text(&client.gateways().join(", "), connect::credential_user(global).as_deref());
            return list_or_watch(WatchedView::Unwatched, &listed, none, printer, fetch).await;
        }
        CellVerb::Status { name, watching } => {
            let client = match name {
                Some(name) => connect::client(global)?.with_cell(name),
                None => connect::cell_client(global).await?,
            };
            let fetch = async |_| Ok(CellOutput::from(client.cell_get().await?.0));
            if watching.watch {
                return status_watch(WatchedView::Unwatched, printer, fetch, CellOutput::text).await;
            }
            printer.one(&fetch(None).await?, CellOutput::text)?;
        }
        CellVerb::Set { name, settings } => {
            let client = match name {
                Some(name) => connect::client(global)?.with_cell(name),
                None => connect::cell_client(global).await?,
            };
            let changed = client.cell_update(settings_of(*settings)).await;
            let cell = changed.map_err(|error| Failure::from(error).with_fields_as(&OPTIONS))?;
            printer.one(&CellOutput::from(cell), CellOutput::text)?;
        }
        CellVerb::Join(join) => return member::join(global, join, printer).await,
        CellVerb::Leave(target) => return member::leave(global, &target, printer).await,
        CellVerb::Cordon(target) => return member::cordon(global, &target, Cordon::Set, printer).await,
        CellVerb::Uncordon(target) => return member::cordon(global, &target, Cordon::Lifted, printer).await,
        CellVerb::Drain(drain) => return member::drain(global, drain, printer).await,
        CellVerb::RenameEndpoint(address) => return member::rename_endpoint(global, address, printer).await,
        CellVerb::Label(labels) => return member::label(global, labels, printer).await,
        CellVerb::Members(list) => return member::members(global, list, printer).await,
    }
    Ok(Code::Done)
}

/// What stands in the place of an empty list: a gateway lists only cells that the caller may see.
fn none_text(gateways: &str, user: Option<&str>) -> String {
    match user {
        Some(user) => format!(
            "no cell at the gateway {gateways} in which {user} has a grant\nhint: borough --cell CELL auth whoami"
        ),
        None => format!("no cell that you may see at the gateway {gateways}"),
    }
}

/// The options of `cell set`, by the fields that they set.
const OPTIONS: [(&str, &str); 17] = [
    ("settings.profile", "--profile"),
    ("settings.failure_domains", "--failure-domains"),
    ("settings.queueing", "--queueing"),
    ("settings.schedulers", "--scheduler"),
    ("settings.fresh_start_ms", "--fresh-start"),
    ("settings.lost_per_minute_max", "--lost-per-minute"),
    ("settings.job_retention_ms", "--job-retention"),
    ("settings.journal_retention_ms", "--journal-retention"),
    ("settings.journal_bytes_max", "--journal-bytes"),
    ("settings.audit_retention_ms", "--audit-retention"),
    ("settings.ended_jobs_max", "--ended-jobs"),
    ("settings.dns_ttl_ms", "--dns-ttl"),
    ("settings.dns_negative_ttl_ms", "--dns-negative-ttl"),
    ("settings.drain_delay_ms", "--drain-delay"),
    ("settings.oversell_production", "--oversell"),
    ("settings.oversell_batch", "--oversell"),
    ("queues", "--queue"),
];

fn settings_of(set: CellSet) -> v1::CellSettings {
    let no_domains = || set.no_failure_domains.then(v1::FailureDomains::default);
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let oversell = set.oversell;
    let factor = |of: fn(&OversellFactor) -> Option<u32>| oversell.iter().rev().find_map(of);
    let rules = set.no_schedulers || !set.schedulers.is_empty();
    v1::CellSettings {
        schedulers: rules.then(|| v1::SchedulerRules { of: set.schedulers.into_iter().collect() }),
        profile: set.profile,
        failure_domains: set.failure_domains.or_else(no_domains),
        queueing: set.queueing,
        queues: (set.no_queues || !set.queues.is_empty()).then_some(v1::Queues { queues: set.queues }),
        fresh_start_ms: set.fresh_start.map(ms),
        reclaim: (set.reclaim || set.no_reclaim).then_some(set.reclaim),
        lost_per_minute_max: set.lost_per_minute,
        job_retention_ms: set.job_retention.map(ms),
        journal_retention_ms: set.journal_retention.map(ms),
        journal_bytes_max: set.journal_bytes,
        audit_retention_ms: set.audit_retention.map(ms),
        ended_jobs_max: set.ended_jobs,
        dns_ttl_ms: set.dns_ttl.map(ms),
        dns_negative_ttl_ms: set.dns_negative_ttl.map(ms),
        drain_delay_ms: set.drain_delay.map(ms),
        oversell_production: factor(|one| match one {
            OversellFactor::Production(percent) => Some(*percent),
            OversellFactor::Batch(_) => None,
        }),
        oversell_batch: factor(|one| match one {
            OversellFactor::Batch(percent) => Some(*percent),
            OversellFactor::Production(_) => None,
        }),
        revision: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_says_who_sees_no_cell() {
        let named = none_text("g:1", Some("zoe"));
        assert!(
            named.starts_with("no cell at the gateway g:1 in which zoe has a grant\nhint: borough "),
            "{named}"
        );
        assert_eq!(none_text("g:1", None), "no cell that you may see at the gateway g:1");
    }
}
