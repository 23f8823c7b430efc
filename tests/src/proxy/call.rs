//! Calls through the proxy: each connection of a client has one of its own to the gateway.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::proxy::ProxyState;
use crate::proxy::fault::Scripted;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// The package of the services.
const PACKAGE: &str = "borough.v1.";
/// Bytes before each message of a stream: a flag and a length.
const PREFIX_BYTES: usize = 5;

/// Serves the calls of one connection. `cut` cuts it.
pub(crate) async fn serve(
    state: Arc<ProxyState>,
    gateway: usize,
    stream: DuplexStream,
    cut: watch::Sender<()>,
) {
    let Ok(upstream) = TcpStream::connect(&state.target).await else { return };
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(upstream));
    let Ok((sender, upstream)) = handshake.await else { return };
    let cut = Arc::new(cut);
    let service = hyper::service::service_fn(move |request| {
        let caller =
            Caller { state: Arc::clone(&state), gateway, sender: sender.clone(), cut: Arc::clone(&cut) };
        async move { caller.call(request).await }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let served = server.serve_connection(TokioIo::new(stream), service);
    // One without the other is of no use.
    tokio::select! {
        _ = upstream => {}
        _ = served => {}
    }
}

struct Caller {
    state: Arc<ProxyState>,
    gateway: usize,
    sender: SendRequest<Incoming>,
    cut: Arc<watch::Sender<()>>,
}

impl Caller {
    async fn call(mut self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().trim_start_matches('/');
        let method = path.strip_prefix(PACKAGE).unwrap_or(path).to_owned();
        let scripted = self.state.scripted(self.gateway, &method);
        if let Some(Scripted::Answer(status)) = scripted {
            return Ok(answer(*status));
        }
        self.state.count(&method);
        let response = match self.sender.send_request(to_gateway(request, &self.state.target)).await {
            Ok(response) => response,
            Err(error) => return Ok(answer(Status::unavailable(error.to_string()))),
        };
        match scripted {
            Some(Scripted::Swallow) => {
                // The gateway has done it once its answer is here.
                response.into_body().collect().await.ok();
                self.cut.send_replace(());
                std::future::pending().await
            }
            Some(Scripted::End { after }) => Ok(response.map(|body| ended_after(body, after))),
            Some(Scripted::Answer(_)) | None => Ok(response.map(|body| body.boxed_unsync())),
        }
    }
}

/// The same request with the address of the gateway.
fn to_gateway(mut request: Request<Incoming>, target: &str) -> Request<Incoming> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let uri = Uri::builder().scheme("http").authority(target).path_and_query(path).build();
    *request.uri_mut() = uri.unwrap_or_default();
    request
}

fn answer(status: Status) -> Response<Body> {
    let response = status.into_http::<Full<Bytes>>();
    response.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

/// The first messages of a stream, and then the end that a gateway makes which stops.
fn ended_after(body: Incoming, after: u64) -> Body {
    let state = Messages { body, held: BytesMut::new(), left: after };
    let frames = futures::stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        let frame = state.next().await?;
        let is_data = frame.as_ref().is_ok_and(Frame::is_data);
        Some((frame, is_data.then_some(state)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The messages of a stream, one by one.
struct Messages {
    body: Incoming,
    held: BytesMut,
    left: u64,
}

impl Messages {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        loop {
            if self.left == 0 {
                return Some(Ok(Frame::trailers(stopped())));
            }
            if let Some(message) = self.message() {
                self.left -= 1;
                return Some(Ok(Frame::data(message)));
            }
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => self.held.extend_from_slice(&data),
                    Err(trailers) => return Some(Ok(trailers)),
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next whole message that is here.
    fn message(&mut self) -> Option<Bytes> {
        let mut prefix = self.held.get(..PREFIX_BYTES)?;
        prefix.advance(1);
        let length = usize::try_from(prefix.get_u32()).ok()?;
        (self.held.len() >= PREFIX_BYTES + length).then(|| self.held.split_to(PREFIX_BYTES + length).freeze())
    }
}

fn stopped() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(Code::Unavailable as i32));
    trailers.insert("grpc-message", HeaderValue::from_static("the gateway stops"));
    trailers
}
