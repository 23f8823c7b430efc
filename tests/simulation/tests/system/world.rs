//! The world of one run: its store, its network, its machines, its roles, and the time that all of them share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_agent::machine::MachineFacts;
use borough_agent::{AgentConfig, run_on};
use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_gateway::auth::{Credentials, Token};
use borough_gateway::cell::CellConnection;
use borough_gateway::health::HealthSource;
use borough_gateway::{ConnectionLimits, Gateway, GatewayConfig};
use borough_kv::env::{Clock, Rng};
use borough_kv::secret::Secret;
use borough_kv::{Database, EmbeddedEngine, FaultEngine, FaultPlan, Idempotency, Version};
use borough_model::Name;
use borough_model::node::{AGENT_ALLOCS, AGENT_RESIZE};
use borough_proto::v1;
use borough_scheduler::{SLICE_TASKS, Worker, WorkerConfig, WorkerMetrics};
use borough_simulation::audit::QUOTAS;
use borough_store::cell::{CellClock, CellMeta, CellState, StoreOpened, cell_create, cell_gate_set};
use borough_store::federation::{federation_cell_enter, store_generation_begin};
use borough_store::journal::JournalShare;
use borough_store::mirror::MirrorFollower;
use borough_store::quota::{QuotaRow, quota_set};
use borough_store::{CellSpace, StoreError};
use borough_testkit::{below, rng_of};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::clock::{RoleClock, RoleTime, Skew, WALL_BEGIN_MS, WorldClock};
use crate::machine::SimMachine;
use crate::network::{Host, Network};
use crate::processes::Processes;
use crate::role::Role;
use crate::trace::Trace;

/// Milliseconds in which every role runs once.
pub(crate) const TICK_MS: u64 = 10;
/// Workers of the cell, and shards of its jobs.
pub(crate) const WORKERS: u32 = 2;
/// Gateways of the cell.
pub(crate) const GATEWAYS: usize = 2;
/// Nodes of the cell.
pub(crate) const NODES: usize = 4;
/// Milliseconds of silence after which a node is lost.
pub(crate) const LOST_AFTER_MS: u64 = 4_000;
/// Milliseconds without a heartbeat after which another worker or controller takes over.
pub(crate) const LEASE_MS: u64 = 2_000;
/// Milliseconds a job is kept after its end: longer than any node is away.
const JOB_RETENTION_MS: u64 = 60_000;

pub(crate) struct World {
    pub seed: u64,
    /// Milliseconds since the beginning.
    pub now_ms: u64,
    clock: Arc<WorldClock>,
    pub trace: Trace,
    pub network: Network,
    pub space: CellSpace,
    engine: Arc<EmbeddedEngine>,
    /// The store without faults, for the audit.
    pub quiet: Database,
    /// Versions between which the cell's gate was not open.
    pub gate_closed: Vec<(Version, Version)>,
    /// Whether two nodes have one address.
    pub shared_address: bool,
    /// The token of all callers. The kernel makes it, so no trace contains it.
    token: Secret,
    generation: u64,
    started: AtomicU64,
    pub processes: Processes,
    /// Machines by their name.
    pub machines: BTreeMap<Host, SimMachine>,
    /// Roles by their host.
    pub roles: BTreeMap<Host, Role>,
    /// Clocks of hosts, which outlive roles.
    pub skews: BTreeMap<Host, Skew>,
    /// The longest pause of a role so far, in milliseconds.
    pub pause_max_ms: u64,
    rng: Arc<dyn Rng>,
}

/// The name of gateway `number`'s host.
pub(crate) fn gateway_host(number: usize) -> Host {
    format!("gateway-{number}").into()
}

/// The name of node `number`, and of its host.
pub(crate) fn node_host(number: usize) -> Host {
    format!("node-{number}").into()
}

/// The name of worker `place`'s host.
pub(crate) fn worker_host(place: u32) -> Host {
    format!("worker-{place}").into()
}

/// The name of controller `number`'s host.
pub(crate) fn controller_host(number: usize) -> Host {
    format!("controller-{number}").into()
}

/// The time of the cell, as a control role derives it from its machine's clock.
async fn cell_clock(machine: &Arc<dyn Clock>, db: &Database, space: &CellSpace) -> Arc<dyn Clock> {
    let time = CellClock::new(Arc::clone(machine));
    while time.begin(db, space, StoreOpened::Shared).await.is_err() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (clock, db, space) = (Arc::clone(&time), db.clone(), space.clone());
    tokio::spawn(async move { clock.follow(db, space).await });
    time
}

/// The faults of a run's store. Every seventh run has far more than any real store. One failed read fails its whole
/// transaction, and transactions of this size read hundreds of rows. Fewer reads fail here than in tests of the layers.
fn plan_of(seed: u64) -> FaultPlan {
    let plan = match seed % 7 {
        6 => FaultPlan { read_fails: 0.01, ..FaultPlan::heavy() },
        _ => FaultPlan::standard(),
    };
    FaultPlan { commit_slow: 0.3, commit_delay_max: Duration::from_millis(25), ..plan }
}

/// Addresses of all gateways.
pub(crate) fn gateways() -> Vec<String> {
    (0..GATEWAYS).map(|number| format!("http://{}:7400", gateway_host(number))).collect()
}

impl World {
    /// A new world with an empty cell and no roles.
    pub(crate) fn new(seed: u64, trace: &Trace) -> Self {
        let clock = Arc::new(WorldClock::default());
        let shared: Arc<dyn Clock> = Arc::<WorldClock>::clone(&clock);
        let engine = Arc::new(EmbeddedEngine::ephemeral(shared, rng_of(seed, 1)));
        let quiet = Database::new(Arc::<EmbeddedEngine>::clone(&engine));
        let cell = Name::new("alpha").unwrap();
        let space = CellSpace::new(cell.clone());
        let network = Network::new(rng_of(seed, 2), trace.clone(), 1 + seed % 40);
        let mut world = Self {
            seed,
            now_ms: 0,
            clock,
            trace: trace.clone(),
            network,
            space,
            engine,
            quiet,
            gate_closed: Vec::new(),
            shared_address: false,
            token: Secret::generate("borough-operator").unwrap(),
            generation: 0,
            started: AtomicU64::new(0),
            processes: Processes::default(),
            machines: BTreeMap::new(),
            roles: BTreeMap::new(),
            skews: BTreeMap::new(),
            pause_max_ms: 0,
            rng: rng_of(seed, 3),
        };
        world.generation = world.cell_prepare(&cell);
        world
    }

    fn cell_prepare(&self, cell: &Name) -> u64 {
        let meta = CellMeta {
            lost_after_ms: LOST_AFTER_MS,
            job_retention_ms: JOB_RETENTION_MS,
            failure_domains: vec!["rack".to_owned()],
            ..CellMeta::default()
        };
        let (space, meta) = (&self.space, &meta);
        let prepared = self.quiet.run("cell_create", Idempotency::Natural, |tx, _| async move {
            cell_create(&tx, space, meta, WALL_BEGIN_MS).await?;
            federation_cell_enter(&tx, cell, WALL_BEGIN_MS).await?;
            for (user, band, tasks_max) in QUOTAS {
                let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
                quota_set(&tx, space, &Name::new(user).unwrap(), band, Some(&limit)).await?;
            }
            Ok::<_, StoreError>(store_generation_begin(&tx, WALL_BEGIN_MS).await?.generation)
        });
        self.alone(prepared).unwrap()
    }

    /// Runs a future on the store while every role is paused. It takes no time.
    pub(crate) fn alone<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(future)
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        below(&*self.rng, bound)
    }

    /// A store handle for one role, with the faults of the seed, and its other random numbers.
    fn of_role(&self) -> (Database, Arc<dyn Rng>) {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let faults = FaultEngine::new(
            Arc::<EmbeddedEngine>::clone(&self.engine),
            plan_of(self.seed),
            rng_of(self.seed, 1_000 + 2 * number),
        );
        (Database::new(Arc::new(faults)), rng_of(self.seed, 1_001 + 2 * number))
    }

    fn begin<F>(&mut self, host: &Host, main: impl FnOnce(RoleTime, Arc<dyn Clock>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let skew = self.skews.entry(host.clone()).or_default().clone();
        self.trace.note(format_args!("{host} begins"));
        let role = Role::begin(self.now_ms, |time| {
            let clock: Arc<dyn Clock> = Arc::new(RoleClock { time: time.clone(), skew: skew.clone() });
            main(time, clock)
        });
        if let Some(before) = self.roles.insert(host.clone(), role) {
            before.kill();
        }
    }

    /// Ends a role as a crash does.
    pub(crate) fn kill(&mut self, host: &Host) {
        self.trace.note(format_args!("{host} dies"));
        if let Some(role) = self.roles.remove(host) {
            role.kill();
        }
        if let Some(machine) = self.machines.get(host) {
            machine.agent_gone();
        }
    }

    pub(crate) fn gateway_begin(&mut self, number: usize) {
        let host = gateway_host(number);
        let (db, rng) = self.of_role();
        let (network, space) = (self.network.clone(), self.space.clone());
        let (of, token) = (host.clone(), self.token.clone());
        self.begin(&host, move |time, clock| async move {
            let name = format!("{of}:7400");
            let cell_time = cell_clock(&clock, &db, &space).await;
            let mirror = MirrorFollower::spawn(db.clone(), space.clone(), cell_time, Arc::clone(&rng));
            let beat_interval = Duration::from_millis(LOST_AFTER_MS) / 8;
            let health = HealthSource { db: db.clone(), mirrors: vec![mirror.clone()] };
            let config = GatewayConfig {
                advertise: None,
                credentials: Credentials::new(Token::new(token), Vec::new()),
                cells: vec![CellConnection {
                    space,
                    name: Name::new("alpha").unwrap(),
                    db,
                    mirror,
                    identity_url: Default::default(),
                }],
                report_interval: beat_interval.max(Duration::from_secs(1)),
                beat_interval,
                registry: Arc::default(),
                tls: None,
                connections: ConnectionLimits::of_descriptors(1_024),
                health,
                web_origins: Vec::new(),
            };
            let incoming = Some(network.listen(&of, &name, time.clone()));
            let connector = network.connector(&of, &time);
            let network = borough_gateway::NetworkSettings { name, incoming, connector };
            Gateway::start_on(config, network, clock, rng, CancellationToken::new()).ended().await;
        });
    }

    /// Starts the worker at `place`.
    pub(crate) fn worker_begin(&mut self, place: u32) {
        let (db, rng) = self.of_role();
        let config = WorkerConfig {
            space: self.space.clone(),
            shards: WORKERS,
            place,
            schedulers: vec![Name::new("default").unwrap()],
            holder: format!("scheduler-{place}-{:016x}", rng.next_u64()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            batch_tasks_max: 16,
            slice_tasks: SLICE_TASKS,
            gang_commit_max: if self.seed.is_multiple_of(2) { 16 } else { 1 },
            share: JournalShare::default(),
        };
        self.begin(&worker_host(place), move |_, clock| async move {
            let clock = cell_clock(&clock, &db, &config.space).await;
            loop {
                let (clock, rng, metrics) = (Arc::clone(&clock), Arc::clone(&rng), WorkerMetrics::default());
                match Worker::start(config.clone(), db.clone(), clock, rng, metrics).await {
                    Ok(worker) => return worker.run(CancellationToken::new()).await,
                    Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
                }
            }
        });
    }

    pub(crate) fn controller_begin(&mut self, number: usize) {
        let (db, rng) = self.of_role();
        let config = ControllerConfig {
            space: self.space.clone(),
            holder: format!("controller-{:016x}", rng.next_u64()),
            lease_ms: LEASE_MS,
            generation: self.generation,
            tick: Duration::from_millis(LOST_AFTER_MS) / 8,
            garbage: GarbageMetrics::default(),
        };
        self.begin(&controller_host(number), move |_, clock| async move {
            let clock = cell_clock(&clock, &db, &config.space).await;
            let (space, mirror_clock, mirror_rng) =
                (config.space.clone(), Arc::clone(&clock), Arc::clone(&rng));
            let mirror = MirrorFollower::spawn(db.clone(), space, mirror_clock, mirror_rng);
            Controller::new(config, db, mirror, clock, rng).run(CancellationToken::new()).await;
        });
    }

    /// Starts the agent of a machine that claims to be `node`.
    pub(crate) fn agent_begin(&mut self, host: &Host, node: &Host, number: usize) {
        let (_, rng) = self.of_role();
        let fresh =
            || SimMachine::new(host, &self.processes, rng_of(self.seed, 500 + rng.next_u64()), &self.trace);
        let machine = self.machines.get(host).cloned().unwrap_or_else(fresh);
        self.machines.insert(host.clone(), machine.clone());
        let (network, of, node, token) =
            (self.network.clone(), host.clone(), node.clone(), self.token.clone());
        let address = if self.shared_address && number == NODES - 1 { 0 } else { number };
        self.begin(host, move |time, clock| async move {
            let connector = network.connector(&of, &time);
            let mut config =
                AgentConfig::new("alpha", &*node, PathBuf::from("/nonexistent/simulated"), clock, rng);
            config.gateways = gateways();
            config.connector = connector;
            config.token = Some(token);
            config.credential = Some(machine.credential());
            config.ports = 20_000..=20_019;
            config.host = format!("10.0.0.{address}");
            let facts = MachineFacts {
                boot_id: machine.boot_id(),
                capacity: v1::Resources {
                    cpu_millis: 3_000,
                    memory_bytes: 2 << 30,
                    disk_bytes: 10 << 30,
                    ..v1::Resources::default()
                },
                // Every third agent is of a version that does not resize.
                attributes: BTreeMap::from([
                    (AGENT_ALLOCS.to_owned(), "yes".to_owned()),
                    ("rack".to_owned(), ["a", "b", "c"][number % 3].to_owned()),
                    (AGENT_RESIZE.to_owned(), ["yes", "yes", "no"][number % 3].to_owned()),
                ]),
            };
            let agent = machine.clone();
            // It ends only if it cannot start, which the audit sees as a node that never registers.
            let _ = run_on(config, facts, move |events| agent.agent(events), CancellationToken::new()).await;
        });
    }

    /// Starts a role that calls the cell's gateways.
    pub(crate) fn operator_begin<F>(
        &mut self,
        host: &Host,
        main: impl FnOnce(borough_client::Client, Arc<dyn Clock>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (_, rng) = self.of_role();
        let (network, of, token) = (self.network.clone(), host.clone(), self.token.clone());
        self.begin(host, move |time, clock| {
            let mut config = borough_client::ClientConfig::new(gateways(), "ada", "alpha");
            config.token = Some(borough_client::ClientToken::Value(token.expose().to_owned()));
            config.connector = network.connector(&of, &time);
            main(borough_client::Client::new(config, rng).unwrap(), clock)
        });
    }

    /// Closes the cell for new work, or opens it again, as an export with `--close` does.
    pub(crate) fn gate_set(&mut self, open: bool) {
        let (space, state) = (&self.space, if open { CellState::Open } else { CellState::Draining });
        let at_ms = WALL_BEGIN_MS.saturating_add_unsigned(self.now_ms);
        let set = self.quiet.run_committed("cell_gate", Idempotency::Natural, |tx, _| async move {
            cell_gate_set(&tx, space, state, at_ms).await
        });
        let (_, committed) = self.alone(set).unwrap();
        let Some(version) = committed.version else { return };
        match self.gate_closed.last_mut().filter(|(_, until)| *until == Version::MAX) {
            Some((_, until)) if open => *until = version,
            None if !open => self.gate_closed.push((version, Version::MAX)),
            _ => {}
        }
    }

    /// Advances time by one tick: machines first, then every role, beginning with another one each time.
    pub(crate) fn tick(&mut self) {
        self.now_ms += TICK_MS;
        self.clock.0.store(self.now_ms, Ordering::Relaxed);
        self.trace.at(self.now_ms);
        for (host, machine) in &self.machines {
            let skew = self.skews.get(host).map_or(0, |skew| skew.load(Ordering::Relaxed));
            machine.step(self.now_ms, WALL_BEGIN_MS.saturating_add_unsigned(self.now_ms) + skew);
        }
        let first = usize::try_from(self.below(u64::try_from(self.roles.len().max(1)).unwrap())).unwrap();
        let hosts: Vec<Host> = self.roles.keys().cloned().collect();
        for host in hosts[first..].iter().chain(&hosts[..first]) {
            if let Some(role) = self.roles.get_mut(host) {
                role.run(self.now_ms, TICK_MS);
            }
        }
    }
}

/// The shared list of broken rules.
pub(crate) type Wrong = Arc<Mutex<Vec<String>>>;
