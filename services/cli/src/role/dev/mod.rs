//! `borough dev`: every control role in one process on the embedded engine, in a directory that is kept, with node
//! agents as separate processes. It listens on loopback only, and only serves callers that can read the token file.

mod absent;
mod closed;
mod judge;
mod layout;
mod nodes;
mod ports;
mod remove;
mod stop;
mod views;

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use borough_agent::ProcessGuard;
use borough_federation::FederationMetrics;
use borough_gateway::auth::{Credentials, Token};
use borough_kv::Database;
use borough_kv::env::{Clock, Rng, SystemClock, SystemRng};
use borough_kv::secret::SecretError;
use borough_model::Name;
use borough_proto::connect::Connector;
use borough_store::cell::CellMeta;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::absent::{AbsentNode, absent_nodes, absent_text, cells_text};
use self::closed::{ClosedCell, closed_cells, closed_text};
use self::judge::{directory_check, judge};
use self::layout::{DAMAGED, Layout, Remembered, ephemeral_create, ephemeral_create_at};
use self::nodes::{
    AgentStart, NODES_MAX, NodePlan, node_keep, nodes_plan, stranded_agents_end, tasks_remove,
};
use self::ports::node_ports_set;
use self::stop::Shutdown;
use self::views::{DevNames, names_ports_check};
use super::control::{Control, ControlConfig, FederationRole, Roles, ToleranceScope};
use super::descriptors::OpenFiles;
use super::federation::CredentialDirectory;
use super::issuer::issuers_read;
use super::log::{log_begin, log_metrics_register};
use super::store::{RoleStore, StoreMissing, StoreWanted, engine_faulty, store_open};
use super::{RoleEnd, RoleSignals, failed, files_private, role_end, start_failed, store_stopped};
use crate::args::{DevArguments, Global, StoreLocation, word_shown};
use crate::client_file::{ClientFile, dev_directory};
use crate::exit::{Code, Failure};
use crate::output::{Printer, tally};

/// Ports tried at the first start; if they are taken, any free ones.
const GRPC_PORT: u16 = 7_400;
const HTTP_PORT: u16 = 7_401;

/// What the log has without `BOROUGH_LOG`. On a terminal, what goes well would push the greeting out of view.
fn log_default(is_terminal: bool) -> &'static str {
    if is_terminal { "warn" } else { "warn,borough=info" }
}

/// Runs the cell until it is interrupted.
pub(crate) fn run(global: &Global, arguments: &DevArguments, printer: &Printer) -> Result<Code, Failure> {
    log_begin(log_default(std::io::stderr().is_terminal()));
    files_private();
    if arguments.remove {
        return remove::remove(&directory_of(global)?, printer);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("cannot start the runtime", &error))?;
    runtime.block_on(dev(global, arguments, printer))
}

/// The directory of the cells.
fn directory_of(global: &Global) -> Result<PathBuf, Failure> {
    dev_directory(global.dir.as_deref()).ok_or_else(|| {
        let message = "no directory for the dev cell: neither XDG_STATE_HOME nor HOME is an absolute path";
        Failure::new(Code::Usage, message)
            .with_hint("set HOME to your home directory, or give one: borough dev --dir DIR")
    })
}

async fn dev(global: &Global, arguments: &DevArguments, printer: &Printer) -> Result<Code, Failure> {
    judge(arguments)?;
    let nodes = arguments.cells.len().saturating_mul(usize::try_from(arguments.nodes).unwrap_or(usize::MAX));
    if nodes > NODES_MAX {
        let text =
            format!("{nodes} nodes are more than the ports of one machine carry; at most {NODES_MAX} in all");
        return Err(Failure::new(Code::Usage, text));
    }
    let plan = nodes_plan(&arguments.cells, arguments.nodes, &arguments.task_ports);
    if plan.len() < nodes {
        let nodes = tally(nodes, "node");
        let text = format!("--task-ports has too few ports for {nodes}; accepted: at least a port for each");
        return Err(Failure::new(Code::Usage, text));
    }
    let clock = SystemClock::shared();
    let rng = SystemRng::shared();
    let root =
        if arguments.ephemeral { ephemeral_directory(global.dir.as_deref())? } else { directory_of(global)? };
    directory_check(&root)?;
    // In a directory that is there, another `dev` may run, and that is said first.
    let is_new = !root.exists();
    if is_new {
        names_ports_check(arguments).await?;
    }
    // Opened before the directory is touched: a second `dev`, and a damaged or newer store, end here.
    let location = arguments.store.clone().unwrap_or_else(|| StoreLocation::Embedded(root.join("store")));
    if nodes_without_store(&location, &root) {
        return Err(store_gone(&root));
    }
    let memory = arguments.embedded.store_memory;
    let wanted = StoreWanted { location: &location, missing: StoreMissing::Create, memory };
    let store = store_open(wanted, &clock, &rng)?;
    let layout =
        Layout::open(&root).map_err(|error| failed(&format!("cannot use {}", root.display()), &error))?;
    let cell = DevCell { layout: &layout, arguments, store: &store, clock: &clock, rng: &rng, printer };
    let ports = if is_new { Ok(()) } else { names_ports_check(arguments).await };
    let outcome = match ports {
        Ok(()) => cell.run(plan).await,
        Err(taken) => Err(taken),
    };
    store.close().await;
    if arguments.ephemeral {
        tasks_remove(&layout);
        std::fs::remove_dir_all(layout.root()).ok();
    }
    outcome
}

/// What makes a file of the directory again.
const MADE_AGAIN: &str = "remove that file, and start `borough dev` again: it makes another one";

/// The failure of the kept settings.
fn settings_refused(error: &std::io::Error) -> Failure {
    let failure = failed("cannot use the directory", error);
    if error.to_string().ends_with(DAMAGED) { failure.with_hint(MADE_AGAIN) } else { failure }
}

/// The failure of the token of the cell.
fn token_refused(error: &SecretError) -> Failure {
    let failure = failed("cannot use the token file", error);
    if matches!(error, SecretError::Text { .. }) { failure.with_hint(MADE_AGAIN) } else { failure }
}

/// What is said of agents that knew another address of the gateway; `None` if none did.
fn moved_text(agents: usize) -> Option<String> {
    let again = tally(agents, "agent");
    (agents > 0).then(|| format!("the gateway has another address: {again} started again; their tasks go on"))
}

/// What helps if another program listens on a port of the dev cell.
const PORT_HINT: &str = "another program listens there; beside your other options, --port 0 and --http-port 0 take ports \
    that are free";

/// The same for a port of its name service.
const NAMES_PORT_HINT: &str = "another program listens there; beside your other options, --dns-port 0, --names-port 0 and \
    --xds-port 0 take ports that are free";

/// Returns true if a start failed because an address is in use.
fn is_address_taken(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut causes = causes.filter_map(|error| error.downcast_ref::<std::io::Error>());
    causes.any(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// A dev cell, from its open store to its end.
struct DevCell<'a> {
    layout: &'a Layout,
    arguments: &'a DevArguments,
    store: &'a RoleStore,
    clock: &'a Arc<dyn Clock>,
    rng: &'a Arc<dyn Rng>,
    printer: &'a Printer,
}

impl DevCell<'_> {
    /// Says what this start leaves out.
    fn left_out_say(&self, absent: &[AbsentNode], closed: &[ClosedCell]) {
        let cells = &self.arguments.cells;
        let remarks = [cells_text(self.layout, cells), absent_text(absent, cells), closed_text(closed)];
        remarks.iter().flatten().for_each(|text| self.printer.remark(text));
    }

    /// Starts everything, and ends it after a signal.
    async fn run(&self, plan: Vec<NodePlan>) -> Result<Code, Failure> {
        let Self { layout, arguments, store, clock, rng, printer } = *self;
        let guard = self.guard_early()?;
        let mut signals = RoleSignals::catch().with_hang_up();
        let open_files = OpenFiles::raise();
        let db = Database::new(store.engine());
        node_ports_set(&db, layout, &plan, clock, rng).await;
        let mut control = self.control_start(open_files).await?;
        let http = control.http;
        let grpc = control.grpc.ok_or_else(|| Failure::new(Code::Failed, "the gateway does not listen"))?;
        let before = layout.remembered().ok().flatten().and_then(|before| before.names);
        let names = DevNames::start(self, std::mem::take(&mut control.followed), before).await?;
        self.remember(grpc, http, &names).map_err(|error| failed("cannot write the directory", &error))?;
        let program =
            std::env::current_exe().map_err(|error| failed("cannot find the program itself", &error))?;
        let start = AgentStart {
            program,
            gateway: format!("http://{grpc}"),
            layout: layout.clone(),
            cards: arguments.cards.clone(),
            disk_low: arguments.disk_low,
            open_files,
            arguments: arguments.agent_argument.clone(),
        };
        let stranded = stranded_agents_end(layout, &start.gateway);
        if let Some(text) = moved_text(plan.iter().filter(|node| stranded.contains(&node.name)).count()) {
            printer.remark(&text);
        }
        let absent = absent_nodes(&db, layout, &arguments.cells, &plan).await;
        let absent: Vec<_> = absent.into_iter().map(|node| node.ended(&stranded)).collect();
        let closed = closed_cells(&db, &arguments.cells).await;
        let cancelled = CancellationToken::new();
        let keepers: Vec<_> = plan
            .into_iter()
            .filter(|node| !closed.iter().any(|cell| cell.name == node.cell))
            .map(|node| tokio::spawn(node_keep(start.clone(), node, cancelled.clone())))
            .collect();
        printer.greeting(&self.greeting(grpc, http, &names));
        self.left_out_say(&absent, &closed);
        let signal = match role_end(&db, signals.next()).await {
            RoleEnd::Signal(signal) => signal,
            RoleEnd::Store(error) => {
                // As after a kill of this process: agents and tasks keep running, and the next start adopts them. An
                // ephemeral cell ends them when its guard is dropped.
                tracing::error!(%error, "the cell ends without its store; its agents and tasks go on");
                cancelled.cancel();
                names.stop().await;
                control.stop().await;
                return Err(store_stopped(&error));
            }
        };
        printer.remark(&format!("{signal}: ending the tasks and agents of this directory"));
        control.workers_stop().await;
        let shutdown = Shutdown {
            db: &db,
            cells: &arguments.cells,
            records: layout.records(),
            timeout: arguments.stop_timeout,
            clock,
            rng,
            printer,
        };
        shutdown.run(&mut signals).await;
        cancelled.cancel();
        everything_end(layout, guard, keepers).await?;
        names.stop().await;
        control.stop().await;
        Ok(Code::Done)
    }

    /// The guard of an ephemeral cell, held as long as the cell: whatever happens to this process, the guard ends what
    /// it started.
    fn guard_early(&self) -> Result<Option<ProcessGuard>, Failure> {
        if self.arguments.ephemeral {
            return guard_begin(self.layout).map(Some);
        }
        // The guard ends all processes at the end. By then the disk may have no space for its program.
        ProcessGuard::prepare(self.layout.root())
            .map_err(|error| failed("cannot watch over processes", &error))?;
        Ok(None)
    }

    async fn control_start(&self, open_files: OpenFiles) -> Result<Control, Failure> {
        let Self { layout, arguments, store, clock, rng, .. } = *self;
        let connections = arguments.connections.limits(open_files.most)?;
        let token = layout.token_ensure().map_err(|error| token_refused(&error))?;
        let nodes: Result<_, _> = arguments.cells.iter().map(|cell| layout.node_token_ensure(cell)).collect();
        let nodes = nodes.map_err(|error| failed("cannot use a token file of nodes", &error))?;
        let db = Database::new(engine_faulty(store.engine(), arguments.inject_faults));
        let mut registry = Registry::default();
        db.metrics_register(&mut registry);
        log_metrics_register(&mut registry);
        let remembered = layout.remembered().map_err(|error| settings_refused(&error))?;
        let known = remembered.as_ref();
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let is_free = |port| std::net::TcpListener::bind(loopback(port)).is_ok();
        let port = |given: Option<u16>, before: Option<u16>, first: u16| match (given, before) {
            // Any port would do. With the last one, verbs that wait go on.
            (Some(0), Some(before)) if is_free(before) => before,
            (Some(port), _) | (None, Some(port)) => port,
            (None, None) if is_free(first) => first,
            (None, None) => 0,
        };
        let meta = CellMeta {
            lost_after_ms: arguments.lost_after_ms,
            failure_domains: ["zone", "rack", "node.name"].map(str::to_owned).to_vec(),
            ..CellMeta::default()
        };
        let grpc = loopback(port(arguments.port, known.map(|known| known.grpc_port), GRPC_PORT));
        let http = loopback(port(arguments.http_port, known.map(|known| known.http_port), HTTP_PORT));
        let config = ControlConfig {
            db: db.clone(),
            opened: store.opened(),
            cells: self.cells(),
            meta,
            tolerance_scope: ToleranceScope::EveryCell,
            roles: Roles {
                grpc: Some(grpc),
                schedulers: 0..arguments.schedulers,
                shards: arguments.schedulers,
                served: arguments.scheduler.clone(),
                controller: true,
                federation: self.federation(),
                ..Roles::none(http)
            },
            connections,
            web_origins: arguments.connections.web_origins.clone(),
            identity_url: arguments.connections.identity_url.clone().unwrap_or_default(),
            credentials: Credentials::new(Token::new(token), nodes)
                .with_issuers(issuers_read(&arguments.issuers)?),
            // On loopback, for the user who starts it: the one role that is never encrypted.
            tls: None,
            registry,
            clock: Arc::clone(clock),
            rng: Arc::clone(rng),
        };
        Control::start(config).await.map_err(|error| {
            let failure = start_failed(&db, &error);
            if is_address_taken(&error) { failure.with_hint(PORT_HINT) } else { failure }
        })
    }

    /// The cells with nodes, and the home of the federation.
    fn cells(&self) -> Vec<Name> {
        self.arguments.cells.iter().chain(&self.arguments.federation).cloned().collect()
    }

    fn federation(&self) -> Option<FederationRole> {
        let home = self.arguments.federation.clone()?;
        let clients = CredentialDirectory {
            directory: self.layout.root().join("federation"),
            fallback: Some(self.layout.token()),
            connector: Connector::default(),
            rng: Arc::clone(self.rng),
        };
        Some(FederationRole { home, clients: Arc::new(clients), metrics: FederationMetrics::default() })
    }

    /// Writes what the next start and the client's verbs read.
    fn remember(&self, grpc: SocketAddr, http: SocketAddr, names: &DevNames) -> std::io::Result<()> {
        let Self { layout, arguments, .. } = *self;
        let store = arguments.store.as_ref().map(ToString::to_string);
        layout.remember(&Remembered::new(grpc.port(), http.port(), names.ports(), store))?;
        let file = ClientFile {
            gateways: vec![grpc.to_string()],
            http: format!("http://{http}"),
            token_file: Some(layout.token()),
            default_cell: arguments.cells.first().map(Name::to_string).unwrap_or_default(),
            cells: arguments.cells.iter().map(Name::to_string).collect(),
            federation: arguments.federation.as_ref().map(Name::to_string).unwrap_or_default(),
        };
        file.write(layout.root())
    }

    fn greeting(&self, grpc: SocketAddr, http: SocketAddr, names: &DevNames) -> String {
        let Self { layout, arguments, .. } = *self;
        let cells: Vec<&str> = arguments.cells.iter().map(Name::as_str).collect();
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let nodes = match arguments.nodes {
            0 => "\n  nodes      none: jobs wait until one joins, see borough agent --help",
            1 if arguments.cells.len() == 1 => "",
            _ => {
                "\n  machine    each node has all of it, so cells count its processors and memory once for each node"
            }
        };
        // Without an option, verbs look where `dev` keeps its cells unless told otherwise.
        let usual = dev_directory(None).and_then(|usual| std::fs::canonicalize(usual).ok());
        let of = match layout.root() {
            root if usual.as_deref() == Some(root) => String::new(),
            root => format!("--dir {} ", word_shown(&root.to_string_lossy())),
        };
        let member = arguments.cells.first().map_or("CELL", Name::as_str);
        let home = arguments.federation.as_ref().map(|home| {
            format!(
                "\n  federation its home is {home}, and it has the cells that join it: borough {of}cell join {member} --at {grpc}, then \
                 borough {of}cell members"
            )
        });
        let home = home.unwrap_or_default();
        format!(
            "borough dev\n  cells      {} ({} and {} each){nodes}{home}\n  gRPC       {grpc}\n  HTTP       \
             http://{http}\n{}\n  directory  {}\n  token      {}\n\nIn another terminal: borough {of}node list",
            cells.join(", "),
            tally(count(arguments.nodes), "node"),
            tally(count(arguments.schedulers), "scheduler worker"),
            names.greeting(),
            layout.root().display(),
            layout.token().display(),
        )
    }
}

/// Returns true if the directory has nodes of a cell whose store is missing. A new store would not know their tasks.
fn nodes_without_store(location: &StoreLocation, root: &Path) -> bool {
    let StoreLocation::Embedded(directory) = location else { return false };
    let is_empty =
        |directory: &Path| std::fs::read_dir(directory).map_or(true, |mut files| files.next().is_none());
    is_empty(directory) && !is_empty(&root.join("nodes"))
}

fn store_gone(root: &Path) -> Failure {
    if let Ok(Some(Remembered { store: Some(store), .. })) = Remembered::read(root) {
        let text = format!("the cells of {} are kept in {store}", root.display());
        return Failure::new(Code::Usage, text).with_hint(format!("give --store {store}"));
    }
    let text = format!(
        "the store of {} is gone, and its nodes are there: tasks may still run on them",
        root.display()
    );
    Failure::new(Code::StoreFailed, text).with_hint(
        "nothing was touched; restore the store, or end what runs and begin again: borough dev --remove",
    )
}

/// A new directory. An ephemeral one is removed with everything in it.
fn ephemeral_directory(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(wanted) = wanted else {
        return ephemeral_create().map_err(|error| failed("cannot make a directory", &error));
    };
    ephemeral_create_at(wanted).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let text = format!("{} is there already, and --ephemeral removes all of it", wanted.display());
            let hint = "leave out --dir and BOROUGH_DIR, or name a directory that is not there yet";
            return Failure::new(Code::Usage, text).with_hint(hint);
        }
        failed(&format!("cannot make {}", wanted.display()), &error)
    })
}

/// Ends the agents and tasks, so that nothing is placed or reported any more. Their files stay in the directory.
async fn everything_end(
    layout: &Layout,
    guard: Option<ProcessGuard>,
    keepers: Vec<JoinHandle<Option<Child>>>,
) -> Result<(), Failure> {
    let mut agents = Vec::new();
    for keeper in keepers {
        agents.extend(keeper.await.ok().flatten());
    }
    let guard = guard.map_or_else(|| guard_begin(layout), Ok)?;
    tokio::task::spawn_blocking(move || drop(guard)).await.ok();
    // A full disk may have kept an agent from being recorded.
    for mut agent in agents {
        if matches!(agent.try_wait(), Ok(None)) {
            tracing::warn!(process = agent.id(), "an agent that was not recorded is ended; its tasks go on");
            agent.kill().ok();
        }
    }
    Ok(())
}

fn guard_begin(layout: &Layout) -> Result<ProcessGuard, Failure> {
    ProcessGuard::new(layout.root()).map_err(|error| failed("cannot watch over processes", &error))
}
