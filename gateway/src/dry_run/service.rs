//! `DryRunService`: hands the request to the service of its method, and answers what would have come of it.

use std::sync::Arc;

use borough_proto::v1;
use borough_proto::v1::dry_run_service_server::DryRunService;
use bytes::{BufMut as _, BytesMut};
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tower::ServiceExt as _;

use super::words::asked_text;
use crate::cell::{Cells, DryRunMark, DryRunOutcome, METHODS, MethodRule, no_change};
use crate::watch::sentences;

/// Objects that an answer names at most.
const EFFECTS_MAX: usize = 1_000;

/// The gRPC service of dry runs.
#[derive(Clone)]
pub(crate) struct DryRunServer {
    cells: Arc<Cells>,
    /// The services of all other methods.
    routes: Routes,
}

impl DryRunServer {
    /// Makes dry runs of the methods of `routes`.
    pub(crate) fn new(cells: Arc<Cells>, routes: Routes) -> Self {
        Self { cells, routes }
    }

    /// `asked`: what the request asks for, in words.
    fn answer(
        &self,
        outcome: &DryRunOutcome,
        asked: impl FnOnce() -> String,
    ) -> Result<v1::DryRunResponse, Status> {
        let cell = self.cells.get(outcome.cell.as_str())?;
        let effects = cell.state(|state| sentences(state, outcome, EFFECTS_MAX))?;
        let left_out = effects.all.saturating_sub(effects.shown.len());
        let mut shown = effects.shown;
        if shown.is_empty() && outcome.changes {
            // It is of a kind that has no events.
            let of_cell = format!("cell/{}", outcome.cell);
            let object = if outcome.object.is_empty() { &of_cell } else { &outcome.object };
            let (kind, name) = object.split_once('/').unwrap_or(("", object));
            shown.push((format!("{kind} {name}").trim().to_owned(), asked()));
        }
        let shown = shown.into_iter();
        Ok(v1::DryRunResponse {
            changes: outcome.changes,
            effects: shown.map(|(subject, text)| v1::DryRunEffect { subject, text }).collect(),
            effects_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
        })
    }
}

#[tonic::async_trait]
impl DryRunService for DryRunServer {
    async fn dry_run(
        &self,
        request: Request<v1::DryRunRequest>,
    ) -> Result<Response<v1::DryRunResponse>, Status> {
        // Who calls, as the layers before have found out.
        let extensions = request.extensions().clone();
        let asked = request.into_inner();
        let method = method_of(&asked.method)?;
        let mark = DryRunMark::default();
        let mut call = http::Request::builder()
            .method(http::Method::POST)
            .uri(format!("/borough.v1.{}", method.method))
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Full::new(framed(&asked.request))))
            .map_err(|error| Status::internal(error.to_string()))?;
        *call.extensions_mut() = extensions;
        call.extensions_mut().insert(mark.clone());
        let Ok(answer) = self.routes.clone().oneshot(call).await;
        if let Some(outcome) = mark.take() {
            let asked = || asked_text(method.method, &asked.request);
            return self.answer(&outcome, asked).map(Response::new);
        }
        // A refusal, or a change that was done before or is none.
        status_of(answer).await.map(|()| Response::new(v1::DryRunResponse::default()))
    }
}

/// The method of a name. Methods that change nothing refuse the call themselves.
fn method_of(name: &str) -> Result<&'static MethodRule, Status> {
    let method = METHODS.iter().find(|rule| rule.name() == name || rule.method == name);
    method.ok_or_else(|| no_change(name))
}

/// A message as gRPC sends it: not compressed, with its length.
fn framed(message: &[u8]) -> bytes::Bytes {
    let mut frame = BytesMut::with_capacity(message.len().saturating_add(5));
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// The status of an answer, which its headers or its trailers have.
async fn status_of(answer: http::Response<Body>) -> Result<(), Status> {
    let (parts, body) = answer.into_parts();
    let status = match Status::from_header_map(&parts.headers) {
        Some(status) => Some(status),
        None => {
            let read = body.collect().await.map_err(|error| Status::internal(error.to_string()))?;
            read.trailers().and_then(Status::from_header_map)
        }
    };
    status.filter(|status| status.code() != tonic::Code::Ok).map_or(Ok(()), Err)
}
