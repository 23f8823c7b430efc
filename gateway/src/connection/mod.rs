//! Connections of a gateway before anybody knows who is at the other end: how many there may be, of whom, and for how
//! long without a token.
//!
//! A connection is *unauthenticated* until its first request with a valid token. Of those there may be few, in all and
//! per peer address, and each for a short time; where there are too many, the oldest one that has nothing to say goes.
//! So idle connections keep nobody out, however many there are. Authenticated connections are bounded by the process's
//! descriptors alone, and part of them is for agents.

mod accept;
mod limits;
mod table;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub(crate) use accept::{AcceptedConnection, connections_accept};
pub use limits::ConnectionLimits;
use table::{Admission, ConnectionId, ConnectionKind, ConnectionTable};

/// Counters of the connections of a process.
#[derive(Debug, Default)]
struct ConnectionMetrics {
    open: Gauge,
    unauthenticated: Gauge,
    refused: Counter,
    evicted: Counter,
    timed_out: Counter,
    accept_errors: Counter,
}

impl ConnectionMetrics {
    fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("borough_gateway_connections");
        registry.register("open", "Connections that are open", self.open.clone());
        let help = "Connections that have not presented a valid token yet";
        registry.register("unauthenticated", help, self.unauthenticated.clone());
        registry.register("refused", "Connections closed at once: there were too many", self.refused.clone());
        let help = "Connections without a token closed to make room for another";
        registry.register("evicted", help, self.evicted.clone());
        registry.register("timed_out", "Connections closed for want of a token", self.timed_out.clone());
        registry.register(
            "accept_errors",
            "Connections the machine could not accept",
            self.accept_errors.clone(),
        );
    }
}

struct ConnectionShared {
    limits: ConnectionLimits,
    table: Mutex<ConnectionTable<CancellationToken>>,
    metrics: ConnectionMetrics,
}

/// The connections of all listeners of a gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<ConnectionShared>);

impl Connections {
    /// No connections yet; shows their metrics in `registry`.
    pub(crate) fn new(limits: ConnectionLimits, registry: &mut Registry) -> Self {
        let metrics = ConnectionMetrics::default();
        metrics.register(registry);
        let table = Mutex::new(ConnectionTable::new(limits.clone()));
        Self(Arc::new(ConnectionShared { limits, table, metrics }))
    }

    /// Takes a new connection of `peer`, or refuses it. Whatever has to go for it is told so.
    fn admit(&self, peer: IpAddr) -> Option<(ConnectionMark, CancellationToken)> {
        let evicted = CancellationToken::new();
        let mut table = self.0.table.lock();
        let Admission { admitted, gone } = table.admit(peer, evicted.clone());
        self.note(&table);
        drop(table);
        self.evict(gone);
        let Some(id) = admitted else {
            self.0.metrics.refused.inc();
            return None;
        };
        let mark = Mark { connections: self.clone(), id, authenticated: AtomicBool::new(false) };
        Some((ConnectionMark(Arc::new(mark)), evicted))
    }

    /// Lets the oldest unauthenticated connection go: the process has no descriptor for another.
    fn shed(&self) {
        self.0.metrics.accept_errors.inc();
        let gone = self.0.table.lock().shed();
        self.evict(gone);
    }

    fn evict(&self, gone: Option<CancellationToken>) {
        if let Some(gone) = gone {
            self.0.metrics.evicted.inc();
            gone.cancel();
        }
    }

    fn close(&self, id: ConnectionId) {
        let mut table = self.0.table.lock();
        table.close(id);
        self.note(&table);
    }

    fn note(&self, table: &ConnectionTable<CancellationToken>) {
        let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.0.metrics.open.set(count(table.open()));
        self.0.metrics.unauthenticated.set(count(table.unauthenticated()));
    }
}

struct Mark {
    connections: Connections,
    id: ConnectionId,
    authenticated: AtomicBool,
}

/// What the requests of a connection know of it.
#[derive(Clone)]
pub(crate) struct ConnectionMark(Arc<Mark>);

impl ConnectionMark {
    /// Notes a request with a valid token. False where the room that is left is for agents, and this is none: the
    /// request is then to be refused.
    pub(crate) fn authenticate(&self, agent: bool) -> bool {
        let Mark { connections, id, authenticated } = &*self.0;
        if authenticated.load(Ordering::Relaxed) && !agent {
            return true;
        }
        let mut table = connections.0.table.lock();
        let admitted =
            table.authenticate(*id, if agent { ConnectionKind::Agent } else { ConnectionKind::Caller });
        connections.note(&table);
        drop(table);
        authenticated.fetch_or(admitted, Ordering::Relaxed);
        admitted
    }

    fn is_authenticated(&self) -> bool {
        self.0.authenticated.load(Ordering::Relaxed)
    }

    fn timed_out(&self) {
        self.0.connections.0.metrics.timed_out.inc();
    }

    fn close(&self) {
        self.0.connections.close(self.0.id);
    }
}
