//! One who follows endpoints, by each view.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context as _, bail};
use borough_client::{Client, EndpointItem};
use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Node};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use futures::StreamExt as _;
use prost::Message as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Endpoint;

use super::{CELL, JOB, LiveSeen, NamePlaces, NameView, USER};

const CLUSTER_LOAD: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// Reports what one watcher sees.
struct Reporter {
    watcher: u32,
    seen: mpsc::UnboundedSender<LiveSeen>,
}

impl Reporter {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    fn report(&self, live: usize) {
        // Nobody listens once the benchmark is over.
        self.seen.send(LiveSeen { watcher: self.watcher, live, at: Instant::now() }).ok();
    }
}

/// Follows the endpoints of the job for ever.
pub(super) async fn watch(
    view: NameView,
    client: Client,
    places: NamePlaces,
    watcher: u32,
    seen: mpsc::UnboundedSender<LiveSeen>,
) -> anyhow::Result<()> {
    let reporter = Reporter { watcher, seen };
    match view {
        NameView::Grpc => grpc(client, &reporter).await,
        NameView::Events => events(&places, &reporter).await,
        NameView::Consul => consul(&places, &reporter).await,
        NameView::Xds => xds(&places, &reporter).await,
        NameView::Dns => bail!("DNS is asked, and not followed"),
    }
}

async fn grpc(client: Client, reporter: &Reporter) -> anyhow::Result<()> {
    let mut items = client.watch_endpoints(USER, JOB, None);
    let mut live = BTreeSet::new();
    while let Some(item) = items.next().await {
        match item? {
            EndpointItem::Snapshot { endpoints, .. } => {
                live = endpoints.into_iter().map(|endpoint| endpoint.index).collect();
            }
            EndpointItem::Published(endpoint) => {
                live.insert(endpoint.index);
            }
            EndpointItem::Withdrawn(gone) => {
                live.remove(&gone.index);
            }
            _ => continue,
        }
        reporter.report(live.len());
    }
    bail!("the watch has ended")
}

pub(super) async fn get(
    address: &str,
    path: &str,
    token: Option<&str>,
) -> anyhow::Result<BufReader<TcpStream>> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    ask(&mut stream, address, path, token).await?;
    Ok(stream)
}

async fn ask(
    stream: &mut BufReader<TcpStream>,
    host: &str,
    path: &str,
    token: Option<&str>,
) -> anyhow::Result<()> {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{token}\r\n");
    stream.get_mut().write_all(request.as_bytes()).await?;
    Ok(())
}

async fn events(places: &NamePlaces, reporter: &Reporter) -> anyhow::Result<()> {
    let path = format!("/v1/cells/{CELL}/names/{USER}/{JOB}/watch");
    let mut stream = get(&places.gateway_http, &path, Some(&places.token)).await?;
    let (mut live, mut kind) = (BTreeSet::new(), String::new());
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        if let Some(event) = line.strip_prefix("event: ") {
            event.trim().clone_into(&mut kind);
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data.trim())?;
            let index = data["index"].as_u64();
            match (kind.as_str(), index) {
                ("published", Some(index)) => drop(live.insert(index)),
                ("withdrawn", Some(index)) => drop(live.remove(&index)),
                _ => {}
            }
            reporter.report(live.len());
        }
        line.clear();
    }
    bail!("the stream of events has ended")
}

async fn consul(places: &NamePlaces, reporter: &Reporter) -> anyhow::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(&places.http).await?);
    let mut index = 0_u64;
    loop {
        let path = format!("/v1/health/service/{JOB}_{USER}?passing&wait=5m&index={index}");
        ask(&mut stream, &places.http, &path, None).await?;
        let (mut length, mut line) = (0_usize, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                bail!("the catalogue has closed the connection");
            }
            let header = line.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            let value = |name: &str| header.strip_prefix(name).map(str::trim);
            if let Some(value) = value("content-length:") {
                length = value.parse()?;
            }
            if let Some(value) = value("x-consul-index:") {
                index = value.parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let rows: Value = serde_json::from_slice(&body)?;
        reporter.report(rows.as_array().context("the catalogue answers no list")?.len());
    }
}

async fn xds(places: &NamePlaces, reporter: &Reporter) -> anyhow::Result<()> {
    // A view gives one address at most half of its places. The watchers stand for many machines.
    let machine = u8::try_from(reporter.watcher % 8)?;
    let endpoint = Endpoint::from_shared(format!("http://{}", places.xds))?;
    let endpoint = endpoint.local_address(Some(IpAddr::from([127, 0, 0, machine + 1])));
    let mut client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
    let (requests, sent) = mpsc::unbounded_channel();
    let request = |nonce: String, version: String| DiscoveryRequest {
        node: Some(Node { id: format!("loadtest-{}", reporter.watcher), ..Node::default() }),
        resource_names: vec![format!("{JOB}.{USER}.{CELL}")],
        type_url: CLUSTER_LOAD.to_owned(),
        response_nonce: nonce,
        version_info: version,
        ..DiscoveryRequest::default()
    };
    requests.send(request(String::new(), String::new()))?;
    let mut responses =
        client.stream_aggregated_resources(UnboundedReceiverStream::new(sent)).await?.into_inner();
    while let Some(response) = responses.message().await? {
        requests.send(request(response.nonce, response.version_info))?;
        for resource in response.resources {
            let load = ClusterLoadAssignment::decode(resource.value.as_slice())?;
            let endpoints = load.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
            let used = [HealthStatus::Unknown, HealthStatus::Healthy].map(i32::from);
            reporter.report(endpoints.filter(|endpoint| used.contains(&endpoint.health_status)).count());
        }
    }
    bail!("the stream of the discovery service has ended")
}
