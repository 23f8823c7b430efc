//! `name list` and `name watch`.

use std::cell::Cell;

use borough_client::{Client, EndpointItem, JobRef};
use borough_proto::v1::WatchFilter;
use futures::StreamExt as _;

use super::list::list_page;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{Global, JobTarget, NameVerb};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{EndpointChangeView, EndpointView, Printer};

pub(super) async fn run(global: &Global, verb: NameVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        NameVerb::List { target, all, list } => {
            let job = if all { JobRef::new("", "") } else { job(target.as_ref(), client.user()) };
            let listed = Cell::new(false);
            let fetch = async |page| {
                let answer = client.endpoint_list_page(&job.user, &job.name, page).await?;
                listed.set(listed.get() || !answer.endpoints.is_empty());
                Ok(list_page::<_, EndpointView>(answer.endpoints, answer.next_page))
            };
            let (user, name) = (job.user.clone(), job.name.clone());
            let filter = WatchFilter { user, job: name, endpoints: true, ..WatchFilter::default() };
            let code =
                list_or_watch(WatchedView::Cell(client.clone(), filter), &list, printer, fetch).await?;
            if !listed.get() {
                job_known(&client, &job).await?;
            }
            return Ok(code);
        }
        NameVerb::Watch { target } => {
            let job = job(target.as_ref(), client.user());
            let mut items = client.watch_endpoints(job.user, job.name, None);
            while let Some(item) = items.next().await {
                if let Some(change) = change(item?) {
                    printer.item(&change, EndpointChangeView::text)?;
                }
            }
        }
    }
    Ok(Code::Done)
}

/// Fails if a job that has no endpoints does not exist.
async fn job_known(client: &Client, job: &JobRef) -> Result<(), Failure> {
    if !job.name.is_empty() {
        client.job_get(job).await?;
    }
    Ok(())
}

/// The job that is named, or all of the caller's.
fn job(target: Option<&JobTarget>, caller: &str) -> JobRef {
    target.map_or_else(|| JobRef::new(caller, ""), |target| target.resolve(caller))
}

fn change(item: EndpointItem) -> Option<EndpointChangeView> {
    match item {
        EndpointItem::Snapshot { endpoints, .. } => {
            let endpoints = endpoints.into_iter().map(EndpointView::from).collect();
            Some(EndpointChangeView::Snapshot { endpoints })
        }
        EndpointItem::Published(endpoint) => {
            Some(EndpointChangeView::Published { endpoint: (*endpoint).into() })
        }
        EndpointItem::Withdrawn(gone) => Some(EndpointChangeView::Withdrawn {
            user: gone.user.into(),
            job: gone.job.into(),
            index: gone.index,
            attempt: gone.incarnation,
        }),
        EndpointItem::Resync(reason) => Some(EndpointChangeView::Resync { reason: reason.into() }),
        EndpointItem::Bookmark(_) => None,
    }
}
