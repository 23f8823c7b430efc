//! The stream to a gateway. The agent tries one gateway after the other, with back-off.

mod backoff;
mod join;

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::secret::SecretError;
use borough_proto::bounds::{SESSION_ERROR_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX, text_cut};
use borough_proto::connect::Connector;
use borough_proto::v1;
use borough_proto::v1::agent_message::Message;
use borough_proto::v1::agent_service_client::AgentServiceClient;
use borough_proto::v1::gateway_message::Message as FromGateway;
use futures::FutureExt as _;
use futures::future::pending;
use futures::stream::{PollNext, select_with_strategy};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use crate::config::Intervals;
use crate::event::Event;
use crate::outbox::Outbox;
pub(crate) use join::SessionCredential;

use backoff::{Ended, SaidFailure, SessionFailures, SessionProgress};

/// Reports and acknowledgements that wait for the gateway. Beyond that, they are made later.
const OUTBOX_CONTROL: usize = 64;
/// Messages with output of tasks that wait for the gateway. Beyond that, the sender waits.
const OUTBOX_DATA: usize = 16;
/// The time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A gateway that does not answer a ping for this long is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What a session needs to know of its agent.
#[derive(Clone)]
pub(crate) struct SessionSettings {
    /// The agent may use any of them.
    pub gateways: Vec<String>,
    pub connector: Connector,
    pub credential: SessionCredential,
    pub hello: v1::Hello,
    pub intervals: Intervals,
    /// Spreads the attempts of many agents.
    pub rng: Arc<dyn Rng>,
    /// Measures how long sessions last.
    pub clock: Arc<dyn Clock>,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("not an address of a gateway")]
    Address(#[source] tonic::transport::Error),
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    #[error("the token cannot be sent: it is not plain text")]
    Token,
    #[error("the identity of the node cannot be used")]
    Identity(#[source] SecretError),
    #[error("the gateway gives the node no identity")]
    Join(#[source] Box<Status>),
    #[error("the gateway ended the session")]
    Status(#[source] Box<Status>),
    #[error("the gateway closed the session")]
    Closed,
}

impl SessionError {
    /// Returns true if the gateway refuses this agent's identity: the node is another one's.
    fn is_refusal(&self) -> bool {
        let status = match self {
            Self::Status(status) | Self::Join(status) => status,
            _ => return false,
        };
        status.code() == Code::PermissionDenied
    }

    /// Why it failed, for the log of the agent and for the gateway. Without the words of a library.
    fn cause(&self) -> String {
        match self {
            Self::Status(status) | Self::Join(status) => status_text(status),
            Self::Identity(SecretError::Io { path, source }) => {
                format!("cannot use {}: {}", path.display(), plain(&source.to_string()))
            }
            Self::Identity(error) => error.to_string(),
            other => {
                let source = std::error::Error::source(other);
                let causes = std::iter::successors(source, |error| error.source());
                causes.last().map(|cause| plain(&cause.to_string())).unwrap_or_default()
            }
        }
    }

    /// Returns true if the gateway has ended the session without an error, as one does that is ended itself.
    fn is_clean(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Returns true if an operator must act before another try can succeed: a token or a setting is wrong, or the node
    /// is another one's.
    fn needs_operator(&self) -> bool {
        let of = |status: &Status| {
            matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument)
        };
        match self {
            Self::Token | Self::Identity(_) => true,
            Self::Status(status) | Self::Join(status) => of(status),
            _ => false,
        }
    }
}

/// A cause without the number that the system has for it.
fn plain(cause: &str) -> String {
    cause.split(" (os error ").next().unwrap_or(cause).to_owned()
}

/// What a gateway said at the end of a session.
fn status_text(status: &Status) -> String {
    match (status.code(), status.message()) {
        (Code::Unauthenticated, _) => {
            "it does not accept the agent's token, or needs one; accepted: --token-file \
            with a token that `borough node token` has made, or --join-token-file"
                .to_owned()
        }
        // A status with a source is one that this side has made of an error of its connection.
        _ if std::error::Error::source(status).is_some() => {
            tracing::debug!(?status, "the connection of a session has broken");
            "its connection has broken".to_owned()
        }
        (code, "") => code.description().to_owned(),
        (_, message) => message.to_owned(),
    }
}

/// Keeps a session open until `shutdown`.
pub(crate) async fn run(
    settings: SessionSettings,
    events: mpsc::UnboundedSender<Event>,
    shutdown: CancellationToken,
) {
    let mut failures = SessionFailures::default();
    let mut last_error = String::new();
    let mut said = SaidFailure::default();
    // Of the fruitless sessions in a row, those that gateways have ended without an error.
    let mut closed = 0_u32;
    // Sessions in a row that need an operator. If that holds for every gateway, the cause is this agent and no gateway.
    let mut needing_operator = 0_usize;
    // Agents that start together do not all begin with the same gateway.
    let count = u64::try_from(settings.gateways.len()).unwrap_or(1).max(1);
    let mut next = usize::try_from(settings.rng.next_u64() % count).unwrap_or(0);
    while !shutdown.is_cancelled() {
        let Some(gateway) = settings.gateways.get(next) else { return };
        let mut progress = SessionProgress::default();
        let hello = v1::Hello {
            sessions_failed: failures.fruitless.saturating_sub(closed),
            session_error: last_error.clone(),
            ..settings.hello.clone()
        };
        let ended = tokio::select! {
            () = shutdown.cancelled() => return,
            ended = session(gateway, &settings, hello, &events, &mut progress) => ended,
        };
        let _ = events.send(Event::Closed);
        let outcome = progress.ended(settings.clock.monotonic());
        failures = failures.next(outcome);
        let refused = ended.as_ref().is_err_and(SessionError::is_refusal);
        let needs_operator = ended.as_ref().is_err_and(SessionError::needs_operator);
        needing_operator = if needs_operator { needing_operator.saturating_add(1) } else { 0 };
        let wait = if refused || needing_operator >= settings.gateways.len() {
            settings.intervals.refused
        } else {
            failures.pause(settings.intervals, settings.rng.next_u64())
        };
        if refused {
            let _ = events.send(Event::Refused);
        }
        if let Err(error) = &ended {
            let cause = error.cause();
            let SessionFailures { fruitless, .. } = failures;
            let (wait_ms, is_clean) = (wait.as_millis(), error.is_clean());
            if is_clean {
                tracing::info!(gateway, wait_ms, "the gateway has closed the session; the next one follows");
            } else if said.is_news(&format!("{error}: {cause}"), settings.clock.monotonic()) {
                tracing::warn!(gateway, %error, cause, fruitless, wait_ms, "no session; the agent tries again and again");
            }
            if outcome == Ended::Fruitless && is_clean {
                closed = closed.saturating_add(1);
            } else if outcome == Ended::Fruitless {
                last_error = format!("{error}: {cause}");
                text_cut(&mut last_error, SESSION_ERROR_BYTES_MAX);
            }
        }
        if outcome == Ended::Lasting {
            (closed, last_error) = (0, String::new());
        }
        next = next.saturating_add(1) % settings.gateways.len().max(1);
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// One session, from connecting to its end.
async fn session(
    gateway: &str,
    settings: &SessionSettings,
    hello: v1::Hello,
    events: &mpsc::UnboundedSender<Event>,
    progress: &mut SessionProgress,
) -> Result<(), SessionError> {
    let endpoint = Endpoint::from_shared(gateway.to_owned())
        .map_err(SessionError::Address)?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    let channel = settings.connector.connect(endpoint).await.map_err(SessionError::Connect)?;
    let (control, control_sent) = mpsc::channel(OUTBOX_CONTROL);
    let (data, data_sent) = mpsc::channel(OUTBOX_DATA);
    let hello = v1::AgentMessage { message: Some(Message::Hello(hello)) };
    control.send(hello).await.map_err(|_| SessionError::Closed)?;
    let (control_sent, data_sent) = (ReceiverStream::new(control_sent), ReceiverStream::new(data_sent));
    let sent = select_with_strategy(control_sent, data_sent, |(): &mut ()| PollNext::Left);
    let mut request = Request::new(sent);
    let credential = &settings.credential;
    credential.ready(&channel).await?.into_iter().try_for_each(|token| join::show(&mut request, &token))?;
    // Before the answer: a gateway may wait for the first report before it answers.
    let _ = events.send(Event::Opened { outbox: Outbox { control, data } });
    let ended = |status: Status| SessionError::Status(Box::new(status));
    let mut client = AgentServiceClient::new(channel.clone())
        .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX);
    let mut received = match client.session(request).await {
        Ok(received) => received.into_inner(),
        Err(status) => return Err(credential.joined_again(&channel, status).await),
    };
    let mut renewals = pending().boxed();
    loop {
        let message = tokio::select! {
            message = received.message() => message.map_err(ended)?,
            () = &mut renewals => continue,
        };
        let Some(message) = message else { return Err(SessionError::Closed) };
        progress.message(&message, settings.clock.monotonic());
        if let Some(renew_after) = renewal_of(&message) {
            renewals = credential.renewals(channel.clone(), renew_after).boxed();
        }
        let _ = events.send(Event::Message(Box::new(message)));
    }
}

/// When the identity that has opened the session is renewed, if this is the welcome to it.
fn renewal_of(message: &v1::GatewayMessage) -> Option<Duration> {
    match &message.message {
        Some(FromGateway::Welcome(welcome)) if welcome.identity_renew_after_ms > 0 => {
            Some(Duration::from_millis(welcome.identity_renew_after_ms))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_session_is_told_without_the_words_of_a_library() {
        let ended = |status: Status| SessionError::Status(Box::new(status)).cause();
        let wrong =
            ended(Status::unauthenticated("the call has no valid token; send `authorization: Bearer`"));
        assert!(wrong.contains("--token-file") && !wrong.contains("authorization"), "{wrong}");
        assert_eq!(
            ended(Status::permission_denied("node n1 is another agent's")),
            "node n1 is another agent's"
        );
        assert_eq!(ended(Status::unavailable("")), Code::Unavailable.description());
        assert_eq!(SessionError::Closed.cause(), "");
        let broken = Status::from_error("h2 protocol error: error reading a body from connection".into());
        assert_eq!(ended(broken), "its connection has broken");
    }
}
