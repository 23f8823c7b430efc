//! Who may speak: whoever has the bearer token. One layer for gRPC and HTTP, before anything else is looked at.

use std::task::{Context, Poll};

use borough_kv::secret::Secret;
use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header};
use subtle::ConstantTimeEq as _;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::connection::ConnectionMark;
use crate::status::status_connections_exhausted;

/// The secret that a caller must send as `authorization: Bearer <token>`.
#[derive(Clone, Debug)]
pub struct Token(Secret);

impl Token {
    /// The token of this gateway: a [`Secret`], so that no caller can pass one that was computed.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Whether the headers carry it. Takes as long for a wrong token as for the right one.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        given.ct_eq(self.bearer().as_bytes()).into()
    }

    /// What stands in the header of whoever has it.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0.expose())
    }
}

/// The service that only agents call.
const AGENT_SERVICE: &str = borough_proto::v1::agent_service_server::SERVICE_NAME;

/// Refuses gRPC calls without the token, and those over more connections than there may be.
#[derive(Clone, Debug)]
pub struct AuthLayer {
    token: Token,
}

impl AuthLayer {
    /// A layer that asks for `token`.
    pub fn new(token: Token) -> Self {
        Self { token }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;

    fn layer(&self, inner: S) -> Auth<S> {
        Auth { inner, token: self.token.clone() }
    }
}

/// A service behind [`AuthLayer`].
#[derive(Clone, Debug)]
pub struct Auth<S> {
    inner: S,
    token: Token,
}

impl<S, B> Service<Request<B>> for Auth<S>
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
        if !self.token.admits(request.headers()) {
            let message = "the call has no valid token; send `authorization: Bearer <token>` from the gateway's \
                           token file";
            return Either::Right(ready(Ok(Status::unauthenticated(message).into_http())));
        }
        let agent =
            request.uri().path().strip_prefix('/').is_some_and(|path| path.starts_with(AGENT_SERVICE));
        let mark = request.extensions().get::<ConnectionMark>();
        if mark.is_some_and(|mark| !mark.authenticate(agent)) {
            return Either::Right(ready(Ok(status_connections_exhausted().into_http())));
        }
        Either::Left(self.inner.call(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_the_token_is_admitted() {
        let secret = Secret::generate("borough-operator").unwrap();
        let (text, token) = (secret.expose().to_owned(), Token::new(secret));
        assert!(token.admits(&headers(&format!("Bearer {text}"))));
        for wrong in
            ["", "Bearer", "Bearer ", &format!("Bearer {}", &text[..40]), &format!("Basic {text}"), &text]
        {
            assert!(!token.admits(&headers(wrong)), "{wrong}");
        }
        assert!(!token.admits(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_not_shown() {
        let secret = Secret::generate("borough-operator").unwrap();
        let shown = format!("{:?}", Token::new(secret.clone()));
        assert!(!shown.contains(secret.expose()), "{shown}");
    }
}
