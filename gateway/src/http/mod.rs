//! HTTP for clients without gRPC: endpoints as JSON and as server-sent events, metrics, liveness, readiness.
//!
//! Every path except `/healthz`, `/readyz` and those of the public keys of identities needs an operator's token in the
//! `authorization` header, which a web page cannot send.

mod identity;
mod json;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_model::access::{ActionNeed, Right};
use borough_proto::connect::GRPC_ON_HTTP_PORT;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tonic::Status;

use crate::audit::refusal_note;
use crate::auth::{Authenticated, Credentials, NODE_TOKEN_ONLY, Principal, is_grpc};
use crate::call::{CallAbout, CallKind, CallTrace};
use crate::cell::{Cells, OngoingCall};
use crate::connection::{ConnectionKind, ConnectionMark};
use crate::health::{HealthStatus, ProcessHealth};
use crate::name::{endpoint_changes, endpoints_now, filter_of};
use crate::overload::{Calls, StreamSeat};
use identity::{Published, published};

/// Interval of keep-alive comments on an idle stream: shorter than the timeouts of common proxies.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The HTTP service.
pub struct HttpServer {
    pub cells: Arc<Cells>,
    pub credentials: Credentials,
    pub registry: Arc<Mutex<Registry>>,
    pub health: Arc<ProcessHealth>,
    pub(crate) calls: Calls,
}

impl HttpServer {
    /// Answers one request that came over the connection of `mark`.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        mark: ConnectionMark,
    ) -> Result<Response<Body>, Infallible> {
        if is_grpc(request.headers()) {
            return Ok(Status::unimplemented(GRPC_ON_HTTP_PORT)
                .into_http::<Full<Bytes>>()
                .map(|body| body.boxed_unsync()));
        }
        let path = request.uri().path().to_owned();
        match path.as_str() {
            "/healthz" => return Ok(verdict(&self.health.now(), HealthStatus::is_live)),
            "/readyz" => return Ok(verdict(&self.health.now(), HealthStatus::is_ready)),
            _ => {}
        }
        if request.method() == Method::GET
            && let Some(document) = published(&self.cells, &path).await
        {
            return Ok(document_answer(document));
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let trace = trace_of(&mark, &parts);
        let caller = match self.caller(&mark, request.headers(), &trace) {
            Ok(caller) => caller,
            Err(refused) => {
                refusal_note(&self.cells, &trace, method_name(&parts), &refused);
                return Ok(refusal(&refused));
            }
        };
        if !mark.authenticate(ConnectionKind::Caller) {
            let mut refusal = text(
                StatusCode::SERVICE_UNAVAILABLE,
                "this gateway has as many connections as it may; close some, or start it with a larger \
                 --connections-max\n",
            );
            refusal.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from_static("2"));
            return Ok(refusal);
        }
        if request.method() != Method::GET {
            return Ok(text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is answered here; use gRPC to change things\n",
            ));
        }
        // What is no text is no position either, and is refused as such.
        let resume = request.headers().get("last-event-id");
        let resume = resume.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let principal = caller.principal.clone();
        let answer = self.calls.answered(same_call(&parts), &principal, |stream| match parts.as_slice() {
            ["metrics"] => self.metrics_allow(&caller.principal).and_then(|()| self.metrics()),
            ["v1", "cells", cell, "names", rest @ ..] => {
                self.names_answer(caller, &NamesPath { cell, rest }, resume, stream)
            }
            _ => Ok(not_found()),
        });
        Ok(answer.await.unwrap_or_else(|status| {
            refusal_note(&self.cells, &trace, method_name(&parts), &status);
            refusal(&status)
        }))
    }

    /// Who asks. Nodes have nothing to ask here.
    fn caller(
        &self,
        mark: &ConnectionMark,
        headers: &HeaderMap,
        trace: &CallTrace,
    ) -> Result<Authenticated, Status> {
        let caller = self.credentials.caller(mark.certificate(), headers);
        let caller = caller.map_err(|error| error.status())?;
        trace.authenticated(&caller.principal);
        match caller.principal {
            Principal::Node(_) | Principal::Claimed(_) => Err(Status::permission_denied(NODE_TOKEN_ONLY)),
            Principal::Operator | Principal::User(_) => Ok(caller),
        }
    }

    /// Metrics are of every cell of the gateway.
    fn metrics_allow(&self, principal: &Principal) -> Result<(), Status> {
        let need = ActionNeed::Right(Right::Read);
        self.cells.0.values().try_for_each(|cell| cell.allow(principal, "GET /metrics", need, ""))
    }

    fn names_answer(
        &self,
        caller: Authenticated,
        path: &NamesPath<'_>,
        resume: Option<String>,
        stream: Option<StreamSeat>,
    ) -> Result<Response<Body>, Status> {
        let (watched, named) = match path.rest {
            [named @ .., "watch"] => (true, named),
            named => (false, named),
        };
        let (user, job) = match named {
            [] => ("", ""),
            [user] => (*user, ""),
            [user, job] => (*user, *job),
            _ => return Ok(not_found()),
        };
        let need = ActionNeed::Own { others: Right::Read };
        let (cell, method) = (self.cells.get(path.cell)?, "GET /v1/cells/CELL/names");
        cell.allow(&caller.principal, method, need, user)?;
        if watched {
            let Authenticated { principal, end } = caller;
            let (cell, owner) = (Arc::clone(cell), user.to_owned());
            names_watch(OngoingCall { cell, principal, end, method, need, owner }, job, resume, stream)
        } else {
            self.names(path.cell, user, job)
        }
    }

    fn metrics(&self) -> Result<Response<Body>, Status> {
        let mut out = String::new();
        prometheus_client::encoding::text::encode(&mut out, &self.registry.lock())
            .map_err(|error| Status::internal(error.to_string()))?;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(with_type(text(StatusCode::OK, out), kind))
    }

    fn names(&self, cell: &str, user: &str, job: &str) -> Result<Response<Body>, Status> {
        let cell = self.cells.get(cell)?;
        let filter = filter_of(user, job)?;
        let (endpoints, cursor) = endpoints_now(cell, &filter)?;
        let body = json::endpoints(&cell.name, &endpoints, cursor);
        Ok(with_type(text(StatusCode::OK, body), "application/json"))
    }
}

/// A path below `/v1/cells/{cell}/names`.
struct NamesPath<'a> {
    cell: &'a str,
    rest: &'a [&'a str],
}

/// The changes of the endpoints of a user or a job, as long as the caller may see them.
fn names_watch(
    ongoing: OngoingCall,
    job: &str,
    resume: Option<String>,
    stream: Option<StreamSeat>,
) -> Result<Response<Body>, Status> {
    let cell = Arc::clone(&ongoing.cell);
    let filter = filter_of(&ongoing.owner, job)?;
    let resume = resume.map(|text| text.parse()).transpose();
    let resume = resume.map_err(|error: borough_store::journal::CursorParseError| {
        Status::invalid_argument(format!("last-event-id: {error}"))
    })?;
    let name = cell.name.clone();
    let events = ongoing.hold(endpoint_changes(cell, filter, resume)?).map(move |event| match event {
        Ok(event) => json::event(&name, &event),
        Err(status) => json::error_event(&status),
    });
    let body = StreamBody::new(kept_alive(Box::pin(events), stream));
    let mut response = Response::new(body.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What is known of a request before it is answered. All requests are reads.
fn trace_of(mark: &ConnectionMark, parts: &[&str]) -> CallTrace {
    let trace = CallTrace::new(Some(mark.peer()));
    trace.is_of(CallKind::Read);
    if let ["v1", "cells", cell, ..] = parts {
        trace.is_about(CallAbout::new(cell, None, String::new()));
    }
    trace
}

/// The name of a request in the audit: never a path that the caller has made up.
fn method_name(parts: &[&str]) -> &'static str {
    match parts {
        ["metrics"] => "GET /metrics",
        ["v1", "cells", _, "names", .., "watch"] => "GET /v1/cells/CELL/names/watch",
        ["v1", "cells", _, "names", ..] => "GET /v1/cells/CELL/names",
        _ => "GET other",
    }
}

/// The call of gRPC that asks for the same as a request; empty: none, and the request takes no seats. Metrics say how
/// busy the gateway is, so they must be readable then.
fn same_call(parts: &[&str]) -> &'static str {
    match parts {
        ["v1", "cells", _, "names", .., "watch"] => "/borough.v1.NameService/WatchEndpoints",
        ["v1", "cells", _, "names", ..] => "/borough.v1.NameService/ListEndpoints",
        _ => "",
    }
}

/// The events as frames, with a comment after each silent interval. They keep their place among the streams.
fn kept_alive(
    mut events: Pin<Box<dyn Stream<Item = String> + Send>>,
    stream: Option<StreamSeat>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    async_stream::stream! {
        let _stream = stream;
        loop {
            match tokio::time::timeout(KEEP_ALIVE, events.next()).await {
                Ok(Some(event)) => yield Ok(Frame::data(Bytes::from(event))),
                Ok(None) => break,
                Err(_) => yield Ok(Frame::data(Bytes::from_static(b":\n\n"))),
            }
        }
    }
}

/// `ok`, or the reasons why not.
fn verdict(status: &HealthStatus, holds: fn(&HealthStatus) -> bool) -> Response<Body> {
    if holds(status) {
        text(StatusCode::OK, "ok\n")
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, status.reasons())
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn with_type(mut response: Response<Body>, kind: &'static str) -> Response<Body> {
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// A document that everybody may read, and keep for five minutes.
fn document_answer(document: Published) -> Response<Body> {
    match document {
        Published::Json(body) => {
            let mut response = with_type(text(StatusCode::OK, body), "application/json");
            let kept = http::HeaderValue::from_static("public, max-age=300");
            response.headers_mut().insert(header::CACHE_CONTROL, kept);
            response
        }
        Published::Absent => {
            let known = "no such cell here; a gateway of several cells has \
                         /v1/cells/{cell}/.well-known/jwks.json and openid-configuration for each\n";
            text(StatusCode::NOT_FOUND, known)
        }
        Published::Later => text(StatusCode::SERVICE_UNAVAILABLE, "the keys cannot be read now; try again\n"),
    }
}

fn not_found() -> Response<Body> {
    let known = "there are /healthz, /readyz, /metrics and /v1/cells/{cell}/names[/{user}[/{job}]][/watch]\n";
    text(StatusCode::NOT_FOUND, known)
}

fn refusal(status: &Status) -> Response<Body> {
    let code = match status.code() {
        tonic::Code::NotFound => StatusCode::NOT_FOUND,
        tonic::Code::InvalidArgument => StatusCode::BAD_REQUEST,
        tonic::Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        tonic::Code::PermissionDenied => StatusCode::FORBIDDEN,
        tonic::Code::OutOfRange => StatusCode::GONE,
        tonic::Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        tonic::Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut refusal = text(code, format!("{}\n", status.message()));
    if code == StatusCode::TOO_MANY_REQUESTS {
        refusal.headers_mut().insert(header::RETRY_AFTER, http::HeaderValue::from_static("2"));
    }
    refusal
}
