//! Allocs against a store: what is in them is charged once, fits, leaves with them, and keeps the budgets of its jobs.
//! A plain model says what each alloc holds.

mod budget;

use std::collections::BTreeMap;

use borough_model::job::{Band, JobRow, JobState, UpdateSpec};
use borough_model::resource::Resources;
use borough_model::task::machine::TaskRules;
use borough_model::task::{Attempt, EndReason, Exit, Health, InAlloc};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::NodeAllocKey;
use crate::quota::quota_usage;
use crate::rollout::rollout_replace;
use crate::task::{TaskMoves, tasks_move};

const NODES: [NodeId; 2] = [NodeId(7), NodeId(8)];
const SET: JobId = JobId(1);
const WEB: JobId = JobId(2);
const LOGS: JobId = JobId(3);
const ALLOCS: u32 = 2;
const HOLDS: u64 = 400;

fn set_spec() -> JobSpec {
    let command = borough_model::job::ALLOC_COMMAND.map(str::to_owned).to_vec();
    let mut spec = JobSpec::defaults(name("ada"), name("places"), JobKind::AllocSet, command);
    spec.count = ALLOCS;
    spec.task.resources = held();
    spec
}

fn member_spec(job: &str, count: u32, cpu_millis: u64) -> JobSpec {
    let mut spec = JobSpec::defaults(name("ada"), name(job), JobKind::Service, vec!["run".to_owned()]);
    (spec.count, spec.alloc_set) = (count, Some(name("places")));
    spec.task.resources = amounts(cpu_millis);
    spec
}

fn amounts(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, memory_bytes: 1 << 20, ..Resources::default() }
}

/// What an alloc holds.
fn held() -> Resources {
    Resources { memory_bytes: 64 << 20, ..amounts(HOLDS) }
}

fn of(job: JobId, index: u32) -> TaskId {
    TaskId { job, index }
}

struct World {
    cell: TestCell,
    requests: std::cell::Cell<u128>,
}

impl World {
    /// Two nodes of a core, and a set of two allocs of 400 thousandths.
    async fn new() -> Self {
        let cell = TestCell::new().await;
        cell.change(change(1, "world"), async |tx, changes| {
            for node in NODES {
                let called = name(&format!("n{}", node.0));
                let registration = NodeRegistration::new(called, node_facts(1_000), node, 5);
                let (_, writer) = node_register(tx, changes, &registration).await?;
                node_reported(&writer, changes, &[]).await?;
            }
            job_submit(tx, changes, &set_spec(), SET).await
        })
        .await
        .unwrap();
        Self { cell, requests: std::cell::Cell::new(10) }
    }

    async fn with_members() -> Self {
        let world = Self::new().await;
        world.submit(&member_spec("web", 3, 100), WEB).await.unwrap();
        world.submit(&member_spec("logs", 2, 150), LOGS).await.unwrap();
        world
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

    async fn submit(&self, spec: &JobSpec, job: JobId) -> StoreResult<()> {
        self.change("job_submit", async |tx, changes| job_submit(tx, changes, spec, job).await)
            .await
            .map(drop)
    }

    async fn job(&self, job: JobId) -> JobRow {
        let cell = &self.cell;
        cell.run(async |tx| job_get(&tx, &cell.space, job).await).await.unwrap()
    }

    async fn row(&self, task: TaskId) -> TaskRow {
        let cell = &self.cell;
        let row = cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task)).await).await;
        row.unwrap().unwrap_or_else(|| TaskRow::never_placed(task))
    }

    async fn apply(&self, task: TaskId, event: TaskEvent) {
        self.change("apply", async |tx, changes| {
            let mut book = TaskBook::read(tx, changes.space(), [task]).await?;
            book.extend_nodes(tx, changes.space(), NODES).await?;
            book.apply(task, &event, changes.at_ms())?.unwrap();
            book.write(tx, changes).await
        })
        .await
        .unwrap();
    }

    /// Places a task, into an alloc or on a node, and has it run.
    async fn run(&self, task: TaskId, node: NodeId, resources: Resources, alloc: Option<InAlloc>) {
        let incarnation = self.row(task).await.incarnation.next();
        let resources = if alloc.is_some() { Resources::default() } else { resources };
        let (ports, alloc) = (Vec::new(), alloc.map(Box::new));
        let placement = Placement { node, incarnation, ports, resources, spec_version: 1, gang: None, alloc };
        self.apply(task, TaskEvent::Place(placement)).await;
        let attempt = Attempt { node, incarnation };
        let (pid, started_ms, health, cores) = (7, 1_000, Health::Healthy, Vec::new());
        self.apply(task, TaskEvent::ProcessStarted { attempt, pid, started_ms, health, cores }).await;
    }

    async fn run_alloc(&self, index: u32, node: NodeId) {
        self.run(of(SET, index), node, held(), None).await;
    }

    /// Runs a task in an alloc, as a worker would place it there.
    async fn run_inside(&self, task: TaskId, index: u32, cpu_millis: u64) {
        let holder = self.row(of(SET, index)).await;
        let place = InAlloc { alloc: holder.id, attempt: holder.incarnation, resources: amounts(cpu_millis) };
        self.run(task, holder.node.unwrap(), amounts(cpu_millis), Some(place)).await;
    }

    /// The process of a task has exited, and everything of it is gone.
    async fn exit(&self, task: TaskId) {
        let row = self.row(task).await;
        let attempt = Attempt { node: row.node.unwrap(), incarnation: row.incarnation };
        let reason = if row.stop.is_some() { EndReason::Stopped } else { EndReason::Exited };
        let (code, signal, message) = (Some(1), None, String::new());
        let exit = Exit {
            reason,
            code,
            signal,
            message,
            at_ms: 1_000,
            incarnation: row.incarnation,
            node: row.node,
            start_failure: None,
        };
        let rules = TaskRules::from(&set_spec());
        self.apply(task, TaskEvent::ProcessExited { attempt, exit, released: true, rules }).await;
    }

    async fn moves(&self, indexes: &[u32]) {
        self.moves_of_nodes(&[indexes]).await;
    }

    /// Allocs have to leave several nodes.
    async fn moves_of_nodes(&self, nodes: &[&[u32]]) {
        let (mut moves, revision) = (Vec::new(), self.job(SET).await.revision);
        for indexes in nodes {
            let mut attempts = Vec::new();
            for index in *indexes {
                attempts.push((of(SET, *index), self.row(of(SET, *index)).await.incarnation));
            }
            moves.push(TaskMoves { job: SET, revision, attempts });
        }
        let moves = &moves;
        self.change("task_move", async |tx, changes| {
            tasks_move(tx, changes, moves, StopReason::Drained).await
        })
        .await
        .unwrap();
    }

    /// Processor time that the quota counts.
    async fn used(&self) -> u64 {
        let cell = &self.cell;
        let used = cell.run(async |tx| quota_usage(&tx, &cell.space, &name("ada"), Band::Production).await);
        used.await.unwrap().used.cpu_millis
    }

    async fn node_used(&self, node: NodeId) -> u64 {
        let cell = &self.cell;
        let alloc = cell.run(async |tx| keys::read(&tx, &cell.space, &NodeAllocKey { node }).await);
        alloc.await.unwrap().unwrap().used.cpu_millis
    }
}

#[tokio::test]
async fn what_is_in_an_alloc_is_charged_to_neither_its_node_nor_the_quota_again() {
    let world = World::with_members().await;
    assert_eq!(world.used().await, u64::from(ALLOCS) * HOLDS);
    world.run_alloc(0, NODES[0]).await;
    world.run_inside(of(WEB, 0), 0, 100).await;
    world.run_inside(of(LOGS, 0), 0, 150).await;
    assert_eq!((world.node_used(NODES[0]).await, world.used().await), (HOLDS, 2 * HOLDS));
    world.exit(of(WEB, 0)).await;
    let row = world.row(of(WEB, 0)).await;
    assert_eq!(
        (row.state, world.node_used(NODES[0]).await),
        (TaskState::Pending, HOLDS),
        "it stays reserved"
    );
    assert_eq!(row.alloc.unwrap().alloc, of(SET, 0), "it comes back to its alloc");
}

#[tokio::test]
async fn a_set_ends_after_the_jobs_in_it_and_refuses_what_does_not_fit() {
    let world = World::with_members().await;
    let stop = async |job: JobId| {
        world.change("job_stop", async |tx, changes| job_stop(tx, changes, job).await).await
    };
    let refused = stop(SET).await.unwrap_err().to_string();
    assert!(refused.contains("borough job stop ada/web ada/logs"), "{refused}");
    let path = |error: StoreError| match error {
        StoreError::InvalidSpec { errors } => errors[0].path.clone(),
        other => panic!("{other}"),
    };
    let large = world.submit(&member_spec("large", 1, HOLDS + 1), JobId(9)).await;
    assert_eq!(path(large.unwrap_err()), "task.resources");
    let mut lost = member_spec("lost", 1, 1);
    lost.alloc_set = Some(name("nowhere"));
    assert_eq!(path(world.submit(&lost, JobId(9)).await.unwrap_err()), "alloc_set");
    let mut other = member_spec("other", 1, 1);
    other.user = name("bob");
    assert_eq!(
        path(world.submit(&other, JobId(9)).await.unwrap_err()),
        "alloc_set",
        "the set is another user's"
    );
    let mut smaller = set_spec();
    smaller.task.resources = amounts(149);
    assert_eq!(path(world.submit(&smaller, SET).await.unwrap_err()), "task.resources");
    assert_eq!(
        path(world.submit(&member_spec("web", 3, HOLDS + 1), WEB).await.unwrap_err()),
        "task.resources"
    );
    for job in [WEB, LOGS] {
        stop(job).await.unwrap();
        world
            .change("job_end", async |tx, changes| crate::job::job_tasks_gone(tx, changes, job).await)
            .await
            .unwrap();
    }
    assert_eq!(stop(SET).await.unwrap().state, JobState::Stopping);
    assert!(world.submit(&member_spec("late", 1, 1), JobId(9)).await.is_err());
}

/// A drain ends an alloc only with everything in it, and only if each job in it can miss what it loses.
#[tokio::test]
async fn allocs_leave_with_what_is_in_them_within_the_budget_of_each_job() {
    let world = World::with_members().await;
    for index in 0..ALLOCS {
        world.run_alloc(index, NODES[0]).await;
        world.run_inside(of(WEB, index), index, 100).await;
        world.run_inside(of(LOGS, index), index, 150).await;
    }
    let mut update = set_spec();
    update.update = Some(borough_model::job::UpdateSpec { unavailable_max: Some(2), ..Default::default() });
    world.submit(&update, SET).await.unwrap();
    world.moves(&[0, 1]).await;
    let stopping = async |task| world.row(task).await.stop;
    assert_eq!(stopping(of(SET, 0)).await, Some(StopReason::Drained));
    for job in [WEB, LOGS] {
        assert_eq!(stopping(of(job, 0)).await, Some(StopReason::AllocLeft), "it leaves with its alloc");
        assert_eq!(stopping(of(job, 1)).await, None);
    }
    assert_eq!(stopping(of(SET, 1)).await, None, "its set may miss it, and the jobs in it may not");
    for job in [WEB, LOGS, SET] {
        world.exit(of(job, 0)).await;
    }
    world.run_alloc(0, NODES[1]).await;
    world.moves(&[1]).await;
    assert_eq!(stopping(of(SET, 1)).await, None, "until they are healthy again");
    world.run_inside(of(WEB, 0), 0, 100).await;
    world.run_inside(of(LOGS, 0), 0, 150).await;
    world.moves(&[1]).await;
    assert_eq!(stopping(of(SET, 1)).await, Some(StopReason::Drained));
    assert_eq!(world.row(of(WEB, 0)).await.node, Some(NODES[1]), "on the new node of its alloc");
}

/// An alloc that the budget of a job in it keeps where it is counts as no disruption.
#[tokio::test]
async fn a_rollout_counts_the_allocs_that_it_ends_and_no_others() {
    let world = World::with_members().await;
    for index in 0..ALLOCS {
        world.run_alloc(index, NODES[0]).await;
        world.run_inside(of(WEB, index), index, 100).await;
    }
    let update = UpdateSpec { unavailable_max: Some(2), disruptions_max: Some(2), ..UpdateSpec::default() };
    let mut changed = JobSpec { update: Some(update), ..set_spec() };
    changed.task.environment.insert("WORD".to_owned(), "b".to_owned());
    world.submit(&changed, SET).await.unwrap();
    let mut attempts = Vec::new();
    for index in 0..ALLOCS {
        attempts.push((of(SET, index), world.row(of(SET, index)).await.incarnation));
    }
    let revision = world.job(SET).await.revision;
    let ended = world.change("rollout_replace", async |tx, changes| {
        rollout_replace(tx, changes, SET, revision, &attempts).await
    });
    assert_eq!(ended.await.unwrap(), 1, "the job inside may miss one task");
    assert_eq!(world.job(SET).await.rollout.map(|rollout| rollout.disruptions), Some(1));
}

/// An alloc with more tasks of a job than its budget allows leaves while no other one is away.
#[tokio::test]
async fn an_alloc_with_all_tasks_of_a_job_leaves_too() {
    let world = World::with_members().await;
    world.run_alloc(0, NODES[0]).await;
    for index in 0..3 {
        world.run_inside(of(WEB, index), 0, 100).await;
    }
    world.moves(&[0]).await;
    assert_eq!(world.row(of(SET, 0)).await.state, TaskState::Stopping);
    assert_eq!(world.row(of(WEB, 2)).await.stop, Some(StopReason::AllocLeft));
}

/// A task that comes back to an alloc waits for it, so the alloc does not wait for the task.
#[tokio::test]
async fn an_alloc_does_not_wait_for_a_task_that_comes_back_to_it() {
    let world = World::with_members().await;
    world.run_alloc(0, NODES[0]).await;
    world.run_alloc(1, NODES[0]).await;
    for index in 0..2 {
        world.run_inside(of(WEB, index), 0, 100).await;
    }
    world.run_inside(of(WEB, 2), 1, 100).await;
    world.exit(of(WEB, 1)).await;
    assert_eq!(world.row(of(WEB, 1)).await.state, TaskState::Pending);
    world.moves(&[1]).await;
    assert_eq!(world.row(of(SET, 1)).await.state, TaskState::Running, "a task outside of it is away");
    world.moves(&[0]).await;
    assert_eq!(world.row(of(SET, 0)).await.state, TaskState::Stopping);
    assert_eq!(world.row(of(WEB, 0)).await.stop, Some(StopReason::AllocLeft));
}

/// What a step of a random history does, with the alloc and the task that it is about.
#[derive(Clone, Copy, Debug)]
enum Step {
    AllocRun(u32, usize),
    Enter(u32, u32),
    Leave(u32),
    Move(u32),
    AllocEnds(u32),
}

/// The plain model: where each task is, as (alloc, thousandths of a core).
type Plain = BTreeMap<TaskId, (u32, u64)>;

fn member(number: u32) -> (TaskId, u64) {
    if number < 3 { (of(WEB, number), 100) } else { (of(LOGS, number - 3), 150) }
}

async fn stepped(world: &World, plain: &mut Plain, step: Step) {
    match step {
        Step::AllocRun(index, node) => {
            if world.row(of(SET, index)).await.state == TaskState::Pending {
                world.run_alloc(index, NODES[node]).await;
            }
        }
        Step::Enter(number, index) => {
            let (task, cpu_millis) = member(number);
            let given: u64 =
                plain.values().filter(|(alloc, _)| *alloc == index).map(|(_, given)| given).sum();
            let is_free = world.row(of(SET, index)).await.state == TaskState::Running
                && world.row(task).await.state == TaskState::Pending;
            if is_free && given + cpu_millis <= HOLDS {
                world.run_inside(task, index, cpu_millis).await;
                plain.insert(task, (index, cpu_millis));
            }
        }
        Step::Leave(number) => {
            let (task, _) = member(number);
            if plain.remove(&task).is_some() {
                world.exit(task).await;
            }
        }
        Step::Move(index) => {
            if world.row(of(SET, index)).await.state == TaskState::Running {
                world.moves(&[index]).await;
            }
        }
        Step::AllocEnds(index) => {
            // The agent lets an alloc go when nothing is in it any more.
            let is_empty = plain.values().all(|(alloc, _)| *alloc != index);
            if is_empty && world.row(of(SET, index)).await.state == TaskState::Stopping {
                world.exit(of(SET, index)).await;
            }
        }
    }
}

async fn compared(world: &World, plain: &Plain) {
    let mut node_used: BTreeMap<NodeId, u64> = BTreeMap::new();
    for index in 0..ALLOCS {
        let row = world.row(of(SET, index)).await;
        if let Some(node) = row.charged_node() {
            *node_used.entry(node).or_default() += HOLDS;
        }
    }
    for node in NODES {
        assert_eq!(world.node_used(node).await, node_used.get(&node).copied().unwrap_or(0), "{node}");
    }
    assert_eq!(world.used().await, u64::from(ALLOCS) * HOLDS);
    for number in 0..5 {
        let (task, _) = member(number);
        let row = world.row(task).await;
        let place = row.in_alloc().map(|place| (place.alloc.index, place.resources.cpu_millis));
        assert_eq!(place, plain.get(&task).copied(), "{task}");
        let holder = world.row(of(SET, place.map_or(0, |(index, _)| index))).await;
        assert!(place.is_none() || row.node == holder.node, "{task} is where its alloc is");
        let follows = holder.state == TaskState::Running || row.state == TaskState::Stopping;
        assert!(place.is_none() || follows, "{task} leaves with its alloc");
    }
}

/// Whatever happens, the charges are those of a plain model, and `store check` agrees after every step.
#[test]
fn over_random_histories_allocs_are_charged_once_and_never_give_more_than_they_hold() {
    let step = prop_oneof![
        3 => (0..ALLOCS, 0..2_usize).prop_map(|(index, node)| Step::AllocRun(index, node)),
        6 => (0..5_u32, 0..ALLOCS).prop_map(|(number, index)| Step::Enter(number, index)),
        3 => (0..5_u32).prop_map(Step::Leave),
        1 => (0..ALLOCS).prop_map(Step::Move),
        2 => (0..ALLOCS).prop_map(Step::AllocEnds),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let history = prop::collection::vec(step, 1..50);
    runner
        .run(&history, |steps| {
            runtime.block_on(async {
                let (world, mut plain) = (World::with_members().await, Plain::new());
                for step in steps {
                    stepped(&world, &mut plain, step).await;
                    compared(&world, &plain).await;
                }
            });
            Ok(())
        })
        .unwrap();
}

/// `store check` finds an alloc that gives more than it holds, and a task beside its alloc.
#[tokio::test]
async fn what_an_alloc_gives_too_much_is_found() {
    let world = World::with_members().await;
    world.run_alloc(0, NODES[0]).await;
    world.run_inside(of(LOGS, 0), 0, 150).await;
    let cell = &world.cell;
    let damaged = async |damage: &dyn Fn(&mut TaskRow)| {
        let mut row = world.row(of(LOGS, 0)).await;
        damage(&mut row);
        let (row, key) = (&row, TaskKey::of(of(LOGS, 0)));
        cell.run(async |tx| keys::write(&tx, &cell.space, &key, row)).await.unwrap();
        let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
        found.into_iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    let more = |row: &mut TaskRow| row.alloc.as_mut().unwrap().resources.cpu_millis = HOLDS + 1;
    let rules = damaged(&more).await;
    assert!(rules.contains(&"alloc_given") && rules.contains(&"alloc_share"), "{rules:?}");
    let elsewhere = |row: &mut TaskRow| row.node = Some(NODES[1]);
    assert!(damaged(&elsewhere).await.contains(&"alloc_node"));
    let foreign = |row: &mut TaskRow| row.alloc.as_mut().unwrap().alloc.job = WEB;
    assert!(damaged(&foreign).await.contains(&"alloc_set"));
}
