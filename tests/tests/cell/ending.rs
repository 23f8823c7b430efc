//! A gateway that ends under load: no call of its clients fails, no watch loses or doubles an event, and its agents go
//! on at another gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use borough_client::{CellItem, Client, JobRef};
use borough_kv::exercise::not_exercised;
use borough_model::job::{JobKind, JobSpec};
use borough_model::{Name, Resources};
use borough_proto::connect::Connector;
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::watch_service_client::WatchServiceClient;
use borough_tests::{EncryptedCell, is_fdb, until};
use futures::StreamExt as _;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Endpoint;
use tonic_types::StatusExt as _;

use crate::role::Roles;

/// Clients that change, read and watch at the same time.
const WRITERS: usize = 3;
const WATCHERS: usize = 2;

/// A job without tasks.
fn spec(name: &str) -> v1::JobSpec {
    let (user, name) = (Name::new("tester").unwrap(), Name::new(name).unwrap());
    let mut spec = JobSpec::defaults(user, name, JobKind::Service, vec!["true".to_owned()]);
    spec.count = 0;
    spec.task.resources = Resources { cpu_millis: 1, memory_bytes: 1 << 20, ..Resources::default() };
    job_spec_to_message(&spec)
}

/// A steady load. Its first failure ends the test.
struct SteadyLoad {
    over: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Vec<String>>>,
    watchers: Vec<JoinHandle<()>>,
    /// What each watcher has seen, in its order.
    seen: Vec<Arc<parking_lot::Mutex<Vec<String>>>>,
}

impl SteadyLoad {
    /// Begins it, by clients of `client`.
    async fn begin(client: impl Fn() -> Client) -> Self {
        let (over, written) = (Arc::default(), Arc::default());
        let mut load = Self { over, written, writers: Vec::new(), watchers: Vec::new(), seen: Vec::new() };
        for _ in 0..WATCHERS {
            let (client, seen) = (client(), Arc::default());
            let from = client.cell_get().await.unwrap().1;
            load.seen.push(Arc::clone(&seen));
            load.watchers.push(tokio::spawn(watches(client, from, seen)));
        }
        for number in 0..WRITERS {
            let (over, written) = (Arc::clone(&load.over), Arc::clone(&load.written));
            load.writers.push(tokio::spawn(writes(client(), number, over, written)));
        }
        load.goes_on().await;
        load
    }

    /// Waits until every writer may have written more.
    async fn goes_on(&self) {
        let before = self.written.load(Ordering::Relaxed);
        until("the load goes on", || async {
            let failed = self.writers.iter().any(JoinHandle::is_finished);
            assert!(!failed, "a call has failed");
            (self.written.load(Ordering::Relaxed) >= before + 10 * WRITERS).then_some(())
        })
        .await;
    }

    /// Ends it, and checks what every watcher has seen.
    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for writer in self.writers {
            acknowledged.extend(writer.await.expect("no call failed"));
        }
        acknowledged.sort();
        for seen in self.seen {
            until("every change is seen", || async {
                (seen.lock().len() >= acknowledged.len()).then_some(())
            })
            .await;
            let mut seen = seen.lock().clone();
            seen.sort();
            assert_eq!(seen, acknowledged, "a change is lost, or seen twice");
        }
        self.watchers.iter().for_each(JoinHandle::abort);
    }
}

/// Submits jobs one after another, and reads each and the nodes. Returns their names.
async fn writes(
    client: Client,
    number: usize,
    over: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut names = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let name = format!("job-{number}-{}", names.len());
        client.job_submit_new(spec(&name)).await.unwrap_or_else(|error| panic!("submission: {error:?}"));
        client.job_get(&JobRef::new("tester", &name)).await.unwrap_or_else(|error| panic!("read: {error:?}"));
        client.node_list().await.unwrap_or_else(|error| panic!("list: {error:?}"));
        names.push(name);
        written.fetch_add(1, Ordering::Relaxed);
    }
    names
}

async fn watches(client: Client, from: Option<v1::Cursor>, seen: Arc<parking_lot::Mutex<Vec<String>>>) {
    let mut items = client.watch_cell(v1::WatchFilter::default(), from);
    while let Some(item) = items.next().await {
        match item.unwrap_or_else(|error| panic!("watch: {error:?}")) {
            CellItem::Change(change) => {
                if let Some(Change::Job(job)) = change.change {
                    seen.lock().push(job.name);
                }
            }
            CellItem::Resync(why) => panic!("a watch could not be resumed: {why}"),
            CellItem::Bookmark(_) | CellItem::Absent(_) => {}
        }
    }
}

/// Opens a watch without the client library, and returns how it ends.
async fn raw_watch(
    connector: &Connector,
    gateway: &str,
    headers: &[(&'static str, String)],
) -> JoinHandle<Status> {
    let endpoint = Endpoint::from_shared(format!("http://{gateway}")).unwrap();
    let mut service = WatchServiceClient::new(connector.connect_lazy(&endpoint));
    let context = Some(v1::RequestContext { user: "tester".to_owned(), ..v1::RequestContext::default() });
    let message = v1::WatchRequest { context, cell: "alpha".to_owned(), ..v1::WatchRequest::default() };
    let mut request = tonic::Request::new(message);
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let mut stream = service.watch(request).await.unwrap().into_inner();
    tokio::spawn(async move {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a watch has no end without a status"),
                Err(status) => return status,
            }
        }
    })
}

async fn is_resumable(watch: JoinHandle<Status>) {
    let status = watch.await.unwrap();
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone());
    assert_eq!(
        (status.code(), reason.as_deref()),
        (tonic::Code::Unavailable, Some("GATEWAY_ENDING")),
        "{status:?}"
    );
}

/// On an embedded store, which one process opens: the other gateway starts when the first has ended, and calls wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_gateways_change_and_certificates_rotate() {
    let mut cell = EncryptedCell::new(env!("CARGO_BIN_EXE_borough-under-test"));
    cell.gateway_ready().await;
    let (first, other) = (cell.grpc(), format!("localhost:{}", cell.ports.names()));
    for node in ["n1", "n2"] {
        cell.agent(node, node, node, &format!("{first},{other}"));
        cell.node_ready(node).await;
    }
    cell.ask("operator", &["auth", "grant", "user/ann", "--role", "viewer"]).ended(0);
    cell.ask("ann", &["node", "list"]).ended(0);
    let load = SteadyLoad::begin(|| cell.client("operator", &[&first, &other])).await;
    let raw = raw_watch(&cell.connector("operator"), &first, &[]).await;

    cell.terminate("gateway").await;
    is_resumable(raw).await;
    let (grpc, http) = (cell.ports.names(), cell.ports.xds());
    cell.gateway_on(
        "gateway-b",
        "gateway",
        &format!("127.0.0.1:{grpc}"),
        &format!("127.0.0.1:{http}"),
        "gateway-store",
    );
    load.goes_on().await;
    let operator = cell.client("operator", &[&other]);
    until("both agents at the other gateway", || async {
        let nodes = operator.node_list().await.ok()?;
        (nodes.len() == 2 && nodes.iter().all(|node| node.connected)).then_some(())
    })
    .await;

    // The gateway takes another certificate, and a user is revoked, while the load goes on.
    let server = ["--dns", "localhost", "--ip", "127.0.0.1", "--renew"];
    cell.issue("gateway", "gateway", &server).ended(0);
    cell.logged("gateway-b", "certificates read again").await;
    load.goes_on().await;
    let ann = cell.client("ann", &[&other]);
    ann.node_list().await.unwrap();
    cell.authority(&["revoke", "user/ann"]).ended(0);
    // Her connection is cut, and no further one is accepted.
    cell.logged("gateway-b", "certificates read again cut=1").await;
    let refused = || async { (cell.ask("ann", &["node", "list"]).code != Some(0)).then_some(()) };
    until("ann is refused", refused).await;
    load.goes_on().await;
    load.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_one_of_two_gateways_ends() {
    if !is_fdb() {
        not_exercised(
            "the end of one of two gateways under load",
            "only with FoundationDB do two gateways share a store",
        );
        return;
    }
    let mut roles = Roles::new();
    let [grpc_a, http_a, grpc_b, http_b] = [0, 1, 2, 3].map(|offset| roles.address(offset));
    roles.control("gateway-a", &["--listen", &grpc_a, "--http-listen", &http_a]);
    roles.control("gateway-b", &["--listen", &grpc_b, "--http-listen", &http_b]);
    let (near, far) = (roles.task_ports(20), roles.task_ports(40));
    roles.agent("node-1", &format!("{grpc_a},{grpc_b}"), &near);
    roles.agent("node-2", &format!("{grpc_b},{grpc_a}"), &far);
    let (a, b) = (roles.client(&[&grpc_a]), roles.client(&[&grpc_b]));
    let both_connected = async |client: &Client| {
        until("both agents connected", || async {
            let nodes = client.node_list().await.ok()?;
            (nodes.len() == 2 && nodes.iter().all(|node| node.connected)).then_some(())
        })
        .await;
    };
    both_connected(&a).await;
    both_connected(&b).await;
    let load = SteadyLoad::begin(|| roles.client(&[&grpc_a, &grpc_b])).await;
    let token = [("authorization", roles.authorization())];
    let raw = raw_watch(&Connector::default(), &grpc_a, &token).await;
    roles.terminate("gateway-a").await;
    is_resumable(raw).await;
    load.goes_on().await;
    both_connected(&b).await;
    load.goes_on().await;
    load.end().await;
}
