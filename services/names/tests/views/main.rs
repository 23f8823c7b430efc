//! The views of a name service over a store in memory: sockets, readiness, blocking queries.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod conversation;
mod dig;
mod follow;
mod recorder;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, ManualClock, SeededRng, SystemClock};
use borough_kv::{Database, EmbeddedEngine};
use borough_model::job::{JobKind, JobSpec, job_new};
use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Delta, Incarnation, JobId, RequestId, TaskId};
use borough_names::dns::{DnsSettings, DnsZone, ZoneTimes};
use borough_names::{
    BindError, FollowedCell, NamesAddresses, NamesCells, NamesConfig, NamesListeners, NamesServer,
};
use borough_store::CellSpace;
use borough_store::cell::CellMeta;
use borough_store::mirror::MirrorFollower;
use borough_testkit::{MemoryStore, OpenCell, change, job_spec, name};
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name as DnsName, RecordType};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// Any port of loopback.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long a condition may take.
const DEADLINE: Duration = Duration::from_secs(30);
const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

struct Views {
    cell: OpenCell,
    addresses: NamesAddresses,
    cancelled: CancellationToken,
    requests: u128,
}

impl Drop for Views {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

/// Listens for DNS at this address, and for the other views at any of loopback.
async fn names_listeners(dns: SocketAddr) -> Result<NamesListeners, BindError> {
    NamesListeners::bind(NamesAddresses { dns, http: ANY, xds: ANY }).await
}

/// Serves these cells over the usual clock.
async fn serve(db: &Database, cells: &[&str]) -> (NamesAddresses, CancellationToken) {
    serve_by(SystemClock::shared(), db, cells, names_listeners(ANY).await.unwrap())
}

fn serve_by(
    clock: Arc<dyn Clock>,
    db: &Database,
    cells: &[&str],
    listeners: NamesListeners,
) -> (NamesAddresses, CancellationToken) {
    let rng = SeededRng::shared(7);
    let follow = |cell: &&str| {
        let space = CellSpace::new(name(cell));
        let mirror = MirrorFollower::spawn(db.clone(), space, Arc::clone(&clock), Arc::clone(&rng) as _);
        FollowedCell { name: name(cell), db: db.clone(), mirror }
    };
    let cells: Vec<FollowedCell> = cells.iter().map(follow).collect();
    serve_cells(clock, NamesCells::Given(cells), listeners)
}

fn serve_cells(
    clock: Arc<dyn Clock>,
    cells: NamesCells,
    listeners: NamesListeners,
) -> (NamesAddresses, CancellationToken) {
    let rng = SeededRng::shared(7);
    let own = vec![listeners.addresses().dns.ip()];
    let zone = DnsZone::new("names.test", own, ZoneTimes::default()).unwrap();
    let dns = DnsSettings { zone, rate: 0 };
    let cancelled = CancellationToken::new();
    let config = NamesConfig { cells, dns, registry: Registry::default(), clock, rng };
    let server = NamesServer::start(config, listeners, &cancelled);
    (server.addresses(), cancelled)
}

impl Views {
    async fn start() -> Self {
        Self::on(names_listeners(ANY).await.unwrap()).await
    }

    async fn on(listeners: NamesListeners) -> Self {
        let db = MemoryStore::new(SystemClock::shared(), SeededRng::shared(1)).quiet();
        Self::over(db, SystemClock::shared(), listeners).await
    }

    async fn over(db: Database, clock: Arc<dyn Clock>, listeners: NamesListeners) -> Self {
        let cell = OpenCell::create(db.clone(), &CellMeta::default()).await;
        let (addresses, cancelled) = serve_by(clock, &db, &["alpha"], listeners);
        let views = Self { cell, addresses, cancelled, requests: 0 };
        views.until("readiness", async || (views.get("/readyz").await.status == 200).then_some(())).await;
        views
    }

    async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let found = tokio::time::timeout(DEADLINE, async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("no {what}"))
    }

    async fn write(&mut self, deltas: Vec<Delta>) {
        self.requests += 1;
        let change = change(self.requests, "test", 1);
        let written = self.cell.change(change, async |_, changes| {
            deltas.iter().for_each(|delta| changes.push(delta.clone()));
            Ok(())
        });
        written.await.unwrap();
    }

    /// Publishes an endpoint of a job, and the job with its first one.
    async fn publish(&mut self, job: (u64, &str), index: u32, port: u16) {
        self.publish_all(vec![endpoint(job, index, port)]).await;
    }

    /// Publishes endpoints of one job.
    async fn publish_all(&mut self, endpoints: Vec<Endpoint>) {
        let first = endpoints.first().unwrap();
        let spec = spec_of(first.job.as_str());
        let row = Arc::new(job_new(first.task.job, &spec, RequestId(1), 0));
        let published = endpoints.into_iter().map(|endpoint| Delta::Endpoint { endpoint, revision: 1 });
        let deltas = std::iter::once(Delta::Job { row, spec: Some(Box::new(spec)) }).chain(published);
        self.write(deltas.collect()).await;
    }

    async fn withdraw(&mut self, job: (u64, &str), index: u32) {
        let task = TaskId { job: JobId(job.0), index };
        let (user, job) = (name("ann"), name(job.1));
        self.write(vec![Delta::EndpointWithdrawn { user, job, task, revision: 9 }]).await;
    }

    /// Returns true if the job has this many endpoints.
    async fn has_endpoints(&self, job: &str, count: usize) -> Option<()> {
        let health = self.get(&format!("/v1/health/service/{job}_ann")).await.json();
        (health.as_array().unwrap().len() == count).then_some(())
    }

    async fn get(&self, path: &str) -> HttpAnswer {
        http_get(self.addresses.http, path, "").await
    }

    async fn dns(&self, owner: &str, kind: RecordType) -> Message {
        dns_ask(self.addresses.dns, owner, kind).await
    }

    fn xds(&self) -> XdsStream {
        XdsStream { address: self.addresses.xds }
    }
}

fn spec_of(job: &str) -> JobSpec {
    let mut spec = job_spec("ann", job, JobKind::Service);
    spec.task.ports = vec![borough_model::job::PortSpec { name: name("http"), number: None }];
    spec
}

fn endpoint(job: (u64, &str), index: u32, port: u16) -> Endpoint {
    Endpoint {
        task: TaskId { job: JobId(job.0), index },
        user: name("ann"),
        job: name(job.1),
        incarnation: Incarnation(1),
        host: "127.0.0.1".to_owned(),
        ports: vec![EndpointPort { name: name("http"), number: port }],
        health: Health::Healthy,
        weight: 3,
        node: name("n1"),
        healthy_since_ms: 0,
        domains: Vec::new(),
    }
}

struct HttpAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl HttpAnswer {
    fn header(&self, key: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

async fn http_get(address: SocketAddr, path: &str, headers: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: names\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    HttpAnswer { status, headers, body: body.to_owned() }
}

async fn dns_ask(address: SocketAddr, owner: &str, kind: RecordType) -> Message {
    let mut query = Message::new(7, MessageType::Query, OpCode::Query);
    let mut owner = DnsName::from_ascii(owner).unwrap();
    owner.set_fqdn(true);
    query.add_query(Query::query(owner, kind));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), address).await.unwrap();
    let mut answer = vec![0; 4_096];
    let length = tokio::time::timeout(DEADLINE, socket.recv(&mut answer)).await.unwrap().unwrap();
    Message::from_vec(&answer[..length]).unwrap()
}

struct XdsStream {
    address: SocketAddr,
}

impl XdsStream {
    /// A stream that asks for the endpoints of a target.
    async fn endpoints(
        &self,
        target: &str,
    ) -> (
        mpsc::Sender<DiscoveryRequest>,
        tonic::Streaming<envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse>,
    ) {
        let mut client =
            AggregatedDiscoveryServiceClient::connect(format!("http://{}", self.address)).await.unwrap();
        let (sender, receiver) = mpsc::channel(8);
        sender.send(xds_request(target, "")).await.unwrap();
        let responses = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap();
        (sender, responses.into_inner())
    }
}

fn xds_request(target: &str, nonce: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: EDS.to_owned(),
        resource_names: vec![target.to_owned()],
        response_nonce: nonce.to_owned(),
        ..DiscoveryRequest::default()
    }
}

#[tokio::test]
async fn every_view_shows_what_is_published_and_withdrawn() {
    let mut views = Views::start().await;
    let (_requests, mut responses) = views.xds().endpoints("web.ann.alpha").await;
    views.publish((1, "web"), 0, 8_080).await;
    views.publish((1, "web"), 1, 8_081).await;
    let owner = "_http._tcp.web.ann.alpha.names.test";
    views
        .until("two records", async || {
            (views.dns(owner, RecordType::SRV).await.answers.len() == 2).then_some(())
        })
        .await;
    let health = views.get("/v1/health/service/web_ann?passing").await;
    assert_eq!((health.status, health.json().as_array().unwrap().len()), (200, 2));
    assert_eq!(views.get("/v1/catalog/services").await.json()["web_ann"], serde_json::json!([]));
    let groups = views.get("/v1/http_sd?job=web").await.json();
    assert_eq!(groups[1]["targets"][0], "127.0.0.1:8081");
    let first = tokio::time::timeout(DEADLINE, responses.message()).await.unwrap().unwrap().unwrap();
    assert_eq!((first.type_url.as_str(), first.resources.len()), (EDS, 1));
    views.withdraw((1, "web"), 0).await;
    views.withdraw((1, "web"), 1).await;
    views
        .until("no record", async || {
            let answer = views.dns(owner, RecordType::SRV).await;
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "the job is still there");
            answer.answers.is_empty().then_some(())
        })
        .await;
    assert_eq!(views.get("/v1/health/service/web_ann?passing").await.json(), serde_json::json!([]));
    let metrics = views.get("/metrics").await.body;
    assert!(metrics.contains("borough_names_services{cell=\"alpha\"} 1"), "{metrics}");
    assert!(metrics.contains("borough_names_xds_streams 1"), "{metrics}");
}

#[tokio::test]
async fn a_blocking_query_wakes_for_its_own_service_only() {
    let mut views = Views::start().await;
    views.publish((1, "web"), 0, 8_080).await;
    views.publish((2, "api"), 0, 8_090).await;
    let first = views
        .until("both services", async || {
            let api = views.get("/v1/health/service/api_ann").await.json();
            let web = views.get("/v1/health/service/web_ann").await;
            (api.as_array().unwrap().len() == 1).then_some(web)
        })
        .await;
    let index = first.header("x-consul-index").to_owned();
    let address = views.addresses.http;
    let path = format!("/v1/health/service/web_ann?index={index}&wait=5m");
    let waits = tokio::spawn(async move { http_get(address, &path, "").await });
    // Another service changes. The metric says when that was applied, and that nobody was woken for it.
    let wakes = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("borough_names_wakes ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let before = wakes(&views.get("/metrics").await.body);
    views.publish((2, "api"), 1, 8_091).await;
    views
        .until("the other change", async || {
            let api = views.get("/v1/health/service/api_ann").await.json();
            (api.as_array().unwrap().len() == 2).then_some(())
        })
        .await;
    assert_eq!(wakes(&views.get("/metrics").await.body), before);
    assert!(!waits.is_finished(), "woken by another service");
    views.publish((1, "web"), 1, 8_081).await;
    let woken = tokio::time::timeout(DEADLINE, waits).await.unwrap().unwrap();
    assert_eq!(woken.json().as_array().unwrap().len(), 2);
    assert!(woken.header("x-consul-index").parse::<u64>().unwrap() > index.parse().unwrap());
    assert_eq!(woken.header("x-consul-knownleader"), "true");
    assert_eq!(woken.header("x-borough-outage-since-ms"), "");
    let tag = format!("if-none-match: {}\r\n", woken.header("etag"));
    let unchanged = http_get(address, "/v1/health/service/web_ann", &tag).await;
    assert_eq!((unchanged.status, unchanged.body.as_str()), (304, ""));
    let foreign = format!("/v1/health/service/web_ann?index={}&wait=5m", u64::MAX);
    let answered = tokio::time::timeout(DEADLINE, http_get(address, &foreign, "")).await.unwrap();
    assert_eq!(answered.status, 200, "an index of another history is answered at once");
}

#[tokio::test]
async fn nothing_is_answered_before_every_cell_was_read() {
    let store = MemoryStore::new(SystemClock::shared(), SeededRng::shared(1));
    let db = store.quiet();
    let _alpha = OpenCell::create(db.clone(), &CellMeta::default()).await;
    // Nobody has made the second cell, so it cannot be read.
    let (addresses, cancelled) = serve(&db, &["alpha", "absent"]).await;
    let ready = http_get(addresses.http, "/readyz", "").await;
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert_eq!(http_get(addresses.http, "/healthz", "").await.status, 200);
    for path in
        ["/v1/catalog/services", "/v1/health/service/web_ann", "/v1/http_sd", "/v1/catalog/datacenters"]
    {
        assert_eq!(http_get(addresses.http, path, "").await.status, 503, "{path}");
    }
    let answer = dns_ask(addresses.dns, "web.ann.alpha.names.test", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    let mut client =
        AggregatedDiscoveryServiceClient::connect(format!("http://{}", addresses.xds)).await.unwrap();
    let (_sender, receiver) = mpsc::channel::<DiscoveryRequest>(1);
    let refused = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    cancelled.cancel();
}

#[tokio::test]
async fn without_its_store_every_view_goes_on_and_says_since_when() {
    let clock = ManualClock::at(1_000_000);
    let engine = EmbeddedEngine::ephemeral(Arc::<ManualClock>::clone(&clock), SeededRng::shared(1));
    let db = Database::new(Arc::new(engine.clone()));
    let mut views =
        Views::over(db, Arc::<ManualClock>::clone(&clock) as _, names_listeners(ANY).await.unwrap()).await;
    views.publish((1, "web"), 0, 8_080).await;
    let (_requests, mut responses) = views.xds().endpoints("web.ann.alpha").await;
    let address = views
        .until("an address", async || {
            let answer = views.dns("web.ann.alpha.names.test", RecordType::A).await;
            (answer.answers.len() == 1).then_some(answer.answers)
        })
        .await;
    tokio::time::timeout(DEADLINE, responses.message()).await.unwrap().unwrap().unwrap();
    engine.close().await;
    clock.advance(Duration::from_secs(60));
    let path = "/v1/health/service/web_ann?passing";
    let dark = views.get(path).await;
    assert_eq!((dark.status, dark.json().as_array().unwrap().len()), (200, 1));
    assert_eq!(dark.header("x-consul-knownleader"), "false");
    let since: u64 = dark.header("x-borough-outage-since-ms").parse().unwrap();
    assert!((1_000_000..1_060_000).contains(&since), "{since}: when the store was read last");
    assert!(dark.header("x-consul-lastcontact").parse::<u64>().unwrap() > 5_000);
    let answer = views.dns("web.ann.alpha.names.test", RecordType::A).await;
    assert_eq!(answer.answers, address);
    assert_eq!(views.get("/readyz").await.status, 200, "it serves what it knows");
    let metrics = views.get("/metrics").await.body;
    let outage = format!("borough_names_outage_since_milliseconds{{cell=\"alpha\"}} {since}");
    assert!(metrics.contains(&outage), "{metrics}");
    let nothing = tokio::time::timeout(Duration::from_millis(200), responses.message()).await;
    assert!(nothing.is_err(), "an outage is no change: {nothing:?}");
}

#[tokio::test]
async fn bad_requests_say_what_is_accepted() {
    let views = Views::start().await;
    let refused = async |path: &str, status: u16, text: &str| {
        let answer = views.get(path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body.contains(text), "{path}: {}", answer.body);
    };
    refused("/v1/health/service/web_ann?index=x", 400, "accepted: the X-Consul-Index").await;
    refused("/v1/health/service/web_ann?wait=soon", 400, "accepted: a time such as").await;
    refused("/v1/health/service/web_ann?filter=a", 400, "leave it out").await;
    refused("/v1/catalog/services?dc=beta", 500, "No path to datacenter").await;
    refused("/v1/http_sd?job=A_b", 400, "accepted: 1 to 63 of a-z").await;
    refused(
        "/v1/http_sd?jobs=web",
        400,
        "jobs: there is no such parameter; accepted: cell, user, service, job, port",
    )
    .await;
    refused("/v1/kv/secret", 404, "/v1/catalog/services").await;
    assert_eq!(views.get("/v1/agent/self").await.json()["Config"]["Datacenter"], "alpha");
    assert_eq!(views.get("/v1/status/leader").await.json(), views.addresses.http.to_string());
    assert_eq!(views.get("/v1/catalog/datacenters").await.json(), serde_json::json!(["alpha"]));
    assert_eq!(views.get("/v1/catalog/nodes").await.status, 200);
    assert_eq!(views.get("/v1/catalog/node/n1").await.json(), Value::Null);
    refused("/v1/health/state/well", 400, "accepted: any, passing, warning, critical").await;
}

#[tokio::test]
async fn dns_answers_over_tcp_and_bounds_its_questions() {
    let mut views = Views::start().await;
    views.publish((1, "web"), 0, 8_080).await;
    let mut query = Message::new(9, MessageType::Query, OpCode::Query);
    let owner = DnsName::from_ascii("web.ann.alpha.names.test.").unwrap();
    query.add_query(Query::query(owner, RecordType::A));
    let packet = query.to_vec().unwrap();
    let mut stream = TcpStream::connect(views.addresses.dns).await.unwrap();
    let ask = async |stream: &mut TcpStream| {
        stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
        stream.write_all(&packet).await.unwrap();
        let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut answer).await.unwrap();
        Message::from_vec(&answer).unwrap()
    };
    let stream_shared = tokio::sync::Mutex::new(&mut stream);
    views
        .until("an address", async || {
            (ask(&mut *stream_shared.lock().await).await.answers.len() == 1).then_some(())
        })
        .await;
    stream.write_u16(5_000).await.unwrap();
    let ended = tokio::time::timeout(DEADLINE, stream.read(&mut [0; 8])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "the connection ends");
}

#[tokio::test]
async fn a_client_that_reads_no_answer_is_closed_in_time() {
    let views = Views::start().await;
    let client = TcpStream::connect(views.addresses.http).await.unwrap();
    // From here on time passes whenever everybody waits.
    tokio::time::pause();
    let mut waited = 0;
    while waited < 3_600 {
        match client.try_write(b"GET /metrics HTTP/1.1\r\nHost: names\r\n\r\n") {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                waited += 1;
            }
            Err(_) => return,
        }
    }
    panic!("after an hour the server still waits for its client");
}
