//! A server of xDS that passes every message on to the name service, and records the conversation as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use borough_names::xds::XdsKind;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status as RefusalStatus;
use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use prost::Message as _;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// What was said on one stream about one type of resources, in order. Clients order their types in no fixed way.
type TypeLines = BTreeMap<String, Vec<String>>;

/// The streams of a client, and words for what differs in each run.
#[derive(Default)]
struct Conversation {
    streams: Vec<TypeLines>,
    /// By stream and type. Each stream has nonces of its own.
    nonces: BTreeMap<(usize, String), Vec<String>>,
    versions: BTreeMap<String, Vec<String>>,
}

impl Conversation {
    fn say(&mut self, stream: usize, type_url: &str, line: String) {
        self.streams[stream].entry(short(type_url)).or_default().push(line);
    }

    /// A nonce by its place among those of its stream and type.
    fn nonce(&mut self, stream: usize, type_url: &str, nonce: &str) -> String {
        let known = self.nonces.entry((stream, short(type_url))).or_default();
        format!("n{}", place(known, nonce))
    }

    /// A version by its place among those of its type.
    fn version(&mut self, type_url: &str, version: &str) -> String {
        let known = self.versions.entry(short(type_url)).or_default();
        format!("v{}", place(known, version))
    }

    /// What a client says about a response.
    fn opinion(
        &mut self,
        stream: usize,
        type_url: &str,
        nonce: &str,
        refusal: Option<&RefusalStatus>,
    ) -> String {
        if nonce.is_empty() {
            return "asks".to_owned();
        }
        let nonce = self.nonce(stream, type_url, nonce);
        match refusal {
            Some(refusal) => format!("refuses {nonce}: {}", refusal.message),
            None => format!("accepts {nonce}"),
        }
    }

    fn world_request(&mut self, stream: usize, request: &DiscoveryRequest) {
        let (kind, nonce) = (&request.type_url, &request.response_nonce);
        let mut line = self.opinion(stream, kind, nonce, request.error_detail.as_ref());
        if !request.version_info.is_empty() {
            let version = self.version(kind, &request.version_info);
            write!(line, ", has {version}").unwrap();
        }
        write!(line, ", wants {}", listed(&request.resource_names)).unwrap();
        self.say(stream, kind, format!("> {line}"));
    }

    fn world_response(&mut self, stream: usize, response: &DiscoveryResponse) {
        let kind = &response.type_url;
        let nonce = self.nonce(stream, kind, &response.nonce);
        let version = self.version(kind, &response.version_info);
        let resources: Vec<String> = response.resources.iter().map(resource_text).collect();
        self.say(stream, kind, format!("< {nonce}, {version}: {}", listed(&resources)));
    }

    fn delta_request(&mut self, stream: usize, request: &DeltaDiscoveryRequest) {
        let (kind, nonce) = (&request.type_url, &request.response_nonce);
        let mut line = self.opinion(stream, kind, nonce, request.error_detail.as_ref());
        for (what, names) in
            [("wants", &request.resource_names_subscribe), ("leaves", &request.resource_names_unsubscribe)]
        {
            if !names.is_empty() {
                write!(line, ", {what} {}", listed(names)).unwrap();
            }
        }
        let has: BTreeMap<&String, &String> = request.initial_resource_versions.iter().collect();
        for (name, version) in has {
            let version = self.version(kind, version);
            write!(line, ", has {name} {version}").unwrap();
        }
        self.say(stream, kind, format!("> {line}"));
    }

    fn delta_response(&mut self, stream: usize, response: &DeltaDiscoveryResponse) {
        let kind = &response.type_url;
        let nonce = self.nonce(stream, kind, &response.nonce);
        let mut resources = Vec::new();
        for given in &response.resources {
            let version = self.version(kind, &given.version);
            resources.push(format!("{} {version}", given.resource.as_ref().map(resource_text).unwrap()));
        }
        let mut line = format!("< {nonce}: {}", listed(&resources));
        if !response.removed_resources.is_empty() {
            write!(line, ", without {}", listed(&response.removed_resources)).unwrap();
        }
        self.say(stream, kind, line);
    }
}

/// The last word of a type.
fn short(type_url: &str) -> String {
    type_url.rsplit('.').next().unwrap_or_default().to_owned()
}

/// The place of `text` among those that were there before, from 1.
fn place(known: &mut Vec<String>, text: &str) -> usize {
    let found = known.iter().position(|other| other == text);
    found.map_or_else(
        || {
            known.push(text.to_owned());
            known.len()
        },
        |at| at + 1,
    )
}

fn listed(names: &[String]) -> String {
    let mut names = names.to_vec();
    // Clients have them in tables without an order.
    names.sort();
    format!("[{}]", names.join(", "))
}

/// The name of a resource. Endpoints come with their number.
fn resource_text(resource: &Any) -> String {
    let bytes = resource.value.as_slice();
    match XdsKind::of_type_url(&resource.type_url).unwrap() {
        XdsKind::Listener => Listener::decode(bytes).unwrap().name,
        XdsKind::Route => RouteConfiguration::decode(bytes).unwrap().name,
        XdsKind::Cluster => Cluster::decode(bytes).unwrap().name,
        XdsKind::Endpoints => {
            let assignment = ClusterLoadAssignment::decode(bytes).unwrap();
            let count: usize = assignment.endpoints.iter().map(|locality| locality.lb_endpoints.len()).sum();
            format!("{} of {count}", assignment.cluster_name)
        }
    }
}

/// Records the streams of one client. Dropping it ends its server.
pub(super) struct Recorder {
    pub(super) address: SocketAddr,
    conversation: Arc<Mutex<Conversation>>,
    streams: Arc<Mutex<CancellationToken>>,
    cancelled: CancellationToken,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

impl Recorder {
    /// Starts a recorder before the name service at `target`.
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let recorder = Self {
            address: listener.local_addr().unwrap(),
            conversation: Arc::default(),
            streams: Arc::default(),
            cancelled: CancellationToken::new(),
        };
        let service = RecorderService {
            target,
            conversation: Arc::clone(&recorder.conversation),
            streams: Arc::clone(&recorder.streams),
        };
        let served = Server::builder()
            .add_service(AggregatedDiscoveryServiceServer::new(service))
            .serve_with_incoming_shutdown(
                TcpListenerStream::new(listener),
                recorder.cancelled.clone().cancelled_owned(),
            );
        tokio::spawn(served);
        recorder
    }

    /// Ends every stream, so that the client begins another one.
    pub(super) fn streams_end(&self) {
        std::mem::take(&mut *self.streams.lock()).cancel();
    }

    /// Returns true if the client has accepted a response about `type_name` with this text on stream `stream`, and
    /// that was the last one.
    pub(super) fn has_accepted(&self, stream: usize, type_name: &str, text: &str) -> bool {
        let conversation = self.conversation.lock();
        let lines = conversation.streams.get(stream).and_then(|types| types.get(type_name));
        let Some([.., response, answer]) = lines.map(Vec::as_slice) else { return false };
        response.starts_with('<') && response.contains(text) && answer.starts_with("> accepts")
    }

    /// Returns true if the client has asked for resources of this type on stream `stream`.
    pub(super) fn has_asked(&self, stream: usize, type_name: &str) -> bool {
        let conversation = self.conversation.lock();
        conversation.streams.get(stream).is_some_and(|types| types.contains_key(type_name))
    }

    /// Returns true if the client has answered every response.
    pub(super) fn is_settled(&self) -> bool {
        let conversation = self.conversation.lock();
        let lines = conversation.streams.iter().flat_map(BTreeMap::values);
        lines.filter_map(|lines| lines.last()).all(|last| last.starts_with('>'))
    }

    /// The whole conversation.
    pub(super) fn text(&self) -> String {
        let conversation = self.conversation.lock();
        let mut text = String::new();
        for (number, types) in (1..).zip(&conversation.streams) {
            for (kind, lines) in types {
                writeln!(text, "stream {number}, {kind}").unwrap();
                lines.iter().for_each(|line| writeln!(text, "  {line}").unwrap());
            }
        }
        text
    }
}

struct RecorderService {
    target: SocketAddr,
    conversation: Arc<Mutex<Conversation>>,
    streams: Arc<Mutex<CancellationToken>>,
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl RecorderService {
    async fn begin(
        &self,
    ) -> (usize, CancellationToken, AggregatedDiscoveryServiceClient<tonic::transport::Channel>) {
        let target = format!("http://{}", self.target);
        let client = AggregatedDiscoveryServiceClient::connect(target).await.unwrap();
        let mut conversation = self.conversation.lock();
        conversation.streams.push(TypeLines::new());
        (conversation.streams.len() - 1, self.streams.lock().clone(), client)
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for RecorderService {
    type StreamAggregatedResourcesStream = ResponseStream<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = ResponseStream<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (stream, ended, mut client) = self.begin().await;
        let said = Arc::clone(&self.conversation);
        let requests = request.into_inner().filter_map(|request| std::future::ready(request.ok()));
        let requests = requests.inspect(move |request| said.lock().world_request(stream, request));
        let responses = client.stream_aggregated_resources(requests).await?.into_inner();
        let said = Arc::clone(&self.conversation);
        let responses = responses.inspect(move |response| {
            if let Ok(response) = response {
                said.lock().world_response(stream, response);
            }
        });
        Ok(Response::new(Box::pin(responses.take_until(ended.cancelled_owned()))))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let (stream, ended, mut client) = self.begin().await;
        let said = Arc::clone(&self.conversation);
        let requests = request.into_inner().filter_map(|request| std::future::ready(request.ok()));
        let requests = requests.inspect(move |request| said.lock().delta_request(stream, request));
        let responses = client.delta_aggregated_resources(requests).await?.into_inner();
        let said = Arc::clone(&self.conversation);
        let responses = responses.inspect(move |response| {
            if let Ok(response) = response {
                said.lock().delta_response(stream, response);
            }
        });
        Ok(Response::new(Box::pin(responses.take_until(ended.cancelled_owned()))))
    }
}
