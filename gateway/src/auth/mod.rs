//! Authentication by token: one layer in front of gRPC and HTTP, before anything else is read of a request.
//!
//! An operator's token admits to every call. A user's token comes from an issuer that the gateway trusts ([`Issuers`]),
//! and the grants of each cell say what it admits to. A node's token admits to [`AGENT_SERVICE`] alone, for the cell
//! (and the node) that it was made for. Nodes run other people's programs, so a token found on a node must not open the
//! cell. The certificate of a connection proves the same as a token of its holder would.

mod issuer;
mod principal;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use borough_kv::env::Clock;
use borough_kv::secret::Secret;
use borough_proto::tls::CertificateNameError;
use futures::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header};
use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

pub(crate) use issuer::CredentialEnd;
pub use issuer::{IssuerRefused, IssuerSettings, Issuers, KeySource, TokenRefused, public_jwk};
pub use principal::{AGENT_SERVICE, NodeGrant, Principal};
pub(crate) use principal::{NODE_TOKEN_ONLY, NodeClaim, certified};
use principal::{covers, is_of_agents};

use crate::call::CallTrace;
use crate::connection::{ConnectionKind, ConnectionMark, PeerCertificate};
use crate::status::{status_connections_exhausted, status_with};

/// The scheme of a token in the header, with its trailing space.
const SCHEME: &[u8] = b"Bearer ";

/// The secret that a caller must send as `authorization: Bearer <token>`.
#[derive(Clone, Debug)]
pub struct Token(Secret);

impl Token {
    /// Takes a [`Secret`], so that no caller can pass a token that was computed.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// The value of the `authorization` header that presents this token.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.0.expose())
    }

    /// Compares in constant time: the time does not depend on where the two differ.
    fn is(&self, given: &[u8]) -> Choice {
        // The name of the scheme is case-insensitive (RFC 9110), the secret is not.
        let Some((scheme, secret)) = given.split_at_checked(SCHEME.len()) else { return Choice::from(0) };
        let is_scheme = Choice::from(u8::from(scheme.eq_ignore_ascii_case(SCHEME)));
        is_scheme & secret.ct_eq(self.0.expose().as_bytes())
    }
}

/// A token of nodes, with the sessions that it opens.
#[derive(Clone, Debug)]
pub struct NodeToken {
    pub token: Token,
    pub grant: NodeGrant,
}

/// Who a caller is, and how long the credential proves that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub principal: Principal,
    /// Absent: it does not expire.
    pub(crate) end: Option<CredentialEnd>,
}

impl From<Principal> for Authenticated {
    fn from(principal: Principal) -> Self {
        Self { principal, end: None }
    }
}

/// A digest of a token (SHA-256).
type TokenDigest = [u8; 32];
/// What tokens of nodes open, by the tokens' digests: a gateway may accept as many as a cell has nodes.
type NodeTokens = BTreeMap<TokenDigest, Arc<[NodeGrant]>>;

/// The longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8_192;

fn digest_of(token: &[u8]) -> TokenDigest {
    Sha256::digest(token).into()
}

fn by_digest(tokens: Vec<NodeToken>) -> NodeTokens {
    let mut grants: BTreeMap<TokenDigest, Vec<NodeGrant>> = BTreeMap::new();
    for NodeToken { token, grant } in tokens {
        grants.entry(digest_of(token.0.expose().as_bytes())).or_default().push(grant);
    }
    grants.into_iter().map(|(digest, grants)| (digest, grants.into())).collect()
}

/// Every token that a gateway accepts. Clones share them.
#[derive(Clone, Debug)]
pub struct Credentials {
    operator: Token,
    nodes: Arc<RwLock<NodeTokens>>,
    issuers: Issuers,
}

impl Credentials {
    /// Accepts `operator` for every call and `nodes` for sessions of agents.
    pub fn new(operator: Token, nodes: Vec<NodeToken>) -> Self {
        Self { operator, nodes: Arc::new(RwLock::new(by_digest(nodes))), issuers: Issuers::default() }
    }

    /// Accepts tokens of these issuers too.
    #[must_use]
    pub fn with_issuers(mut self, issuers: Issuers) -> Self {
        self.issuers = issuers;
        self
    }

    /// Judges the validity of tokens by this clock.
    pub(crate) fn clock_set(&self, clock: Arc<dyn Clock>) {
        self.issuers.clock_set(clock);
    }

    /// Replaces the tokens of nodes. Sessions that are open continue.
    pub fn nodes_replace(&self, nodes: Vec<NodeToken>) {
        *self.nodes.write() = by_digest(nodes);
    }

    /// The token that gateways send one another.
    pub(crate) fn operator(&self) -> &Token {
        &self.operator
    }

    /// Who a caller is, by the certificate of the connection and the token of the call. Who has the certificate of a
    /// node is that node, whatever token comes with it. For all others a token counts before the certificate.
    ///
    /// # Errors
    /// Neither proves anything.
    pub(crate) fn caller(
        &self,
        certificate: Option<&PeerCertificate>,
        headers: &HeaderMap,
    ) -> Result<Authenticated, NotAuthenticated> {
        let by_certificate = certificate.and_then(certified);
        if let Some(node @ Principal::Node(_)) = by_certificate {
            return Ok(node.into());
        }
        if headers.contains_key(header::AUTHORIZATION) {
            return self.principal(headers);
        }
        by_certificate.map(Authenticated::from).ok_or_else(|| {
            match certificate.map(|certificate| &certificate.name) {
                Some(Err(error)) => NotAuthenticated::Certificate(error.clone()),
                _ => NotAuthenticated::Unknown,
            }
        })
    }

    /// The principal that the headers prove. The operator's token is compared in constant time, and all others by their
    /// digests: the time of a search among digests tells nothing of a token.
    ///
    /// # Errors
    /// No token matches, or that of a user does not count.
    pub fn principal(&self, headers: &HeaderMap) -> Result<Authenticated, NotAuthenticated> {
        let given = headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let operator: bool = self.operator.is(given).into();
        if operator {
            return Ok(Principal::Operator.into());
        }
        let scheme = given.split_at_checked(SCHEME.len());
        let token = scheme.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME)).map(|(_, token)| token);
        let token = token.filter(|token| !token.is_empty()).ok_or(NotAuthenticated::Unknown)?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(NotAuthenticated::Token(TokenRefused::Long(token.len())));
        }
        let digest = digest_of(token);
        if let Some(claim) = NodeClaim::of(token, digest) {
            return Ok(Principal::Claimed(claim).into());
        }
        if let Some(grants) = self.nodes.read().get(&digest) {
            return Ok(Principal::Node(Arc::clone(grants)).into());
        }
        match self.issuers.identity(token, digest) {
            Some(Ok(proven)) => {
                Ok(Authenticated { principal: Principal::User(proven.identity), end: Some(proven.end) })
            }
            Some(Err(refused)) => Err(NotAuthenticated::Token(refused)),
            None => Err(NotAuthenticated::Token(TokenRefused::Foreign)),
        }
    }
}

/// Nothing proves who the caller is. The caller needs a token, or another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthenticated {
    #[error(
        "the call has no valid token; send `authorization: Bearer <token>` from the gateway's token file"
    )]
    Unknown,
    /// A token of a user does not count.
    #[error(transparent)]
    Token(#[from] TokenRefused),
    /// The certificate names nobody, and no token came with it.
    #[error(transparent)]
    Certificate(#[from] CertificateNameError),
}

impl NotAuthenticated {
    /// The reason in the details of a refusal.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unknown => "CREDENTIAL_MISSING",
            Self::Token(_) => "TOKEN_REFUSED",
            Self::Certificate(_) => "CERTIFICATE_REFUSED",
        }
    }

    pub(crate) fn status(&self) -> Status {
        status_with(Code::Unauthenticated, self.reason(), self.to_string(), Default::default())
    }
}

/// Refuses gRPC calls without a token that covers them.
#[derive(Clone, Debug)]
pub struct AuthLayer {
    credentials: Credentials,
}

impl AuthLayer {
    /// Makes a layer that accepts the tokens of `credentials`.
    pub fn new(credentials: Credentials) -> Self {
        Self { credentials }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;

    fn layer(&self, inner: S) -> Auth<S> {
        Auth { inner, credentials: self.credentials.clone() }
    }
}

/// A service behind an [`AuthLayer`].
#[derive(Clone, Debug)]
pub struct Auth<S> {
    inner: S,
    credentials: Credentials,
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let mark = request.extensions().get::<ConnectionMark>();
        let certificate = mark.and_then(ConnectionMark::certificate);
        let caller = authenticated(&self.credentials, certificate, request.headers()).and_then(|caller| {
            if let Some(trace) = request.extensions().get::<Arc<CallTrace>>() {
                trace.authenticated(&caller.principal);
            }
            covers(&caller.principal, path).map(|()| caller)
        });
        let Authenticated { principal, end } = match caller {
            Ok(caller) => caller,
            Err(refused) => return Either::Right(ready(Ok(refused.into_http()))),
        };
        let kind = if is_of_agents(path) { ConnectionKind::Agent } else { ConnectionKind::Caller };
        // What a node claims is proven by the service that is asked, and the connection has shown nothing before.
        let proven = !matches!(principal, Principal::Claimed(_));
        if mark.is_some_and(|mark| proven && !mark.authenticate(kind)) {
            return Either::Right(ready(Ok(status_connections_exhausted().into_http())));
        }
        request.extensions_mut().insert(principal);
        if let Some(end) = end {
            request.extensions_mut().insert(end);
        }
        Either::Left(self.inner.call(request))
    }
}

/// Returns true if the sender of a request expects an answer of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    kind.starts_with(b"application/grpc")
}

/// The principal of a gRPC call, or the refusal.
fn authenticated(
    credentials: &Credentials,
    certificate: Option<&PeerCertificate>,
    headers: &HeaderMap,
) -> Result<Authenticated, Status> {
    credentials.caller(certificate, headers).map_err(|error| error.status())
}

#[cfg(test)]
mod tests {
    use borough_model::Name;

    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    fn grant(cell: &str, node: Option<&str>) -> NodeGrant {
        NodeGrant { cell: Name::new(cell).unwrap(), node: node.map(|node| Name::new(node).unwrap()) }
    }

    /// Credentials of an operator and of one node, with the header of each.
    fn both(node: NodeGrant) -> (Credentials, String, String) {
        let (operator, own) =
            (Secret::generate("borough-operator").unwrap(), Secret::generate("borough-node").unwrap());
        let texts = (operator.expose().to_owned(), own.expose().to_owned());
        let nodes = vec![NodeToken { token: Token::new(own), grant: node }];
        (Credentials::new(Token::new(operator), nodes), texts.0, texts.1)
    }

    #[test]
    fn only_a_token_is_admitted() {
        let (credentials, text, node) = both(grant("alpha", None));
        let given = |value: &str| credentials.principal(&headers(value)).map(|caller| caller.principal);
        assert_eq!(given(&format!("Bearer {text}")), Ok(Principal::Operator));
        assert!(matches!(given(&format!("Bearer {node}")), Ok(Principal::Node(_))));
        assert_eq!(given(&format!("bearer {text}")), Ok(Principal::Operator), "the scheme has no case");
        for missing in ["", "Bearer", "Bearer ", &format!("Basic {text}"), text.as_str()] {
            assert_eq!(given(missing), Err(NotAuthenticated::Unknown), "{missing}");
        }
        for wrong in [&text[..40], &text.to_uppercase(), &format!(" {text}")] {
            let refused = given(&format!("Bearer {wrong}")).unwrap_err();
            assert_eq!(refused, NotAuthenticated::Token(TokenRefused::Foreign), "{wrong}");
            assert_eq!(refused.reason(), "TOKEN_REFUSED");
        }
        let unknown = NotAuthenticated::Token(TokenRefused::Unknown);
        assert_eq!(given("Bearer a.b.c"), Err(unknown), "of an issuer, and none is trusted");
        assert!(credentials.principal(&HeaderMap::new()).is_err());
        credentials.nodes_replace(Vec::new());
        assert!(given(&format!("Bearer {node}")).is_err());
    }

    #[test]
    fn a_nodes_token_opens_sessions_of_its_nodes_and_nothing_else() {
        let (credentials, operator, node) = both(grant("alpha", Some("alpha-1")));
        let call = |token: &str, path: &str| {
            let caller = authenticated(&credentials, None, &headers(&format!("Bearer {token}")))?;
            let principal = caller.principal;
            covers(&principal, path).map(|()| principal)
        };
        for path in [
            "/borough.v1.JobService/SubmitJob",
            "/borough.v1.TaskService/ExecTask",
            "/borough.v1.AgentServices/Session",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/borough.v1.AgentService",
            "//borough.v1.AgentService/Session",
            "",
        ] {
            assert!(call(&operator, path).is_ok(), "{path}");
            let refused = call(&node, path).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{path}");
            assert!(refused.message().contains("the token of a node"), "{path}: {refused}");
        }
        let principal = call(&node, "/borough.v1.AgentService/Session").unwrap();
        assert!(principal.session_check("alpha", "alpha-1").is_ok());
        for (cell, other) in [("alpha", "alpha-2"), ("beta", "alpha-1")] {
            let refused = principal.session_check(cell, other).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            assert!(refused.message().contains("node alpha-1 of cell alpha"), "{refused}");
        }
        assert!(Principal::Node([grant("alpha", None)].into()).session_check("alpha", "any").is_ok());
        assert!(Principal::Operator.session_check("beta", "any").is_ok());
        let nobody = authenticated(&credentials, None, &HeaderMap::new()).unwrap_err();
        assert_eq!(nobody.code(), tonic::Code::Unauthenticated);
    }

    #[test]
    fn a_token_is_not_shown() {
        let (credentials, operator, node) = both(grant("alpha", None));
        let shown = format!("{credentials:?}");
        assert!(!shown.contains(&operator) && !shown.contains(&node), "{shown}");
    }
}
