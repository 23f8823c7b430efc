//! The orders of a proxy over HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::proxy::ProxyState;
use crate::proxy::fault::{Fault, FaultKind, LineState, Script};

/// Takes orders for ever.
pub(crate) async fn serve(state: Arc<ProxyState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let state = Arc::clone(&state);
        let service = hyper::service::service_fn(move |request| answer(Arc::clone(&state), request));
        connections.spawn(async move {
            let server = hyper::server::conn::http1::Builder::new();
            server.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

async fn answer(
    state: Arc<ProxyState>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let (status, text) = match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/calls") => (200, serde_json::to_string(&*state.calls.lock()).unwrap_or_default()),
        (&Method::POST, "/fault") => match order(&state, body).await {
            Ok(()) => (200, "{}".to_owned()),
            Err(problem) => (400, problem),
        },
        _ => (404, "accepted: POST /fault, GET /calls".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}

async fn order(state: &ProxyState, body: Incoming) -> Result<(), String> {
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    let order: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let Fault { gateways, kind } = Fault::read(&order)?;
    let lines = gateways.iter().map(|gateway| &state.lines[*gateway]);
    match kind {
        FaultKind::Cut => lines.for_each(|line| line.cut()),
        FaultKind::Line(line_state) => lines.for_each(|line| line.set(line_state)),
        FaultKind::Script { method, count, what } => {
            state.scripts.lock().push(Script { gateways, method, count, what });
        }
        FaultKind::Heal => {
            lines.for_each(|line| line.set(LineState::Open));
            state.scripts.lock().retain(|script| !script.gateways.iter().all(|one| gateways.contains(one)));
        }
    }
    Ok(())
}
