//! `borough gateway`, `borough scheduler` and `borough controller`: one control role each, in any number of processes
//! over one store.

use std::path::PathBuf;
use std::sync::Arc;

use borough_federation::FederationMetrics;
use borough_gateway::{ConnectionLimits, GatewayTls};
use borough_kv::Database;
use borough_kv::env::{SystemClock, SystemRng};
use borough_kv::secret::Secret;
use borough_model::Name;
use borough_proto::tls::{CertificateName, ClientTls, ServerTls, TlsError, TlsFiles};
use borough_store::cell::{CellMeta, VIEW_DELAY_MS};
use prometheus_client::registry::Registry;

use super::control::{Control, ControlConfig, FederationRole, Roles, ToleranceScope};
use super::descriptors::OpenFiles;
use super::federation::CredentialDirectory;
use super::issuer::issuers_read;
use super::log::{log_begin, log_metrics_register};
use super::store::{StoreMissing, StoreWanted, engine_faulty, store_open};
use super::token::{credentials_read, secret_read};
use super::{RoleEnd, RoleSignals, failed, files_private, role_end, start_failed, store_stopped};
use crate::args::{
    ConnectionArguments, ControllerArguments, FederationProcess, GatewayArguments, Global,
    SchedulerArguments, StoreArguments,
};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Runs a gateway until a signal ends it.
pub(crate) fn gateway(
    global: &Global,
    arguments: GatewayArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let roles = Roles {
        grpc: Some(arguments.listen),
        advertise: arguments.advertise,
        ..Roles::none(arguments.http_listen)
    };
    let process = RoleProcess {
        roles,
        connections: Some(arguments.connections),
        node_tokens: arguments.node_tokens,
        issuers: arguments.issuers,
    };
    run("gateway", global, &arguments.store, process, printer)
}

/// Runs scheduler workers until a signal ends them.
pub(crate) fn scheduler(
    global: &Global,
    arguments: SchedulerArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let roles = Roles {
        schedulers: 0..arguments.workers,
        shards: arguments.shards.max(arguments.workers),
        served: arguments.scheduler,
        lease_ms: arguments.lease_ms,
        ..Roles::none(arguments.http_listen)
    };
    run("scheduler", global, &arguments.store, RoleProcess::http_only(roles), printer)
}

/// Runs a controller until a signal ends it. It leads, or stands by.
pub(crate) fn controller(
    global: &Global,
    arguments: ControllerArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let roles = Roles { controller: true, ..Roles::none(arguments.http_listen) };
    run("controller", global, &arguments.store, RoleProcess::http_only(roles), printer)
}

/// Runs a federation process until a signal ends it. It leads, or stands by.
pub(crate) fn federation(
    global: &Global,
    arguments: FederationProcess,
    printer: &Printer,
) -> Result<Code, Failure> {
    let [home] = arguments.store.cells.as_slice() else {
        let cells = arguments.store.cells.len();
        let text = format!("--cells names {cells} cells; accepted: one, the home of the federation");
        return Err(Failure::new(Code::Usage, text));
    };
    let clients = CredentialDirectory {
        directory: arguments.credentials,
        fallback: None,
        connector: connect::connector(global.tls.files())?,
        rng: SystemRng::shared(),
    };
    if !clients.directory.is_dir() {
        let text = format!("--credentials: {} is no directory", clients.directory.display());
        return Err(Failure::new(Code::Usage, text));
    }
    let federation = FederationRole {
        home: home.clone(),
        clients: Arc::new(clients),
        metrics: FederationMetrics::default(),
    };
    let roles = Roles { federation: Some(federation), ..Roles::none(arguments.http_listen) };
    run("federation", global, &arguments.store, RoleProcess::http_only(roles), printer)
}

/// How a role gets its certificate.
const TLS_HINT: &str = "borough auth ca --help";

/// What a process of one role runs.
struct RoleProcess {
    roles: Roles,
    /// The bounds of connections; by default as many as its descriptors allow.
    connections: Option<ConnectionArguments>,
    /// The file of accepted tokens of nodes.
    node_tokens: Option<PathBuf>,
    /// The files of the issuers whose tokens it accepts.
    issuers: Vec<PathBuf>,
}

impl RoleProcess {
    /// A role that answers HTTP only.
    fn http_only(roles: Roles) -> Self {
        Self { roles, connections: None, node_tokens: None, issuers: Vec::new() }
    }
}

impl StoreArguments {
    /// The store of a role. Roles make one that is missing.
    fn wanted(&self) -> StoreWanted<'_> {
        let memory = self.embedded.store_memory;
        StoreWanted { location: &self.store, missing: StoreMissing::Create, memory }
    }
}

fn run(
    role: &str,
    global: &Global,
    arguments: &StoreArguments,
    process: RoleProcess,
    printer: &Printer,
) -> Result<Code, Failure> {
    let RoleProcess { roles, connections, node_tokens, issuers } = process;
    log_begin("warn,borough=info");
    files_private();
    let descriptors = OpenFiles::raise().most;
    let web_origins = connections.iter().flat_map(|given| given.web_origins.clone()).collect();
    let identity_url = connections.iter().find_map(|given| given.identity_url.clone()).unwrap_or_default();
    let connections = connections.map(|given| given.limits(descriptors)).transpose()?;
    let connections = connections.unwrap_or_else(|| ConnectionLimits::of_descriptors(descriptors));
    let token = operator_token(global)?;
    let tls = tls_of(global, arguments, &roles)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("cannot start the runtime", &error))?;
    runtime.block_on(async {
        let clock = SystemClock::shared();
        let rng = SystemRng::shared();
        let store = store_open(arguments.wanted(), &clock, &rng)?;
        let db = Database::new(engine_faulty(store.engine(), arguments.inject_faults));
        let mut registry = Registry::default();
        db.metrics_register(&mut registry);
        log_metrics_register(&mut registry);
        let credentials = credentials_read(token, node_tokens)?.with_issuers(issuers_read(&issuers)?);
        let config = ControlConfig {
            db: db.clone(),
            opened: store.opened(),
            cells: arguments.cells.clone(),
            meta: CellMeta { drain_delay_ms: Some(VIEW_DELAY_MS), ..CellMeta::default() },
            tolerance_scope: ToleranceScope::NewCells,
            roles,
            connections,
            web_origins,
            identity_url,
            credentials,
            tls,
            registry,
            clock: Arc::clone(&clock),
            rng,
        };
        // Signals are caught before anybody can see the role and end it.
        let mut signals = RoleSignals::catch();
        let control = tokio::select! {
            started = Control::start(config) => started.map_err(|error| start_failed(&db, &error))?,
            signal = signals.next() => {
                tracing::info!(signal, role, "the role ends before it has begun");
                store.close().await;
                return Ok(Code::Done);
            }
        };
        printer.greeting(&greeting(role, arguments, &control));
        let end = role_end(&db, signals.next()).await;
        match &end {
            RoleEnd::Signal(signal) => tracing::info!(signal, role, "the role ends"),
            RoleEnd::Store(error) => tracing::error!(%error, role, "the role ends without its store"),
        }
        control.stop().await;
        store.close().await;
        match end {
            RoleEnd::Signal(_) => Ok(Code::Done),
            RoleEnd::Store(error) => Err(store_stopped(&error)),
        }
    })
}

/// The token that operators and other gateways use.
fn operator_token(global: &Global) -> Result<Secret, Failure> {
    let Some(path) = &global.token_file else {
        return Err(Failure::new(Code::Usage, "give the file with the operator's token with --token-file").with_hint(
            "a file only you can read: (umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' > token)",
        ));
    };
    secret_read(path)
}

/// The certificates of a role. Without any it answers on loopback only, unless the operator wants otherwise.
fn tls_of(global: &Global, arguments: &StoreArguments, roles: &Roles) -> Result<Option<GatewayTls>, Failure> {
    let refused = |error: TlsError| connect::tls_refused(&error).with_hint(TLS_HINT);
    if let Some(files) = global.tls.files() {
        let client = ClientTls::load(files.clone()).map_err(refused)?;
        let server = ServerTls::load(TlsFiles { revoked: arguments.tls_crl.clone(), ..files.clone() })
            .map_err(refused)?;
        holder_warn(&files, roles);
        return Ok(Some(GatewayTls { server, client }));
    }
    let open =
        [roles.grpc, Some(roles.http)].into_iter().flatten().find(|address| !address.ip().is_loopback());
    match open {
        Some(address) if !arguments.plaintext => {
            let text =
                format!("{address} is no loopback address, and tokens would go over the network unencrypted");
            Err(Failure::new(Code::Usage, text)
                .with_hint(format!("give --tls-ca, --tls-cert and --tls-key ({TLS_HINT}), or --plaintext")))
        }
        _ => Ok(None),
    }
}

/// Says that nobody will trust the role, if its certificate is that of something else.
fn holder_warn(files: &TlsFiles, roles: &Roles) {
    let fits = if roles.grpc.is_some() { CertificateName::Gateway } else { CertificateName::Control };
    if let Some(holder) =
        files.holder().filter(|holder| *holder != fits && *holder != CertificateName::Gateway)
    {
        let (is, needs) = (holder.path(), fits.path());
        tracing::warn!(
            is,
            needs,
            "the certificate is for something else; nobody will trust this role with it"
        );
    }
}

fn greeting(role: &str, arguments: &StoreArguments, control: &Control) -> String {
    let cells: Vec<&str> = arguments.cells.iter().map(Name::as_str).collect();
    let grpc = control.grpc.map(|grpc| format!("\n  gRPC   {grpc}")).unwrap_or_default();
    let scheme = if control.encrypted { "https" } else { "http" };
    format!(
        "borough {role}\n  cells  {}\n  store  {}{grpc}\n  HTTP   {scheme}://{}",
        cells.join(", "),
        arguments.store,
        control.http
    )
}
