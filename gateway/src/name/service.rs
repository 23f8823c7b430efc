//! `NameService`, over the stream of endpoints.

use std::pin::Pin;
use std::sync::Arc;

use borough_model::Name;
use borough_proto::convert::{endpoint_to_message, name_from_text};
use borough_proto::v1;
use borough_proto::v1::name_service_server::NameService;
use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

use super::stream::{EndpointEvent, EndpointFilter, StampedEvent, endpoint_changes, endpoints_now};
use crate::cell::{Cells, caller_of_read, cursor_from_message, cursor_to_message};
use crate::status::status_from_field;

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
        let request = request.into_inner();
        caller_of_read(request.context.as_ref())?;
        let cell = self.cells.get(&request.cell)?;
        let filter = filter_of(&request.user, &request.job)?;
        let (endpoints, cursor) = endpoints_now(cell, &filter)?;
        let endpoints = endpoints.iter().map(|endpoint| endpoint_to_message(&cell.name, endpoint)).collect();
        Ok(Response::new(v1::ListEndpointsResponse { endpoints, cursor: Some(cursor_to_message(cursor)) }))
    }

    async fn watch_endpoints(
        &self,
        request: Request<v1::WatchEndpointsRequest>,
    ) -> Result<Response<EndpointStream>, Status> {
        let request = request.into_inner();
        caller_of_read(request.context.as_ref())?;
        let cell = Arc::clone(self.cells.get(&request.cell)?);
        let filter = filter_of(&request.user, &request.job)?;
        let resume = request.resume.as_ref().map(cursor_from_message).transpose()?;
        let name = cell.name.clone();
        let events = endpoint_changes(cell, filter, resume)?;
        let responses = events.map(move |event| event.map(|event| response_of(&name, event)));
        Ok(Response::new(Box::pin(responses)))
    }
}

fn response_of(
    cell: &Name,
    StampedEvent { change, cursor, more }: StampedEvent,
) -> v1::WatchEndpointsResponse {
    use v1::watch_endpoints_response::Event;
    let event = match change {
        EndpointEvent::Published(endpoint) => Event::Published(endpoint_to_message(cell, &endpoint)),
        EndpointEvent::Withdrawn { user, job, index, incarnation } => {
            let (user, job) = (user.to_string(), job.to_string());
            Event::Withdrawn(v1::EndpointWithdrawn { user, job, index, incarnation })
        }
        EndpointEvent::Bookmark => Event::Bookmark(true),
    };
    v1::WatchEndpointsResponse { event: Some(event), cursor: Some(cursor_to_message(cursor)), more }
}
