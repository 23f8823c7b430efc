//! A scripted gateway: keeps agents' reports, and sends the test's orders.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use borough_proto::v1::gateway_message::Message as ToAgent;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

pub(crate) type Key = (String, u32, u64);

/// A test waits this long for anything that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Seen {
    pub hello: Option<v1::Hello>,
    pub sessions: u32,
    pub tasks: BTreeMap<Key, v1::TaskStatus>,
    pub history: Vec<v1::TaskStatus>,
    pub reports: Vec<v1::Report>,
    pub answers: Vec<FromAgent>,
    pub authorization: Option<String>,
    desired: v1::Desired,
    to_agent: Option<mpsc::UnboundedSender<Result<v1::GatewayMessage, Status>>>,
    silent: bool,
}

/// Messages are sent under the lock of their content. Sent after it, an older full list would undo a newer stop.
impl Seen {
    fn send(&self, message: ToAgent) {
        if let Some(to_agent) = &self.to_agent {
            let _ = to_agent.send(Ok(v1::GatewayMessage { message: Some(message) }));
        }
    }

    fn desire(&self, desired: v1::Desired) {
        self.send(ToAgent::Desired(desired));
    }

    fn desire_all(&self) {
        self.desire(v1::Desired { full_begin: true, full_end: true, ..self.desired.clone() });
    }
}

#[derive(Clone, Default)]
pub(crate) struct Gateway {
    seen: Arc<Mutex<Seen>>,
    changed: Arc<Notify>,
}

impl Gateway {
    /// Serves on a port of its own. Returns its address.
    pub(crate) async fn serve(&self) -> (String, tokio::task::AbortHandle) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = AgentServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        (address, tokio::spawn(server).abort_handle())
    }

    /// Waits until `done` returns a value.
    pub(crate) async fn wait<T>(&self, what: &str, mut done: impl FnMut(&Seen) -> Option<T>) -> T {
        let waited = tokio::time::timeout(DEADLINE, async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = done(&self.seen.lock()) {
                    return found;
                }
                changed.await;
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain for {what}; tasks: {:#?}", self.seen.lock().tasks),
        }
    }

    /// Waits until an attempt is in a phase, or beyond it.
    pub(crate) async fn phase(
        &self,
        attempt: &v1::TaskAttempt,
        phase: v1::task_status::Phase,
    ) -> v1::TaskStatus {
        let key = key(attempt);
        let what = format!("{phase:?} of {key:?}");
        self.wait(&what, |seen| seen.tasks.get(&key).filter(|task| task.phase >= phase.into()).cloned()).await
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock())
    }

    /// Assigns it to the connected agent, and again to each that connects.
    pub(crate) fn run(&self, assignment: v1::Assignment) {
        let mut seen = self.seen.lock();
        seen.desired.assignments.push(assignment.clone());
        seen.desire(v1::Desired { assignments: vec![assignment], ..v1::Desired::default() });
    }

    pub(crate) fn stop(&self, stop: v1::StopCommand) {
        let mut seen = self.seen.lock();
        seen.desired.stops.push(stop.clone());
        seen.desire(v1::Desired { stops: vec![stop], ..v1::Desired::default() });
    }

    pub(crate) fn forget(&self, attempt: v1::TaskAttempt) {
        let mut seen = self.seen.lock();
        seen.desired.assignments.retain(|assignment| assignment.attempt.as_ref() != Some(&attempt));
        seen.desired.stops.retain(|stop| stop.attempt.as_ref() != Some(&attempt));
        seen.tasks.remove(&key(&attempt));
        seen.desire(v1::Desired { forget: vec![attempt], ..v1::Desired::default() });
    }

    /// Forgets everything, like a gateway restored from an old copy.
    pub(crate) fn amnesia(&self) {
        let mut seen = self.seen.lock();
        seen.desired = v1::Desired::default();
        seen.desire_all();
    }

    /// From the next session on, neither applies reports nor sends orders.
    pub(crate) fn silence(&self, silent: bool) {
        self.seen.lock().silent = silent;
    }

    pub(crate) fn send(&self, message: ToAgent) {
        self.seen.lock().send(message);
    }

    /// Ends the open session.
    pub(crate) fn hang_up(&self) {
        self.seen.lock().to_agent = None;
    }

    fn received(&self, message: FromAgent) {
        let mut seen = self.seen.lock();
        match message {
            FromAgent::Hello(hello) => {
                seen.hello = Some(hello);
                seen.sessions += 1;
            }
            FromAgent::Report(report) => {
                if report.full_begin {
                    seen.tasks.clear();
                }
                for task in &report.tasks {
                    seen.tasks.insert((task.job_id.clone(), task.index, task.incarnation), task.clone());
                    seen.history.push(task.clone());
                }
                let applied = v1::ReportApplied { revision: report.revision, report_interval_ms: 0 };
                let first = report.full_end;
                seen.reports.push(report);
                if !seen.silent {
                    seen.send(ToAgent::ReportApplied(applied));
                    if first {
                        seen.desire_all();
                    }
                }
            }
            other => seen.answers.push(other),
        }
        drop(seen);
        self.changed.notify_waiters();
    }
}

pub(crate) fn key(attempt: &v1::TaskAttempt) -> Key {
    (attempt.job_id.clone(), attempt.index, attempt.incarnation)
}

#[tonic::async_trait]
impl AgentService for Gateway {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<v1::GatewayMessage, Status>> + Send>>;

    async fn join_node(
        &self,
        _request: Request<v1::JoinNodeRequest>,
    ) -> Result<Response<v1::JoinNodeResponse>, Status> {
        Err(Status::unimplemented("the agents of these tests do not join"))
    }

    async fn session(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (to_agent, messages) = mpsc::unbounded_channel();
        let welcome = v1::Welcome { session: 1, report_interval_ms: 200, ..v1::Welcome::default() };
        let welcome = v1::GatewayMessage { message: Some(ToAgent::Welcome(welcome)) };
        to_agent.send(Ok(welcome)).map_err(|_| Status::internal("gone"))?;
        {
            let mut seen = self.seen.lock();
            seen.authorization = request
                .metadata()
                .get("authorization")
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned);
            seen.to_agent = Some(to_agent);
        }
        let gateway = self.clone();
        let mut received = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(v1::AgentMessage { message: Some(message) })) = received.next().await {
                gateway.received(message);
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(messages))))
    }
}
