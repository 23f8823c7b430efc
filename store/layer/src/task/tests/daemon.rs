//! Daemon jobs against a store: charges and counts are right at every step, and indexes stay with their nodes.

use borough_model::Resources;
use borough_model::daemon::NodeServed;
use borough_model::job::{Band, JobRow};

use super::*;
use crate::daemon::job_nodes_serve;
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::node::node_live_read;
use crate::quota::{QuotaRow, quota_set, quota_usage};

const NODES: [NodeId; 3] = [NodeId(7), NodeId(8), NodeId(9)];

fn spec(cpu_millis: u64) -> JobSpec {
    let mut spec = JobSpec::defaults(name("ada"), name("logs"), JobKind::Daemon, vec!["run".to_owned()]);
    spec.task.resources = Resources { cpu_millis, memory_bytes: 1 << 20, ..Resources::default() };
    spec
}

struct World {
    cell: TestCell,
    requests: std::cell::Cell<u128>,
}

impl World {
    /// Three nodes of a core, and a daemon job whose tasks take a tenth.
    async fn new() -> Self {
        let cell = TestCell::new().await;
        cell.change(change(1, "world"), async |tx, changes| {
            for node in NODES {
                let called = name(&format!("n{}", node.0));
                let registration = NodeRegistration::new(called, node_facts(1_000), node, 5);
                let (_, writer) = node_register(tx, changes, &registration).await?;
                node_reported(&writer, changes, &[]).await?;
                node_live_renew(&writer, changes.space(), 5, 0, None).await?;
            }
            job_submit(tx, changes, &spec(100), JobId(1)).await
        })
        .await
        .unwrap();
        Self { cell, requests: std::cell::Cell::new(10) }
    }

    /// Makes a change, and finds no rule of the cell broken after it.
    async fn change<T>(
        &self,
        action: &'static str,
        body: impl AsyncFn(&borough_kv::Transaction, &mut ChangeSet) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.requests.set(self.requests.get() + 1);
        let done = self.cell.change(change(self.requests.get(), action), body).await;
        let cell = &self.cell;
        let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
        assert_eq!(found, [], "after {action}");
        done
    }

    async fn serve(&self, steps: u64, serve: &[NodeServed], lacking: u32) -> JobRow {
        let serving = self.change("nodes_serve", async |tx, changes| {
            job_nodes_serve(tx, changes, JobId(1), steps, serve, lacking).await
        });
        serving.await.unwrap()
    }

    async fn job(&self) -> JobRow {
        let cell = &self.cell;
        cell.run(async |tx| job_get(&tx, &cell.space, JobId(1)).await).await.unwrap()
    }

    async fn row(&self, index: u32) -> TaskRow {
        let cell = &self.cell;
        let row = cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task(index))).await).await;
        row.unwrap().unwrap()
    }

    /// Processor time and tasks that the quota counts.
    async fn used(&self) -> (u64, u64) {
        let cell = &self.cell;
        let used = cell
            .run(async |tx| quota_usage(&tx, &cell.space, &name("ada"), Band::Production).await)
            .await
            .unwrap();
        (used.used.cpu_millis, used.tasks)
    }

    async fn limit(&self, tasks_max: u64) {
        let cell = &self.cell;
        cell.run(async |tx| {
            let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
            quota_set(&tx, &cell.space, &name("ada"), Band::Production, Some(&limit)).await
        })
        .await
        .unwrap();
    }

    async fn place(&self, index: u32) {
        let row = self.row(index).await;
        let placement = Placement {
            node: row.node_served().unwrap(),
            incarnation: row.incarnation.next(),
            ports: Vec::new(),
            resources: spec(100).task.resources,
            spec_version: 1,
            gang: None,
            alloc: None,
        };
        self.change("place", async |tx, changes| {
            let mut book = TaskBook::read(tx, changes.space(), [task(index)]).await?;
            book.extend_nodes(tx, changes.space(), NODES).await?;
            book.apply(task(index), &TaskEvent::Place(placement.clone()), changes.at_ms())?.unwrap();
            book.write(tx, changes).await
        })
        .await
        .unwrap();
    }

    async fn apply(&self, index: u32, event: TaskEvent) {
        self.change("apply", async |tx, changes| {
            let mut book = TaskBook::read(tx, changes.space(), [task(index)]).await?;
            book.apply(task(index), &event, changes.at_ms())?.unwrap();
            book.write(tx, changes).await
        })
        .await
        .unwrap();
    }

    async fn withdraw(&self, index: u32) {
        let attempt = (task(index), self.row(index).await.incarnation);
        self.change("withdraw", async |tx, changes| {
            task_stop_begin(tx, changes, &[attempt], StopReason::NodeLeft).await
        })
        .await
        .unwrap();
    }
}

fn new(node: NodeId) -> NodeServed {
    NodeServed { node, again: None }
}

#[tokio::test]
async fn a_daemon_job_is_charged_as_its_nodes_come_and_go() {
    let world = World::new().await;
    assert_eq!((world.job().await.count, world.used().await), (0, (0, 0)), "no node was looked at");
    let row = world.serve(0, &NODES.map(new), 3).await;
    assert_eq!((row.count, row.wanted_count(), world.used().await), (3, 3, (300, 3)));
    for index in 0..3 {
        world.place(index).await;
        assert_eq!(world.row(index).await.node, Some(NODES[usize::try_from(index).unwrap()]));
    }
    assert_eq!(world.used().await, (300, 3));

    // The task of one node ends: nothing is charged for it, and no other one moves.
    world.withdraw(1).await;
    assert_eq!(world.used().await, (300, 3), "it is still there");
    let attempt = borough_model::task::Attempt { node: NODES[1], incarnation: Incarnation(1) };
    world.apply(1, TaskEvent::ReleaseConfirmed { attempt }).await;
    let row = world.job().await;
    assert_eq!((row.count, row.wanted_count(), world.used().await), (3, 2, (200, 2)));
    assert!(world.row(1).await.is_withdrawn());

    // Its node matches again: the same index, and the next attempt.
    let row = world.serve(1, &[NodeServed { node: NODES[1], again: Some(1) }], 1).await;
    assert_eq!((row.count, row.wanted_count(), world.used().await), (3, 3, (300, 3)));
    world.place(1).await;
    assert_eq!(world.row(1).await.incarnation, Incarnation(2));

    // What a lost node had is given up in the end, and begins nowhere else.
    world
        .change("lost", async |tx, changes| {
            let seen = node_live_read(tx, changes.space(), NODES[2]).await?;
            node_declare_lost(tx, changes, NODES[2], seen.as_ref()).await
        })
        .await
        .unwrap();
    world.apply(2, TaskEvent::NodeDeclaredLost { node: NODES[2] }).await;
    world
        .change("give up", async |tx, changes| {
            task_reschedule_lost(tx, changes, NODES[2], &[(task(2), Incarnation(1))]).await
        })
        .await
        .unwrap();
    assert!(world.row(2).await.is_withdrawn(), "it runs nowhere else: {:?}", world.row(2).await);
    assert_eq!((world.job().await.wanted_count(), world.used().await), (2, (200, 2)));
}

#[tokio::test]
async fn a_step_that_was_decided_by_an_old_state_gives_no_node_a_second_task() {
    let world = World::new().await;
    world.serve(0, &[new(NODES[0])], 3).await;
    let row = world.serve(0, &NODES.map(new), 3).await;
    assert_eq!(row.count, 1, "the state was that before the first step");
    let row = world.serve(1, &[new(NODES[1]), new(NODES[2])], 2).await;
    assert_eq!((row.count, row.daemon.unwrap().steps), (3, 2));
}

#[tokio::test]
async fn a_quota_without_room_serves_as_many_nodes_as_it_can_and_says_how_many_wait() {
    let world = World::new().await;
    world.limit(2).await;
    let row = world.serve(0, &NODES.map(new), 3).await;
    let daemon = *row.daemon.unwrap();
    assert_eq!((row.count, daemon.unadmitted, daemon.left, world.used().await), (2, 1, 0, (200, 2)));
    // As long as nothing changes, the controller's next look writes nothing.
    let row = world.serve(1, &[new(NODES[2])], 1).await;
    assert_eq!((row.revision, world.job().await.revision), (2, 2));
    world.limit(3).await;
    let row = world.serve(1, &[new(NODES[2])], 1).await;
    assert_eq!((row.count, row.daemon.unwrap().unadmitted, world.used().await), (3, 0, (300, 3)));
    // What a step leaves to the next one is not short of quota.
    let row = world.serve(2, &[], 0).await;
    assert_eq!(row.daemon.unwrap().left, 0);
}

#[tokio::test]
async fn a_changed_spec_of_a_daemon_job_keeps_its_tasks_and_charges_what_they_may_take() {
    let world = World::new().await;
    world.serve(0, &NODES.map(new), 3).await;
    for index in 0..3 {
        world.place(index).await;
    }
    world
        .change("submit", async |tx, changes| job_submit(tx, changes, &spec(150), JobId(9)).await)
        .await
        .unwrap();
    let row = world.job().await;
    assert_eq!((row.count, row.spec_version, world.used().await), (3, 2, (450, 3)));
    let again = world
        .change("submit", async |tx, changes| job_submit(tx, changes, &spec(150), JobId(9)).await)
        .await
        .unwrap();
    assert_eq!(again.outcome, crate::job::SubmitOutcome::Unchanged, "its owner has said the same");
    let scaled = world.change("scale", async |tx, changes| job_scale(tx, changes, JobId(1), 5).await).await;
    assert!(matches!(scaled, Err(StoreError::InvalidSpec { .. })), "{scaled:?}");
    // A stop ends it with everything given back.
    world.change("stop", async |tx, changes| job_stop(tx, changes, JobId(1)).await).await.unwrap();
    world
        .change("end", async |tx, changes| task_unwanted_stop(tx, changes, JobId(1), None, 10).await)
        .await
        .unwrap();
    for (index, node) in (0..).zip(NODES) {
        let attempt = borough_model::task::Attempt { node, incarnation: Incarnation(1) };
        world.apply(index, TaskEvent::ReleaseConfirmed { attempt }).await;
    }
    world.change("gone", async |tx, changes| job_tasks_gone(tx, changes, JobId(1)).await).await.unwrap();
    assert_eq!(world.used().await, (0, 0));
}
