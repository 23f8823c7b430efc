//! `event list` and `event watch`.

use std::time::Duration;

use borough_client::{CellItem, Client, JobRef};
use borough_kv::env::SystemClock;
use borough_proto::v1::{Event, PageRequest, WatchFilter};
use futures::StreamExt as _;

use super::event_log::EventLog;
use super::list::{NoRows, list_page};
use super::selected::events_selected;
use super::unknown::{job_awaited, node_awaited};
use super::watch::{ANSWERS_AGAIN, WatchedView, list_watch};
use crate::args::{EVENTS_MAX, EventFilter, EventVerb, Global, ListArguments, conditions_of, events_limit};
use crate::connect;
use crate::exit::{Code, Failure, absence_text};
use crate::output::{ChangeView, EventView, Foreign, Printer, WatchedList};

pub(super) async fn run(global: &Global, verb: EventVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        EventVerb::List { filter, since, limit, watching } => {
            let limit = events_limit(limit, since);
            let since_ms = since.map(|since| begin_ms(since, SystemClock::shared().wall_ms()));
            let chosen = filter.job.is_some()
                || filter.node.is_some()
                || !filter.label.is_empty()
                || since_ms.is_some();
            events_selected(&client, &conditions_of(&filter.label), printer).await?;
            let filter = watch_filter(&filter, client.user());
            let none = NoRows { rows: "events", user: None, cell: client.cell(), chosen, others: &[] };
            if watching.watch {
                let output = WatchedList::of_log(printer, none.text());
                let log =
                    EventLog::new(&client, filter.clone(), limit, printer).on_screen(output.is_screen());
                let is_late = |event: &Event| event.at_ms >= since_ms.unwrap_or(i64::MIN);
                let fetch = async |page: PageRequest| {
                    let mut events = log.read(page.limit).await?;
                    events.retain(is_late);
                    Ok(list_page::<_, EventView>(events, String::new()))
                };
                let listed = ListArguments { limit: Some(limit), watching, ..ListArguments::default() };
                let watched = WatchedView::cell(client.clone(), filter.clone());
                return list_watch(watched, &listed, output, fetch).await;
            }
            let subject = filter.clone();
            let answer = client.event_list(filter, limit).await?;
            let found = answer.events.len();
            let oldest_ms = answer.events.iter().map(|event| event.at_ms).min();
            let since_ms = since_ms.unwrap_or(i64::MIN);
            let views = answer.events.into_iter().filter(|event| event.at_ms >= since_ms);
            let views: Vec<EventView> = views.map(EventView::from).collect();
            if views.is_empty() {
                subject_known(&client, &subject).await?;
            }
            printer.list(&views, &none.text())?;
            let is_cut = found >= usize::try_from(limit).unwrap_or(usize::MAX);
            // Events from before the time that is asked for are missed by nobody.
            let reaches_back = oldest_ms.is_some_and(|oldest_ms| oldest_ms < since_ms);
            if answer.trimmed && !is_cut && !reaches_back {
                printer.remark("older events are no longer kept");
            } else if is_cut && since.is_some() && !reaches_back {
                printer.remark(&older_text(found, limit));
            }
        }
        EventVerb::Watch { filter } => {
            events_selected(&client, &conditions_of(&filter.label), printer).await?;
            watch(&client, watch_filter(&filter, client.user()), printer).await?;
        }
    }
    Ok(Code::Done)
}

/// That the newest events of a time are not all of them.
fn older_text(found: usize, limit: u32) -> String {
    let more = limit.saturating_mul(100).min(EVENTS_MAX);
    let how = if more > limit {
        format!("to see them: --limit {more}")
    } else {
        "give a shorter --since".to_owned()
    };
    format!("these are the newest {found}, and there are older ones of this time; {how}")
}

/// When a time before `now_ms` begins.
fn begin_ms(since: Duration, now_ms: i64) -> i64 {
    now_ms.saturating_sub(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Fails if the job or the node of a list without events does not exist. Events of a purged job are kept for a while.
async fn subject_known(client: &Client, filter: &WatchFilter) -> Result<(), Failure> {
    if !filter.job.is_empty() {
        client.job_get(&JobRef::new(filter.user.as_str(), filter.job.as_str())).await?;
    }
    if !filter.node.is_empty() {
        client.node_get(&filter.node).await?;
    }
    Ok(())
}

async fn watch(client: &Client, filter: WatchFilter, printer: &Printer) -> Result<(), Failure> {
    if !filter.job.is_empty() {
        job_awaited(client, &JobRef::new(filter.user.as_str(), filter.job.as_str()), printer).await?;
    }
    if !filter.node.is_empty() {
        node_awaited(client, &filter.node, printer).await?;
    }
    let filter = WatchFilter { sentences: true, ..filter };
    loop {
        let (mut items, mut is_absent) = (client.watch_cell(filter.clone(), None), false);
        while let Some(item) = items.next().await {
            let item = item?;
            let was_absent = std::mem::replace(&mut is_absent, matches!(item, CellItem::Absent(_)));
            if was_absent && !is_absent {
                printer.remark(ANSWERS_AGAIN);
            }
            match item {
                CellItem::Change(change) => {
                    if let Some(view) = ChangeView::new(*change) {
                        printer.item(&view, ChangeView::text)?;
                    }
                }
                CellItem::Bookmark(_) => {}
                CellItem::Absent(absence) => printer.remark(&absence_text(&absence)),
                CellItem::Resync(why) => {
                    let why = Foreign::from(why.to_string());
                    printer.remark(&format!("changes were missed ({why}); watching again from now"));
                }
            }
        }
    }
}

fn watch_filter(filter: &EventFilter, caller: &str) -> WatchFilter {
    let job = filter.job.as_ref().map(|target| target.resolve(caller));
    let (user, job) = job.map(|job| (job.user, job.name)).unwrap_or_default();
    let (node, selector) = (filter.node.clone().unwrap_or_default(), conditions_of(&filter.label));
    WatchFilter { user, job, node, selector, ..WatchFilter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_says_how_to_see_the_rest() {
        assert_eq!(
            older_text(5, 5),
            "these are the newest 5, and there are older ones of this time; to see them: --limit 500"
        );
        assert!(older_text(10_000, EVENTS_MAX).ends_with("; give a shorter --since"));
    }
}
