//! The name service of a dev cell: every view, on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use borough_names::{
    BindError, FollowedCell, NamesAddresses, NamesCells, NamesConfig, NamesListeners, NamesServer,
};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::layout::NamesPorts;
use super::{DevCell, NAMES_PORT_HINT, failed, is_address_taken};
use crate::args::DevArguments;
use crate::exit::Failure;

/// Ports tried at the first start; if one is taken, any free ones.
const FIRST_PORTS: NamesPorts = NamesPorts { dns: 7_453, http: 7_404, xds: 7_405 };

/// A running name service.
pub(super) struct DevNames {
    server: NamesServer,
    zone: String,
    cancelled: CancellationToken,
}

impl DevNames {
    /// Serves the cells.
    pub(super) async fn start(
        cell: &DevCell<'_>,
        cells: Vec<FollowedCell>,
        before: Option<NamesPorts>,
    ) -> Result<Self, Failure> {
        let listeners = bind(cell, before).await.map_err(start_failed)?;
        let dns = cell.arguments.zone.settings(listeners.addresses().dns.ip())?;
        let zone = dns.zone.origin();
        let config = NamesConfig {
            cells: NamesCells::Given(cells),
            dns,
            registry: Registry::default(),
            clock: Arc::clone(cell.clock),
            rng: Arc::clone(cell.rng),
        };
        let cancelled = CancellationToken::new();
        let server = NamesServer::start(config, listeners, &cancelled);
        Ok(Self { server, zone, cancelled })
    }

    /// The ports that it listens on.
    pub(super) fn ports(&self) -> NamesPorts {
        let NamesAddresses { dns, http, xds } = self.server.addresses();
        NamesPorts { dns: dns.port(), http: http.port(), xds: xds.port() }
    }

    /// The lines of the greeting.
    pub(super) fn greeting(&self) -> String {
        let NamesAddresses { dns, http, xds } = self.server.addresses();
        format!("  names      DNS {dns} (zone {}), http://{http}, xDS {xds}", self.zone)
    }

    /// Ends it and waits for it.
    pub(super) async fn stop(self) {
        self.cancelled.cancel();
        self.server.ended().await;
    }
}

fn start_failed(error: BindError) -> Failure {
    let failure = failed("cannot start the name service", &error);
    if is_address_taken(&error) { failure.with_hint(NAMES_PORT_HINT) } else { failure }
}

/// Refuses ports that are given and taken, before anything of the cell starts.
pub(super) async fn names_ports_check(arguments: &DevArguments) -> Result<(), Failure> {
    NamesListeners::bind(given_addresses(arguments)).await.map(drop).map_err(start_failed)
}

/// The ports that are given; any port for the others.
fn given_addresses(arguments: &DevArguments) -> NamesAddresses {
    let loopback = |port: Option<u16>| SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or_default()));
    let [dns, http, xds] = [arguments.dns_port, arguments.names_port, arguments.xds_port].map(loopback);
    NamesAddresses { dns, http, xds }
}

/// Listens on the ports that are given, on those of the last start, or on the first ones. If one of the last two kinds
/// is taken, any port does.
async fn bind(cell: &DevCell<'_>, before: Option<NamesPorts>) -> Result<NamesListeners, BindError> {
    let arguments = cell.arguments;
    let known = before.unwrap_or(FIRST_PORTS);
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // Any port would do for 0. With the last one, load balancers go on.
    let port = |given: Option<u16>, known: u16| match (given, before) {
        (Some(0), None) => 0,
        (Some(0) | None, _) => known,
        (Some(given), _) => given,
    };
    let wanted = NamesAddresses {
        dns: loopback(port(arguments.dns_port, known.dns)),
        http: loopback(port(arguments.names_port, known.http)),
        xds: loopback(port(arguments.xds_port, known.xds)),
    };
    let any = given_addresses(arguments);
    match NamesListeners::bind(wanted).await {
        Err(_) if any != wanted => NamesListeners::bind(any).await,
        bound => bound,
    }
}
