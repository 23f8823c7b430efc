//! The gRPC service of xDS.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use envoy_types::pb::google::rpc::Status as RefusalStatus;
use futures::{Stream, StreamExt as _};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::budget::{NamesBudget, NamesLease};
use super::connection::connections;
use super::refusal::RefusalLog;
use super::stream::{AdsMode, AdsRefusal, AdsRequest, AdsResponse, AdsStream, FollowChange, version_text};
use crate::hub::HubFollower;
use crate::listen::{BindError, ConnectionPlaces, connections_max, tcp_bind};
use crate::service::NamesShared;

/// Connections at a time. A client of gRPC or a proxy has one.
const CONNECTIONS_MAX: usize = 16_384;
/// Streams at a time.
const STREAMS_MAX: usize = 20_000;
/// A request with more names is large.
const NAMES_LARGE: usize = 256;
/// Large requests that are answered at a time, over all streams. Each takes a processor for a while, and a client
/// without a token may send as many as it wants.
const LARGE_MAX: usize = 1;
/// Names that all streams together keep.
const NAMES_ALL_MAX: usize = 1_000_000;
/// Streams of one connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 1_000;
/// Responses that wait for a client that does not read.
const UNREAD_MAX: usize = 4;
/// The most bytes of a request: 10,000 names of the greatest length fit.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Interval of keep-alive probes, and how long an answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Characters of a client's name that a stream keeps.
const NODE_CHARS_MAX: usize = 200;

/// A listener for xDS.
pub struct XdsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl XdsListener {
    /// Listens; port 0 takes any free one.
    ///
    /// # Errors
    /// The address that is taken, or not one of this machine.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let (listener, address) = tcp_bind(address, "xDS").await?;
        Ok(Self { listener, address })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Answers until `cancelled`.
pub async fn xds_serve(shared: Arc<NamesShared>, listener: XdsListener, cancelled: CancellationToken) {
    let room = Arc::new(Semaphore::new(STREAMS_MAX));
    let budget = NamesBudget::new(NAMES_ALL_MAX);
    let large = Arc::new(Semaphore::new(LARGE_MAX));
    let server =
        XdsServer { shared, room, large, budget, refusals: Arc::default(), cancelled: cancelled.clone() };
    let service = AggregatedDiscoveryServiceServer::new(server).max_decoding_message_size(REQUEST_BYTES_MAX);
    let places = ConnectionPlaces::new(connections_max(CONNECTIONS_MAX));
    let incoming = ReceiverStream::new(connections(listener.listener, places, cancelled.clone()));
    let served = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .max_concurrent_streams(Some(STREAMS_PER_CONNECTION_MAX))
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, cancelled.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "xDS is not served any more");
    }
}

#[derive(Clone)]
struct XdsServer {
    shared: Arc<NamesShared>,
    room: Arc<Semaphore>,
    large: Arc<Semaphore>,
    budget: NamesBudget,
    refusals: Arc<RefusalLog>,
    cancelled: CancellationToken,
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for XdsServer {
    type StreamAggregatedResourcesStream = ResponseStream<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = ResponseStream<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let requests = request.into_inner().map(|request| request.map(AdsRequest::from));
        let responses = self.begin(AdsMode::StateOfTheWorld, requests)?;
        Ok(Response::new(Box::pin(responses.map(|response| response.map(world_response)))))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let requests = request.into_inner().map(|request| request.map(AdsRequest::from));
        let responses = self.begin(AdsMode::Incremental, requests)?;
        Ok(Response::new(Box::pin(responses.map(|response| response.map(delta_response)))))
    }
}

impl XdsServer {
    /// Begins a stream. A task of its own serves it.
    fn begin(
        &self,
        mode: AdsMode,
        requests: impl Stream<Item = Result<AdsRequest, Status>> + Send + Unpin + 'static,
    ) -> Result<ReceiverStream<Result<AdsResponse, Status>>, Status> {
        if !self.shared.is_ready() {
            return Err(Status::unavailable("the name service has not read every cell yet"));
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(Status::resource_exhausted("too many streams; ask another name service"));
        };
        let (sender, receiver) = mpsc::channel(UNREAD_MAX);
        let task = StreamTask {
            shared: Arc::clone(&self.shared),
            stream: AdsStream::new(mode),
            names: self.budget.lease(),
            large: Arc::clone(&self.large),
            refusals: Arc::clone(&self.refusals),
            follower: self.shared.hub.follower(),
            sender,
            _permit: permit,
        };
        let cancelled = self.cancelled.clone();
        tokio::spawn(async move {
            task.shared.metrics.xds_streams.inc();
            let streams = task.shared.metrics.xds_streams.clone();
            tokio::select! {
                () = task.serve(requests) => {}
                () = cancelled.cancelled() => {}
            }
            streams.dec();
        });
        Ok(ReceiverStream::new(receiver))
    }
}

struct StreamTask {
    shared: Arc<NamesShared>,
    stream: AdsStream,
    names: NamesLease,
    large: Arc<Semaphore>,
    refusals: Arc<RefusalLog>,
    follower: HubFollower,
    sender: mpsc::Sender<Result<AdsResponse, Status>>,
    _permit: OwnedSemaphorePermit,
}

impl StreamTask {
    async fn serve(mut self, mut requests: impl Stream<Item = Result<AdsRequest, Status>> + Send + Unpin) {
        loop {
            let mut turn = None;
            let stepped = tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => {
                        if request.size() > NAMES_LARGE {
                            // Others of this process go first. The semaphore is never closed.
                            turn = Arc::clone(&self.large).acquire_owned().await.ok();
                            tokio::task::yield_now().await;
                        }
                        self.request(request)
                    }
                    // Such as a request that is too large.
                    Some(Err(status)) => Err(status),
                    None => return,
                },
                changed = self.follower.changed() => {
                    self.stream.changed(&changed);
                    Ok(())
                }
                // The client is gone.
                () = self.sender.closed() => return,
            };
            if let Err(status) = stepped {
                self.sender.send(Err(status)).await.ok();
                return;
            }
            let Self { shared, stream, names, .. } = &mut self;
            let responses = shared.read(|table| stream.responses(table)).unwrap_or_default();
            drop(turn);
            // Names that the client has not asked for count too: those of a list.
            if let Err(error) = names.hold(stream.names()) {
                self.sender.send(Err(Status::resource_exhausted(error.to_string()))).await.ok();
                return;
            }
            for response in responses {
                self.shared.metrics.xds_responses.inc();
                if self.sender.send(Ok(response)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Takes a request, and follows what it asks for from now on. The follower begins before the table is read for the
    /// response, so that no change is missed.
    fn request(&mut self, request: AdsRequest) -> Result<(), Status> {
        let Self { shared, stream, follower, .. } = self;
        let taken = stream.request(request);
        let refused = taken.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        if let Some(refused) = refused {
            self.refusals.note(shared, &refused, stream.node());
        }
        for change in stream.follow_changes() {
            match change {
                FollowChange::Begin(key) => follower.follow(key),
                FollowChange::End(key) => follower.leave(&key),
            }
        }
        Ok(())
    }
}

fn refusal_of(status: RefusalStatus) -> AdsRefusal {
    AdsRefusal { code: status.code, message: status.message }
}

fn node_of(node: Node) -> String {
    node.id.chars().take(NODE_CHARS_MAX).collect()
}

impl From<DiscoveryRequest> for AdsRequest {
    fn from(request: DiscoveryRequest) -> Self {
        Self {
            type_url: request.type_url,
            nonce: request.response_nonce,
            refusal: request.error_detail.map(refusal_of),
            node: request.node.map(node_of),
            names: request.resource_names,
            ..Self::default()
        }
    }
}

impl From<DeltaDiscoveryRequest> for AdsRequest {
    fn from(request: DeltaDiscoveryRequest) -> Self {
        Self {
            type_url: request.type_url,
            nonce: request.response_nonce,
            refusal: request.error_detail.map(refusal_of),
            node: request.node.map(node_of),
            names: request.resource_names_subscribe,
            left: request.resource_names_unsubscribe,
            versions: request.initial_resource_versions.into_iter().collect(),
        }
    }
}

fn world_response(response: AdsResponse) -> DiscoveryResponse {
    DiscoveryResponse {
        version_info: response.version(),
        type_url: response.kind.type_url().to_owned(),
        nonce: response.nonce,
        resources: response.resources.into_iter().map(|resource| resource.body).collect(),
        ..DiscoveryResponse::default()
    }
}

fn delta_response(response: AdsResponse) -> DeltaDiscoveryResponse {
    let resource = |given: super::subscription::GivenResource| Resource {
        name: given.name,
        version: version_text(given.version),
        resource: Some(given.body),
        ..Resource::default()
    };
    DeltaDiscoveryResponse {
        system_version_info: response.version(),
        type_url: response.kind.type_url().to_owned(),
        nonce: response.nonce,
        resources: response.resources.into_iter().map(resource).collect(),
        removed_resources: response.removed,
        ..DeltaDiscoveryResponse::default()
    }
}
