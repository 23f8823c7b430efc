//! Two jobs of one name: tasks left from the first never touch an endpoint of the second.

use super::*;

const OLD: JobId = JobId(11);
const NEW: JobId = JobId(12);

fn of(job: JobId, index: u32) -> TaskId {
    TaskId { job, index }
}

async fn submit(cell: &TestCell, job: JobId) {
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Batch, vec!["run".to_owned()]);
    spec.count = 2;
    spec.task.ports = vec![PortSpec { name: name("http"), number: None }];
    spec.task.health = Some(HealthCheck::of(Probe::Tcp { port: name("http") }));
    cell.change(change(30, "submit"), async |tx, changes| job_submit(tx, changes, &spec, job).await)
        .await
        .unwrap();
}

async fn placed(cell: &TestCell, task: TaskId, port: u16) {
    let resources = JobSpec::defaults(name("ada"), name("web"), JobKind::Batch, vec![]).task.resources;
    let placement = Placement {
        node: NODE,
        incarnation: Incarnation(1),
        ports: vec![PortAssignment { name: name("http"), number: port }],
        resources,
        spec_version: 1,
        gang: None,
        alloc: None,
    };
    cell.change(change(31, "place"), async |tx, changes| {
        let mut book = TaskBook::read(tx, changes.space(), [task]).await?;
        book.extend_nodes(tx, changes.space(), [NODE]).await?;
        book.apply(task, &TaskEvent::Place(placement.clone()), changes.at_ms())?.unwrap();
        book.write(tx, changes).await
    })
    .await
    .unwrap();
}

fn running(task: TaskId, health: Health) -> TaskReport {
    TaskReport { task, health, ..report(0, 1, ReportPhase::Running) }
}

fn done(task: TaskId) -> TaskReport {
    let exit = exited(0, ReportPhase::Released).exit.map(|exit| Exit { code: Some(0), ..exit });
    TaskReport { task, exit, ..report(0, 1, ReportPhase::Released) }
}

/// A job that has ended while its second task, above the count, still runs with this health.
async fn ended_with_one_left(health: Health) -> TestCell {
    let cell = world().await;
    cell.change(change(32, "stop"), async |tx, changes| {
        job_stop(tx, changes, JobId(1)).await?;
        job_tasks_gone(tx, changes, JobId(1)).await
    })
    .await
    .unwrap();
    submit(&cell, OLD).await;
    for index in 0..2 {
        placed(&cell, of(OLD, index), 20_100 + u16::try_from(index).unwrap()).await;
        let health = if index == 0 { Health::Healthy } else { health };
        apply(&cell, SOURCE, &[running(of(OLD, index), health)]).await;
    }
    cell.change(change(33, "scale"), async |tx, changes| job_scale(tx, changes, OLD, 1).await).await.unwrap();
    apply(&cell, SOURCE, &[done(of(OLD, 0))]).await;
    let job = cell.run(async |tx| job_get(&tx, &cell.space, OLD).await).await.unwrap();
    assert!(matches!(job.state, JobState::Ended { .. }), "{job:?}");
    let published = endpoint(&cell, 1).await.map(|row| row.endpoint.task);
    assert_eq!(published, (health == Health::Healthy).then_some(of(OLD, 1)));
    cell
}

#[tokio::test]
async fn what_an_ended_job_has_left_touches_no_endpoint_of_its_successor() {
    let cell = ended_with_one_left(Health::Healthy).await;
    submit(&cell, NEW).await;
    assert_eq!(endpoint(&cell, 1).await, None, "withdrawn when the name passed on");
    placed(&cell, of(NEW, 1), 20_111).await;
    apply(&cell, SOURCE, &[running(of(NEW, 1), Health::Healthy)]).await;
    let published = endpoint(&cell, 1).await.unwrap();
    assert_eq!(published.endpoint.task, of(NEW, 1));
    // The node moves to another address: each task updates its own endpoint.
    register(&cell, NodeFacts { host: "10.0.0.9".to_owned(), ..node_facts(4_000) }, SOURCE.session).await;
    apply(&cell, SOURCE, &[running(of(OLD, 1), Health::Healthy)]).await;
    assert_eq!(endpoint(&cell, 1).await.unwrap(), published, "not by the old task");
    // It runs no more, which withdraws its endpoint.
    apply(&cell, SOURCE, &[running(of(OLD, 1), Health::Unhealthy)]).await;
    apply(&cell, SOURCE, &[done(of(OLD, 1))]).await;
    assert_eq!(endpoint(&cell, 1).await.unwrap(), published);
    apply(&cell, SOURCE, &[running(of(NEW, 1), Health::Healthy)]).await;
    assert_eq!(endpoint(&cell, 1).await.unwrap().endpoint.host, "10.0.0.9");
}

/// A task of the ended job passes its first probe after another job has taken the name.
#[tokio::test]
async fn what_becomes_healthy_under_a_name_that_has_passed_on_is_not_published() {
    let cell = ended_with_one_left(Health::Unknown).await;
    submit(&cell, NEW).await;
    apply(&cell, SOURCE, &[running(of(OLD, 1), Health::Healthy)]).await;
    assert_eq!(endpoint(&cell, 1).await, None, "its job has the name no more");
    placed(&cell, of(NEW, 1), 20_111).await;
    apply(&cell, SOURCE, &[running(of(NEW, 1), Health::Healthy)]).await;
    assert_eq!(endpoint(&cell, 1).await.unwrap().endpoint.task, of(NEW, 1));
}

/// A withdrawal that was decided before another job took the name does not clear that job's endpoint.
#[tokio::test]
async fn a_late_withdrawal_clears_nothing_of_a_successor() {
    let cell = ended_with_one_left(Health::Healthy).await;
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let late = cell.change_as(change(34, "task_report"), SOURCE, async |writer, changes| {
        let answers = task_report_apply(writer, changes, &[done(of(OLD, 1))]).await?;
        if attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            submit(&cell, NEW).await;
            placed(&cell, of(NEW, 1), 20_111).await;
            apply(&cell, SOURCE, &[running(of(NEW, 1), Health::Healthy)]).await;
        }
        Ok(answers)
    });
    late.await.unwrap().unwrap();
    assert_eq!(endpoint(&cell, 1).await.unwrap().endpoint.task, of(NEW, 1));
    let found = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
    assert_eq!(found, []);
}
