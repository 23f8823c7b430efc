//! Daemon jobs in a cell of many nodes that come and go.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borough_controller::{Controller, ControllerConfig, GarbageMetrics};
use borough_kv::env::{Clock, SeededRng};
use borough_model::job::{Constraint, ConstraintOperator, JobKind};
use borough_model::{JobId, NodeId, Resources, TaskRow};
use borough_store::cell::CellMeta;
use borough_store::check::{CellRows, CheckMode, cell_check, cell_rows_read};
use borough_store::job::job_submit;
use borough_store::journal::{Cursor, journal_tail};
use borough_store::mirror::MirrorFollower;
use borough_store::node::{
    NodeRegistration, node_drain, node_labels_set, node_register, node_reported, node_uncordon,
};
use borough_testkit::{
    MemoryStore, OpenCell, Role, VirtualClock, cell_time, change, job_spec, name, node_facts,
};

const NODES: u64 = 3_000;
const JOB: JobId = JobId(1);
/// Nobody beats for the nodes.
const NEVER_LOST_MS: u64 = 1_000_000_000;

struct World {
    cell: OpenCell,
    clock: Arc<dyn Clock>,
    controller: Role,
    requests: std::cell::Cell<u128>,
}

impl World {
    async fn new() -> Self {
        let clock = VirtualClock::at(1_000_000_000);
        let store = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1));
        let meta = CellMeta { lost_after_ms: NEVER_LOST_MS, ..CellMeta::default() };
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
        Self { cell, clock, controller, requests: std::cell::Cell::new(1) }
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

    async fn nodes_join(&self, ids: std::ops::RangeInclusive<u64>) {
        let ids: Vec<u64> = ids.collect();
        for part in ids.chunks(100) {
            self.change(async |tx, changes| {
                for id in part {
                    let facts = node_facts(Resources {
                        cpu_millis: 8_000,
                        memory_bytes: 1 << 34,
                        ..Resources::default()
                    });
                    let registration = NodeRegistration::new(name(&format!("n{id}")), facts, NodeId(*id), 5);
                    let (_, writer) = node_register(tx, changes, &registration).await?;
                    node_reported(&writer, changes, &[]).await?;
                }
                Ok(())
            })
            .await;
        }
    }

    async fn rows(&self) -> CellRows {
        self.cell.read(async |tx, space| cell_rows_read(tx, space).await).await.unwrap()
    }

    /// Waits until the job wants a task on exactly these nodes. Returns the index for each node.
    async fn serves(&self, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, u32> {
        let from = self.clock.monotonic();
        loop {
            let rows = self.rows().await;
            let live = rows.tasks.values().filter(|task| !task.is_withdrawn());
            let live: BTreeMap<NodeId, u32> = live.filter_map(indexed).collect();
            let row = &rows.jobs[&JOB];
            if live.keys().copied().collect::<BTreeSet<_>>() == *nodes {
                assert_eq!(usize::try_from(row.wanted_count()).unwrap(), nodes.len());
                let broken =
                    self.cell.read(async |tx, space| cell_check(tx, space, CheckMode::Always).await).await;
                assert_eq!(broken.unwrap(), []);
                return live;
            }
            let since = self.clock.monotonic().saturating_sub(from);
            assert!(since < Duration::from_secs(600), "{} nodes, and not {}", live.len(), nodes.len());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// How many entries of the journal have the action.
    async fn entries(&self, action: &str) -> usize {
        let entries = self.cell.read(async |tx, space| {
            let epoch = borough_store::cell::cell_gate_read(tx, space).await?.store_epoch;
            journal_tail(tx, space, Cursor::start(epoch), 100_000).await
        });
        entries.await.unwrap().entries.iter().filter(|(_, entry)| entry.action == action).count()
    }
}

fn indexed(task: &TaskRow) -> Option<(NodeId, u32)> {
    Some((task.node_served()?, task.id.index))
}

fn ids(ids: impl IntoIterator<Item = u64>) -> BTreeSet<NodeId> {
    ids.into_iter().map(NodeId).collect()
}

/// Thousands of nodes get their tasks in a few transactions, and keep their indexes whatever the others do.
#[tokio::test(start_paused = true)]
async fn many_nodes_are_served_in_a_few_transactions() {
    let world = World::new().await;
    world.nodes_join(1..=NODES).await;
    let spec = job_spec("ada", "logs", JobKind::Daemon);
    world.change(async |tx, changes| job_submit(tx, changes, &spec, JOB).await).await;
    let first = world.serves(&ids(1..=NODES)).await;
    let steps = world.entries("nodes_serve").await;
    assert!((6..=8).contains(&steps), "{steps} entries for {NODES} nodes");

    // Nodes are drained, and others join.
    world
        .change(async |tx, changes| {
            for id in 1..=50 {
                node_drain(tx, changes, NodeId(id)).await?;
            }
            Ok(())
        })
        .await;
    world.nodes_join(NODES + 1..=NODES + 50).await;
    let after = world.serves(&ids(51..=NODES + 50)).await;
    let kept =
        first.iter().filter(|(node, _)| node.0 > 50).all(|(node, index)| after.get(node) == Some(index));
    assert!(kept, "a task of another node has moved");
    world
        .change(async |tx, changes| {
            for id in 1..=50 {
                node_uncordon(tx, changes, NodeId(id)).await?;
            }
            Ok(())
        })
        .await;
    let back = world.serves(&ids(1..=NODES + 50)).await;
    assert!(first.iter().all(|(node, index)| back.get(node) == Some(index)), "an index has changed");
    world.controller.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_label_that_comes_and_goes_takes_the_task_along() {
    let world = World::new().await;
    world.nodes_join(1..=20).await;
    let mut spec = job_spec("ada", "logs", JobKind::Daemon);
    spec.constraints = vec![Constraint {
        attribute: "disk".to_owned(),
        operator: ConstraintOperator::In,
        values: vec!["ssd".to_owned()],
        preference: None,
    }];
    world.change(async |tx, changes| job_submit(tx, changes, &spec, JOB).await).await;
    world.serves(&BTreeSet::new()).await;
    let label = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    let (none, gone) = (BTreeMap::new(), BTreeSet::from(["disk".to_owned()]));
    world
        .change(async |tx, changes| {
            for id in 1..=5 {
                node_labels_set(tx, changes, NodeId(id), &label, &BTreeSet::new()).await?;
            }
            Ok(())
        })
        .await;
    let first = world.serves(&ids(1..=5)).await;
    world.change(async |tx, changes| node_labels_set(tx, changes, NodeId(3), &none, &gone).await).await;
    world.serves(&ids([1, 2, 4, 5])).await;
    world
        .change(async |tx, changes| node_labels_set(tx, changes, NodeId(3), &label, &BTreeSet::new()).await)
        .await;
    assert_eq!(world.serves(&ids(1..=5)).await, first);
    world.controller.end().await;
}
