//! What clients of xDS cost in memory: many streams, and many names on few streams. Measured while they are there, and
//! after they have gone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use super::watcher::get;
use super::{CELL, JOB, NamePlaces, USER, memory};
use crate::result::{Stats, StatsSet as _};
use crate::system::System;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Names that a stream may ask for.
const NAMES_PER_STREAM: u32 = 10_000;
/// Streams that share a connection: as many as a proxy of a machine would have clients.
const STREAMS_PER_CONNECTION: u32 = 100;
/// How long all clients may take to be answered, and to be gone.
const ANSWER_WAIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(100);
/// The allocator gives memory back some seconds after it was freed.
const SETTLE: Duration = Duration::from_secs(15);

/// Clients of xDS: what each stream asks for.
pub(super) struct XdsClients {
    kind: &'static str,
    /// The names of each stream.
    streams: Vec<Vec<String>>,
    /// What the memory is divided by.
    counted: u32,
}

impl XdsClients {
    /// So many streams. Each follows the endpoints of the job.
    pub(super) fn streams(count: u32) -> Self {
        let streams = (0..count).map(|_| vec![format!("{JOB}.{USER}.{CELL}")]).collect();
        Self { kind: ENDPOINTS, streams, counted: count }
    }

    /// So many names that nobody has, on as few streams as may ask for them.
    pub(super) fn names(count: u32) -> Self {
        let names: Vec<String> = (0..count).map(|name| format!("absent-{name}.{USER}.{CELL}")).collect();
        let per_stream = usize::try_from(NAMES_PER_STREAM).unwrap_or(usize::MAX);
        let streams = names.chunks(per_stream).map(<[String]>::to_vec).collect();
        Self { kind: CLUSTER, streams, counted: count }
    }

    /// Opens every stream, waits until each is answered, and ends them.
    pub(super) async fn run(self, system: &System, places: &NamePlaces) -> anyhow::Result<Stats> {
        let (kind, counted, wanted) = (self.kind, self.counted, self.streams.len());
        let before = memory(system)?;
        let channels = channels(&places.xds, u32::try_from(wanted)?).await?;
        let (answered, mut answers) = mpsc::unbounded_channel();
        let ended = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for (number, names) in self.streams.into_iter().enumerate() {
            let channel = channels.get(number % channels.len()).context("no connection")?.clone();
            let follow = follow(channel, kind, names, answered.clone());
            let ended = ended.clone();
            tasks.spawn(async move { ended.run_until_cancelled_owned(follow).await.unwrap_or(Ok(())) });
        }
        let all = async {
            for _ in 0..wanted {
                tokio::select! {
                    Some(()) = answers.recv() => {}
                    Some(task) = tasks.join_next() => {
                        task??;
                        bail!("a stream of the discovery service has ended");
                    }
                }
            }
            Ok(())
        };
        let all: anyhow::Result<()> =
            tokio::time::timeout(ANSWER_WAIT, all).await.context("not every stream was answered in time")?;
        all?;
        tokio::time::sleep(SETTLE).await;
        let during = memory(system)?;
        ended.cancel();
        while tasks.join_next().await.is_some() {}
        drop(channels);
        streams_gone(&places.http).await?;
        tokio::time::sleep(SETTLE).await;
        let after = memory(system)?;
        let grew = |to: u64| to.saturating_sub(before);
        let mut stats = Stats::new();
        stats.set("count", counted);
        stats.set("streams", u64::try_from(wanted)?);
        stats.set("memory_before_bytes", before);
        stats.set("memory_with_clients_bytes", during);
        stats.set("memory_after_bytes", after);
        stats.set("bytes_each", grew(during) / u64::from(counted.max(1)));
        stats.set("bytes_kept_after", grew(after));
        Ok(stats)
    }
}

/// As many connections as so many streams need.
async fn channels(address: &str, streams: u32) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for _ in 0..streams.div_ceil(STREAMS_PER_CONNECTION).max(1) {
        channels.push(Endpoint::from_shared(format!("http://{address}"))?.connect().await?);
    }
    Ok(channels)
}

/// Follows names for ever. Says when the first answer has come, and acknowledges each.
async fn follow(
    channel: Channel,
    kind: &'static str,
    names: Vec<String>,
    answered: mpsc::UnboundedSender<()>,
) -> anyhow::Result<()> {
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let (requests, sent) = mpsc::unbounded_channel();
    requests.send(DiscoveryRequest {
        node: Some(Node { id: "loadtest".to_owned(), ..Node::default() }),
        resource_names: names.clone(),
        type_url: kind.to_owned(),
        ..DiscoveryRequest::default()
    })?;
    let mut responses =
        client.stream_aggregated_resources(UnboundedReceiverStream::new(sent)).await?.into_inner();
    while let Some(response) = responses.message().await? {
        requests.send(DiscoveryRequest {
            resource_names: names.clone(),
            type_url: kind.to_owned(),
            response_nonce: response.nonce,
            version_info: response.version_info,
            ..DiscoveryRequest::default()
        })?;
        // Nobody listens once all are answered.
        answered.send(()).ok();
    }
    bail!("the stream of the discovery service has ended")
}

/// Waits until the name service has no stream left.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn streams_gone(http: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    while streams_open(http).await? > 0 {
        ensure!(begun.elapsed() < ANSWER_WAIT, "streams that have ended are still counted");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// How many streams the metrics of the name service count.
async fn streams_open(http: &str) -> anyhow::Result<u64> {
    let mut stream = get(http, "/metrics", None).await?;
    let (mut length, mut line) = (0_usize, String::new());
    while stream.read_line(&mut line).await? > 2 {
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body = String::from_utf8(body)?;
    let found = body.lines().find_map(|line| line.strip_prefix("borough_names_xds_streams "));
    Ok(found.context("no metric of streams")?.trim().parse()?)
}
