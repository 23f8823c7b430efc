//! Other gateways of the federation. Only the gateway that holds an agent's session can serve some calls, so this
//! gateway forwards them.
//!
//! A call is forwarded once. If a forwarded call finds no session, the agent is moving between gateways, and the error
//! says so.

use std::sync::Arc;
use std::time::Duration;

use borough_proto::bounds::{REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX};
use borough_proto::connect::Connector;
use borough_proto::v1::task_service_client::TaskServiceClient;
use moka::sync::Cache;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::auth::Token;
use crate::status::status_unavailable;

/// Marks a call that another gateway has forwarded.
const HANDED_ON: &str = "borough-handed-on";
/// How long another gateway has to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Interval of keep-alive probes on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A connection that carried no call for so long is closed: gateways come and go under new addresses.
const IDLE_MOST: Duration = Duration::from_secs(600);
/// How much of a connection one reader that takes nothing can hold.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// How much of it all readers together can hold: as many as a gateway serves, so that slow ones never stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;
/// Most connections to other gateways. Beyond that, the least recently used one is closed.
const CHANNELS_MOST: u64 = 1_024;

/// The client of another gateway's tasks.
pub type PeerTasks = TaskServiceClient<InterceptedService<Channel, Credentials>>;

/// Adds this gateway's token and the mark of a forwarded call.
#[derive(Clone)]
pub struct Credentials(MetadataValue<Ascii>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("authorization", self.0.clone());
        metadata.insert(HANDED_ON, MetadataValue::from_static("1"));
        Ok(request)
    }
}

/// Returns true if another gateway has forwarded the call.
pub fn is_handed_on(metadata: &MetadataMap) -> bool {
    metadata.contains_key(HANDED_ON)
}

/// The other gateways, by the address in the leases of nodes.
#[derive(Clone)]
pub struct Peers {
    own: Arc<str>,
    token: Token,
    connector: Connector,
    channels: Cache<String, Channel>,
}

impl Peers {
    /// Starts without connections. `own` is the address of this gateway for others, `token` is shared by all of them.
    pub fn new(own: String, token: Token, connector: Connector) -> Self {
        let channels = Cache::builder().max_capacity(CHANNELS_MOST).time_to_idle(IDLE_MOST).build();
        Self { own: own.into(), token, connector, channels }
    }

    /// Returns true if `gateway` is this one.
    pub fn is_own(&self, gateway: &str) -> bool {
        *self.own == *gateway
    }

    /// What a caller gets for the failed call of another gateway. If nobody answers there, that gateway has gone, and
    /// the agent is on its way to the next one.
    pub fn refusal(task: &str, status: Status) -> Status {
        if std::error::Error::source(&status).is_none() {
            return status;
        }
        let text = format!(
            "the agent that has task {task} was connected to a gateway that does not answer; it connects to another one"
        );
        status_unavailable("AGENT_AWAY", text)
    }

    /// The client of the tasks of `gateway`. The first call connects.
    pub fn tasks(&self, gateway: &str) -> Result<PeerTasks, Status> {
        let wrong = |why: String| {
            status_unavailable("PEER_UNKNOWN", format!("the gateway that holds the agent's session, {why}"))
        };
        let bearer = MetadataValue::try_from(self.token.bearer());
        let bearer = bearer.map_err(|error| wrong(format!("the token cannot be sent: {error}")))?;
        let channel = match self.channels.get(gateway) {
            Some(channel) => channel,
            None => {
                let endpoint = Endpoint::from_shared(format!("http://{gateway}"));
                let endpoint =
                    endpoint.map_err(|error| wrong(format!("has the address {gateway:?}: {error}")))?;
                let endpoint = endpoint.connect_timeout(CONNECT_WAIT).tcp_nodelay(true);
                let endpoint = endpoint.http2_keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
                let endpoint = endpoint
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
                // If two callers connect at once, the second one's connection stays.
                let channel = self.connector.connect_lazy(&endpoint);
                self.channels.insert(gateway.to_owned(), channel.clone());
                channel
            }
        };
        Ok(TaskServiceClient::with_interceptor(channel, Credentials(bearer))
            .max_decoding_message_size(RESPONSE_BYTES_MAX)
            .max_encoding_message_size(REQUEST_BYTES_MAX))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use borough_kv::secret::Secret;

    use super::*;

    pub(crate) fn peers() -> Peers {
        let token = Token::new(Secret::generate("borough-operator").unwrap());
        Peers::new("10.0.0.1:7400".to_owned(), token, Connector::default())
    }

    #[tokio::test]
    async fn a_forwarded_call_carries_the_token_and_its_mark() {
        let peers = peers();
        assert!(peers.is_own("10.0.0.1:7400"));
        assert!(!peers.is_own("10.0.0.2:7400"));
        let bearer = MetadataValue::try_from(peers.token.bearer()).unwrap();
        let request = Credentials(bearer).call(Request::new(())).unwrap();
        assert!(is_handed_on(request.metadata()));
        let headers = request.metadata().clone().into_headers();
        let accepted = crate::auth::Credentials::new(peers.token.clone(), Vec::new());
        assert_eq!(accepted.principal(&headers), Ok(crate::auth::Principal::Operator.into()));
        assert!(!is_handed_on(&MetadataMap::new()));
        assert!(peers.tasks("10.0.0.2:7400").is_ok());
        assert_eq!(peers.tasks("no such address").unwrap_err().code(), tonic::Code::Unavailable);
    }

    #[tokio::test]
    async fn gateways_that_come_and_go_leave_a_bounded_number_of_connections() {
        let peers = peers();
        for number in 0..3 * CHANNELS_MOST {
            peers.tasks(&format!("10.1.{}.{}:7400", number / 250, number % 250)).unwrap();
        }
        peers.channels.run_pending_tasks();
        assert!(peers.channels.entry_count() <= CHANNELS_MOST);
        assert_eq!(peers.channels.policy().time_to_idle(), Some(IDLE_MOST));
    }
}
