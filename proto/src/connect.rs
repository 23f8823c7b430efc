//! How a process reaches a gateway: over TCP, over TLS, or over a simulated network.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint, Error};

use crate::greeting::GreetedConnection;
pub use crate::greeting::ServerGreeting;
use crate::tls::ClientTls;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the HTTP port of a gateway says to a call of gRPC. A client tells from it where it is.
pub const GRPC_ON_HTTP_PORT: &str =
    "this port answers HTTP; for gRPC, use the other address that the gateway prints when it starts";

/// One connection: bytes in both directions.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send>>;

/// Makes connections to gateways. The default is TCP.
#[derive(Clone, Default)]
pub struct Connector(ConnectorKind);

#[derive(Clone, Default)]
enum ConnectorKind {
    #[default]
    Tcp,
    Tls(ClientTls),
    Simulated(Arc<dyn Fn(Uri) -> Connecting + Send + Sync>),
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ConnectorKind::Tcp => "Connector(tcp)",
            ConnectorKind::Tls(_) => "Connector(tls)",
            ConnectorKind::Simulated(_) => "Connector(simulated)",
        })
    }
}

impl Connector {
    /// A connector that calls `connect` for each connection with the gateway's address as `http://HOST:PORT`.
    pub fn simulated(connect: impl Fn(Uri) -> Connecting + Send + Sync + 'static) -> Self {
        Self(ConnectorKind::Simulated(Arc::new(connect)))
    }

    /// A connector whose connections are encrypted, to gateways that prove who they are.
    pub fn tls(tls: ClientTls) -> Self {
        Self(ConnectorKind::Tls(tls))
    }

    /// Returns true if what it sends is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.0, ConnectorKind::Tls(_))
    }

    /// Connects now. The endpoint's time limit applies to both kinds.
    ///
    /// # Errors
    /// The connection could not be made.
    pub async fn connect(&self, endpoint: Endpoint) -> Result<Channel, Error> {
        match self.0.clone() {
            ConnectorKind::Tcp => endpoint.connect().await,
            ConnectorKind::Tls(tls) => endpoint.connect_with_connector(TlsConnect::new(&endpoint, tls)).await,
            ConnectorKind::Simulated(connect) => {
                endpoint.connect_with_connector(SimulatedConnect(connect)).await
            }
        }
    }

    /// A channel that connects with its first call, and again after each loss.
    pub fn connect_lazy(&self, endpoint: &Endpoint) -> Channel {
        match self.0.clone() {
            ConnectorKind::Tcp => endpoint.connect_lazy(),
            ConnectorKind::Tls(tls) => endpoint.connect_with_connector_lazy(TlsConnect::new(endpoint, tls)),
            ConnectorKind::Simulated(connect) => {
                endpoint.connect_with_connector_lazy(SimulatedConnect(connect))
            }
        }
    }

    /// The same, with a note of how the server of each connection begins.
    pub fn connect_lazy_greeted(&self, endpoint: &Endpoint, greeting: Arc<ServerGreeting>) -> Channel {
        match self.0.clone() {
            ConnectorKind::Tcp => {
                let connect = tcp_of(endpoint);
                endpoint.connect_with_connector_lazy(GreetedConnect { connect, greeting })
            }
            // A server that begins otherwise fails the handshake.
            ConnectorKind::Tls(tls) => endpoint.connect_with_connector_lazy(TlsConnect::new(endpoint, tls)),
            ConnectorKind::Simulated(connect) => {
                let connect = SimulatedConnect(connect);
                endpoint.connect_with_connector_lazy(GreetedConnect { connect, greeting })
            }
        }
    }
}

fn tcp_of(endpoint: &Endpoint) -> HttpConnector {
    let mut connect = HttpConnector::new();
    connect.enforce_http(false);
    connect.set_nodelay(endpoint.get_tcp_nodelay());
    connect.set_connect_timeout(endpoint.get_connect_timeout());
    connect
}

/// Makes encrypted connections.
struct TlsConnect {
    connect: HttpConnector,
    tls: ClientTls,
}

impl TlsConnect {
    fn new(endpoint: &Endpoint, tls: ClientTls) -> Self {
        Self { connect: tcp_of(endpoint), tls }
    }
}

impl Service<Uri> for TlsConnect {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connect.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().to_owned();
        let (connecting, tls) = (self.connect.call(uri), self.tls.clone());
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(tls.begin(&host, stream).await?))
        })
    }
}

/// Makes connections that note how their server begins.
struct GreetedConnect<C> {
    connect: C,
    greeting: Arc<ServerGreeting>,
}

impl<C, S> Service<Uri> for GreetedConnect<C>
where
    C: Service<Uri, Response = TokioIo<S>, Future: Send + 'static, Error: Into<BoxError>>,
    S: AsyncRead + AsyncWrite + Unpin,
{
    type Response = TokioIo<GreetedConnection<S>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connect.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, greeting) = (self.connect.call(uri), Arc::clone(&self.greeting));
        Box::pin(async move {
            let stream = connecting.await.map_err(Into::into)?.into_inner();
            Ok(TokioIo::new(GreetedConnection::new(stream, greeting)))
        })
    }
}

struct SimulatedConnect(Arc<dyn Fn(Uri) -> Connecting + Send + Sync>);

impl Service<Uri> for SimulatedConnect {
    type Response = TokioIo<Box<dyn Connection>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = (self.0)(uri);
        Box::pin(async move { Ok(TokioIo::new(connecting.await?)) })
    }
}
