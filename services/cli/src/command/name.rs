//! `name list`, `name watch`, and those of `merged`.

use borough_client::{Client, EndpointItem, EndpointListFilter, JobRef};
use borough_proto::v1::{PageRequest, WatchFilter};
use futures::StreamExt as _;

use super::list::{NoRows, list_page};
use super::merged;
use super::selected::jobs_selected;
use super::unknown::{job_awaited, service_of_name};
use super::watch::{ANSWERS_AGAIN, WatchedView, list_or_watch};
use crate::args::{Global, JobTarget, NameVerb, conditions_of};
use crate::connect;
use crate::exit::{Code, Failure, absence_text};
use crate::output::{EndpointChangeView, EndpointView, Printer};

pub(super) async fn run(global: &Global, verb: NameVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        NameVerb::Set(set) => merged::set(&client, &set, printer).await?,
        NameVerb::Status { service } => merged::status(&client, service.as_ref(), printer).await?,
        NameVerb::Remove { service } => merged::remove(global, &client, &service, printer).await?,
        NameVerb::List { target, all, label, list } => {
            let label = conditions_of(&label);
            let job = if all { JobRef::new("", "") } else { job(target.as_ref(), client.user()) };
            if target.is_none() {
                jobs_selected(&client, &job.user, &label, printer).await?;
            }
            let is_once = !list.watching.watch;
            let (user, name) = (job.user.clone(), job.name.clone());
            let listed = EndpointListFilter { user, job: name, selector: label.clone() };
            let fetch = async |page: PageRequest| {
                let is_first = page.page.is_empty();
                let answer = client.endpoint_list_page(&listed, page).await?;
                // A job with an endpoint exists. Only an empty list may be one of no job.
                if is_once && is_first && answer.endpoints.is_empty() {
                    job_known(&client, &job).await?;
                }
                Ok(list_page::<_, EndpointView>(answer.endpoints, answer.next_page))
            };
            let (user, name) = (job.user.clone(), job.name.clone());
            let chosen = !name.is_empty() || !label.is_empty();
            let filter =
                WatchFilter { user, job: name, endpoints: true, selector: label, ..WatchFilter::default() };
            let others: &[_] = match &target {
                Some(_) => &[("what its tasks do", "borough job status JOB")],
                None if all => &[],
                None => &[("of every user, if you may see them", "borough name list --all")],
            };
            let none =
                NoRows { rows: "endpoints", user: Some(&job.user), cell: client.cell(), chosen, others };
            let watched = WatchedView::cell(client.clone(), filter);
            return list_or_watch(watched, &list, none.text(), printer, fetch).await;
        }
        NameVerb::Watch { target } => {
            let job = job(target.as_ref(), client.user());
            if target.is_some() {
                // No job of this name comes, as long as the service has it.
                if client.job_get(&job).await.is_err()
                    && let Some(service) = service_of_name(&client, &job).await
                {
                    return Err(service);
                }
                job_awaited(&client, &job, printer).await?;
            }
            let mut items = client.watch_endpoints(job.user, job.name, None);
            let mut is_absent = false;
            while let Some(item) = items.next().await {
                let item = item?;
                if let EndpointItem::Absent(absence) = &item {
                    is_absent = true;
                    printer.remark(&absence_text(absence));
                } else if std::mem::take(&mut is_absent) {
                    printer.remark(ANSWERS_AGAIN);
                }
                if let Some(change) = change(item, client.cell()) {
                    printer.item(&change, EndpointChangeView::text)?;
                }
            }
        }
    }
    Ok(Code::Done)
}

/// Fails if a job that is named does not exist.
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

fn change(item: EndpointItem, cell: &str) -> Option<EndpointChangeView> {
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
            cell: cell.into(),
        }),
        EndpointItem::Resync(reason) => Some(EndpointChangeView::Resync { reason: reason.into() }),
        EndpointItem::Bookmark(_) | EndpointItem::Absent(_) => None,
    }
}
