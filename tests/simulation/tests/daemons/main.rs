//! Daemon jobs in a cell of a thousand nodes, in simulated time. Nodes join, leave, and are cordoned, drained, tainted,
//! labelled, rebooted and lost. The controller and the scheduler are the production code, over a store in memory.
//!
//! Two daemon jobs run: one on every node, and one on the nodes with a label. A service runs beside them, so that a
//! drain has more to move than daemons. Each entry of the journal is audited, and so is the whole cell every 10 seconds
//! of simulated time. In the end every node is as it should be, and each has one attempt of each job that matches it.
//!
//! | variable | what it sets | otherwise |
//! |---|---|---|
//! | `BOROUGH_NODES` | how many nodes the cell begins with | 60 |
//! | `BOROUGH_MINUTES` | how many minutes of trouble are simulated | 3 |
//! | `BOROUGH_SEED` | the seed | 1 |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod audit;
mod fleet;
mod operator;

use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, Rng, SeededRng};
use borough_kv::{Database, Transaction};
use borough_model::job::{Constraint, ConstraintOperator, JobKind, JobSpec};
use borough_model::{Delta, JobId, Resources};
use borough_scheduler::{GANG_COMMIT_MAX, SLICE_TASKS, Worker, WorkerConfig, WorkerMetrics};
use borough_simulation::audit::Auditor;
use borough_simulation::seeds::number;
use borough_store::StoreResult;
use borough_store::cell::CellMeta;
use borough_store::check::{CheckMode, cell_check};
use borough_store::job::job_submit;
use borough_store::journal::{ChangeSet, Cursor, JournalShare, journal_tail};
use borough_store::mirror::MirrorFollower;
use borough_testkit::{
    MemoryStore, OpenCell, Role, VirtualClock, begun, cell_time, change, in_simulated_time, job_spec, name,
    rng_of,
};

use audit::CellView;
use fleet::Fleet;
use operator::Operator;

/// The jobs: on every node, on nodes with the label, and a service.
const EVERYWHERE: JobId = JobId(1);
const LABELLED: JobId = JobId(2);
const SERVICE: JobId = JobId(3);
/// The label of the nodes of [`LABELLED`], and its value.
const LABEL: (&str, &str) = ("disk", "ssd");
/// Milliseconds without a heartbeat after which another process takes over.
const LEASE_MS: u64 = 5_000;
/// Milliseconds of silence after which a node is lost.
const LOST_AFTER_MS: u64 = 30_000;
/// One round of the simulation.
const ROUND: Duration = Duration::from_millis(500);
/// Rounds between two looks at the whole cell.
const LOOK_ROUNDS: u64 = 20;
/// Simulated time in which the calm cell must come to rest.
const PATIENCE: Duration = Duration::from_secs(600);
/// Entries of the journal that are read at once.
const PAGE_ENTRIES: usize = 512;

/// What must happen in a run.
const EVENTS: [&str; 13] = [
    "join",
    "leave",
    "cordon",
    "drain",
    "taint",
    "evict",
    "label",
    "silence",
    "reboot",
    "lost",
    "crash",
    "nodes_serve",
    "task_move",
];

struct World {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Rng>,
    cursor: Cursor,
    auditor: Auditor,
    view: CellView,
}

impl World {
    async fn new(seed: u64) -> (Self, [Role; 2]) {
        let clock = VirtualClock::at(1_000_000_000);
        let store = MemoryStore::new(Arc::clone(&clock), rng_of(seed, 1));
        let meta = CellMeta { lost_after_ms: LOST_AFTER_MS, ..CellMeta::default() };
        let cell = OpenCell::create(store.quiet(), &meta).await;
        let roles = [controller(&cell, &clock, seed).await, worker(&cell, &clock, seed)];
        let (ids, cursor) = (rng_of(seed, 2), Cursor::start(1));
        let (auditor, view) = (Auditor::new(1, Vec::new()), CellView::default());
        (Self { cell, clock, ids, cursor, auditor, view }, roles)
    }

    fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// A transaction of an agent or an operator, with its entry.
    async fn change<T>(
        &self,
        action: &'static str,
        closure: impl AsyncFn(&Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let request = (u128::from(self.ids.next_u64()) << 64) | u128::from(self.ids.next_u64());
        self.cell.change(change(request, action, self.now_ms()), closure).await
    }

    async fn submit(&self, spec: &JobSpec, job: JobId) {
        self.change("job_submit", async |tx, changes| job_submit(tx, changes, spec, job).await)
            .await
            .unwrap();
    }

    /// Audits the entries since the last round. Returns the rows of tasks that they changed, in order.
    async fn observe(&mut self, fleet: &mut Fleet) {
        loop {
            let after = self.cursor;
            let page = self.cell.read(async |tx, space| journal_tail(tx, space, after, PAGE_ENTRIES).await);
            let page = page.await.unwrap();
            for (_, entry) in &page.entries {
                self.auditor.entry(entry);
                for delta in &entry.deltas {
                    self.view.apply(delta, entry.at_ms);
                    if let Delta::Task { row } = delta {
                        fleet.wanted(row);
                    }
                }
            }
            self.cursor = page.next;
            if !page.more {
                return;
            }
        }
    }

    fn assert_sound(&self) {
        let broken = self.auditor.broken.iter().map(|broken| format!("{}: {}", broken.rule, broken.what));
        let broken: Vec<String> = broken.chain(self.view.broken.iter().cloned()).take(10).collect();
        assert!(broken.is_empty(), "at {} ms: {broken:#?}", self.now_ms());
    }
}

async fn controller(cell: &OpenCell, clock: &Arc<dyn Clock>, seed: u64) -> Role {
    let OpenCell { db, space } = cell;
    let time = cell_time(Arc::clone(clock), db, space).await;
    let config = ControllerConfig {
        space: space.clone(),
        holder: "controller".to_owned(),
        lease_ms: LEASE_MS,
        generation: 0,
        tick: Duration::from_secs(1),
        garbage: GarbageMetrics::default(),
    };
    let rng = rng_of(seed, 3);
    let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
    let controller = Controller::new(config, db.clone(), mirror, time, rng);
    Role::begin(|cancelled| controller.run(cancelled))
}

fn worker(cell: &OpenCell, clock: &Arc<dyn Clock>, seed: u64) -> Role {
    let config = WorkerConfig {
        space: cell.space.clone(),
        shards: 1,
        place: 0,
        schedulers: vec![name("default")],
        holder: "scheduler-0".to_owned(),
        lease_ms: LEASE_MS,
        generation: 0,
        batch_tasks_max: 256,
        slice_tasks: SLICE_TASKS,
        gang_commit_max: GANG_COMMIT_MAX,
        share: JournalShare::default(),
    };
    let (db, clock, metrics): (Database, _, _) =
        (cell.db.clone(), Arc::clone(clock), WorkerMetrics::default());
    let start = move || {
        let rng: Arc<dyn Rng> = SeededRng::shared(seed);
        Worker::start(config.clone(), db.clone(), Arc::clone(&clock), rng, metrics.clone())
    };
    Role::begin(|cancelled| async move { begun(start).await.run(cancelled).await })
}

/// A job with amounts of which a node holds many.
fn spec(job: &str, kind: JobKind) -> JobSpec {
    let mut spec = job_spec("ops", job, kind);
    spec.task.resources = Resources { cpu_millis: 50, memory_bytes: 64 << 20, ..Resources::default() };
    spec.restart.backoff_initial_ms = 500;
    spec.restart.backoff_max_ms = 5_000;
    spec
}

#[expect(clippy::print_stdout, reason = "what a run has met")]
async fn run(seed: u64, nodes: u64, minutes: u64) {
    let (mut world, roles) = World::new(seed).await;
    let mut fleet = Fleet::new(rng_of(seed, 4));
    let mut operator = Operator::new(rng_of(seed, 5), nodes);
    for number in 0..nodes {
        fleet.join(number);
    }
    fleet.round(&world).await;
    world.submit(&spec("everywhere", JobKind::Daemon), EVERYWHERE).await;
    let mut labelled = spec("labelled", JobKind::Daemon);
    labelled.constraints = vec![Constraint {
        attribute: LABEL.0.to_owned(),
        operator: ConstraintOperator::In,
        values: vec![LABEL.1.to_owned()],
        preference: None,
    }];
    world.submit(&labelled, LABELLED).await;
    let mut service = spec("service", JobKind::Service);
    service.count = u32::try_from(nodes / 5).unwrap();
    world.submit(&service, SERVICE).await;

    let rounds = minutes * 60 * 1_000 / u64::try_from(ROUND.as_millis()).unwrap();
    for round in 0..rounds {
        tokio::time::sleep(ROUND).await;
        operator.round(&mut world, &mut fleet).await;
        fleet.round(&world).await;
        world.observe(&mut fleet).await;
        if round % LOOK_ROUNDS == 0 {
            world.view.look(world.now_ms(), &fleet);
            world.assert_sound();
        }
    }
    // Every condition ends, and no further one begins.
    let from = world.clock.monotonic();
    fleet.calm();
    operator.calm(&mut world, &mut fleet).await;
    loop {
        tokio::time::sleep(ROUND).await;
        fleet.round(&world).await;
        world.observe(&mut fleet).await;
        let open = world.view.unsettled(&fleet);
        if open.is_empty() {
            break;
        }
        let since = world.clock.monotonic().saturating_sub(from);
        let shown: Vec<_> = open.iter().take(10).collect();
        assert!(since < PATIENCE, "{} things are not at rest: {shown:#?}", open.len());
    }
    world.assert_sound();
    let broken =
        world.cell.read(async |tx, space| cell_check(tx, space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(broken, [], "the store is broken");
    for role in roles {
        role.end().await;
    }
    let mut seen = world.auditor.seen.clone();
    seen.extend(operator.seen.iter().map(|(event, times)| ((*event).to_owned(), *times)));
    seen.insert("lost".to_owned(), world.view.lost);
    seen.insert("crash".to_owned(), fleet.crashes);
    println!(
        "{} nodes, {minutes} minutes, {} entries: {seen:?}",
        world.view.nodes.len(),
        world.auditor.entries()
    );
    let unmet = EVENTS.iter().filter(|event| seen.get(**event).copied().unwrap_or(0) == 0);
    assert_eq!(unmet.collect::<Vec<_>>(), [&""; 0], "a run that meets nothing proves nothing");
}

#[test]
fn daemons_follow_the_nodes_whatever_becomes_of_them() {
    let nodes = number("BOROUGH_NODES").unwrap_or(60);
    let minutes = number("BOROUGH_MINUTES").unwrap_or(3);
    in_simulated_time(run(number("BOROUGH_SEED").unwrap_or(1), nodes, minutes));
}
