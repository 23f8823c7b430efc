//! `event list` and `event watch`.

use borough_client::{CellItem, Client, JobRef};
use borough_proto::v1::{PageRequest, WatchFilter};
use futures::StreamExt as _;

use super::event_log::EventLog;
use super::list::{NoRows, list_page};
use super::selected::events_selected;
use super::unknown::{job_awaited, node_awaited};
use super::watch::{ANSWERS_AGAIN, WatchedView, list_watch};
use crate::args::{EventFilter, EventVerb, Global, ListArguments};
use crate::connect;
use crate::exit::{Code, Failure, absence_text};
use crate::output::{ChangeView, EventView, Foreign, Printer, WatchedList};

pub(super) async fn run(global: &Global, verb: EventVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        EventVerb::List { filter, limit, watching } => {
            let chosen = filter.job.is_some() || filter.node.is_some() || !filter.label.is_empty();
            events_selected(&client, &filter.label, printer).await?;
            let filter = watch_filter(&filter, client.user());
            let none = NoRows { rows: "events", user: None, cell: client.cell(), chosen, others: &[] };
            if watching.watch {
                let output = WatchedList::of_log(printer, none.text());
                let log =
                    EventLog::new(&client, filter.clone(), limit, printer).on_screen(output.is_screen());
                let fetch = async |page: PageRequest| {
                    let events = log.read(page.limit).await?;
                    Ok(list_page::<_, EventView>(events, String::new()))
                };
                let listed = ListArguments { limit: Some(limit), watching, ..ListArguments::default() };
                let watched = WatchedView::cell(client.clone(), filter.clone());
                return list_watch(watched, &listed, output, fetch).await;
            }
            let subject = filter.clone();
            let answer = client.event_list(filter, limit).await?;
            let views: Vec<EventView> = answer.events.into_iter().map(EventView::from).collect();
            if views.is_empty() {
                subject_known(&client, &subject).await?;
            }
            printer.list(&views, &none.text())?;
            if answer.trimmed && views.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
                printer.remark("older events are no longer kept");
            }
        }
        EventVerb::Watch { filter } => {
            events_selected(&client, &filter.label, printer).await?;
            watch(&client, watch_filter(&filter, client.user()), printer).await?;
        }
    }
    Ok(Code::Done)
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
    let (node, selector) = (filter.node.clone().unwrap_or_default(), filter.label.clone());
    WatchFilter { user, job, node, selector, ..WatchFilter::default() }
}
