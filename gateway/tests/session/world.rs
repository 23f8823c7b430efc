//! A gateway over a store in memory, and agents that a test scripts message by message.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use borough_gateway::auth::{Credentials, Token};
use borough_gateway::cell::CellConnection;
use borough_gateway::health::HealthSource;
use borough_gateway::{ConnectionLimits, Gateway, GatewayConfig, GatewayListeners};
use borough_kv::Transaction;
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::secret::Secret;
use borough_model::job::JobKind;
use borough_model::node::NodeSeen;
use borough_model::task::StopReason;
use borough_model::{Delta, Incarnation, JobId, JobSpec, NodeId, TaskId};
use borough_proto::bounds::SESSION_MESSAGE_BYTES_MAX;
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::agent_service_client::AgentServiceClient;
use borough_proto::v1::gateway_message::Message as ToAgent;
use borough_proto::v1::job_service_client::JobServiceClient;
use borough_proto::v1::node_service_client::NodeServiceClient;
use borough_store::StoreResult;
use borough_store::cell::CellMeta;
use borough_store::job::job_submit;
use borough_store::journal::ChangeSet;
use borough_store::mirror::MirrorFollower;
use borough_store::node::{DeclaredLost, LoadsStep, node_declare_lost, node_live_read};
use borough_store::task::{TaskBook, task_stop_begin};
use borough_testkit::{MemoryStore, OpenCell, change, job_spec, name, placed_on};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

/// A test waits this long for anything that must happen.
const DEADLINE: Duration = Duration::from_secs(60);
/// The interval of reports, which each answer tells.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of lease renewals.
pub(crate) const BEAT: Duration = Duration::from_millis(20);
/// Jobs submitted in one transaction.
const JOBS_MAX: usize = 20;

/// A gateway with its cell.
pub(crate) struct World {
    cell: OpenCell,
    channel: Channel,
    secret: Secret,
    /// Where the gateway answers HTTP.
    pub(crate) http: std::net::SocketAddr,
    cancelled: CancellationToken,
    requests: std::sync::atomic::AtomicU64,
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

/// A spec with so many bytes of environment.
pub(crate) fn spec(job: u64, count: u32, bytes: usize) -> JobSpec {
    let mut spec = job_spec("ada", &format!("job-{job}"), JobKind::Service);
    spec.count = count;
    spec.task.environment.insert("LARGE".to_owned(), "x".repeat(bytes));
    spec
}

impl World {
    /// Starts a gateway that serves an empty cell.
    pub(crate) async fn start() -> Self {
        let (clock, (rng, _)) = (SystemClock::shared(), SeededRng::from_kernel());
        let store = MemoryStore::new(Arc::clone(&clock), Arc::clone(&rng));
        Self::of(OpenCell::create(store.quiet(), &CellMeta::default()).await).await
    }

    /// Starts another gateway of the same cell.
    pub(crate) async fn beside(&self) -> Self {
        Self::of(self.cell.clone()).await
    }

    async fn of(cell: OpenCell) -> Self {
        let (clock, (rng, _)) = (SystemClock::shared(), SeededRng::from_kernel());
        let OpenCell { db, space } = cell.clone();
        let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&clock), Arc::clone(&rng));
        mirror.ready().await;
        let secret = Secret::generate("test").unwrap();
        let connection = CellConnection {
            space,
            name: name("alpha"),
            db: db.clone(),
            mirror: mirror.clone(),
            identity_url: Default::default(),
        };
        let config = GatewayConfig {
            advertise: None,
            credentials: Credentials::new(Token::new(secret.clone()), Vec::new()),
            cells: vec![connection],
            report_interval: REPORT_INTERVAL,
            beat_interval: BEAT,
            registry: Arc::default(),
            tls: None,
            connections: ConnectionLimits::of_descriptors(1_024),
            health: HealthSource { db, mirrors: vec![mirror] },
            web_origins: Vec::new(),
        };
        let cancelled = CancellationToken::new();
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = GatewayListeners::bind(Some(any), any).await.unwrap();
        let (grpc, http) = (listeners.grpc().unwrap(), listeners.http());
        let _gateway = Gateway::start(config, listeners, clock, rng, cancelled.clone());
        let address = format!("http://{}", grpc);
        let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
        Self { cell, channel, secret, http, cancelled, requests: std::sync::atomic::AtomicU64::new(1) }
    }

    fn bearer(&self) -> MetadataValue<tonic::metadata::Ascii> {
        format!("Bearer {}", self.secret.expose()).parse().unwrap()
    }

    /// Changes the store as another role does.
    async fn change<T>(&self, closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>) -> T {
        let request = self.requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.cell.change(change(request.into(), "test", 1), closure).await.unwrap()
    }

    /// Submits jobs and places all of their tasks on the node.
    pub(crate) async fn place(&self, node: NodeId, jobs: &[(JobId, JobSpec)]) {
        let tasks = |(job, spec): &(JobId, JobSpec)| {
            let job = *job;
            (0..spec.count).map(move |index| TaskId { job, index })
        };
        for jobs in jobs.chunks(JOBS_MAX) {
            self.change(async |tx, changes| {
                for (job, spec) in jobs {
                    job_submit(tx, changes, spec, *job).await?;
                }
                let mut book = TaskBook::read(tx, changes.space(), jobs.iter().flat_map(tasks)).await?;
                book.extend_nodes(tx, changes.space(), [node]).await?;
                for job in jobs {
                    let place = placed_on(node, Incarnation(1), job.1.task.resources.clone());
                    for task in tasks(job) {
                        book.apply(task, &place, 1)?.unwrap();
                    }
                }
                book.write(tx, changes).await
            })
            .await;
        }
    }

    /// Ends the first attempt of a task.
    pub(crate) async fn stop(&self, task: TaskId) {
        let attempts = [(task, Incarnation(1))];
        self.change(async |tx, changes| {
            task_stop_begin(tx, changes, &attempts, StopReason::JobStopped).await
        })
        .await;
    }

    pub(crate) async fn live(&self, node: NodeId) -> NodeSeen {
        let live = self.cell.read(async |tx, space| node_live_read(tx, space, node).await);
        live.await.unwrap().unwrap()
    }

    /// Waits until the gateway vouches for the node.
    pub(crate) async fn vouched(&self, node: NodeId) {
        let vouched = async {
            while self.live(node).await.beat.is_none() {
                tokio::time::sleep(BEAT).await;
            }
        };
        within("a voucher", vouched).await;
    }

    /// The node as operators see it.
    pub(crate) async fn node(&self) -> v1::Node {
        let context = Some(v1::RequestContext { user: "ada".to_owned(), ..v1::RequestContext::default() });
        let request = v1::GetNodeRequest { context, cell: "alpha".to_owned(), name: "n1".to_owned() };
        let mut request = Request::new(request);
        request.metadata_mut().insert("authorization", self.bearer());
        let mut client = NodeServiceClient::new(self.channel.clone());
        client.get_node(request).await.unwrap().into_inner().node.unwrap()
    }

    /// Waits until operators see that so much of the node's processor time is in use.
    pub(crate) async fn loaded(&self, cpu_millis: u64) {
        let loaded = async {
            while self.node().await.load.is_none_or(|load| load.cpu_millis != cpu_millis) {
                tokio::time::sleep(BEAT).await;
            }
        };
        within("the load", loaded).await;
    }

    /// Nobody follows the loads of nodes from now on.
    pub(crate) async fn loads_end(&self) {
        self.change(async |tx, changes| LoadsStep::End.write(tx, changes).await).await;
    }

    /// Every delta of the journal.
    pub(crate) async fn deltas(&self) -> Vec<Delta> {
        self.cell.journal().await.into_iter().flat_map(|(_, entry)| entry.deltas).collect()
    }

    /// Submits a job by the service.
    pub(crate) async fn submit(&self, request: u8, spec: &JobSpec) {
        let context = v1::RequestContext { user: "ada".to_owned(), request_id: format!("{request:032x}") };
        let request = v1::SubmitJobRequest {
            context: Some(context),
            cell: "alpha".to_owned(),
            spec: Some(job_spec_to_message(spec)),
            ..v1::SubmitJobRequest::default()
        };
        let mut request = Request::new(request);
        request.metadata_mut().insert("authorization", self.bearer());
        JobServiceClient::new(self.channel.clone()).submit_job(request).await.unwrap();
    }

    /// Declares the node lost, as the controller does after too long a silence.
    pub(crate) async fn lose(&self, node: NodeId) {
        let observed = self.live(node).await;
        let lost =
            self.change(async |tx, changes| node_declare_lost(tx, changes, node, Some(&observed)).await);
        assert!(matches!(lost.await, DeclaredLost::Lost(_)));
    }

    /// Gives the node to another agent, as an operator does.
    pub(crate) async fn admit(&self, request: u8, identity: &str) -> Result<(), Status> {
        let context = v1::RequestContext { user: "ada".to_owned(), request_id: format!("{request:032x}") };
        let request = v1::AdmitNodeRequest {
            context: Some(context),
            cell: "alpha".to_owned(),
            name: "n1".to_owned(),
            identity: identity.to_owned(),
        };
        let mut request = Request::new(request);
        request.metadata_mut().insert("authorization", self.bearer());
        NodeServiceClient::new(self.channel.clone()).admit_node(request).await.map(drop)
    }

    /// Opens a session of the node's agent, and reports that it has no tasks.
    pub(crate) async fn agent(&self) -> Agent {
        self.agent_of(0).await
    }

    /// The same for an agent with a key of such bytes; 0: the agent sends no key.
    pub(crate) async fn agent_of(&self, key: u8) -> Agent {
        let mut agent = self.agent_silent_of(key).await;
        agent.report(v1::Report { full_begin: true, full_end: true, ..v1::Report::default() }).await;
        agent
    }

    /// Opens a session of the node's agent.
    pub(crate) async fn agent_silent(&self) -> Agent {
        self.agent_silent_of(0).await
    }

    /// The same, if the gateway admits it.
    pub(crate) async fn agent_silent_try(&self) -> Result<Agent, Status> {
        self.agent_opened("n1", 0).await
    }

    /// Opens a session of the agent of another node, which reports that it has no tasks.
    pub(crate) async fn agent_on(&self, node: &str) -> Agent {
        let mut agent = self.agent_opened(node, 0).await.unwrap();
        agent.report(v1::Report { full_begin: true, full_end: true, ..v1::Report::default() }).await;
        agent
    }

    async fn agent_silent_of(&self, key: u8) -> Agent {
        self.agent_opened("n1", key).await.unwrap()
    }

    async fn agent_opened(&self, node: &str, key: u8) -> Result<Agent, Status> {
        let (outbox, sent) = mpsc::unbounded_channel();
        let resources =
            v1::Resources { cpu_millis: 1 << 30, memory_bytes: 1 << 50, ..v1::Resources::default() };
        let hello = v1::Hello {
            cell: "alpha".to_owned(),
            node: node.to_owned(),
            boot_id: "boot".to_owned(),
            capacity: Some(resources),
            port_first: 20_000,
            port_last: 20_009,
            host: "127.0.0.1".to_owned(),
            agent_key: if key == 0 { Vec::new() } else { vec![key; 16] }.into(),
            instance: u64::from(key),
            ..v1::Hello::default()
        };
        outbox.send(message(FromAgent::Hello(hello))).unwrap();
        let mut request = Request::new(UnboundedReceiverStream::new(sent));
        request.metadata_mut().insert("authorization", self.bearer());
        let mut client = AgentServiceClient::new(self.channel.clone())
            .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX);
        let received = client.session(request).await?.into_inner();
        let mut agent =
            Agent { outbox, received, node: NodeId(0), session: 0, revision: 0, held: Held::default() };
        let welcome = agent.next_until("a welcome", |message| match message {
            ToAgent::Welcome(welcome) => Some(welcome.clone()),
            _ => None,
        });
        let welcome = welcome.await;
        agent.node = NodeId(u64::from_str_radix(&welcome.node_id[1..], 16).unwrap());
        agent.session = welcome.session;
        assert!(welcome.signs_identities);
        Ok(agent)
    }
}

fn message(message: FromAgent) -> v1::AgentMessage {
    v1::AgentMessage { message: Some(message) }
}

/// What an agent has received.
#[derive(Default)]
pub(crate) struct Held {
    pub specs: BTreeSet<(String, u32)>,
    pub assignments: BTreeMap<(String, u32), v1::Assignment>,
    pub stops: BTreeSet<(String, u32)>,
    pub sequence: u64,
    pub complete: bool,
    /// Bytes of unacknowledged chunks.
    pub bytes: usize,
}

/// An agent in a session.
pub(crate) struct Agent {
    outbox: mpsc::UnboundedSender<v1::AgentMessage>,
    received: Streaming<v1::GatewayMessage>,
    pub node: NodeId,
    pub session: u64,
    revision: u64,
    pub held: Held,
}

impl Agent {
    pub(crate) fn send(&self, from_agent: FromAgent) {
        self.outbox.send(message(from_agent)).unwrap();
    }

    /// Sends a report and waits until it is applied.
    pub(crate) async fn report(&mut self, report: v1::Report) {
        self.revision += 1;
        let revision = self.revision;
        self.send(FromAgent::Report(v1::Report { revision, ..report }));
        self.next_until("a report applied", |message| match message {
            ToAgent::ReportApplied(applied) if applied.revision == revision => {
                let told = Duration::from_millis(applied.report_interval_ms);
                assert_eq!(told, REPORT_INTERVAL);
                Some(())
            }
            _ => None,
        })
        .await;
    }

    /// Acknowledges everything received.
    pub(crate) fn acknowledge(&mut self) {
        let sequence = self.held.sequence;
        self.send(FromAgent::DesiredApplied(v1::DesiredApplied { sequence, refused: Vec::new() }));
        self.held.bytes = 0;
    }

    /// Receives messages until one is `wanted`.
    pub(crate) async fn next_until<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&ToAgent) -> Option<T>,
    ) -> T {
        loop {
            let message = within(what, self.received.message()).await.unwrap();
            let message = message.unwrap().message.unwrap();
            let found = wanted(&message);
            self.take(message);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Receives messages without acknowledging them, until the gateway has sent nothing for a while.
    pub(crate) async fn drain(&mut self) {
        while let Ok(message) =
            tokio::time::timeout(Duration::from_millis(500), self.received.message()).await
        {
            self.take(message.unwrap().unwrap().message.unwrap());
        }
    }

    /// Receives messages and acknowledges each chunk, until the agent holds what is `wanted`.
    pub(crate) async fn held_until(&mut self, what: &str, wanted: impl Fn(&Held) -> bool) {
        while !wanted(&self.held) {
            let message = within(what, self.received.message()).await.unwrap().unwrap();
            self.take(message.message.unwrap());
            self.acknowledge();
        }
    }

    /// Waits for the end of the session.
    pub(crate) async fn ended(&mut self) -> Status {
        loop {
            match within("the end of the session", self.received.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }

    fn take(&mut self, message: ToAgent) {
        let ToAgent::Desired(chunk) = message else { return };
        assert!(chunk.encoded_len() <= SESSION_MESSAGE_BYTES_MAX);
        self.held.bytes += chunk.encoded_len();
        assert_eq!(chunk.sequence, self.held.sequence + 1);
        self.held.sequence = chunk.sequence;
        for delivery in chunk.specs {
            let reference = delivery.reference.unwrap();
            assert!(self.held.specs.insert((reference.job_id, reference.version)), "a spec came twice");
        }
        for assignment in chunk.assignments {
            let attempt = assignment.attempt.clone().unwrap();
            assert!(self.held.specs.contains(&(attempt.job_id.clone(), assignment.spec_version)));
            self.held.assignments.insert((attempt.job_id, attempt.index), assignment);
        }
        let attempts = chunk.stops.into_iter().map(|stop| stop.attempt.unwrap());
        self.held.stops.extend(attempts.map(|attempt| (attempt.job_id, attempt.index)));
        self.held.complete |= chunk.full_end;
    }
}

/// Waits for something that must happen.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(found) => found,
        Err(_) => panic!("waited in vain for {what}"),
    }
}
