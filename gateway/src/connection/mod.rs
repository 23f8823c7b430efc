//! Connections of a gateway before their peers are known: how many are allowed, from which addresses, and for how long
//! without a token.
//!
//! A connection is *unauthenticated* until its first request with a valid token. The gateway allows few of those, in
//! all and per peer address, each for a short time. When they are too many, it closes the oldest idle one. Idle
//! connections therefore keep nobody out, however many they are. Authenticated connections are bounded by the process's
//! descriptors alone, and part of them is for agents.

mod accept;
mod limits;
mod table;
mod tls;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub(crate) use accept::{AcceptedConnection, connections_accept};
pub use limits::{CallLimits, ConnectionLimits, SEATS_MIN};
pub(crate) use table::ConnectionKind;
use table::{Admission, ConnectionId, ConnectionTable};
pub(crate) use tls::PeerCertificate;

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
    /// The serial numbers of certificates that peers have proven to hold, with what cuts their connections.
    certified: Mutex<BTreeMap<ConnectionId, (Vec<u8>, CancellationToken)>>,
    metrics: ConnectionMetrics,
}

/// The connections of all listeners of a gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<ConnectionShared>);

impl Connections {
    /// Starts without connections and shows their metrics in `registry`.
    pub(crate) fn new(limits: ConnectionLimits, registry: &mut Registry) -> Self {
        let metrics = ConnectionMetrics::default();
        metrics.register(registry);
        let table = Mutex::new(ConnectionTable::new(limits.clone()));
        Self(Arc::new(ConnectionShared { limits, table, certified: Mutex::default(), metrics }))
    }

    /// Admits a new connection of `peer`, or refuses it. The connection that is evicted for it gets its cancellation.
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
        let (authenticated, certificate) = (AtomicBool::new(false), OnceLock::new());
        let mark = Mark { connections: self.clone(), peer, id, authenticated, certificate };
        Some((ConnectionMark(Arc::new(mark)), evicted))
    }

    /// Evicts the oldest unauthenticated connection: the process has no descriptor for another.
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

    /// Cuts the connections whose peers have a certificate that was revoked since. Returns how many.
    pub(crate) fn cut(&self, is_revoked: impl Fn(&[u8]) -> bool) -> usize {
        let certified = self.0.certified.lock();
        let gone = certified.values().filter(|(serial, _)| is_revoked(serial));
        gone.inspect(|(_, cut)| cut.cancel()).count()
    }

    fn close(&self, id: ConnectionId) {
        self.0.certified.lock().remove(&id);
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
    peer: IpAddr,
    id: ConnectionId,
    authenticated: AtomicBool,
    certificate: OnceLock<PeerCertificate>,
}

/// The handle by which the requests of a connection authenticate it.
#[derive(Clone)]
pub(crate) struct ConnectionMark(Arc<Mark>);

impl ConnectionMark {
    /// Records a request with a valid token, of an agent or another caller. Returns false if only agents may use the
    /// remaining capacity and this caller is none; the request must then be refused.
    pub(crate) fn authenticate(&self, kind: ConnectionKind) -> bool {
        let Mark { connections, id, authenticated, .. } = &*self.0;
        if authenticated.load(Ordering::Relaxed) && kind != ConnectionKind::Agent {
            return true;
        }
        let mut table = connections.0.table.lock();
        let admitted = table.authenticate(*id, kind);
        connections.note(&table);
        drop(table);
        authenticated.fetch_or(admitted, Ordering::Relaxed);
        admitted
    }

    /// Keeps the certificate that the peer has proven to hold. The token is cancelled when it is revoked.
    fn certify(&self, certificate: PeerCertificate) -> CancellationToken {
        let Mark { connections, id, certificate: kept, .. } = &*self.0;
        let cut = CancellationToken::new();
        connections.0.certified.lock().insert(*id, (certificate.serial.clone(), cut.clone()));
        kept.set(certificate).ok();
        cut
    }

    /// The address from which the peer has connected.
    pub(crate) fn peer(&self) -> IpAddr {
        self.0.peer
    }

    /// The certificate that the peer has proven to hold, if any.
    pub(crate) fn certificate(&self) -> Option<&PeerCertificate> {
        self.0.certificate.get()
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
