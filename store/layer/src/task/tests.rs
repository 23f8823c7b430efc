//! Agents' reports and their answers, against a store.

mod alloc;
mod daemon;
mod overlap;
mod promise;
mod shrink;

use borough_model::job::{HealthCheck, HelperPhase, JobKind, JobSpec, JobState, PortSpec, Probe};
use borough_model::node::{NodeFacts, NodeLive, NodeSeen};
use borough_model::task::{
    EndReason, Exit, Health, HelperExit, HelperState, HelperStatus, Placement, PortAssignment, StopReason,
    TaskEvent, TaskRow, TaskState,
};
use borough_model::{Incarnation, JobId, NodeId, TaskId};

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::error::StoreError;
use crate::job::{job_get, job_scale, job_stop, job_submit, job_tasks_gone};
use crate::keys::{self, EndpointKey, NameRevisionKey, Prefix, RangeOptions, TaskKey};
use crate::node::{
    NodeRegistration, SessionFence, node_declare_lost, node_live_renew, node_register, node_reported,
};
use crate::row::EndpointRow;
use crate::testing::{TestCell, change, name, node_facts};

const NODE: NodeId = NodeId(7);
const SOURCE: SessionFence = SessionFence { node: NODE, session: 5 };

fn task(index: u32) -> TaskId {
    TaskId { job: JobId(1), index }
}

/// A cell with one ready node and a service of two tasks with a port and a probe; nothing is placed.
async fn world() -> TestCell {
    world_of(4_000).await
}

/// The same with a node of so many thousandths of a core; a task takes 100.
async fn world_of(cpu_millis: u64) -> TestCell {
    let cell = TestCell::new().await;
    let facts = node_facts(cpu_millis);
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["run".to_owned()]);
    spec.count = 2;
    spec.task.ports = vec![PortSpec { name: name("http"), number: None }];
    spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("http") }));
    cell.change(change(1, "world"), async |tx, changes| {
        let registration = NodeRegistration::new(name("n7"), facts.clone(), NODE, SOURCE.session);
        let (_, writer) = node_register(tx, changes, &registration).await?;
        node_reported(&writer, changes, &[]).await?;
        node_live_renew(&writer, changes.space(), 5, 0, None).await?;
        job_submit(tx, changes, &spec, JobId(1)).await
    })
    .await
    .unwrap();
    cell
}

/// The node's agent registers again, in another session.
async fn register(cell: &TestCell, facts: NodeFacts, session: u64) {
    let registration = NodeRegistration::new(name("n7"), facts, NODE, session);
    let change = change(4, "register");
    cell.change(change, async |tx, changes| Ok(node_register(tx, changes, &registration).await?.0))
        .await
        .unwrap();
}

/// Places a task on the node as a worker would, but by reading.
async fn place(cell: &TestCell, index: u32) {
    place_as(cell, index, TaskEvent::Place).await;
}

async fn place_as(cell: &TestCell, index: u32, event: impl Fn(Placement) -> TaskEvent) {
    let resources = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec![]).task.resources;
    cell.change(change(2, "place"), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [task(index)]).await?;
        book.extend_nodes(tx, changes.space(), [NODE]).await?;
        let incarnation = book.task(task(index)).unwrap().incarnation.next();
        let number = 20_000 + 10 * u16::try_from(index).unwrap() + u16::try_from(incarnation.0).unwrap();
        let ports = vec![PortAssignment { name: name("http"), number }];
        let placement = Placement {
            node: NODE,
            incarnation,
            ports,
            resources: resources.clone(),
            spec_version: 1,
            gang: None,
            alloc: None,
        };
        book.apply(task(index), &event(placement), changes.at_ms())?.unwrap();
        book.write(tx, changes).await
    })
    .await
    .unwrap();
}

fn report(index: u32, incarnation: u64, phase: ReportPhase) -> TaskReport {
    let process = matches!(phase, ReportPhase::Running | ReportPhase::Exited).then_some((42, 500));
    let (task, incarnation) = (task(index), Incarnation(incarnation));
    TaskReport {
        task,
        incarnation,
        phase,
        process,
        cores: Vec::new(),
        health: Health::Healthy,
        exit: None,
        resize: None,
        helpers: Vec::new(),
    }
}

fn exited(index: u32, phase: ReportPhase) -> TaskReport {
    let exit = Exit {
        reason: EndReason::Exited,
        code: Some(1),
        signal: None,
        message: String::new(),
        at_ms: 900,
        incarnation: Incarnation(1),
        node: Some(NODE),
        start_failure: None,
    };
    TaskReport { exit: Some(exit), ..report(index, 1, phase) }
}

async fn apply(cell: &TestCell, source: SessionFence, reports: &[TaskReport]) -> Vec<ReportAnswer> {
    apply_fenced(cell, source, reports).await.unwrap()
}

/// The same; `None` where the session is not in force.
async fn apply_fenced(
    cell: &TestCell,
    source: SessionFence,
    reports: &[TaskReport],
) -> Option<Vec<ReportAnswer>> {
    let applying = cell.change_as(change(3, "task_report"), source, async |writer, changes| {
        task_report_apply(writer, changes, reports).await
    });
    let answers = applying.await.unwrap();
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
    assert_eq!(found, [], "after {reports:?}");
    answers
}

async fn row(cell: &TestCell, index: u32) -> Option<TaskRow> {
    cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task(index))).await).await.unwrap()
}

async fn endpoint(cell: &TestCell, index: u32) -> Option<EndpointRow> {
    let key = EndpointKey { user: name("ada"), job: name("web"), index };
    cell.run(async |tx| keys::read(&tx, &cell.space, &key).await).await.unwrap()
}

#[tokio::test]
async fn an_attempt_is_published_while_it_is_healthy_and_withdrawn_with_its_exit() {
    let cell = world().await;
    place(&cell, 0).await;
    let key = NameRevisionKey { user: name("ada"), job: name("web") };
    let revision = async || {
        let stamp = cell.run(async |tx| keys::read(&tx, &cell.space, &key).await).await.unwrap();
        stamp.map(|stamp| stamp.0)
    };
    let unhealthy = TaskReport { health: Health::Unknown, ..report(0, 1, ReportPhase::Running) };
    assert_eq!(apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Accepted), unhealthy]).await.len(), 2);
    assert_eq!((endpoint(&cell, 0).await, row(&cell, 0).await.unwrap().state), (None, TaskState::Running));
    let never = revision().await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    let published = endpoint(&cell, 0).await.unwrap().endpoint;
    assert_eq!((published.incarnation, published.host.as_str()), (Incarnation(1), "127.0.0.1"));
    let first = revision().await;
    assert!(first > never);
    assert_eq!(apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await, [ReportAnswer::Applied]);
    assert_eq!(revision().await, first, "a repetition changes nothing");
    assert_eq!(apply(&cell, SOURCE, &[exited(0, ReportPhase::Exited)]).await, [ReportAnswer::Applied]);
    assert_eq!((endpoint(&cell, 0).await, row(&cell, 0).await.unwrap().state), (None, TaskState::Releasing));
    assert!(revision().await > first);
    assert_eq!(apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await, [ReportAnswer::Forget]);
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Pending);
}

#[tokio::test]
async fn a_row_has_the_helpers_of_its_attempt_until_the_next_one_begins() {
    let cell = world().await;
    place(&cell, 0).await;
    let helper = |state, code: Option<i32>| HelperStatus {
        name: name("report"),
        when: HelperPhase::After,
        state,
        restarts: 0,
        exit: code.map(|code| HelperExit {
            code: Some(code),
            signal: None,
            message: "x".repeat(999),
            at_ms: 5,
        }),
    };
    let with = |report: TaskReport, helper: HelperStatus| TaskReport { helpers: vec![helper], ..report };
    let known = async || row(&cell, 0).await.unwrap().helpers.map(|helpers| helpers[0].clone());
    let running = with(report(0, 1, ReportPhase::Running), helper(HelperState::Waiting, None));
    apply(&cell, SOURCE, std::slice::from_ref(&running)).await;
    assert_eq!(known().await, Some(helper(HelperState::Waiting, None)));
    let before = row(&cell, 0).await;
    apply(&cell, SOURCE, &[running]).await;
    assert_eq!(row(&cell, 0).await, before, "a repetition changes nothing");
    // The last report has its end, and that of the attempt.
    let released = with(exited(0, ReportPhase::Released), helper(HelperState::Ended, Some(4)));
    assert_eq!(apply(&cell, SOURCE, std::slice::from_ref(&released)).await, [ReportAnswer::Forget]);
    let exit = known().await.unwrap().exit.unwrap();
    assert_eq!((exit.code, exit.message.len()), (Some(4), 256));
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Pending);
    place(&cell, 0).await;
    assert_eq!(known().await, None);
    apply(&cell, SOURCE, &[released]).await;
    assert_eq!(known().await, None, "what is said of an earlier attempt comes too late");
}

#[tokio::test]
async fn an_endpoint_follows_its_node_to_another_host() {
    let cell = world().await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    let moved = NodeFacts { host: "10.0.0.9".to_owned(), ..node_facts(4_000) };
    register(&cell, moved, SOURCE.session).await;
    assert_eq!(endpoint(&cell, 0).await.unwrap().endpoint.host, "127.0.0.1");
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    assert_eq!(endpoint(&cell, 0).await.unwrap().endpoint.host, "10.0.0.9");
}

#[tokio::test]
async fn every_report_is_answered_by_what_the_agent_is_to_do() {
    let cell = world().await;
    place(&cell, 0).await;
    let unknown = [report(1, 1, ReportPhase::Running), report(1, 1, ReportPhase::Released)];
    assert_eq!(apply(&cell, SOURCE, &unknown).await, [ReportAnswer::Park, ReportAnswer::Forget]);
    let stranger =
        TaskReport { task: TaskId { job: JobId(9), index: 0 }, ..report(0, 1, ReportPhase::Running) };
    assert_eq!(apply(&cell, SOURCE, &[stranger]).await, [ReportAnswer::Park]);
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running), exited(0, ReportPhase::Released)]).await;
    place(&cell, 0).await;
    let stale =
        [ReportPhase::Running, ReportPhase::Exited, ReportPhase::Released].map(|phase| exited(0, phase));
    let answers = apply(&cell, SOURCE, &stale).await;
    assert_eq!(answers, [ReportAnswer::Stop, ReportAnswer::Applied, ReportAnswer::Forget]);
    let early = TaskReport { process: None, cores: Vec::new(), ..report(0, 2, ReportPhase::Released) };
    assert!(matches!(apply(&cell, SOURCE, &[early]).await[..], [ReportAnswer::Refused(_)]));
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Assigned, "nothing has changed");
}

#[tokio::test]
async fn only_the_session_in_force_reports() {
    let cell = world().await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    let missing = [report(0, 1, ReportPhase::Missing)];
    register(&cell, node_facts(4_000), 6).await;
    assert_eq!(apply_fenced(&cell, SOURCE, &missing).await, None);
    assert_eq!(apply_fenced(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await, None);
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Running);
    let current = SessionFence { session: 6, ..SOURCE };
    assert_eq!(apply(&cell, current, &missing).await, [ReportAnswer::Forget]);
    let row = row(&cell, 0).await.unwrap();
    assert_eq!((row.state, row.exit.unwrap().reason), (TaskState::Pending, EndReason::NodeRebooted));
    assert_eq!(endpoint(&cell, 0).await, None);
}

#[tokio::test]
async fn a_lost_task_comes_back_with_its_node_unless_it_was_given_up() {
    let cell = world().await;
    for index in 0..2 {
        place(&cell, index).await;
        apply(&cell, SOURCE, &[report(index, 1, ReportPhase::Running)]).await;
    }
    let lost = cell
        .change(change(4, "lost"), async |tx, changes| {
            let beat = NodeSeen::of(NodeLive { beat: 5, session: 5, ..NodeLive::default() }, None);
            node_declare_lost(tx, changes, NODE, Some(&beat)).await?;
            task_node_lost(tx, changes, NODE, None, 10).await
        })
        .await
        .unwrap();
    assert_eq!(lost, TaskSweep { changed: 2, next: None });
    assert_eq!(endpoint(&cell, 0).await.unwrap().endpoint.health, Health::Unknown, "demoted, not withdrawn");
    let given_up = cell
        .change(change(5, "reschedule"), async |tx, changes| {
            task_reschedule_lost(tx, changes, NODE, &[(task(1), Incarnation(1)), (task(0), Incarnation(9))])
                .await
        })
        .await
        .unwrap();
    assert_eq!(given_up, 1, "the other is another attempt");
    assert_eq!((endpoint(&cell, 1).await, row(&cell, 1).await.unwrap().state), (None, TaskState::Pending));
    let reports = [report(0, 1, ReportPhase::Running), report(1, 1, ReportPhase::Running)];
    assert_eq!(apply(&cell, SOURCE, &reports).await, [ReportAnswer::Applied, ReportAnswer::Stop]);
    assert_eq!(row(&cell, 0).await.unwrap().state, TaskState::Running);
    assert_eq!(endpoint(&cell, 0).await.unwrap().endpoint.health, Health::Healthy);
    let page = cell.run(async |tx| task_list_by_node(&tx, &cell.space, NODE, None, 10).await).await.unwrap();
    assert_eq!(page.rows.len(), 1);
}

#[tokio::test]
async fn a_stopped_job_ends_with_the_last_release() {
    let cell = world().await;
    place(&cell, 0).await;
    apply(&cell, SOURCE, &[report(0, 1, ReportPhase::Running)]).await;
    let sweep = async || {
        let sweeping = cell.change(change(6, "sweep"), async |tx, changes| {
            let sweep = task_unwanted_stop(tx, changes, JobId(1), None, 100).await?;
            job_tasks_gone(tx, changes, JobId(1)).await.map(|ending| (sweep, ending))
        });
        sweeping.await
    };
    assert!(matches!(sweep().await, Err(StoreError::Refused { .. })), "a job that runs does not end so");
    cell.change(change(7, "stop"), async |tx, changes| job_stop(tx, changes, JobId(1)).await).await.unwrap();
    assert_eq!(sweep().await.unwrap().1, crate::job::JobEnding::Left { tasks: 1 });
    let stopping = row(&cell, 0).await.unwrap();
    assert_eq!((stopping.state, stopping.stop), (TaskState::Stopping, Some(StopReason::JobStopped)));
    assert_eq!(endpoint(&cell, 0).await, None, "withdrawn with the stop");
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await;
    assert!(
        matches!(sweep().await.unwrap().1, crate::job::JobEnding::Ended(row) if row.state != JobState::Stopping)
    );
    let tasks = Prefix::<TaskKey>::of(&JobId(1));
    let rows = cell
        .run(async |tx| keys::range(&tx, &cell.space, &tasks, RangeOptions::default()).await)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1, "the second task was never placed and has no row");
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found, []);
}

#[tokio::test]
async fn a_task_that_was_shrunk_away_is_revived_with_the_next_number_of_attempt() {
    let cell = world().await;
    place(&cell, 1).await;
    let scale = async |count| {
        cell.change(change(8, "scale"), async |tx, changes| {
            job_scale(tx, changes, JobId(1), count).await?;
            task_unwanted_stop(tx, changes, JobId(1), None, 100).await
        })
        .await
        .unwrap()
    };
    let revive = async || {
        let reviving = cell.change(change(8, "revive"), async |tx, changes| {
            task_wanted_revive(tx, changes, JobId(1), None, 100).await
        });
        reviving.await.unwrap().changed
    };
    assert_eq!(revive().await, 0);
    assert_eq!(scale(1).await.changed, 1);
    apply(&cell, SOURCE, &[exited(1, ReportPhase::Released)]).await;
    assert_eq!(row(&cell, 1).await.unwrap().state, TaskState::Dead);
    assert_eq!(revive().await, 0, "nobody wants it");
    assert_eq!(scale(2).await.changed, 0);
    apply(&cell, SOURCE, &[]).await;
    assert_eq!(revive().await, 1);
    let revived = row(&cell, 1).await.unwrap();
    assert_eq!((revived.state, revived.incarnation), (TaskState::Pending, Incarnation(1)));
    place(&cell, 1).await;
    assert_eq!(row(&cell, 1).await.unwrap().incarnation, Incarnation(2));
    apply(&cell, SOURCE, &[]).await;
}

#[tokio::test]
async fn a_restart_is_for_tasks_that_there_are() {
    let cell = world().await;
    let restart = async |index| {
        let restarting = cell
            .change(change(9, "restart"), async |tx, changes| task_restart(tx, changes, task(index)).await);
        restarting.await.map_err(|error| error.to_string())
    };
    assert_eq!(restart(0).await.unwrap_err(), "task ada/web/0: it was never placed");
    assert_eq!(restart(2).await.unwrap_err(), "task ada/web/2: the job has no such task");
    place(&cell, 0).await;
    let stopping = restart(0).await.unwrap();
    assert_eq!((stopping.state, stopping.stop), (TaskState::Stopping, Some(StopReason::Restart)));
    let index = cell.run(async |tx| {
        let prefix = Prefix::<crate::keys::NodeTaskKey>::of(&NODE);
        crate::keys::range(&tx, &cell.space, &prefix, crate::keys::RangeOptions::snapshot()).await
    });
    assert_eq!(index.await.unwrap().len(), 1, "charged until it is gone");
}

#[tokio::test]
async fn a_stopped_attempt_counts_its_node_as_one_to_avoid() {
    let cell = world().await;
    let stop = async |index| {
        let stopping = cell.change(change(9, "task_attempt_stop"), async |tx, changes| {
            task_attempt_stop(tx, changes, task(index)).await
        });
        stopping.await.map_err(|error| error.to_string())
    };
    assert_eq!(stop(0).await.unwrap_err(), "task ada/web/0: it was never placed");
    place(&cell, 0).await;
    let stopping = stop(0).await.unwrap();
    assert_eq!((stopping.state, stopping.stop), (TaskState::Stopping, Some(StopReason::Restart)));
    assert_eq!(stop(0).await.unwrap().revision, stopping.revision, "it is stopping already");
    apply(&cell, SOURCE, &[exited(0, ReportPhase::Released)]).await;
    let pending = row(&cell, 0).await.unwrap();
    assert_eq!((pending.state, pending.failures), (TaskState::Pending, 0));
    assert_eq!(borough_model::task::machine::node_avoided(&pending), Some(NODE));
    let refused = stop(0).await.unwrap_err();
    assert!(refused.contains("waits for a node") && refused.contains("task restart ada/web/0"), "{refused}");
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found, []);
}

/// Two gateways count the last two tasks of a job at once. The job's row is read without a conflict until a task is
/// counted, so one of them has to try again.
#[tokio::test(start_paused = true)]
async fn tasks_that_end_at_once_are_all_counted() {
    let cell = TestCell::new().await;
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Batch, vec!["run".to_owned()]);
    spec.count = 2;
    let resources = spec.task.resources.clone();
    let nodes = [NodeId(7), NodeId(8)];
    cell.change(change(1, "world"), async |tx, changes| {
        job_submit(tx, changes, &spec, JobId(1)).await?;
        let mut book = TaskBook::read(tx, changes.space(), [task(0), task(1)]).await?;
        for (index, node) in (0..).zip(nodes) {
            let registration =
                NodeRegistration::new(name(&format!("n{}", node.0)), node_facts(4_000), node, 5);
            node_register(tx, changes, &registration).await?;
            book.extend_nodes(tx, changes.space(), [node]).await?;
            let (incarnation, resources) = (Incarnation(1), resources.clone());
            let placement = Placement {
                node,
                incarnation,
                ports: Vec::new(),
                resources,
                spec_version: 1,
                gang: None,
                alloc: None,
            };
            book.apply(task(index), &TaskEvent::Place(placement), changes.at_ms())?.unwrap();
        }
        book.write(tx, changes).await
    })
    .await
    .unwrap();
    let end = async |index: u32, node: NodeId| {
        let mut done = exited(index, ReportPhase::Released);
        done.exit = done.exit.map(|exit| Exit { code: Some(0), node: Some(node), ..exit });
        let fence = SessionFence { node, session: 5 };
        cell.change_as(change(2, "task_report"), fence, async |writer, changes| {
            let answers = task_report_apply(writer, changes, std::slice::from_ref(&done)).await?;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            Ok(answers)
        })
        .await
        .unwrap()
        .unwrap()
    };
    let answers = tokio::join!(end(0, nodes[0]), end(1, nodes[1]));
    assert_eq!(answers, (vec![ReportAnswer::Forget], vec![ReportAnswer::Forget]));
    let job = cell.run(async |tx| job_get(&tx, &cell.space, JobId(1)).await).await.unwrap();
    let over = JobState::Ended { outcome: borough_model::job::JobOutcome::Succeeded };
    assert_eq!((job.succeeded, job.state), (2, over));
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    assert_eq!(found, []);
}
