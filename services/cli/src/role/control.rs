//! The control roles of this process for some cells of one store: gateway, scheduler workers, controllers. `borough
//! dev` runs all of them; `borough gateway`, `borough scheduler` and `borough controller` run one.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_federation::{Federation, FederationConfig, FederationMetrics, MemberClients};
use borough_gateway::auth::Credentials;
use borough_gateway::cell::CellConnection;
use borough_gateway::health::HealthSource;
use borough_gateway::{
    ConnectionLimits, Gateway, GatewayConfig, GatewayListeners, GatewayTls, IdentityUrl, ListenError,
    WebOrigin,
};
use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, ErrorCode, Idempotency, Retryable as _};
use borough_model::Name;
use borough_names::FollowedCell;
use borough_scheduler::{BATCH_TASKS_MAX, GANG_COMMIT_MAX, SLICE_TASKS, Worker, WorkerConfig, WorkerMetrics};
use borough_store::cell::{CellClock, CellMeta, StoreOpened, cell_create, cell_meta_change, cell_meta_read};
use borough_store::federation::{federation_cell_enter, store_generation_begin, store_generation_read};
use borough_store::journal::{Change, ChangeSet, JournalShare};
use borough_store::mirror::{MirrorFollower, MirrorHandle, MirrorOptions};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::LEASE_MS;

/// Renewals and checks of a lease within the time after which a silent holder loses it.
const BEATS_PER_TOLERANCE: u32 = 8;

/// How long a start waits for a store that does not answer, and the pause between two tries.
const START_PATIENCE: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_millis(200);

/// The configuration of the control roles.
pub(crate) struct ControlConfig {
    pub db: Database,
    /// Whether other processes may use the store. If none may, leases from before this start are void.
    pub opened: StoreOpened,
    /// The cells, created if they are missing.
    pub cells: Vec<Name>,
    /// Settings of new cells.
    pub meta: CellMeta,
    /// Which cells take over the tolerance of silence from `meta`.
    pub tolerance_scope: ToleranceScope,
    pub roles: Roles,
    /// The bounds of connections, for the gateway or for the HTTP of another role.
    pub connections: ConnectionLimits,
    /// Whose web pages may call its gateway.
    pub web_origins: Vec<WebOrigin>,
    /// Where others reach its gateway.
    pub identity_url: IdentityUrl,
    pub credentials: Credentials,
    /// Absent: nothing is encrypted.
    pub tls: Option<GatewayTls>,
    /// What `/metrics` shows.
    pub registry: Registry,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

/// Which cells take over a start's tolerance of silence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToleranceScope {
    NewCells,
    EveryCell,
}

/// The roles to run.
pub(crate) struct Roles {
    /// The address of gRPC; `None` runs no gateway.
    pub grpc: Option<SocketAddr>,
    /// The address of HTTP: names and metrics of a gateway, metrics of other roles.
    pub http: SocketAddr,
    /// The address for other gateways; by default that of gRPC.
    pub advertise: Option<String>,
    /// Numbers of the scheduler workers in this process.
    pub schedulers: Range<u32>,
    /// The fewest shards of the jobs of a scheduler.
    pub shards: u32,
    /// The schedulers whose jobs the workers place.
    pub served: Vec<Name>,
    /// Milliseconds without a heartbeat after which another process takes over a worker's shard or the lead of the
    /// controllers.
    pub lease_ms: u64,
    /// Whether this process may lead the controllers.
    pub controller: bool,
    /// The federation that it may lead.
    pub federation: Option<FederationRole>,
}

/// A federation that this process may lead.
pub(crate) struct FederationRole {
    /// The cell that is its home.
    pub home: Name,
    /// How it reaches its member cells.
    pub clients: Arc<dyn MemberClients>,
    pub metrics: FederationMetrics,
}

impl Roles {
    /// No role, except to answer HTTP at `http`.
    pub(crate) fn none(http: SocketAddr) -> Self {
        Self {
            grpc: None,
            http,
            advertise: None,
            schedulers: 0..0,
            shards: 1,
            served: Vec::new(),
            lease_ms: LEASE_MS,
            controller: false,
            federation: None,
        }
    }
}

/// The running control roles.
pub(crate) struct Control {
    /// The address of gRPC, if a gateway runs.
    pub grpc: Option<SocketAddr>,
    /// The address of HTTP.
    pub http: SocketAddr,
    /// Whether both are encrypted.
    pub encrypted: bool,
    /// The cells with a mirror, for the name service.
    pub followed: Vec<FollowedCell>,
    gateway: Gateway,
    tasks: Vec<JoinHandle<()>>,
    workers: Workers,
    cancelled: CancellationToken,
}

/// The scheduler workers of this process. They end before the other roles if tasks must be stopped for good.
struct Workers {
    tasks: Vec<JoinHandle<()>>,
    cancelled: CancellationToken,
}

/// Why the control roles cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// The store refused.
    #[error("the cell's store refused")]
    Store(#[from] StoreError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

impl Control {
    /// Starts every role.
    pub(crate) async fn start(mut config: ControlConfig) -> Result<Self, ControlError> {
        // A port that is taken is reported before anything has started.
        let listeners = GatewayListeners::bind(config.roles.grpc, config.roles.http).await?;
        let cancelled = CancellationToken::new();
        let generation = until_answered(&*config.clock, || generation_of(&config)).await?;
        let mut registry = std::mem::take(&mut config.registry);
        let workers_metrics = WorkerMetrics::default();
        workers_metrics.register(&mut registry);
        let garbage = GarbageMetrics::default();
        garbage.register(&mut registry);
        config.roles.federation.iter().for_each(|led| led.metrics.register(&mut registry));
        let mut workers = Workers { tasks: Vec::new(), cancelled: cancelled.child_token() };
        let (mut connections, mut mirrors, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        let mut followed = Vec::new();
        let mut tolerance_ms = u64::MAX;
        let roles = &config.roles;
        for cell in &config.cells {
            let space = CellSpace::new(cell.clone());
            let change = creation(&config);
            let meta =
                until_answered(&*config.clock, || cell_prepare(&config, cell, &space, &change)).await?;
            tolerance_ms = tolerance_ms.min(meta.lost_after_ms);
            let cell_clock = cell_time(&config, &space, &cancelled, &mut tasks).await?;
            let of_cell = CellRoles {
                db: &config.db,
                space: &space,
                generation,
                roles,
                share: JournalShare::default(),
                clock: &cell_clock,
                rng: &config.rng,
                cancelled: &cancelled,
                workers_cancelled: &workers.cancelled,
            };
            for place in roles.schedulers.clone() {
                workers.tasks.push(of_cell.worker(place, roles.shards, workers_metrics.clone()));
            }
            let led = roles.federation.as_ref().filter(|federation| federation.home == *cell);
            if !roles.controller && roles.grpc.is_none() && led.is_none() {
                continue;
            }
            let mirror = of_cell.mirror();
            mirrors.push(mirror.clone());
            followed.push(FollowedCell { name: cell.clone(), db: config.db.clone(), mirror: mirror.clone() });
            if roles.controller {
                tasks.push(of_cell.controller(&mirror, meta.lost_after_ms, &garbage));
            }
            tasks.extend(led.map(|federation| of_cell.federation(&mirror, federation)));
            if roles.grpc.is_some() {
                connections.push(of_cell.connection(cell, mirror, &config.identity_url));
            }
        }
        let (beat_interval, encrypted) = (beat_of(tolerance_ms), config.tls.is_some());
        let gateway = GatewayConfig {
            advertise: roles.advertise.clone(),
            credentials: config.credentials,
            cells: connections,
            report_interval: report_of(tolerance_ms),
            beat_interval,
            registry: Arc::new(Mutex::new(registry)),
            tls: config.tls,
            connections: config.connections,
            health: HealthSource { db: config.db.clone(), mirrors },
            web_origins: config.web_origins,
        };
        let (grpc, http) = (listeners.grpc(), listeners.http());
        let gateway = Gateway::start(gateway, listeners, config.clock, config.rng, cancelled.clone());
        Ok(Self { grpc, http, encrypted, followed, gateway, tasks, workers, cancelled })
    }

    /// Ends the scheduler workers of this process and waits for them: afterwards they place nothing.
    pub(crate) async fn workers_stop(&mut self) {
        self.workers.cancelled.cancel();
        for worker in self.workers.tasks.drain(..) {
            // The panic hook has already reported a panic.
            worker.await.ok();
        }
    }

    /// Ends every role and waits for it.
    pub(crate) async fn stop(mut self) {
        self.gateway.drain().await;
        self.workers_stop().await;
        self.cancelled.cancel();
        self.gateway.ended().await;
        for task in self.tasks {
            // The panic hook has already reported a panic.
            task.await.ok();
        }
    }
}

/// The generation of leases: a new one if no other process can use the store.
async fn generation_of(config: &ControlConfig) -> StoreResult<u64> {
    let (opened, at_ms) = (config.opened, config.clock.wall_ms());
    let generation = config.db.run("store_generation", Idempotency::Natural, |tx, _| async move {
        match opened {
            StoreOpened::Alone => store_generation_begin(&tx, at_ms).await,
            StoreOpened::Shared => store_generation_read(&tx).await,
        }
    });
    Ok(generation.await?.generation)
}

/// The clock of a cell's roles. An additional task follows the cell's time while they run.
async fn cell_time(
    config: &ControlConfig,
    space: &CellSpace,
    cancelled: &CancellationToken,
    tasks: &mut Vec<JoinHandle<()>>,
) -> StoreResult<Arc<CellClock>> {
    let time = CellClock::new(Arc::clone(&config.clock));
    until_answered(&*config.clock, || time.begin(&config.db, space, config.opened)).await?;
    let clock = Arc::clone(&time);
    let (db, space, cancelled) = (config.db.clone(), space.clone(), cancelled.clone());
    tasks.push(tokio::spawn(async move {
        tokio::select! {
            () = time.follow(db, space) => {}
            () = cancelled.cancelled() => {}
        }
    }));
    Ok(clock)
}

/// How often agents report when nothing changes. A gateway calls an agent silent after two and a half intervals: within
/// the tolerance. Reports cost the gateway no write but processor time, so they are no more frequent.
fn report_of(lost_after_ms: u64) -> Duration {
    let report = Duration::from_millis(lost_after_ms) * 2 / 5;
    report.clamp(Duration::from_secs(1), Duration::from_secs(12))
}

fn beat_of(lost_after_ms: u64) -> Duration {
    let beat = Duration::from_millis(lost_after_ms) / BEATS_PER_TOLERANCE;
    beat.clamp(Duration::from_millis(100), Duration::from_secs(5))
}

/// Repeats an idempotent step of the start while the store does not answer: a store that is slow or is just starting
/// must not end a role. A refusal ends it at once.
async fn until_answered<T, F, Fut>(clock: &dyn Clock, step: F) -> StoreResult<T>
where
    F: Fn() -> Fut,
    Fut: Future<Output = StoreResult<T>>,
{
    let began = clock.monotonic();
    loop {
        let error = match step().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let unanswered = error
            .kv_error()
            .is_some_and(|kv| kv.code == ErrorCode::TransactionTimedOut || kv.code.is_retryable());
        if !unanswered || clock.monotonic().saturating_sub(began) > START_PATIENCE {
            return Err(error);
        }
        tracing::warn!(error = %error_chain(&error), "the store does not answer; the start waits for it");
        tokio::time::sleep(START_PAUSE).await;
    }
}

/// A request to create a cell. It is made once, so that every try of the transaction is the same.
fn creation(config: &ControlConfig) -> Change {
    Change {
        request: request_id_random(&*config.rng),
        actor: "control".to_owned(),
        action: "cell_create",
        at_ms: config.clock.wall_ms(),
    }
}

/// Creates the cell if it is missing, and returns its settings.
async fn cell_prepare(
    config: &ControlConfig,
    cell: &Name,
    space: &CellSpace,
    change: &Change,
) -> StoreResult<CellMeta> {
    let (meta, at_ms, tolerance_scope) = (&config.meta, change.at_ms, config.tolerance_scope);
    let prepare = config.db.run("cell_create", Idempotency::Natural, |tx, _| async move {
        cell_create(&tx, space, meta, at_ms).await?;
        if tolerance_scope == ToleranceScope::EveryCell {
            match ChangeSet::begin(&tx, space, change).await {
                Ok(mut changes) => {
                    let edit = |known: &mut CellMeta| known.lost_after_ms = meta.lost_after_ms;
                    cell_meta_change(&tx, &mut changes, edit).await?;
                    changes.append(&tx)?;
                }
                // A cell that has moved stays as it is.
                Err(StoreError::CellClosed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        federation_cell_enter(&tx, cell, at_ms).await?;
        cell_meta_read(&tx, space).await
    });
    prepare.await
}

/// State that the roles of one cell share.
struct CellRoles<'a> {
    db: &'a Database,
    space: &'a CellSpace,
    generation: u64,
    roles: &'a Roles,
    /// The decoded journal entries that this process's workers and its mirror share.
    share: JournalShare,
    /// The cell's time. Its type keeps the machine's clock out of what the roles store and compare.
    clock: &'a Arc<CellClock>,
    rng: &'a Arc<dyn Rng>,
    cancelled: &'a CancellationToken,
    workers_cancelled: &'a CancellationToken,
}

impl CellRoles<'_> {
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<CellClock>::clone(self.clock)
    }

    /// What a gateway needs of the cell.
    fn connection(&self, name: &Name, mirror: MirrorHandle, identity_url: &IdentityUrl) -> CellConnection {
        let (space, name, db) = (self.space.clone(), name.clone(), self.db.clone());
        CellConnection { space, name, db, mirror, identity_url: identity_url.clone() }
    }

    /// Follows the journal. The gateway takes its times from the clock of the mirror.
    fn mirror(&self) -> MirrorHandle {
        let options = MirrorOptions { share: Some(self.share.clone()), ..MirrorOptions::default() };
        let (db, rng) = (self.db.clone(), Arc::clone(self.rng));
        MirrorFollower::spawn_with(db, self.space.clone(), self.clock(), rng, options)
    }

    fn controller(
        &self,
        mirror: &MirrorHandle,
        lost_after_ms: u64,
        garbage: &GarbageMetrics,
    ) -> JoinHandle<()> {
        let config = ControllerConfig {
            space: self.space.clone(),
            holder: format!("controller-{:016x}", self.rng.next_u64()),
            lease_ms: self.roles.lease_ms,
            generation: self.generation,
            tick: beat_of(lost_after_ms).min(Duration::from_secs(1)),
            garbage: garbage.clone(),
        };
        let (clock, rng) = (self.clock(), Arc::clone(self.rng));
        let controller = Controller::new(config, self.db.clone(), mirror.clone(), clock, rng);
        tokio::spawn(controller.run(self.cancelled.clone()))
    }

    fn federation(&self, mirror: &MirrorHandle, led: &FederationRole) -> JoinHandle<()> {
        let config = FederationConfig {
            space: self.space.clone(),
            holder: format!("federation-{:016x}", self.rng.next_u64()),
            lease_ms: self.roles.lease_ms,
            generation: self.generation,
            metrics: led.metrics.clone(),
        };
        let (clock, rng) = (self.clock(), Arc::clone(self.rng));
        let clients = Arc::clone(&led.clients);
        let federation = Federation::new(config, self.db.clone(), mirror.clone(), clients, clock, rng);
        tokio::spawn(federation.run(self.cancelled.clone()))
    }

    fn worker(&self, place: u32, shards: u32, metrics: WorkerMetrics) -> JoinHandle<()> {
        let config = WorkerConfig {
            space: self.space.clone(),
            shards,
            place,
            schedulers: self.roles.served.clone(),
            holder: format!("scheduler-{place}-{:016x}", self.rng.next_u64()),
            lease_ms: self.roles.lease_ms,
            generation: self.generation,
            batch_tasks_max: BATCH_TASKS_MAX,
            slice_tasks: SLICE_TASKS,
            gang_commit_max: GANG_COMMIT_MAX,
            share: self.share.clone(),
        };
        let (db, cancelled) = (self.db.clone(), self.workers_cancelled.clone());
        let (clock, rng) = (self.clock(), Arc::clone(self.rng));
        tokio::spawn(worker_run(config, db, clock, rng, metrics, cancelled))
    }
}

/// Starts a worker, again if the store refuses it, and runs it.
async fn worker_run(
    config: WorkerConfig,
    db: Database,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    metrics: WorkerMetrics,
    cancelled: CancellationToken,
) {
    loop {
        let started =
            Worker::start(config.clone(), db.clone(), Arc::clone(&clock), Arc::clone(&rng), metrics.clone());
        match started.await {
            Ok(worker) => return worker.run(cancelled).await,
            Err(error) => tracing::warn!(?config, %error, "a scheduler worker cannot start"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = cancelled.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use borough_kv::KvError;
    use borough_kv::env::ManualClock;

    use super::*;

    fn answer(attempts: &Cell<u32>, code: ErrorCode, silent: u32) -> StoreResult<u32> {
        attempts.set(attempts.get() + 1);
        match attempts.get() > silent {
            true => Ok(attempts.get()),
            false => Err(KvError::new(code).into()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_for_a_silent_store_and_not_for_one_that_refuses() {
        let clock = ManualClock::at(0);
        for (code, expected) in
            [(ErrorCode::TransactionTimedOut, Some(3)), (ErrorCode::NotCommitted, Some(3))]
        {
            let attempts = Cell::new(0);
            let step = || std::future::ready(answer(&attempts, code, 2));
            assert_eq!(until_answered(&*clock, step).await.ok(), expected);
        }
        let attempts = Cell::new(0);
        let step = || std::future::ready(answer(&attempts, ErrorCode::KeyTooLarge, 2));
        assert!(until_answered(&*clock, step).await.is_err());
        assert_eq!(attempts.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_does_not_wait_for_ever() {
        let clock = ManualClock::at(0);
        let attempts = Cell::new(0);
        let step = || {
            clock.advance(Duration::from_secs(25));
            std::future::ready(answer(&attempts, ErrorCode::TransactionTimedOut, u32::MAX))
        };
        assert!(until_answered(&*clock, step).await.is_err());
        assert_eq!(attempts.get(), 3);
    }
}
