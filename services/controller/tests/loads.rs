//! The journal has the loads of nodes while somebody follows them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, SeededRng};
use borough_model::job::JobKind;
use borough_model::node::LoadMeasured;
use borough_model::{Delta, JobId, NodeId, Resources};
use borough_store::cell::{CellMeta, LoadJournal, cell_meta_change, cell_meta_read};
use borough_store::check::{CheckMode, cell_check};
use borough_store::job::{job_stop, job_submit, job_tasks_gone};
use borough_store::mirror::MirrorFollower;
use borough_store::node::{NodeRegistration, SessionFence, node_loads_set, node_register, node_writers};
use borough_testkit::{
    MemoryStore, OpenCell, Role, VirtualClock, cell_time, change, job_spec, name, node_facts,
};

const NODES: u64 = 1_200;
const SESSION: u64 = 5;

struct LoadWorld {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    controller: Role,
    requests: std::cell::Cell<u128>,
}

impl LoadWorld {
    /// A cell with nodes, and a controller.
    async fn new(profile: &str) -> Self {
        let clock = VirtualClock::at(1_000_000_000);
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let meta = CellMeta { profile: profile.to_owned(), ..CellMeta::default() };
        let cell = OpenCell::create(store.quiet(), &meta).await;
        let OpenCell { db, space } = &cell;
        let time = cell_time(Arc::clone(&clock), db, space).await;
        let config = ControllerConfig {
            space: space.clone(),
            holder: "controller".to_owned(),
            lease_ms: 5_000,
            generation: 0,
            tick: Duration::from_secs(1),
            garbage: GarbageMetrics::default(),
        };
        let rng = SeededRng::shared(2);
        let mirror = MirrorFollower::spawn(db.clone(), space.clone(), Arc::clone(&time), Arc::clone(&rng));
        let controller = Controller::new(config, db.clone(), mirror, time, rng);
        let controller = Role::begin(|cancelled| controller.run(cancelled));
        let world = Self { cell, clock, controller, requests: std::cell::Cell::new(1) };
        for id in 1..=NODES {
            let facts = node_facts(Resources { cpu_millis: 8_000, ..Resources::default() });
            let registration = NodeRegistration::new(name(&format!("n{id}")), facts, NodeId(id), SESSION);
            world.change(async |tx, changes| node_register(tx, changes, &registration).await.map(drop)).await;
        }
        world
    }

    async fn change<T>(
        &self,
        closure: impl AsyncFn(
            &borough_kv::Transaction,
            &mut borough_store::ChangeSet,
        ) -> borough_store::StoreResult<T>,
    ) -> T {
        let request = self.requests.replace(self.requests.get() + 1);
        self.cell.change(change(request, "test", self.clock.wall_ms()), closure).await.unwrap()
    }

    /// Every agent reports a load.
    async fn report(&self, cpu_millis: u64) {
        let nodes: Vec<u64> = (1..=NODES).collect();
        for nodes in nodes.chunks(300) {
            let written = self.change(async |tx, changes| {
                let fences = nodes.iter().map(|id| SessionFence { node: NodeId(*id), session: SESSION });
                let writers = node_writers(tx, &self.cell.space, fences).await?;
                let measured = Some(LoadMeasured { cpu_millis, ..LoadMeasured::default() });
                let reports: Vec<_> = writers.values().map(|writer| (writer, measured)).collect();
                node_loads_set(changes, &reports).await
            });
            assert_eq!(written.await, nodes.len());
        }
    }

    /// Whether the journal has loads.
    async fn loads(&self) -> Option<LoadJournal> {
        self.cell.read(async |tx, space| cell_meta_read(tx, space).await).await.unwrap().loads
    }

    /// Waits until the journal has loads or not.
    async fn until(&self, loads: LoadJournal) {
        let from = self.clock.monotonic();
        loop {
            let known = self.loads().await;
            if known == Some(loads) {
                return;
            }
            let since = self.clock.monotonic().saturating_sub(from);
            assert!(since < Duration::from_secs(3_600), "{known:?} and not {loads:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// The nodes whose load of so many millis the journal has, and the number of entries that have loads.
    async fn journalled(&self, cpu_millis: u64) -> (usize, usize) {
        let (mut nodes, mut entries) = (BTreeSet::new(), 0);
        for (_, entry) in self.cell.journal().await {
            let loads = entry.deltas.iter().filter_map(|delta| match delta {
                Delta::NodeLoad { node, load } => Some((*node, load.measured)),
                _ => None,
            });
            let loads: Vec<_> = loads.collect();
            entries += usize::from(!loads.is_empty());
            let wanted =
                |measured: &Option<LoadMeasured>| measured.is_some_and(|load| load.cpu_millis == cpu_millis);
            nodes.extend(loads.iter().filter(|(_, measured)| wanted(measured)).map(|(node, _)| *node));
        }
        (nodes.len(), entries)
    }

    async fn end(self) {
        let broken = self.cell.read(async |tx, space| cell_check(tx, space, CheckMode::Always).await).await;
        assert_eq!(broken.unwrap(), []);
        self.controller.end().await;
    }
}

/// Nobody follows: no entry. A profile is chosen that does: all of them, in three entries. It is chosen no more: no
/// entry again, after a while.
#[tokio::test(start_paused = true)]
async fn loads_are_journalled_from_the_choice_of_a_profile_that_reads_them() {
    let world = LoadWorld::new("best-fit").await;
    world.until(LoadJournal::Off).await;
    world.report(1_000).await;
    world.report(2_000).await;
    assert_eq!(world.journalled(2_000).await, (0, 0));
    let choose = async |profile: &str| {
        world
            .change(async |tx, changes| {
                cell_meta_change(tx, changes, |meta| meta.profile = profile.to_owned()).await.map(drop)
            })
            .await;
    };
    choose("load-aware").await;
    world.until(LoadJournal::On).await;
    assert_eq!(world.journalled(2_000).await, (1_200, 3));
    world.report(3_000).await;
    assert_eq!(world.journalled(3_000).await, (1_200, 7));
    choose("worst-fit").await;
    world.until(LoadJournal::Off).await;
    world.report(4_000).await;
    assert_eq!(world.journalled(4_000).await, (0, 7));
    world.end().await;
}

/// A tenant submits and ends jobs that follow loads, as fast as possible. The cell goes through all nodes once, and not
/// once per job: it does not end between two of them.
#[tokio::test(start_paused = true)]
async fn jobs_that_come_and_go_with_such_a_profile_begin_once() {
    let world = LoadWorld::new("best-fit").await;
    world.until(LoadJournal::Off).await;
    world.report(1_000).await;
    for id in 1..=100 {
        let mut spec = job_spec("ada", &format!("job-{id}"), JobKind::Batch);
        spec.profile = Some("load-aware".to_owned());
        world.change(async |tx, changes| job_submit(tx, changes, &spec, JobId(id)).await.map(drop)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        world
            .change(async |tx, changes| {
                job_stop(tx, changes, JobId(id)).await?;
                job_tasks_gone(tx, changes, JobId(id)).await.map(drop)
            })
            .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.loads().await, Some(LoadJournal::On), "after job {id}");
    }
    assert_eq!(world.journalled(1_000).await, (1_200, 3));
    world.until(LoadJournal::Off).await;
    world.end().await;
}
