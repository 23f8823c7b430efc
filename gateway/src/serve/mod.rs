//! A gateway as a whole: its listeners, its services, and its shutdown.

mod http;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_proto::FILE_DESCRIPTOR_SET;
use borough_proto::bounds::{REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, SESSION_MESSAGE_BYTES_MAX};
use borough_proto::connect::{Connection, Connector};
use borough_proto::tls::{ClientTls, ServerTls};
use borough_proto::v1::access_service_server::AccessServiceServer;
use borough_proto::v1::agent_service_server::AgentServiceServer;
use borough_proto::v1::audit_service_server::AuditServiceServer;
use borough_proto::v1::cell_service_server::CellServiceServer;
use borough_proto::v1::dry_run_service_server::DryRunServiceServer;
use borough_proto::v1::federated_service_server::FederatedServiceServer;
use borough_proto::v1::job_service_server::JobServiceServer;
use borough_proto::v1::member_service_server::MemberServiceServer;
use borough_proto::v1::merge_service_server::MergeServiceServer;
use borough_proto::v1::name_service_server::NameServiceServer;
use borough_proto::v1::node_service_server::NodeServiceServer;
use borough_proto::v1::quota_service_server::QuotaServiceServer;
use borough_proto::v1::task_service_server::TaskServiceServer;
use borough_proto::v1::watch_service_server::WatchServiceServer;
use borough_store::error_chain;
use futures::Stream;
use futures::future::join_all;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::{Connected, Router};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_web::GrpcWebLayer;
use tower::layer::util::{Identity, Stack};
use tower_http::cors::CorsLayer;

use crate::access::AccessServer;
use crate::audit::{AuditLayer, AuditServer};
use crate::auth::{AuthLayer, Credentials};
use crate::cell::{CellConnection, CellContext, CellServer, Cells, audit_flush};
use crate::connection::{ConnectionLimits, Connections, connections_accept};
use crate::dry_run::DryRunServer;
use crate::federated::FederatedServer;
use crate::health::{HealthSource, ProcessHealth};
use crate::http::HttpServer;
use crate::job::JobServer;
use crate::member::MemberServer;
use crate::merged::MergeServer;
use crate::name::NameServer;
use crate::node::NodeServer;
use crate::overload::{Calls, OverloadLayer};
use crate::peer::Peers;
use crate::quota::QuotaServer;
use crate::session::AgentServer;
use crate::session::live::{VouchSettings, vouch_keep};
use crate::session::load::loads_write;
use crate::session::metrics::DeliveryMetrics;
use crate::session::silence::silence_max;
use crate::task::TaskServer;
use crate::watch::WatchServer;
use crate::web::{GrpcOnlyLayer, WebOrigin, web_layers};

/// Interval of keep-alive probes on an idle connection, and how long an answer may take. The session of a machine that
/// dies ends within the sum: the longest interval of reports that does not depend on the number of sessions.
const KEEP_ALIVE: Duration = Duration::from_secs(6);
/// Interval of checks of the files of certificates.
const TLS_LOOK: Duration = Duration::from_secs(1);
/// How long a gateway that ends waits for the calls that it has begun.
const END_WAIT: Duration = Duration::from_secs(3);
/// How long it then waits until its streams have got their last message. One over HTTP gets none.
const STREAMS_WAIT: Duration = Duration::from_millis(500);
/// How long a gateway that ends tries to record the last refusals.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// Sets the bounds of a service's messages.
macro_rules! bounded {
    ($service:expr) => {
        $service.max_decoding_message_size(REQUEST_BYTES_MAX).max_encoding_message_size(RESPONSE_BYTES_MAX)
    };
}

/// The configuration of a gateway.
pub struct GatewayConfig {
    /// The address for other gateways, as HOST:PORT. The default is the gRPC address.
    pub advertise: Option<String>,
    pub credentials: Credentials,
    pub cells: Vec<CellConnection>,
    /// How often agents report when nothing changes, unless the gateway holds many sessions.
    pub report_interval: Duration,
    /// How often the gateway renews leases of nodes: a fraction of the shortest tolerance.
    pub beat_interval: Duration,
    pub registry: Arc<Mutex<Registry>>,
    /// Encrypts both listeners, and the way to other gateways. Absent: nothing is encrypted.
    pub tls: Option<GatewayTls>,
    /// The bounds of connections, for both listeners together.
    pub connections: ConnectionLimits,
    pub health: HealthSource,
    /// Whose web pages may call it.
    pub web_origins: Vec<WebOrigin>,
}

/// The certificates of a gateway, as a server and for other gateways.
#[derive(Clone, Debug)]
pub struct GatewayTls {
    pub server: ServerTls,
    pub client: ClientTls,
}

/// An address that nobody can listen on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {protocol}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub protocol: &'static str,
    #[source]
    source: io::Error,
}

/// The listeners of a gateway. They are bound before anything else starts, since a port may be taken.
pub struct GatewayListeners {
    grpc: Option<BoundListener>,
    http: BoundListener,
}

struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl GatewayListeners {
    /// Listens; port 0 takes any free one. Without `grpc` the gateway answers HTTP only, for the metrics of another
    /// role.
    ///
    /// # Errors
    /// The address that is taken, or not one of this machine.
    pub async fn bind(grpc: Option<SocketAddr>, http: SocketAddr) -> Result<Self, ListenError> {
        let bind = async |address: SocketAddr, protocol| {
            let failed = |source| ListenError { address, protocol, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            Ok(BoundListener { listener, address })
        };
        let grpc = match grpc {
            Some(address) => Some(bind(address, "gRPC").await?),
            None => None,
        };
        Ok(Self { grpc, http: bind(http, "HTTP").await? })
    }

    /// The address for gRPC, unless the gateway answers HTTP only.
    pub fn grpc(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|bound| bound.address)
    }

    /// The address for HTTP.
    pub fn http(&self) -> SocketAddr {
        self.http.address
    }
}

/// A running gateway.
pub struct Gateway {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    cells: Arc<Cells>,
    calls: Calls,
    health: Arc<ProcessHealth>,
}

impl Gateway {
    /// Answers over its listeners until `cancelled`.
    pub fn start(
        config: GatewayConfig,
        listeners: GatewayListeners,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        cancelled: CancellationToken,
    ) -> Self {
        let grpc = listeners.grpc();
        let name = config.advertise.clone().or_else(|| grpc.map(|grpc| grpc.to_string())).unwrap_or_default();
        let (credentials, registry) = (config.credentials.clone(), Arc::clone(&config.registry));
        let connections = Connections::new(config.connections.clone(), &mut registry.lock());
        let server = || config.tls.as_ref().map(|tls| tls.server.clone());
        let incoming =
            listeners.grpc.map(|bound| connections_accept(bound.listener, connections.clone(), server()));
        let http = connections_accept(listeners.http.listener, connections.clone(), server());
        let follow = server().map(|server| tls_follow(server, connections, cancelled.clone()));
        let connector =
            config.tls.as_ref().map_or_else(Connector::default, |tls| Connector::tls(tls.client.clone()));
        let network = NetworkSettings { name, incoming, connector };
        let StartedParts { mut tasks, cells, health, calls } =
            Self::roles_start(config, network, &clock, &rng, &cancelled);
        let server = HttpServer {
            cells: Arc::clone(&cells),
            credentials,
            registry,
            health: Arc::clone(&health),
            calls: calls.clone(),
        };
        tasks.push(tokio::spawn(http::http_answer(http, Arc::new(server), cancelled)));
        tasks.extend(follow.map(tokio::spawn));
        Self { tasks, cells, calls, health }
    }

    /// Answers gRPC over connections that a simulation supplies, and reaches other gateways through its connector. It
    /// opens no socket, ignores `config.connections`, and does not answer HTTP.
    pub fn start_on<I, C>(
        config: GatewayConfig,
        network: NetworkSettings<I>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        cancelled: CancellationToken,
    ) -> Self
    where
        I: Stream<Item = io::Result<C>> + Send + 'static,
        C: Connection + Connected + 'static,
    {
        let StartedParts { tasks, cells, health, calls } =
            Self::roles_start(config, network, &clock, &rng, &cancelled);
        Self { tasks, cells, calls, health }
    }

    fn roles_start<I, C>(
        config: GatewayConfig,
        network: NetworkSettings<I>,
        clock: &Arc<dyn Clock>,
        rng: &Arc<dyn Rng>,
        cancelled: &CancellationToken,
    ) -> StartedParts
    where
        I: Stream<Item = io::Result<C>> + Send + 'static,
        C: Connection + Connected + 'static,
    {
        let NetworkSettings { name, incoming, connector } = network;
        let mut tasks = Vec::new();
        let mut cells = BTreeMap::new();
        let metrics = DeliveryMetrics::default();
        metrics.register(&mut config.registry.lock());
        for connection in config.cells {
            let (clock, rng) = (Arc::clone(clock), Arc::clone(rng));
            let cell = CellContext::open(connection, clock, rng, metrics.clone(), cancelled);
            let labels = [("cell".into(), cell.name.to_string().into())];
            cell.session_metrics
                .register(config.registry.lock().sub_registry_with_labels(labels.into_iter()));
            let settings = VouchSettings { address: name.clone(), beat: config.beat_interval };
            tasks.push(tokio::spawn(vouch_keep(Arc::clone(&cell), settings, cancelled.clone())));
            tasks.push(tokio::spawn(loads_write(Arc::clone(&cell), cancelled.clone())));
            cell.journal.register(cell.name.as_str(), &mut config.registry.lock());
            cell.ended_jobs.register(cell.name.as_str(), &mut config.registry.lock());
            cell.mirror_lock.register(cell.name.as_str(), &mut config.registry.lock());
            cell.admissions.register(cell.name.as_str(), &mut config.registry.lock());
            cells.insert(cell.name.clone(), cell);
        }
        if let Some(cell) = cells.values().next() {
            config.credentials.clock_set(Arc::clone(&cell.clock));
        }
        let cells = Arc::new(Cells(cells));
        let health = ProcessHealth::start(config.health, cancelled.clone());
        let calls = Calls::new(config.connections.calls, &mut config.registry.lock(), Arc::clone(clock));
        if let Some(incoming) = incoming {
            let peers = Peers::new(name.clone(), config.credentials.operator().clone(), connector);
            // An agent that is alive may miss reports, and the next renewal may then be late.
            let report = config.report_interval;
            let silence = silence_max(report) + config.beat_interval * 2;
            let servers = Servers { cells: Arc::clone(&cells), name, peers, report, silence };
            let (reporter, health_service) = tonic_health::server::health_reporter();
            tasks.push(tokio::spawn(health_report(reporter, Arc::clone(&health), cancelled.clone())));
            let overload = OverloadLayer::new(calls.clone());
            let router = servers.router(config.web_origins, AuthLayer::new(config.credentials), overload);
            let router = router.add_service(health_service);
            let router = match reflection_service() {
                Ok(reflection) => router.add_service(reflection),
                Err(error) => {
                    tracing::error!(%error, "the descriptors of the API cannot be read; the gateway offers no reflection");
                    router
                }
            };
            tasks.push(tokio::spawn(grpc_answer(router, incoming, cancelled.clone())));
        }
        StartedParts { tasks, cells, health, calls }
    }

    /// Prepares the end. Probes hear that the gateway is not ready, and new calls are refused: their clients ask
    /// another gateway. Those that have begun are finished, within some seconds. Streams end with a status by which
    /// their clients resume.
    pub async fn drain(&self) {
        self.health.end();
        if tokio::time::timeout(END_WAIT, self.calls.end()).await.is_err() {
            tracing::warn!("calls were still under way when the gateway ended");
        }
        if tokio::time::timeout(STREAMS_WAIT, self.calls.streams_end()).await.is_err() {
            tracing::debug!("streams were still open when the gateway ended");
        }
        let flush = join_all(self.cells.0.values().map(|cell| audit_flush(cell)));
        if !tokio::time::timeout(FLUSH_WAIT, flush)
            .await
            .is_ok_and(|flushed| flushed.iter().all(Result::is_ok))
        {
            tracing::warn!("the last refusals could not be recorded");
        }
    }

    /// Waits until all parts have ended after the cancellation.
    pub async fn ended(self) {
        for task in self.tasks {
            // The panic hook has already reported a panic.
            task.await.ok();
        }
    }
}

/// The source of a gateway's connections, and its way to other gateways.
pub struct NetworkSettings<I> {
    /// The address for other gateways, as HOST:PORT.
    pub name: String,
    /// Accepted connections; absent: the gateway does not answer gRPC.
    pub incoming: Option<I>,
    /// Connects to other gateways.
    pub connector: Connector,
}

/// The parts of a gateway while it runs.
struct StartedParts {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    cells: Arc<Cells>,
    health: Arc<ProcessHealth>,
    calls: Calls,
}

/// What a call passes on its way to a service, the outermost last.
type GatewayLayers = Stack<
    OverloadLayer,
    Stack<
        AuthLayer,
        Stack<AuditLayer, Stack<GrpcWebLayer, Stack<GrpcOnlyLayer, Stack<CorsLayer, Identity>>>>,
    >,
>;

struct Servers {
    cells: Arc<Cells>,
    name: String,
    peers: Peers,
    report: Duration,
    /// How long a lease must be unchanged before its agent counts as silent.
    silence: Duration,
}

impl Servers {
    fn router(
        self,
        origins: Vec<WebOrigin>,
        auth: AuthLayer,
        overload: OverloadLayer,
    ) -> Router<GatewayLayers> {
        let (cors, web) = web_layers(origins);
        let cells = || Arc::clone(&self.cells);
        let agents = AgentServer::new(cells(), self.name.clone(), self.report, self.silence);
        let agents = AgentServiceServer::new(agents)
            .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX);
        Server::builder()
            // For gRPC-Web, and to tell another client of plain HTTP which port it wants.
            .accept_http1(true)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .layer(cors)
            .layer(GrpcOnlyLayer)
            .layer(web)
            .layer(AuditLayer::new(cells()))
            .layer(auth)
            .layer(overload)
            .add_routes(self.routes(agents))
    }

    /// The services, and the one that makes dry runs of all others.
    fn routes(&self, agents: AgentServiceServer<AgentServer>) -> Routes {
        let cells = || Arc::clone(&self.cells);
        let routes = Routes::default()
            .add_service(bounded!(JobServiceServer::new(JobServer::new(cells()))))
            .add_service(bounded!(TaskServiceServer::new(TaskServer::new(cells(), self.peers.clone()))))
            .add_service(bounded!(NodeServiceServer::new(NodeServer::new(cells(), self.silence))))
            .add_service(bounded!(CellServiceServer::new(CellServer::new(cells()))))
            .add_service(bounded!(NameServiceServer::new(NameServer::new(cells()))))
            .add_service(bounded!(MergeServiceServer::new(MergeServer::new(cells()))))
            .add_service(bounded!(MemberServiceServer::new(MemberServer::new(cells()))))
            .add_service(bounded!(FederatedServiceServer::new(FederatedServer::new(cells()))))
            .add_service(bounded!(QuotaServiceServer::new(QuotaServer::new(cells()))))
            .add_service(bounded!(AccessServiceServer::new(AccessServer::new(cells()))))
            .add_service(bounded!(AuditServiceServer::new(AuditServer::new(cells()))))
            .add_service(bounded!(WatchServiceServer::new(WatchServer::new(cells()))));
        let dry_run = bounded!(DryRunServiceServer::new(DryRunServer::new(cells(), routes.clone())));
        routes.add_service(dry_run).add_service(agents)
    }
}

/// Reads certificates again when their files change, and cuts the connections of revoked ones.
async fn tls_follow(server: ServerTls, connections: Connections, cancelled: CancellationToken) {
    while tokio::time::timeout(TLS_LOOK, cancelled.cancelled()).await.is_err() {
        match server.refresh() {
            Ok(false) => {}
            Ok(true) => {
                let cut = connections.cut(|serial| server.is_revoked(serial));
                tracing::info!(cut, "certificates read again");
            }
            Err(error) => {
                let problem = error_chain(&error);
                tracing::warn!(problem, "certificates stay as they were");
            }
        }
    }
}

fn reflection_service()
-> Result<ServerReflectionServer<impl ServerReflection>, tonic_reflection::server::Error> {
    let builder = tonic_reflection::server::Builder::configure();
    builder.register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET).build_v1()
}

async fn grpc_answer<I, C>(router: Router<GatewayLayers>, incoming: I, cancelled: CancellationToken)
where
    I: Stream<Item = io::Result<C>>,
    C: Connection + Connected + 'static,
{
    // Streams of watchers and agents have no end of their own. They are cut, and their clients resume.
    tokio::select! {
        outcome = router.serve_with_incoming(incoming) => {
            // The stream of connections has no end and no errors, so this future has none either.
            tracing::error!(?outcome, "the gateway no longer answers gRPC");
        }
        () = cancelled.cancelled() => {}
    }
}

/// Services that only read from the store.
const READERS: [&str; 3] = [
    borough_proto::v1::audit_service_server::SERVICE_NAME,
    borough_proto::v1::name_service_server::SERVICE_NAME,
    borough_proto::v1::watch_service_server::SERVICE_NAME,
];
/// Services that commit. The empty name is the gateway as a whole.
const WRITERS: [&str; 9] = [
    "",
    borough_proto::v1::access_service_server::SERVICE_NAME,
    borough_proto::v1::agent_service_server::SERVICE_NAME,
    borough_proto::v1::cell_service_server::SERVICE_NAME,
    borough_proto::v1::job_service_server::SERVICE_NAME,
    borough_proto::v1::merge_service_server::SERVICE_NAME,
    borough_proto::v1::node_service_server::SERVICE_NAME,
    borough_proto::v1::quota_service_server::SERVICE_NAME,
    borough_proto::v1::task_service_server::SERVICE_NAME,
];

/// Sets what gRPC health answers for each service, from the status of the store.
async fn health_report(reporter: HealthReporter, health: Arc<ProcessHealth>, cancelled: CancellationToken) {
    let serving = |serves| if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
    let mut follow = health.follow();
    loop {
        let status = follow.borrow_and_update().clone();
        for service in READERS {
            reporter.set_service_status(service, serving(status.reads())).await;
        }
        for service in WRITERS {
            reporter.set_service_status(service, serving(status.is_ready())).await;
        }
        tokio::select! {
            changed = follow.changed() => if changed.is_err() { return },
            () = cancelled.cancelled() => return,
        }
    }
}
