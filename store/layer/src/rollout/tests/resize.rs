//! Running attempts are resized in place: what is charged at each step, and what the check of a store finds.

use borough_model::node::NodeAlloc;
use borough_model::resource::fits_in;
use borough_model::task::{Resize, ResizeRefused};

use super::*;
use crate::keys::NodeAllocKey;
use crate::task::ResizeReport;

const IN_USE: ResizeRefused = ResizeRefused::MemoryInUse { used_bytes: 65 << 20, asked_bytes: 64 << 20 };

impl World {
    pub(super) async fn resize(&self, revision: u64, indexes: &[u32]) -> usize {
        let mut attempts = Vec::new();
        for index in indexes {
            attempts.push((task(*index), self.row(*index).await.unwrap().incarnation));
        }
        let attempts = &attempts;
        self.change("rollout_resize", async |tx, changes| {
            rollout_resize(tx, changes, JOB, revision, attempts).await
        })
        .await
        .unwrap()
    }

    pub(super) async fn report_apply(&self, report: TaskReport) {
        let reports = [report];
        let applying = self.cell.change_as(change(3, "task_report"), SOURCE, async |writer, changes| {
            task_report_apply(writer, changes, &reports).await
        });
        applying.await.unwrap().unwrap();
        self.check("report").await;
    }

    async fn resize_now(&self, indexes: &[u32]) -> usize {
        self.resize(self.job().await.revision, indexes).await
    }

    /// The agent answers the order of an attempt, if there is one.
    pub(super) async fn settle(&self, index: u32, is_refused: bool) {
        let row = self.row(index).await.unwrap();
        let Some(order) = row.resize_ordered().map(|resize| resize.order) else { return };
        let resize = Some(ResizeReport { order, refused: is_refused.then_some(IN_USE) });
        let report =
            TaskReport { incarnation: row.incarnation, resize, ..running(index, ReportPhase::Running) };
        self.report_apply(report).await;
    }

    /// What the node counts as taken: thousandths of a core.
    async fn committed(&self) -> u64 {
        let cell = &self.cell;
        let read = async |tx| keys::read(&tx, &cell.space, &NodeAllocKey { node: NODE }).await;
        cell.run(read).await.unwrap().map_or(0, |alloc: NodeAlloc| alloc.used.cpu_millis)
    }

    /// The charge of an attempt in thousandths of a core, and its version.
    async fn share(&self, index: u32) -> (u64, u32) {
        let row = self.row(index).await.unwrap();
        (row.charge.resources.cpu_millis, row.spec_version)
    }

    /// Two running tasks with so much each.
    async fn with_two(cpu_millis: u64) -> Self {
        let world = Self::new().await;
        world.submit(&spec(2, cpu_millis, "one")).await.unwrap();
        world.run(0).await;
        world.run(1).await;
        world
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_charged_the_most_of_both_until_its_agent_confirms_one() {
    let world = World::with_two(100).await;
    world.submit(&spec(2, 300, "one")).await.unwrap();
    assert_eq!(
        (world.committed().await, world.charged().await),
        (200, (600, 2)),
        "the quota has room for it"
    );
    let revision = world.job().await.revision;
    assert_eq!(world.resize(revision, &[0, 1]).await, 2);
    assert_eq!(world.resize(revision, &[0, 1]).await, 0, "it was decided by an old state");
    assert_eq!(
        (world.share(0).await, world.committed().await),
        ((300, 1), 600),
        "charged before it is applied"
    );
    assert_eq!(world.resize_now(&[0]).await, 0, "one order at a time");
    world.settle(0, false).await;
    world.settle(1, true).await;
    assert_eq!((world.share(0).await, world.share(1).await), ((300, 2), (100, 1)));
    assert_eq!((world.committed().await, world.charged().await), (400, (600, 2)));
    let refused = world.row(1).await.unwrap().resize.unwrap();
    assert_eq!((refused.refused, refused.version, refused.granted.cpu_millis), (Some(IN_USE), 2, 300));
    // It is tried again after a while only, and down as well: the larger amount stays until the other is in force.
    assert_eq!(world.resize_now(&[1]).await, 0);
    world.submit(&spec(2, 50, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 2);
    assert_eq!((world.share(0).await, world.share(1).await), ((300, 2), (100, 1)), "not given back yet");
    world.settle(0, false).await;
    world.settle(1, false).await;
    assert_eq!((world.share(0).await, world.committed().await), ((50, 3), 100));
    world.done().await;
    assert_eq!(world.charged().await, (100, 2));
    assert!(world.row(1).await.unwrap().resize.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_room_gets_no_order_and_says_what_is_missing() {
    let world = World::with_two(20_000).await;
    world.submit(&spec(2, 40_000, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 1, "there is room for one");
    let row = world.row(1).await.unwrap();
    let why = row.resize.unwrap().refused.unwrap().to_string();
    assert_eq!(why, "its node has no room: cpu: 20 needed, 4 free");
    assert_eq!((row.charge.resources.cpu_millis, world.committed().await), (20_000, 60_000));
    // It is replaced as by any rollout.
    assert_eq!(world.replace(world.job().await.revision, &[1]).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_resized_in_place_begins_no_surge_and_one_without_room_does() {
    let world = World::new().await;
    let surging = |cpu_millis, command| {
        let update = UpdateSpec { surge_max: Some(1), unavailable_max: Some(0), ..UpdateSpec::default() };
        JobSpec { update: Some(update), ..spec(2, cpu_millis, command) }
    };
    world.submit(&surging(20_000, "one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.submit(&surging(30_000, "one")).await.unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.resizes, rollout.surge, world.job().await.count), (true, 0, 2));
    assert_eq!(world.charged().await, (60_000, 2), "no further task is charged");
    // The node has room for one of them only: the other has to be replaced, and one surges before that.
    world.submit(&surging(40_000, "one")).await.unwrap();
    assert_eq!(world.rollout().await.surge, 1, "what the rollout before has done is not known");
    let world = World::new().await;
    world.submit(&surging(20_000, "one")).await.unwrap();
    world.run(0).await;
    world.run(1).await;
    world.submit(&surging(40_000, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 1);
    let revision = world.job().await.revision;
    world.change("surge", async |tx, changes| rollout_surge(tx, changes, JOB, revision).await).await.unwrap();
    let rollout = world.rollout().await;
    assert_eq!((rollout.resizes, rollout.surge, world.job().await.count), (false, 1, 3));
    assert_eq!(world.charged().await, (120_000, 3));
    let revision = world.job().await.revision;
    world.change("surge", async |tx, changes| rollout_surge(tx, changes, JOB, revision).await).await.unwrap();
    assert_eq!(world.rollout().await.surge, 1, "once");
    // Another command replaces attempts, and begins its surge at once.
    let world = World::with_two(100).await;
    world.submit(&surging(100, "two")).await.unwrap();
    assert_eq!((world.rollout().await.resizes, world.rollout().await.surge), (false, 1));
}

/// Kubernetes #126033: a container that restarted while its resize was refused got the amounts that its node had
/// refused.
#[tokio::test(start_paused = true)]
async fn after_a_refused_resize_the_next_attempt_has_what_it_is_charged() {
    let world = World::with_two(20_000).await;
    world.submit(&spec(2, 40_000, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 1);
    assert!(world.row(1).await.unwrap().resize.unwrap().refused.is_some(), "there is room for one");
    world.finish(1).await;
    let row = world.row(1).await.unwrap();
    assert_eq!((row.state, row.resize, world.committed().await), (TaskState::Pending, None, 40_000));
    // Its next attempt asks for what the refused order did, and begins only where the node has that.
    let placed = world.change("place", async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [task(1)]).await?;
        book.extend_nodes(tx, changes.space(), [NODE]).await?;
        let placement = Placement {
            node: NODE,
            incarnation: Incarnation(2),
            ports: Vec::new(),
            resources: spec(2, 40_000, "one").resources_for(1).into_owned(),
            spec_version: 2,
            gang: None,
            alloc: None,
        };
        Ok(book.apply(task(1), &TaskEvent::Place(placement), changes.at_ms()).is_err())
    });
    assert!(placed.await.unwrap(), "the node has 24 cores left");
    world.settle(0, true).await;
    assert_eq!(world.committed().await, 20_000);
    world.run(1).await;
    assert_eq!((world.share(1).await, world.committed().await), ((40_000, 2), 60_000));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_ends_in_the_middle_gives_back_all_that_it_was_charged() {
    let world = World::with_two(100).await;
    world.submit(&spec(2, 300, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 2);
    world.finish(0).await;
    let row = world.row(0).await.unwrap();
    assert_eq!((row.state, row.resize), (TaskState::Pending, None));
    assert_eq!(world.committed().await, 300);
    world.run(0).await;
    assert_eq!(world.share(0).await, (300, 2));
    // A stop keeps the larger share until its end, whatever the agent says.
    world.change("stop", async |tx, changes| job_stop(tx, changes, JOB).await).await.unwrap();
    world
        .change("unwanted", async |tx, changes| task_unwanted_stop(tx, changes, JOB, None, 100).await)
        .await
        .unwrap();
    world.settle(1, false).await;
    assert_eq!(world.share(1).await, (300, 1));
    for index in [0, 1] {
        world.report(index, ReportPhase::Released).await;
    }
    assert_eq!((world.committed().await, world.charged().await), (0, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_an_earlier_version_gets_no_order() {
    let world = World::with_two(100).await;
    world
        .change("register", async |tx, changes| {
            let registration =
                NodeRegistration::new(name("n7"), node_facts(64_000), NODE, SOURCE.session + 1);
            node_register(tx, changes, &registration).await.map(drop)
        })
        .await
        .unwrap();
    world.submit(&spec(2, 300, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 0);
    assert_eq!((world.share(0).await, world.committed().await), ((100, 1), 200));
    assert_eq!(world.replace(world.job().await.revision, &[0, 1]).await, 1, "the rollout replaces it");
}

/// The check of a store recomputes what is granted, what is in force, and the charge.
#[tokio::test(start_paused = true)]
async fn a_wrong_resize_is_found_by_the_check_of_a_store() {
    let world = World::with_two(100).await;
    world.submit(&spec(2, 300, "one")).await.unwrap();
    assert_eq!(world.resize_now(&[0, 1]).await, 2);
    let right = world.row(0).await.unwrap();
    let resize = right.resize.clone().unwrap();
    let more =
        |resources: &Resources| Resources { cpu_millis: resources.cpu_millis + 1, ..resources.clone() };
    let with = |resize: Resize| TaskRow { resize: Some(Box::new(resize)), ..right.clone() };
    let mut low = right.clone();
    low.charge.resources.cpu_millis = 100;
    let wrong = [
        ("task_row", low),
        ("task_granted", with(Resize { granted: more(&resize.granted), ..(*resize).clone() })),
        ("task_share", with(Resize { in_force: more(&resize.in_force), ..(*resize).clone() })),
        ("task_spec", with(Resize { version: 9, ..(*resize).clone() })),
    ];
    for (rule, row) in wrong {
        let cell = &world.cell;
        let write = async |row: &TaskRow| {
            cell.run(async |tx| keys::write(&tx, &cell.space, &TaskKey::of(task(0)), row)).await.unwrap();
        };
        write(&row).await;
        let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
        assert!(found.iter().any(|violation| violation.rule == rule), "{rule}: {found:?}");
        write(&right).await;
    }
    assert!(fits_in(&resize.granted, &right.charge.resources));
    world.check("repair").await;
}
