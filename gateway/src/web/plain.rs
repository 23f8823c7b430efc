//! Refuses what is no gRPC, in plain HTTP.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::Either;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::auth::is_grpc;

/// Refuses every request that expects no answer of gRPC or gRPC-Web.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcOnlyLayer;

impl<S> Layer<S> for GrpcOnlyLayer {
    type Service = GrpcOnly<S>;

    fn layer(&self, inner: S) -> GrpcOnly<S> {
        GrpcOnly { inner }
    }
}

/// A service behind a [`GrpcOnlyLayer`].
#[derive(Clone, Debug)]
pub(crate) struct GrpcOnly<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for GrpcOnly<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_grpc(request.headers()) {
            Either::Left(self.inner.call(request))
        } else {
            Either::Right(ready(Ok(plain_refusal())))
        }
    }
}

/// The answer to a browser or another client of plain HTTP. It cannot read one of gRPC.
fn plain_refusal() -> Response<Body> {
    let text =
        "this port answers gRPC; for HTTP, use the other address that the gateway prints when it starts\n";
    let mut response = Response::new(Body::new(Full::new(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}
