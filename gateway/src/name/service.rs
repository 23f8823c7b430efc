//! `NameService`, over the stream of endpoints.

use std::pin::Pin;
use std::sync::Arc;

use borough_model::{JobId, Name, TaskId};
use borough_proto::convert::{endpoint_to_message, name_from_text};
use borough_proto::v1;
use borough_proto::v1::name_service_server::NameService;
use borough_store::mirror::MirrorState;
use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::stream::{
    EndpointEvent, EndpointFilter, LabelReader, ShownEndpoint, StampedEvent, endpoint_changes, with_facts,
};
use crate::cell::{Asked, CellContext, Cells, cursor_from_message, cursor_to_message};
use crate::page::{PagedList, page_cut, page_of, task_key, task_of_key};
use crate::select::{JobSelection, selector_checked};
use crate::status::status_from_field;

/// Endpoints that are visited under one hold of the lock.
const PART_ENDPOINTS: usize = 1_024;
/// Endpoints that a page with a selector looks at, wanted or not.
const LOOKS_MAX: usize = 65_536;

/// The gRPC service of names.
#[derive(Clone)]
pub struct NameServer {
    cells: Arc<Cells>,
}

impl NameServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

/// The filter of a request. An empty text matches everything.
pub fn filter_of(user: &str, job: &str) -> Result<EndpointFilter, Status> {
    let name = |field, text: &str| {
        let name = (!text.is_empty()).then(|| name_from_text(field, text)).transpose();
        name.map_err(|refused| status_from_field(&refused))
    };
    Ok(EndpointFilter { user: name("user", user)?, job: name("job", job)? })
}

type EndpointStream = Pin<Box<dyn Stream<Item = Result<v1::WatchEndpointsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl NameService for NameServer {
    type WatchEndpointsStream = EndpointStream;

    async fn list_endpoints(
        &self,
        request: Request<v1::ListEndpointsRequest>,
    ) -> Result<Response<v1::ListEndpointsResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let filter = filter_of(&request.user, &request.job)?;
        selector_checked("selector", &request.selector)?;
        let mut selection = EndpointSelection::new(&request.selector);
        if let Some(page) = &request.page {
            return Ok(Response::new(endpoints_of_page(cell, &filter, &mut selection, page).await?));
        }
        let (user, job) = (filter.user.as_ref(), filter.job.as_ref());
        let all = |state: &MirrorState| {
            let (endpoints, _) = state.endpoints_part(user, job, None, usize::MAX);
            (with_facts(state, endpoints), state.cursor())
        };
        let (mut endpoints, cursor) = cell.state(all)?;
        endpoints.retain(|(task, ..)| selection.has(cell, task.job));
        let mut labels = LabelReader::default();
        let decoded = endpoints.into_iter().filter_map(|(_, stored, facts)| Some((stored.decoded()?, facts)));
        let shown = decoded.map(|(endpoint, facts)| labels.shown(endpoint, facts));
        let endpoints = shown.map(|shown| shown_to_message(&cell.name, &shown)).collect();
        let cursor = Some(cursor_to_message(cursor));
        Ok(Response::new(v1::ListEndpointsResponse { endpoints, cursor, next_page: String::new() }))
    }

    async fn watch_endpoints(
        &self,
        request: Request<v1::WatchEndpointsRequest>,
    ) -> Result<Response<EndpointStream>, Status> {
        let (Asked { cell, message: request }, ongoing) = self.cells.admit_watch(request)?;
        let cell = Arc::clone(cell);
        let filter = filter_of(&request.user, &request.job)?;
        let resume = request.resume.as_ref().map(cursor_from_message).transpose()?;
        let name = cell.name.clone();
        let events = endpoint_changes(cell, filter, resume)?;
        let responses = events.map(move |event| event.map(|event| response_of(&name, event)));
        Ok(Response::new(ongoing.hold(responses)))
    }
}

/// Says which endpoints a selector wants. Endpoints come by jobs, so each job is looked at once.
struct EndpointSelection<'s> {
    jobs: JobSelection<'s>,
    last: Option<(JobId, bool)>,
}

impl<'s> EndpointSelection<'s> {
    fn new(selector: &'s [v1::LabelMatch]) -> Self {
        Self { jobs: JobSelection::new(selector), last: None }
    }

    /// Returns true if the labels of the endpoint's job meet all conditions. Takes the mirror's lock for a short time.
    fn has(&mut self, cell: &CellContext, job: JobId) -> bool {
        if self.jobs.is_all() {
            return true;
        }
        if let Some((_, has)) = self.last.filter(|(last, _)| *last == job) {
            return has;
        }
        let row = cell.mirror.read(|state| state.jobs().get(&job).cloned());
        let has = row.is_some_and(|row| self.jobs.has_job(cell, &row));
        self.last = Some((job, has));
        has
    }
}

/// The endpoints of a page. The cursor is the position before the first part: a watch from there shows what has changed
/// meanwhile.
async fn endpoints_of_page(
    cell: &CellContext,
    filter: &EndpointFilter,
    selection: &mut EndpointSelection<'_>,
    request: &v1::PageRequest,
) -> Result<v1::ListEndpointsResponse, Status> {
    let list = PagedList::new(&cell.name, "endpoints");
    let page = list.request(Some(request))?;
    let mut after = page.after.as_deref().and_then(task_of_key);
    let cursor = cell.state(MirrorState::cursor)?;
    // One more shows whether another page follows.
    let (room, mut found, mut looked) = (page.limit.saturating_add(1), Vec::new(), 0_usize);
    loop {
        let (user, job) = (filter.user.as_ref(), filter.job.as_ref());
        let (part, last) = cell.mirror.read(|state| {
            let (part, last) = state.endpoints_part(user, job, after, PART_ENDPOINTS);
            (with_facts(state, part), last)
        });
        found.extend(part.into_iter().filter(|(task, ..)| selection.has(cell, task.job)));
        after = last;
        looked = looked.saturating_add(PART_ENDPOINTS);
        if after.is_none() || found.len() >= room || looked >= LOOKS_MAX {
            break;
        }
        tokio::task::yield_now().await;
    }
    let (found, mut next) = page_of(found, &page, |(task, ..)| task_key(*task));
    // The page has few rows, and others may follow.
    if let (true, Some(after)) = (next.is_empty(), after) {
        next = task_key(after);
    }
    let mut labels = LabelReader::default();
    let decoded =
        found.into_iter().filter_map(|(task, stored, facts)| Some((task, stored.decoded()?, facts)));
    let (tasks, endpoints): (Vec<TaskId>, Vec<v1::Endpoint>) = decoded
        .map(|(task, endpoint, facts)| (task, shown_to_message(&cell.name, &labels.shown(endpoint, facts))))
        .unzip();
    let (endpoints, next_page) = page_cut(endpoints, next, |_| String::new());
    // A page that is cut ends with another task.
    let is_cut = endpoints.len() < tasks.len();
    let last = endpoints.len().checked_sub(1).and_then(|at| tasks.get(at));
    let next_page = last.filter(|_| is_cut).map_or(next_page, |task| task_key(*task));
    let next_page = list.token(&next_page);
    Ok(v1::ListEndpointsResponse { endpoints, cursor: Some(cursor_to_message(cursor)), next_page })
}

fn shown_to_message(cell: &Name, shown: &ShownEndpoint) -> v1::Endpoint {
    let labels = shown.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    v1::Endpoint { labels, draining: shown.draining, ..endpoint_to_message(cell, &shown.endpoint) }
}

fn response_of(
    cell: &Name,
    StampedEvent { change, cursor, more }: StampedEvent,
) -> v1::WatchEndpointsResponse {
    use v1::watch_endpoints_response::Event;
    let event = match change {
        EndpointEvent::Published(endpoint) => Event::Published(shown_to_message(cell, &endpoint)),
        EndpointEvent::Withdrawn { user, job, index, incarnation } => {
            let (user, job) = (user.to_string(), job.to_string());
            Event::Withdrawn(v1::EndpointWithdrawn { user, job, index, incarnation })
        }
        EndpointEvent::Bookmark => Event::Bookmark(true),
    };
    v1::WatchEndpointsResponse { event: Some(event), cursor: Some(cursor_to_message(cursor)), more }
}
