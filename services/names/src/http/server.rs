//! The HTTP server: connections, paths and headers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use borough_model::Name;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::xxh3_64;

use super::block::{BlockState, block};
use super::consul::{
    ServiceFilter, ServiceQuery, agent_self, catalog_service, datacenters, health_service, nodes, services,
};
use super::prometheus::{TargetFilter, targets};
use super::query::{HttpQuery, QueryError, TARGET_PARAMETERS};
use super::state::{CheckState, catalog_node, health_state};
use crate::hub::HubKey;
use crate::listen::{BindError, ConnectionPlaces, connections_max, tcp_bind};
use crate::service::NamesShared;
use crate::table::{CellTable, NamesTable, TableIndex};

/// Connections at a time. A blocking query holds one.
const CONNECTIONS_MAX: usize = 16_384;
/// How long a client may take to send the head of a request, also on a connection that is kept.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// How long a client may take to read a part of an answer.
const WRITE_WAIT: Duration = Duration::from_secs(30);
/// Answers about whole cells that are made at a time. Each may need much memory.
const LARGE_MAX: usize = 4;
/// Pause after an error of the machine (usually no free descriptor).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const INDEX: HeaderName = HeaderName::from_static("x-consul-index");
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-consul-lastcontact");
const KNOWN_LEADER: HeaderName = HeaderName::from_static("x-consul-knownleader");
const OUTAGE_SINCE: HeaderName = HeaderName::from_static("x-borough-outage-since-ms");

type HttpBody = Full<Bytes>;

/// A listener for HTTP.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl HttpListener {
    /// Listens; port 0 takes any free one.
    ///
    /// # Errors
    /// The address that is taken, or not one of this machine.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let (listener, address) = tcp_bind(address, "HTTP").await?;
        Ok(Self { listener, address })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

struct HttpView {
    shared: Arc<NamesShared>,
    address: SocketAddr,
    large: Semaphore,
    ended: CancellationToken,
}

/// Answers until `cancelled`.
pub async fn http_serve(shared: Arc<NamesShared>, listener: HttpListener, cancelled: CancellationToken) {
    let HttpListener { listener, address } = listener;
    let large = Semaphore::new(LARGE_MAX);
    let view = Arc::new(HttpView { shared, address, large, ended: cancelled.clone() });
    let places = ConnectionPlaces::new(connections_max(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = cancelled.cancelled() => return,
        };
        let Ok((stream, client)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // More than there is room for are closed at once.
        let Some(place) = places.take(client.ip()) else { continue };
        stream.set_nodelay(true).ok();
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_WAIT));
        let (view, cancelled) = (Arc::clone(&view), cancelled.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let view = Arc::clone(&view);
                async move { Ok::<_, Infallible>(view.answer(request).await) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT).max_buf_size(16 * 1_024);
            let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection of HTTP has ended");
                    }
                }
                () = cancelled.cancelled() => {}
            }
            drop(place);
        });
    }
}

/// Why a request gets no body of the catalogue.
enum HttpRefusal {
    Query(QueryError),
    NotFound,
    NotReady,
    UnknownCell(String),
    UnknownState(String),
}

impl From<QueryError> for HttpRefusal {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl HttpRefusal {
    fn response(self) -> Response<HttpBody> {
        match self {
            Self::Query(error) => text(StatusCode::BAD_REQUEST, format!("{error}\n")),
            Self::NotFound => text(StatusCode::NOT_FOUND, PATHS),
            Self::NotReady => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the name service has not read every cell yet; ask again in a moment\n",
            ),
            Self::UnknownState(state) => {
                let accepted = CheckState::ACCEPTED;
                text(StatusCode::BAD_REQUEST, format!("there is no state {state:?}; accepted: {accepted}\n"))
            }
            // As Consul answers for a data centre that it does not know.
            Self::UnknownCell(cell) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!(
                    "No path to datacenter: there is no cell {cell:?} here; see /v1/catalog/datacenters\n"
                ),
            ),
        }
    }
}

const PATHS: &str = "there are /v1/catalog/services, /v1/catalog/service/NAME, /v1/health/service/NAME, \
    /v1/health/state/STATE, /v1/catalog/nodes, /v1/catalog/node/NAME, /v1/catalog/datacenters, /v1/agent/self, /v1/status/leader, /v1/http_sd, /healthz, /readyz and \
    /metrics\n";

/// Which part of a cell a body is about.
#[derive(Clone, Copy)]
enum CellPart {
    /// The list of services.
    List,
    /// Every service.
    Services,
}

impl CellPart {
    fn index(self, table: &NamesTable, cell: &CellTable) -> TableIndex {
        match self {
            Self::List => cell.list_index(),
            Self::Services => table.changed_index(cell),
        }
    }

    fn hub_key(self, cell: &Name) -> HubKey {
        match self {
            Self::List => HubKey::List(cell.clone()),
            Self::Services => HubKey::Cell(cell.clone()),
        }
    }
}

impl HttpView {
    async fn answer(&self, request: Request<Incoming>) -> Response<HttpBody> {
        self.shared.metrics.http_requests.inc();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is answered here: this catalogue is read-only\n",
            );
        }
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let answered = match parts.as_slice() {
            ["healthz"] => return text(StatusCode::OK, "ok\n"),
            ["readyz"] => Ok(self.ready()),
            ["metrics"] => return self.metrics(),
            ["v1", rest @ ..] => {
                let query = request.uri().query().unwrap_or_default();
                self.catalogue(rest, query, request.headers()).await
            }
            _ => Err(HttpRefusal::NotFound),
        };
        answered.unwrap_or_else(HttpRefusal::response)
    }

    fn ready(&self) -> Response<HttpBody> {
        if self.ended.is_cancelled() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the process ends\n");
        }
        if self.shared.is_ready() { text(StatusCode::OK, "ok\n") } else { HttpRefusal::NotReady.response() }
    }

    fn metrics(&self) -> Response<HttpBody> {
        match self.shared.metrics_text() {
            Ok(body) => {
                let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
                with_type(text(StatusCode::OK, body), kind)
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }

    async fn catalogue(
        &self,
        path: &[&str],
        query: &str,
        headers: &HeaderMap,
    ) -> Result<Response<HttpBody>, HttpRefusal> {
        let query = HttpQuery::parse(query)?;
        match path {
            ["status", "leader"] => Ok(json(&Value::from(self.address.to_string()))),
            ["status", "peers"] => Ok(json(&Value::from(vec![self.address.to_string()]))),
            ["agent", "self"] => Ok(json(&agent_self(self.default_cell()?, env!("CARGO_PKG_VERSION")))),
            ["catalog", "datacenters"] => {
                Ok(json(&self.shared.read(datacenters).ok_or(HttpRefusal::NotReady)?))
            }
            ["http_sd"] => self.http_sd(&query, headers).await,
            ["catalog", "services"] => {
                self.of_cell(&query, headers, CellPart::List, |_, cell| services(cell)).await
            }
            ["catalog", "nodes"] => {
                self.of_cell(&query, headers, CellPart::List, |_, cell| nodes(cell)).await
            }
            ["catalog", "node", node] => {
                let body = |table: &NamesTable, cell: &CellTable| catalog_node(table, cell, node);
                self.of_cell(&query, headers, CellPart::Services, body).await
            }
            ["health", "state", state] => {
                let unknown = || HttpRefusal::UnknownState((*state).to_owned());
                let state = CheckState::parse(state).ok_or_else(unknown)?;
                let body = |table: &NamesTable, cell: &CellTable| health_state(table, cell, state);
                self.of_cell(&query, headers, CellPart::Services, body).await
            }
            ["catalog", "service", name] => self.of_service(name, &query, headers, catalog_service).await,
            ["health", "service", name] => self.of_service(name, &query, headers, health_service).await,
            _ => Err(HttpRefusal::NotFound),
        }
    }

    /// The cell of a request that names none.
    fn default_cell(&self) -> Result<&Name, HttpRefusal> {
        self.shared.default_cell().ok_or(HttpRefusal::NotReady)
    }

    /// The cell of a request.
    fn cell_of(&self, query: &HttpQuery) -> Result<Name, HttpRefusal> {
        let Some(cell) = query.value("dc") else { return self.default_cell().cloned() };
        let known = self.shared.read(|table| table.cell(cell).map(|cell| cell.name().clone()));
        known.ok_or(HttpRefusal::NotReady)?.ok_or_else(|| HttpRefusal::UnknownCell(cell.to_owned()))
    }

    /// A body about a cell, when this part of it has changed.
    async fn of_cell(
        &self,
        query: &HttpQuery,
        headers: &HeaderMap,
        part: CellPart,
        body: impl Fn(&NamesTable, &CellTable) -> Value,
    ) -> Result<Response<HttpBody>, HttpRefusal> {
        let name = self.cell_of(query)?;
        let wait = query.wait(self.shared.random())?;
        let state = |table: &NamesTable| {
            let cell = table.cell(name.as_str())?;
            Some(BlockState { index: part.index(table, cell), table: cell.index() })
        };
        block(&self.shared, part.hub_key(&name), query.index()?, wait, state).await;
        // The semaphore is never closed.
        let _permit = self.large.acquire().await.ok();
        let found = self.shared.read(|table| {
            let cell = table.cell(name.as_str())?;
            Some((body(table, cell), part.index(table, cell)))
        });
        let (body, index) = found.flatten().ok_or(HttpRefusal::NotReady)?;
        Ok(self.stamped(&body, index, headers))
    }

    /// A body about a service, when it has changed.
    async fn of_service(
        &self,
        text: &str,
        query: &HttpQuery,
        headers: &HeaderMap,
        body: fn(&NamesTable, &ServiceQuery, &ServiceFilter) -> Value,
    ) -> Result<Response<HttpBody>, HttpRefusal> {
        let cell = self.cell_of(query)?;
        let wait = query.wait(self.shared.random())?;
        let asked = query.index()?;
        let filter = ServiceFilter { is_passing: query.is_set("passing"), tags: query.tags.clone() };
        // A name that no job can have is no mistake to Consul: nothing has it.
        let Some(service) = ServiceQuery::parse(&cell, text) else {
            let index = self.shared.read(|table| table.cell(cell.as_str()).map(|cell| cell.list_index()));
            let index = index.flatten().ok_or(HttpRefusal::NotReady)?;
            if asked.is_some() {
                tokio::time::sleep(wait).await;
            }
            return Ok(self.stamped(&Value::Array(Vec::new()), index, headers));
        };
        let state = |names: &NamesTable| {
            let (index, table) = service.indexes(names)?;
            Some(BlockState { index, table })
        };
        block(&self.shared, service.hub_key(), asked, wait, state).await;
        let found = self.shared.read(|table| Some((body(table, &service, &filter), state(table)?.index)));
        let (body, index) = found.flatten().ok_or(HttpRefusal::NotReady)?;
        Ok(self.stamped(&body, index, headers))
    }

    async fn http_sd(
        &self,
        query: &HttpQuery,
        headers: &HeaderMap,
    ) -> Result<Response<HttpBody>, HttpRefusal> {
        query.only(&TARGET_PARAMETERS)?;
        let name = |field: &'static str| {
            let name = query.value(field).map(Name::new).transpose();
            name.map_err(|_| {
                let value = query.value(field).unwrap_or_default().to_owned();
                QueryError::Name { field, value }
            })
        };
        let (cell, user, service) = (name("cell")?, name("user")?, name("service")?);
        let (job, port) = (name("job")?, name("port")?);
        let filter = TargetFilter { cell, user, service, job, port };
        // The semaphore is never closed.
        let _permit = self.large.acquire().await.ok();
        let body = self.shared.read(|table| targets(table, &filter)).ok_or(HttpRefusal::NotReady)?;
        Ok(self.tagged(&body, headers))
    }

    /// The body with its index, and with the age of what it says.
    fn stamped(&self, body: &Value, index: TableIndex, headers: &HeaderMap) -> Response<HttpBody> {
        let mut response = self.tagged(body, headers);
        response.headers_mut().insert(INDEX, HeaderValue::from(index.0));
        response
    }

    /// The body with its tag, or only the tag if the client has the body.
    fn tagged(&self, body: &Value, headers: &HeaderMap) -> Response<HttpBody> {
        let mut response = json(body);
        let digest = match serde_json::to_vec(body) {
            Ok(bytes) => xxh3_64(&bytes),
            Err(_) => 0,
        };
        let tag = format!("\"{digest:016x}\"");
        let knows = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        if knows
            .is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag))
        {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.body_mut() = Full::default();
        }
        let age = self.shared.age();
        let head = response.headers_mut();
        head.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
        let contact = u64::try_from(age.age.as_millis()).unwrap_or(u64::MAX);
        head.insert(LAST_CONTACT, HeaderValue::from(contact));
        let leader = if age.outage_since_ms.is_none() { "true" } else { "false" };
        head.insert(KNOWN_LEADER, HeaderValue::from_static(leader));
        head.extend(age.outage_since_ms.map(|since| (OUTAGE_SINCE, HeaderValue::from(since))));
        response
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn json(body: &Value) -> Response<HttpBody> {
    with_type(text(StatusCode::OK, body.to_string()), "application/json")
}

fn with_type(mut response: Response<HttpBody>, kind: &'static str) -> Response<HttpBody> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
