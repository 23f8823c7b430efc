//! `AgentService`: opens a session, and routes the messages of its agent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_model::{Name, NodeId};
use borough_proto::bounds::{
    IDENTITY_ATTEMPTS_MAX, REPORT_TASKS_MAX, REPORTS_UNAPPLIED_MAX, SESSION_ERROR_BYTES_MAX,
};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::agent_service_server::AgentService;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_store::node::NodeRegistration;
use futures::Stream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::agent_session::AgentSession;
use super::failure::{FAILURES_SHOWN, RegistrationTurn};
use super::identity::identities_serve;
use super::join::JoinGate;
use super::message::{agent_of, attempt_of, facts_of, hello_names};
use super::metrics::{EndKind, SessionEnd};
use super::register::register;
use super::registry::{AgentAnswer, End, Opening, RegisteredSession, UsageReport};
use crate::cell::{CellContext, Cells};
use crate::status::{status_from_field, status_unavailable};

/// How long an agent has for its first message.
const HELLO_WAIT: Duration = Duration::from_secs(10);

/// Admits agents, and serves the stream of each.
#[derive(Clone)]
pub struct AgentServer {
    cells: Arc<Cells>,
    gateway: String,
    report_interval: Duration,
    silence: Duration,
    joins: Arc<JoinGate>,
}

impl AgentServer {
    /// Serves `cells`, on the gateway that others reach as `gateway`. Agents report at least every `report_interval`,
    /// or less often if the gateway holds many. The same agent in another boot is admitted after its node's lease was
    /// unchanged for `silence`.
    pub fn new(cells: Arc<Cells>, gateway: String, report_interval: Duration, silence: Duration) -> Self {
        let joins = Arc::new(JoinGate::new(Arc::clone(&cells)));
        Self { cells, gateway, report_interval, silence, joins }
    }
}

type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::GatewayMessage, Status>> + Send>>;

#[tonic::async_trait]
impl AgentService for AgentServer {
    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<SessionStream>, Status> {
        let (_, extensions, mut inbound) = request.into_parts();
        let hello = hello_of(&mut inbound).await?;
        let proven = self.joins.session_prove(&extensions, &hello.cell, &hello.node).await?;
        let cell = Arc::clone(self.cells.get(&hello.cell)?);
        let (name, facts) = match (hello_names(&hello), facts_of(&hello)) {
            (Ok(name), Ok(facts)) => (name, facts),
            (Err(refused), _) | (_, Err(refused)) => return Err(status_from_field(&refused)),
        };
        cell.state(|_| ())?;
        let id = cell.id();
        let (candidate, gateway) = (NodeId(cell.id()), self.gateway.clone());
        let agent = agent_of(&hello).map_err(|refused| status_from_field(&refused))?;
        let registration =
            NodeRegistration { agent, gateway, ..NodeRegistration::new(name.clone(), facts, candidate, id) };
        turn_await(&cell, &name).await?;
        let (registered, cursor) = register(&cell, registration, self.silence).await?;
        let node = registered.row.id;
        tracing::info!(cell = %cell.name, node = %name, session = id, state = ?registered.row.state, "agent connected");
        if hello.sessions_failed >= FAILURES_SHOWN {
            let (failed, error) = (hello.sessions_failed, &hello.session_error);
            tracing::warn!(cell = %cell.name, node = %name, failed, error, "the agent's sessions before came to nothing");
        }
        let failed = cell.sessions.failures.opened(node, &hello, cell.clock.wall_ms());
        let (now, report_interval) = (cell.machine.monotonic(), self.report_interval);
        let (session, outbound) = cell.sessions.open(Opening { node, id, now, report_interval, failed });
        let welcome = v1::Welcome {
            node_id: node.to_string(),
            session: id,
            report_interval_ms: u64::try_from(self.report_interval.as_millis()).unwrap_or(u64::MAX),
            store_epoch: cursor.store_epoch,
            signs_identities: true,
            identity_renew_after_ms: proven.map_or(0, |proven| proven.joined.renew_after_ms),
        };
        session.send(ToAgent::Welcome(welcome)).await;
        let (reports, received) = mpsc::channel(REPORTS_UNAPPLIED_MAX);
        tokio::spawn(
            AgentSession::new(Arc::clone(&cell), Arc::clone(&session), name.clone(), cursor).run(received),
        );
        if let Some(proven) = proven {
            cell.joined.hold(Arc::clone(&session), name.clone(), proven);
        }
        let (identities, asked) = mpsc::channel(1);
        tokio::spawn(identities_serve(Arc::clone(&cell), Arc::clone(&session), asked));
        let sinks = MessageSinks { reports, identities };
        tokio::spawn(route(cell, session, name, inbound, sinks));
        Ok(Response::new(Box::pin(ReceiverStream::new(outbound))))
    }

    async fn join_node(
        &self,
        request: Request<v1::JoinNodeRequest>,
    ) -> Result<Response<v1::JoinNodeResponse>, Status> {
        self.joins.join(request).await
    }
}

/// Waits until the agent of a node whose sessions fail may register again.
async fn turn_await(cell: &CellContext, name: &Name) -> Result<(), Status> {
    let node = cell.state(|state| state.node_by_name(name).map(|row| row.id))?;
    let Some(node) = node else { return Ok(()) };
    match cell.sessions.failures.turn(node, cell.machine.monotonic()) {
        RegistrationTurn::After(wait) => tokio::time::sleep(wait).await,
        RegistrationTurn::Refused(wait) => {
            let message = format!(
                "the last sessions of node {name} came to nothing, and others wait; the next turn is in {} s",
                wait.as_secs()
            );
            return Err(status_unavailable("SESSIONS_FAIL", &message));
        }
    }
    Ok(())
}

async fn hello_of(inbound: &mut Streaming<v1::AgentMessage>) -> Result<v1::Hello, Status> {
    let first = tokio::time::timeout(HELLO_WAIT, inbound.message()).await;
    let first = first.map_err(|_| status_unavailable("NO_HELLO", "the first message did not come"))??;
    match first.and_then(|first| first.message) {
        Some(FromAgent::Hello(hello)) => Ok(hello),
        _ => Err(Status::invalid_argument("the first message of a session is hello")),
    }
}

/// Where the messages of an agent go that wait for the store.
struct MessageSinks {
    reports: mpsc::Sender<v1::Report>,
    identities: mpsc::Sender<v1::IdentityRequest>,
}

/// What ended the messages of an agent.
enum RouteEnd {
    /// The agent closed its side.
    ByAgent,
    /// Something else did.
    Ended(End),
}

/// Passes on the agent's messages, until it stops or a newer session replaces this one.
async fn route(
    cell: Arc<CellContext>,
    session: Arc<RegisteredSession>,
    name: Name,
    mut inbound: Streaming<v1::AgentMessage>,
    sinks: MessageSinks,
) {
    let ended = loop {
        let message = tokio::select! {
            message = inbound.message() => message,
            () = sinks.reports.closed() => break RouteEnd::Ended(end_of(&session)),
            () = session.ended() => break RouteEnd::Ended(end_of(&session)),
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => break RouteEnd::ByAgent,
            // A message beyond its bound is refused with that reason. Any other error is one of the connection.
            Err(status) if status.code() == Code::OutOfRange => {
                break RouteEnd::Ended(End { kind: EndKind::Protocol, why: status.message().to_owned() });
            }
            Err(status) => {
                break RouteEnd::Ended(End { kind: EndKind::Closed, why: broken_text(&status) });
            }
        };
        if !session.is_current() {
            let why = "a newer session has taken over".to_owned();
            break RouteEnd::Ended(End { kind: EndKind::Superseded, why });
        }
        if let Err(why) = message_route(&cell, &session, &name, message, &sinks) {
            break RouteEnd::Ended(End { kind: EndKind::Protocol, why: why.to_owned() });
        }
    };
    let (is_clean, End { kind, why }) = match (ended, session.end_reason()) {
        (RouteEnd::Ended(end), _) => (false, end),
        // The agent closes its side when it sees that this gateway has ended the session.
        (RouteEnd::ByAgent, Some(end)) if end.kind != EndKind::Superseded => (false, end),
        (RouteEnd::ByAgent, _) => {
            (true, End { kind: EndKind::Closed, why: "the agent has closed it".to_owned() })
        }
    };
    let lasting = session.is_lasting();
    cell.sessions.metrics.ended(&cell.name, SessionEnd { kind, lasting });
    // This also holds if the agent was back before the end of its connection was seen.
    if !lasting && is_clean {
        cell.sessions.failures.closed(session.node);
    } else if !lasting {
        cell.sessions.failures.failed(session.node, &why, cell.clock.wall_ms());
    }
    tracing::info!(cell = %cell.name, node = %name, session = session.id, ?kind, lasting, why, "agent disconnected");
    if kind != EndKind::Closed {
        session.end(kind, Status::aborted(why));
    }
    cell.sessions.close(&session, cell.machine.monotonic());
}

/// How the stream of an agent has failed, without the words of a library. A status with a source is one that this
/// gateway has made of an error of the connection: the agent has gone away without closing it.
fn broken_text(status: &Status) -> String {
    if std::error::Error::source(status).is_none() {
        return status.message().to_owned();
    }
    tracing::debug!(?status, "the connection of an agent has broken");
    "its connection has broken".to_owned()
}

/// Why this gateway ends a session.
fn end_of(session: &RegisteredSession) -> End {
    let ended = || End { kind: EndKind::Gateway, why: "its session has ended".to_owned() };
    session.end_reason().unwrap_or_else(ended)
}

/// Passes one message on. The error is why the session cannot continue.
fn message_route(
    cell: &CellContext,
    session: &RegisteredSession,
    name: &Name,
    message: v1::AgentMessage,
    sinks: &MessageSinks,
) -> Result<(), &'static str> {
    match message.message {
        Some(FromAgent::Report(report)) if report.tasks.len() > REPORT_TASKS_MAX => {
            return Err("the agent reports more tasks at once than its bound");
        }
        Some(FromAgent::Report(report)) => {
            usage_note(session, &report);
            // Does not wait: the next messages in the stream must not wait for the store.
            if let Err(TrySendError::Full(_)) = sinks.reports.try_send(report) {
                return Err("the agent has more reports on their way than its bound");
            }
        }
        Some(FromAgent::Identities(request)) if request.attempts.len() > IDENTITY_ATTEMPTS_MAX => {
            return Err("the agent asks for identities of more attempts at once than its bound");
        }
        Some(FromAgent::Identities(request)) => {
            if let Err(TrySendError::Full(_)) = sinks.identities.try_send(request) {
                return Err("the agent asks for identities before it has the answer to what it asked");
            }
        }
        Some(FromAgent::DesiredApplied(applied)) => {
            if !applied.refused.is_empty() {
                cell.sessions.metrics.refused(&cell.name, applied.refused.len());
            }
            for refused in &applied.refused {
                let refused = refused.chars().take(SESSION_ERROR_BYTES_MAX).collect::<String>();
                tracing::error!(cell = %cell.name, node = %name, refused, "the agent has set an item aside");
            }
            session.desired_applied(applied.sequence);
        }
        Some(FromAgent::LogChunk(chunk)) => session.answer(chunk.id, AgentAnswer::Log(chunk)),
        Some(FromAgent::ExecOutput(output)) => session.answer(output.id, AgentAnswer::Exec(output)),
        Some(FromAgent::Credit(credit)) => session.input_taken(credit),
        Some(FromAgent::Result(result)) => session.answer(result.id, AgentAnswer::Result(result.error)),
        Some(FromAgent::Hello(_)) | None => return Err("the agent said something out of order"),
    }
    Ok(())
}

fn usage_note(session: &RegisteredSession, report: &v1::Report) {
    let statuses = report.tasks.iter().filter_map(|status| {
        let attempt = attempt_of(status).ok()?;
        let over = status.phase == i32::from(v1::task_status::Phase::Released);
        let report = if over { UsageReport::Over } else { UsageReport::Sample(status.usage?) };
        Some((attempt, report))
    });
    session.usage_note(statuses);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_is_said_without_the_words_of_a_library() {
        let broken = Status::from_error("h2 protocol error: error reading a body from connection".into());
        assert_eq!(broken_text(&broken), "its connection has broken");
        assert_eq!(broken_text(&Status::cancelled("the agent ends")), "the agent ends");
    }
}
