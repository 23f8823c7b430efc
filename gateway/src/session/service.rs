//! `AgentService`: opening a session, and routing what its agent sends.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_model::{Name, NodeId};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::agent_service_server::AgentService;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_store::node::NodeArrival;
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::course::Course;
use super::message::{agent_of, facts_of, hello_names, life_of};
use super::register::register;
use super::registry::{Answer, Session};
use crate::auth::Principal;
use crate::cell::{CellDoor, Cells};
use crate::status::{status_from_field, status_unavailable};

/// How long an agent has for its first message.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Reports that wait for the store; more are taken only when these are durable.
const REPORTS_MAX: usize = 64;

/// The room of agents.
#[derive(Clone)]
pub struct AgentRoom {
    cells: Arc<Cells>,
    gateway: String,
    report_interval: Duration,
    silence: Duration,
}

impl AgentRoom {
    /// A room over `cells`, on the gateway that others reach as `gateway`. Agents report at least every
    /// `report_interval`. The same agent in another boot is admitted when its node's lease was unchanged for `silence`.
    pub fn new(cells: Arc<Cells>, gateway: String, report_interval: Duration, silence: Duration) -> Self {
        Self { cells, gateway, report_interval, silence }
    }
}

type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::GatewayMessage, Status>> + Send>>;

#[tonic::async_trait]
impl AgentService for AgentRoom {
    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<SessionStream>, Status> {
        // The layer in front has put it there; without it nobody is anybody.
        let principal = request.extensions().get::<Principal>().cloned();
        let principal = principal.ok_or_else(|| Status::unauthenticated("the call has no valid token"))?;
        let mut inbound = request.into_inner();
        let hello = hello_of(&mut inbound).await?;
        principal.session_check(&hello.cell, &hello.node)?;
        let door = Arc::clone(self.cells.get(&hello.cell)?);
        let (name, facts) = match (hello_names(&hello), facts_of(&hello)) {
            (Ok(name), Ok(facts)) => (name, facts),
            (Err(refused), _) | (_, Err(refused)) => return Err(status_from_field(&refused)),
        };
        door.state(|_| ())?;
        let id = door.id();
        let (candidate, gateway) = (NodeId(door.id()), self.gateway.clone());
        let agent = agent_of(&hello).map_err(|refused| status_from_field(&refused))?;
        let arrival = NodeArrival { agent, gateway, ..NodeArrival::new(name.clone(), facts, candidate, id) };
        let (registered, cursor) = register(&door, arrival, self.silence).await?;
        let node = registered.row.id;
        tracing::info!(cell = %door.name, node = %name, session = id, state = ?registered.row.state, "agent connected");
        let (session, outbound) = door.sessions.open(node, id);
        session.heard(door.machine.monotonic());
        let welcome = v1::Welcome {
            node_id: node.to_string(),
            session: id,
            report_interval_ms: u64::try_from(self.report_interval.as_millis()).unwrap_or(u64::MAX),
            store_epoch: cursor.store_epoch,
        };
        session.send(ToAgent::Welcome(welcome)).await;
        let (reports, received) = mpsc::channel(REPORTS_MAX);
        tokio::spawn(
            Course::new(Arc::clone(&door), Arc::clone(&session), name.clone(), cursor).run(received),
        );
        tokio::spawn(route(door, session, name, inbound, reports));
        Ok(Response::new(Box::pin(ReceiverStream::new(outbound))))
    }
}

async fn hello_of(inbound: &mut Streaming<v1::AgentMessage>) -> Result<v1::Hello, Status> {
    let first = tokio::time::timeout(HELLO_WAIT, inbound.message()).await;
    let first = first.map_err(|_| status_unavailable("NO_HELLO", "the first message did not come"))??;
    match first.and_then(|first| first.message) {
        Some(FromAgent::Hello(hello)) => Ok(hello),
        _ => Err(Status::invalid_argument("the first message of a session is hello")),
    }
}

/// Hands on what the agent sends, until it stops or a newer session takes over.
async fn route(
    door: Arc<CellDoor>,
    session: Arc<Session>,
    name: Name,
    mut inbound: Streaming<v1::AgentMessage>,
    reports: mpsc::Sender<v1::Report>,
) {
    let why = loop {
        let message = tokio::select! {
            message = inbound.message() => message,
            () = reports.closed() => break "its course has ended".to_owned(),
            () = session.ended() => break "the gateway has ended it".to_owned(),
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => break "the agent has closed it".to_owned(),
            Err(status) => break status.message().to_owned(),
        };
        if !session.is_current() {
            break "a newer session has taken over".to_owned();
        }
        session.heard(door.machine.monotonic());
        match message.message {
            Some(FromAgent::Report(report)) => {
                usage_note(&session, &report);
                if reports.send(report).await.is_err() {
                    break "its course has ended".to_owned();
                }
            }
            Some(FromAgent::LogChunk(chunk)) => session.answer(chunk.id, Answer::Log(chunk)),
            Some(FromAgent::ExecOutput(output)) => session.answer(output.id, Answer::Exec(output)),
            Some(FromAgent::Result(result)) => session.answer(result.id, Answer::Result(result.error)),
            Some(FromAgent::Hello(_)) | None => break "the agent said something out of order".to_owned(),
        }
    };
    tracing::info!(cell = %door.name, node = %name, session = session.id, why, "agent disconnected");
    door.sessions.close(&session);
}

fn usage_note(session: &Session, report: &v1::Report) {
    let statuses = report.tasks.iter().filter_map(|status| {
        let over = status.phase == i32::from(v1::task_status::Phase::Released);
        Some((life_of(status).ok()?, over, status.usage))
    });
    session.usage_note(statuses);
}
