//! The name service as a whole: its listeners, its cells, and its end.

use std::net::SocketAddr;
use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use futures::future::join_all;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::directory::{NamesCells, directory_follow};
use crate::dns::{DnsListeners, DnsSettings, dns_serve};
use crate::follow::cell_follow;
use crate::http::{HttpListener, http_serve};
use crate::listen::BindError;
use crate::metrics::NamesMetrics;
use crate::service::NamesShared;
use crate::xds::{XdsListener, xds_serve};

/// Where the views listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesAddresses {
    pub dns: SocketAddr,
    pub http: SocketAddr,
    pub xds: SocketAddr,
}

impl NamesAddresses {
    /// The addresses of all views.
    pub fn all(self) -> [SocketAddr; 3] {
        [self.dns, self.http, self.xds]
    }
}

/// The listeners of all views. They are bound before anything else starts, since a port may be taken.
pub struct NamesListeners {
    dns: DnsListeners,
    http: HttpListener,
    xds: XdsListener,
}

impl NamesListeners {
    /// Listens; port 0 takes any free one.
    ///
    /// # Errors
    /// An address is taken, or not one of this machine.
    pub async fn bind(addresses: NamesAddresses) -> Result<Self, BindError> {
        Ok(Self {
            dns: DnsListeners::bind(addresses.dns).await?,
            http: HttpListener::bind(addresses.http).await?,
            xds: XdsListener::bind(addresses.xds).await?,
        })
    }

    /// Where they listen.
    pub fn addresses(&self) -> NamesAddresses {
        NamesAddresses { dns: self.dns.address(), http: self.http.address(), xds: self.xds.address() }
    }
}

/// The configuration of a name service.
pub struct NamesConfig {
    pub cells: NamesCells,
    pub dns: DnsSettings,
    /// What `/metrics` shows besides the service's own metrics.
    pub registry: Registry,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

/// Follows the cells until `cancelled`.
async fn cells_follow(shared: Arc<NamesShared>, cells: NamesCells, cancelled: CancellationToken) {
    let following = async {
        match cells {
            NamesCells::Given(cells) => {
                shared.cells_enter(&cells);
                let each = cells.into_iter().map(|cell| cell_follow(Arc::clone(&shared), cell));
                join_all(each).await;
            }
            NamesCells::Directory(db) => directory_follow(Arc::clone(&shared), db).await,
        }
    };
    tokio::select! {
        () = following => {}
        () = cancelled.cancelled() => {}
    }
}

/// A running name service.
pub struct NamesServer {
    addresses: NamesAddresses,
    shared: Arc<NamesShared>,
    tasks: Vec<JoinHandle<()>>,
}

impl NamesServer {
    /// Serves every view until `cancelled`.
    pub fn start(config: NamesConfig, listeners: NamesListeners, cancelled: &CancellationToken) -> Self {
        let addresses = listeners.addresses();
        let NamesListeners { dns, http, xds } = listeners;
        let metrics = NamesMetrics::new(config.registry);
        let shared = Arc::new(NamesShared::new(metrics, config.clock, config.rng));
        let mut tasks =
            vec![tokio::spawn(cells_follow(Arc::clone(&shared), config.cells, cancelled.clone()))];
        tasks.push(tokio::spawn(http_serve(Arc::clone(&shared), http, cancelled.clone())));
        tasks.push(tokio::spawn(dns_serve(Arc::clone(&shared), config.dns, dns, cancelled.clone())));
        tasks.push(tokio::spawn(xds_serve(Arc::clone(&shared), xds, cancelled.clone())));
        Self { addresses, shared, tasks }
    }

    /// Where the views listen.
    pub fn addresses(&self) -> NamesAddresses {
        self.addresses
    }

    /// What the views share.
    pub fn shared(&self) -> &Arc<NamesShared> {
        &self.shared
    }

    /// Waits until all parts have ended after the cancellation.
    pub async fn ended(self) {
        for task in self.tasks {
            // The panic hook has already reported a panic.
            task.await.ok();
        }
    }
}
