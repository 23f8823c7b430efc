//! `borough names`: the name service over a shared store, in any number of processes. It only reads.

use std::net::SocketAddr;
use std::sync::Arc;

use borough_kv::Database;
use borough_kv::env::{Clock, Rng, SystemClock, SystemRng};
use borough_model::Name;
use borough_names::{FollowedCell, NamesAddresses, NamesCells, NamesConfig, NamesListeners, NamesServer};
use borough_store::CellSpace;
use borough_store::mirror::MirrorFollower;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::descriptors::OpenFiles;
use super::log::{log_begin, log_metrics_register};
use super::store::{StoreMissing, StoreWanted, engine_faulty, store_open};
use super::{RoleEnd, RoleSignals, failed, files_private, role_end, store_stopped};
use crate::args::NamesArguments;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Runs a name service until a signal ends it.
pub(crate) fn run(arguments: &NamesArguments, printer: &Printer) -> Result<Code, Failure> {
    log_begin("warn,borough=info");
    files_private();
    OpenFiles::raise();
    let addresses = addresses_of(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("cannot start the runtime", &error))?;
    runtime.block_on(serve(arguments, addresses, printer))
}

/// The addresses to listen on. Nothing that the views say is encrypted, so an open address needs a word.
fn addresses_of(arguments: &NamesArguments) -> Result<NamesAddresses, Failure> {
    let (dns, http, xds) = (arguments.dns_listen, arguments.http_listen, arguments.xds_listen);
    let addresses = NamesAddresses { dns, http, xds };
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    match addresses.all().into_iter().find(is_open) {
        Some(open) if !arguments.store.plaintext => {
            let text = format!(
                "{open} is no loopback address, and everybody who reaches it can read the names, addresses and labels \
                 of the cells"
            );
            Err(Failure::new(Code::Usage, text).with_hint("give --plaintext, inside a network of your own"))
        }
        _ => Ok(addresses),
    }
}

async fn serve(
    arguments: &NamesArguments,
    addresses: NamesAddresses,
    printer: &Printer,
) -> Result<Code, Failure> {
    let (clock, rng) = (SystemClock::shared(), SystemRng::shared());
    let dns = arguments.zone.settings(addresses.dns.ip())?;
    let wanted = StoreWanted {
        location: &arguments.store.store,
        missing: StoreMissing::Refuse,
        memory: arguments.store.embedded.store_memory,
    };
    let store = store_open(wanted, &clock, &rng)?;
    let db = Database::new(engine_faulty(store.engine(), arguments.store.inject_faults));
    let mut registry = Registry::default();
    db.metrics_register(&mut registry);
    log_metrics_register(&mut registry);
    // Signals are caught before anybody can see the role and end it.
    let mut signals = RoleSignals::catch();
    let listeners = NamesListeners::bind(addresses).await.map_err(|error| failed("cannot start", &error))?;
    let cells = &arguments.store.cells;
    let cells = match cells.as_slice() {
        [] => NamesCells::Directory(db.clone()),
        cells => NamesCells::Given(cells.iter().map(|cell| followed(&db, cell, &clock, &rng)).collect()),
    };
    let cancelled = CancellationToken::new();
    let zone = dns.zone.origin();
    let names = NamesServer::start(NamesConfig { cells, dns, registry, clock, rng }, listeners, &cancelled);
    printer.greeting(&greeting(arguments, names.addresses(), &zone));
    let end = role_end(&db, signals.next()).await;
    match &end {
        RoleEnd::Signal(signal) => tracing::info!(signal, "the name service ends"),
        RoleEnd::Store(error) => tracing::error!(%error, "the name service ends without its store"),
    }
    cancelled.cancel();
    names.ended().await;
    store.close().await;
    match end {
        RoleEnd::Signal(_) => Ok(Code::Done),
        RoleEnd::Store(error) => Err(store_stopped(&error)),
    }
}

fn followed(db: &Database, cell: &Name, clock: &Arc<dyn Clock>, rng: &Arc<dyn Rng>) -> FollowedCell {
    let space = CellSpace::new(cell.clone());
    let mirror = MirrorFollower::spawn(db.clone(), space, Arc::clone(clock), Arc::clone(rng));
    FollowedCell { name: cell.clone(), db: db.clone(), mirror }
}

fn greeting(arguments: &NamesArguments, addresses: NamesAddresses, zone: &str) -> String {
    let cells: Vec<&str> = arguments.store.cells.iter().map(Name::as_str).collect();
    let cells = if cells.is_empty() { "those of the directory".to_owned() } else { cells.join(", ") };
    format!(
        "borough names\n  cells  {}\n  store  {}\n  DNS    {} (zone {zone})\n  HTTP   http://{}\n  xDS    {}",
        cells, arguments.store.store, addresses.dns, addresses.http, addresses.xds,
    )
}
