//! `cell list`, `cell status` and `cell set`.

use std::time::Duration;

use borough_proto::v1;

use super::list::list_page;
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::{CellSet, CellVerb, Global, ListArguments};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{CellOutput, Printer};

pub(super) async fn run(global: &Global, verb: CellVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        CellVerb::List { watching } => {
            let client = connect::client(global)?;
            let fetch = async |_| Ok(list_page::<_, CellOutput>(client.cell_list().await?, String::new()));
            let listed = ListArguments { watching, ..ListArguments::default() };
            return list_or_watch(WatchedView::Unwatched, &listed, printer, fetch).await;
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
            let cell = client.cell_update(settings_of(*settings)).await?;
            printer.one(&CellOutput::from(cell), CellOutput::text)?;
        }
    }
    Ok(Code::Done)
}

fn settings_of(set: CellSet) -> v1::CellSettings {
    let keys = |text: String| {
        let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
        v1::FailureDomains { keys: keys.map(str::to_owned).collect() }
    };
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let rules = set.no_schedulers || !set.schedulers.is_empty();
    v1::CellSettings {
        schedulers: rules.then(|| v1::SchedulerRules { of: set.schedulers.into_iter().collect() }),
        profile: set.profile,
        failure_domains: set.failure_domains.map(keys),
        queueing: set.queueing,
        queues: (set.no_queues || !set.queues.is_empty()).then_some(v1::Queues { queues: set.queues }),
        fresh_start_ms: set.fresh_start.map(ms),
        reclaim: (set.reclaim || set.no_reclaim).then_some(set.reclaim),
        lost_per_minute_max: set.lost_per_minute,
        job_retention_ms: set.job_retention.map(ms),
        journal_retention_ms: set.journal_retention.map(ms),
        journal_bytes_max: set.journal_bytes,
        ended_jobs_max: set.ended_jobs,
        revision: 0,
    }
}
