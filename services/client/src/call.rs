//! The client's handle, and the common path of every call: metadata, deadline, retries, decoded refusals.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Rng;
use borough_model::RequestId;
use borough_proto::connect::GRPC_ON_HTTP_PORT;
use borough_proto::v1::dry_run_service_client::DryRunServiceClient;
use borough_proto::v1::{DryRunRequest, RequestContext};
use parking_lot::Mutex;
use prost::Message;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::config::{ClientConfig, ClientToken};
use crate::error::{ClientError, GatewayRefusal};
use crate::pool::GatewayPool;
use crate::retry::{retry_told, worth_repeating};

/// Sends one unary or server-streaming call by [`Client::call`].
macro_rules! rpc {
    ($service:ident . $method:ident) => {
        |channel, request| async move {
            let mut service = $service::new(channel)
                .max_decoding_message_size(::borough_proto::bounds::RESPONSE_BYTES_MAX)
                .max_encoding_message_size(::borough_proto::bounds::REQUEST_BYTES_MAX);
            service.$method(request).await
        }
    };
}
pub(crate) use rpc;

/// A stream of answers. An error may come between them, and usually ends it.
pub type ItemStream<T> = futures::stream::BoxStream<'static, Result<T, ClientError>>;

/// A caller's handle of a set of gateways. Cheap to clone; clones share their connections.
///
/// The client connects at the first call, which needs a tokio runtime with IO and time.
#[derive(Clone)]
pub struct Client {
    shared: Arc<CallShared>,
    cell: String,
    user: String,
    request_id: Option<RequestId>,
    /// The most that a call takes, if that is less than the deadline of the settings.
    deadline_max: Option<Duration>,
    /// Changes are not made.
    dry_run: bool,
}

struct CallShared {
    config: ClientConfig,
    /// Read again if a gateway refuses it: somebody may have renewed the file.
    authorization: Mutex<Option<MetadataValue<Ascii>>>,
    pool: GatewayPool,
    rng: Arc<dyn Rng>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = &self.shared.config;
        f.debug_struct("Client").field("config", config).field("cell", &self.cell).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of `config`. Reads the token file; does not connect yet.
    ///
    /// # Errors
    /// [`ClientError::NoGateway`], [`ClientError::Address`], [`ClientError::TokenFile`], [`ClientError::TokenText`].
    pub fn new(config: ClientConfig, rng: Arc<dyn Rng>) -> Result<Self, ClientError> {
        let pool = GatewayPool::new(&config)?;
        let authorization = Mutex::new(authorization_read(&config)?);
        let (cell, user) = (config.cell.clone(), config.user.clone());
        let shared = Arc::new(CallShared { config, authorization, pool, rng });
        Ok(Self { shared, cell, user, request_id: None, deadline_max: None, dry_run: false })
    }

    /// The same client for another cell.
    #[must_use]
    pub fn with_cell(&self, cell: impl Into<String>) -> Self {
        Self { cell: cell.into(), ..self.clone() }
    }

    /// The same client for another user.
    #[must_use]
    pub fn with_user(&self, user: impl Into<String>) -> Self {
        Self { user: user.into(), ..self.clone() }
    }

    /// The same client, with calls that take at most `most`. Calls never take longer than [`ClientConfig::deadline`].
    #[must_use]
    pub fn with_deadline_max(&self, most: Duration) -> Self {
        Self { deadline_max: Some(most), ..self.clone() }
    }

    /// The same client, sending `id` with every mutation instead of a new one: for callers that store their intents.
    /// Use it for one mutation; the same id with other content is refused.
    #[must_use]
    pub fn with_request_id(&self, id: RequestId) -> Self {
        Self { request_id: Some(id), ..self.clone() }
    }

    /// The same client, which changes nothing: each call that would change something ends with
    /// [`ClientError::DryRun`], or with the refusal of the change.
    #[must_use]
    pub fn with_dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The cell of the calls.
    pub fn cell(&self) -> &str {
        &self.cell
    }

    /// The user of the calls.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The addresses of the gateways, as configured.
    pub fn gateways(&self) -> Vec<String> {
        self.shared.pool.addresses()
    }

    pub(crate) fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    /// How long a call may take.
    pub(crate) fn deadline(&self) -> Duration {
        let whole = self.shared.config.deadline;
        self.deadline_max.map_or(whole, |most| whole.min(most))
    }

    pub(crate) fn random_bits(&self) -> u64 {
        self.shared.rng.next_u64()
    }

    /// The context of a read.
    pub(crate) fn context_read(&self) -> Option<RequestContext> {
        Some(RequestContext { request_id: String::new(), user: self.user.clone() })
    }

    /// The context of a mutation, with one id for all its tries.
    pub(crate) fn context_mutation(&self) -> Option<RequestContext> {
        let fresh = || RequestId((u128::from(self.random_bits()) << 64) | u128::from(self.random_bits()));
        let id = self.request_id.unwrap_or_else(fresh);
        Some(RequestContext { request_id: id.to_string(), user: self.user.clone() })
    }

    /// One call: tries `send` on one gateway after the other until it is answered, refused, or out of time.
    pub(crate) async fn call<M, R, F, S>(
        &self,
        method: &'static str,
        message: M,
        send: F,
    ) -> Result<R, ClientError>
    where
        M: Clone + Message,
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        self.call_within(self.deadline(), method, message, send).await
    }

    /// The same with its own deadline, for slower calls.
    pub(crate) async fn call_within<M, R, F, S>(
        &self,
        deadline: Duration,
        method: &'static str,
        message: M,
        send: F,
    ) -> Result<R, ClientError>
    where
        M: Clone + Message,
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        if self.dry_run && !is_read(method) {
            return Err(self.dry_run_of(deadline, method, &message).await);
        }
        self.answered(deadline, method, message, send).await
    }

    /// What a change would do, or the failure of asking.
    async fn dry_run_of<M: Message>(
        &self,
        deadline: Duration,
        method: &'static str,
        message: &M,
    ) -> ClientError {
        let asked = DryRunRequest { method: method.to_owned(), request: message.encode_to_vec().into() };
        match self.answered(deadline, "CheckDryRun", asked, rpc!(DryRunServiceClient.dry_run)).await {
            Ok(answer) => ClientError::DryRun { method, answer: Box::new(answer) },
            Err(failed) => failed,
        }
    }

    async fn answered<M, R, F, S>(
        &self,
        deadline: Duration,
        method: &'static str,
        message: M,
        send: F,
    ) -> Result<R, ClientError>
    where
        M: Clone,
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        let last: Mutex<CallTries> = Mutex::default();
        match tokio::time::timeout(deadline, self.attempts(&message, &send, &last)).await {
            Ok(result) => result,
            // The last failure says more than that the time ran out.
            Err(_) => match std::mem::take(&mut *last.lock()) {
                CallTries { busy: Some(status), .. } => Err(self.refused(&status)),
                CallTries { count: 0, .. } => Err(self.late(method, deadline)),
                // A gateway may have taken the change, and be about to make it.
                CallTries { under_way: true, .. } if !is_read(method) => Err(self.late(method, deadline)),
                failed => Err(self.unreachable(failed)),
            },
        }
    }

    async fn attempts<M, R, F, S>(
        &self,
        message: &M,
        send: &F,
        last: &Mutex<CallTries>,
    ) -> Result<R, ClientError>
    where
        M: Clone,
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        let retry = self.shared.config.retry;
        loop {
            last.lock().under_way = true;
            let status = match self.attempt(message.clone(), send).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            last.lock().under_way = false;
            if let Some(pause) = retry_told(&status) {
                last.lock().busy = Some(Box::new(status));
                // Those that were refused together do not come back together.
                tokio::time::sleep(pause + retry.pause(1, self.random_bits())).await;
                continue;
            }
            if !worth_repeating(&status) {
                return Err(self.refused(&status));
            }
            let count = {
                let mut last = last.lock();
                last.count += 1;
                // It may close later connections at once, which says less.
                last.foreign = last.foreign.or_else(|| foreign_answer(&status));
                last.status = Some(Box::new(status));
                last.count
            };
            if count >= retry.attempts_max {
                return Err(self.unreachable(std::mem::take(&mut *last.lock())));
            }
            tokio::time::sleep(retry.pause(count, self.random_bits())).await;
        }
    }

    /// One try on the gateway in use, and another one if it refused the token and there is a new one by now.
    pub(crate) async fn attempt<M, R, F, S>(&self, message: M, send: &F) -> Result<R, Status>
    where
        M: Clone,
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        match self.attempt_once(message.clone(), send).await {
            Err(status) if self.token_renewed(&status) => self.attempt_once(message, send).await,
            result => result,
        }
    }

    /// One try on the gateway in use. If that gateway failed for its own reasons, the next one is used from now on.
    pub(crate) async fn attempt_once<M, R, F, S>(&self, message: M, send: &F) -> Result<R, Status>
    where
        F: Fn(Channel, Request<M>) -> S,
        S: Future<Output = Result<Response<R>, Status>>,
    {
        let (number, channel) = self.shared.pool.current();
        let result = send(channel, self.request(message)).await;
        if result.as_ref().is_err_and(worth_repeating) {
            self.shared.pool.rotate(number);
        }
        result.map(Response::into_inner)
    }

    /// `message` with the caller's token.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        if let Some(authorization) = self.shared.authorization.lock().clone() {
            request.metadata_mut().insert("authorization", authorization);
        }
        request
    }

    /// Reads the file of the token again, if a gateway has refused the token. Returns true if there is another one now:
    /// a login or an agent has renewed it.
    pub(crate) fn token_renewed(&self, status: &Status) -> bool {
        let is_file = matches!(self.config().token, Some(ClientToken::File(_)));
        if status.code() != tonic::Code::Unauthenticated || !is_file {
            return false;
        }
        // What cannot be read leaves the refusal as it is.
        let Ok(now) = authorization_read(self.config()) else { return false };
        let mut known = self.shared.authorization.lock();
        let is_new = now != *known;
        *known = now;
        is_new
    }

    fn unreachable(&self, failed: CallTries) -> ClientError {
        let gateways = self.shared.pool.addresses();
        let last = || failed.status.as_deref().and_then(foreign_answer);
        // The connection may have ended before the call was on its way.
        let greeted = || self.shared.pool.is_foreign().then_some(NO_HTTP);
        match failed.foreign.or_else(last).or_else(greeted) {
            Some(what) => ClientError::NotGateway { gateways, what },
            None => ClientError::Unreachable { gateways, attempts: failed.count, source: failed.status },
        }
    }

    /// The meaning of a failure without a retry.
    pub(crate) fn failed_once(&self, status: Status) -> ClientError {
        if worth_repeating(&status) {
            self.unreachable_after(1, Some(Box::new(status)))
        } else {
            self.refused(&status)
        }
    }

    /// The refusal of a gateway, or that none has answered.
    fn refused(&self, status: &Status) -> ClientError {
        let gateways = self.shared.pool.addresses();
        if let Some(what) = foreign_answer(status) {
            return ClientError::NotGateway { gateways, what };
        }
        // A gateway says what it refuses. This is the answer of gRPC itself, such as on a port for xDS.
        if status.code() == tonic::Code::Unimplemented && status.message().is_empty() {
            return ClientError::NotGateway { gateways, what: OTHER_GRPC };
        }
        if status.code() == tonic::Code::Unauthenticated {
            let refusal = Box::new(GatewayRefusal::from_status(status));
            return ClientError::TokenRefused { gateways, token: self.config().token_named(), refusal };
        }
        ClientError::refused(status)
    }

    pub(crate) fn late(&self, method: &'static str, deadline: Duration) -> ClientError {
        let gateways = self.shared.pool.addresses();
        ClientError::Deadline { method, deadline, gateways, changes: !is_read(method) }
    }

    pub(crate) fn unreachable_after(&self, attempts: u32, status: Option<Box<Status>>) -> ClientError {
        self.unreachable(CallTries { count: attempts, status, ..CallTries::default() })
    }
}

/// Returns true if a call of this method changes nothing.
fn is_read(method: &str) -> bool {
    ["Check", "Get", "List", "Plan", "Explain", "Read", "Watch"].iter().any(|verb| method.starts_with(verb))
}

/// Of what speaks no gRPC.
const NO_GATEWAY: &str = "no gateway, but a web server or another service";

/// Of what speaks no HTTP/2, or speaks it behind TLS and is asked without.
const NO_HTTP: &str = "no gateway, but a service that speaks otherwise";

/// Of what speaks gRPC and does not know the method.
const OTHER_GRPC: &str = "no gateway, or one of an earlier version";

/// What answers instead of the gRPC port of a gateway; `None` if the status may be one of a gateway, or if nothing
/// answers.
fn foreign_answer(status: &Status) -> Option<&'static str> {
    if status.message().starts_with(GRPC_ON_HTTP_PORT) {
        return Some("the HTTP port of a gateway");
    }
    // tonic could not read the answer as one of gRPC, or h2 not as one of HTTP/2.
    let unread = ["protocol error: ", "grpc-status header missing"];
    if unread.iter().any(|begin| status.message().starts_with(begin)) {
        return Some(NO_GATEWAY);
    }
    let causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    causes.into_iter().any(|error| error.to_string().contains("frame with invalid size")).then_some(NO_HTTP)
}

/// The failed tries of one call.
#[derive(Default)]
struct CallTries {
    count: u32,
    /// One more try has no answer yet.
    under_way: bool,
    status: Option<Box<Status>>,
    /// What answered instead of a gateway, in any of the tries.
    foreign: Option<&'static str>,
    /// The last refusal of a gateway that had too much to do.
    busy: Option<Box<Status>>,
}

/// What every call has; `None` without a token.
fn authorization_read(config: &ClientConfig) -> Result<Option<MetadataValue<Ascii>>, ClientError> {
    let Some(token) = &config.token else { return Ok(None) };
    let source = config.token_named().unwrap_or_default();
    authorization(&token.text_read(&source)?, source).map(Some)
}

fn authorization(token: &str, source: String) -> Result<MetadataValue<Ascii>, ClientError> {
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
        .parse()
        .map_err(|_| ClientError::TokenText { token: source, problem: "has other characters" })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A field that an answer must have.
pub(crate) fn present<T>(
    method: &'static str,
    field: &'static str,
    value: Option<T>,
) -> Result<T, ClientError> {
    value.ok_or(ClientError::Incomplete { method, field })
}
