//! The form of answers: golden tables, JSON and texts.

mod plan;
mod yaml;

use borough_proto::v1;
use expect_test::{Expect, expect};
use serde::Serialize;

use super::table::table;
use super::text::{bytes, ranges, time};
use super::*;

fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

fn as_json<T: Serialize>(object: &T) -> String {
    json(object, JsonLayout::Indented).expect("JSON")
}

const WIDE: Style = Style { wide: true, color: false, columns: None, now_ms: None };

fn job() -> v1::Job {
    v1::Job {
        id: "j000000000000002a".to_owned(),
        cell: "alpha".to_owned(),
        user: "alice".to_owned(),
        name: "web".to_owned(),
        state: v1::JobState::Running.into(),
        count: 3,
        priority: 200,
        spec_version: 1,
        submitted_ms: 1_700_000_000_000,
        changed_ms: 1_700_000_060_000,
        tasks: Some(v1::TaskCounts { pending: 1, running: 2, healthy: 1, ..Default::default() }),
        kind: v1::JobKind::Service.into(),
        revision: 4,
        labels: [("team".to_owned(), "web".to_owned()), ("tier".to_owned(), "front".to_owned())].into(),
        description: "the front page".to_owned(),
        ..Default::default()
    }
}

fn task() -> v1::Task {
    v1::Task {
        job_id: "j000000000000002a".to_owned(),
        user: "alice".to_owned(),
        job: "web".to_owned(),
        index: 1,
        state: v1::TaskState::Running.into(),
        node: "alpha-2".to_owned(),
        incarnation: 3,
        ports: vec![v1::Port { name: "http".to_owned(), number: 21_000 }],
        health: v1::Health::Healthy.into(),
        exit: Some(v1::Exit {
            reason: v1::EndReason::Signaled.into(),
            signal: Some(9),
            at_ms: 1_700_000_000_500,
            incarnation: 2,
            node: "alpha-1".to_owned(),
            ..Default::default()
        }),
        restarts: 2,
        pid: Some(4711),
        usage: Some(v1::Usage { cpu_millis: 12, memory_bytes: 25 << 20, ..Default::default() }),
        host: "127.0.0.1".to_owned(),
        changed_ms: 1_700_000_001_000,
        started_ms: Some(1_700_000_001_000),
        revision: 9,
        spec_version: 1,
        ..Default::default()
    }
}

fn victim(job: &str, index: u32) -> v1::Victim {
    v1::Victim { user: "bob".to_owned(), job: job.to_owned(), index, priority: 50, ..Default::default() }
}

fn explanation() -> v1::Explanation {
    v1::Explanation {
        indexes: vec![0, 1, 2, 5],
        summary: "no node fits: 5 memory, 1 cordoned".to_owned(),
        headline: "no node fits".to_owned(),
        nodes: 6,
        losses: vec![
            v1::FilterLoss { filter: "memory".to_owned(), nodes: 5 },
            v1::FilterLoss { filter: "cordoned".to_owned(), nodes: 1 },
        ],
        nearest: vec![v1::NearestFit { change: "with memory <= 1.5GiB".to_owned(), nodes: 1 }],
        victims: vec![victim("low", 7)],
        victims_node: "alpha-2".to_owned(),
        ..v1::Explanation::default()
    }
}

#[test]
fn a_table_of_jobs() {
    let rows = [JobView::from(job())];
    check(
        &table(&rows, &Style::default()),
        &expect![[r#"
            USER   JOB  KIND     STATE    HEALTHY  PRIORITY  SUBMITTED             LABELS
            alice  web  service  running  1/3      200       2023-11-14T22:13:20Z  team=web,tier=front
        "#]],
    );
    check(
        &table(&rows, &WIDE),
        &expect![[r#"
            USER   JOB  KIND     STATE    HEALTHY  PRIORITY  SUBMITTED             LABELS               TASKS                            VERSION  REVISION  ID                 DESCRIPTION
            alice  web  service  running  1/3      200       2023-11-14T22:13:20Z  team=web,tier=front  1 pending, 2 running, 1 healthy  1        4         j000000000000002a  the front page
        "#]],
    );
}

/// What surges is no task of the owner, and of a service that was stopped none is to be healthy.
#[test]
fn a_table_of_jobs_counts_the_tasks_of_the_owner() {
    let progress = v1::RolloutProgress {
        concerned: 3,
        surging: Some(1),
        surging_healthy: Some(1),
        ..v1::RolloutProgress::default()
    };
    let rollout = v1::Rollout {
        state: v1::RolloutState::Rolling.into(),
        version: 2,
        surge: 1,
        progress: Some(progress),
        ..v1::Rollout::default()
    };
    let tasks = v1::TaskCounts { running: 4, healthy: 4, ..v1::TaskCounts::default() };
    let surging = v1::Job { tasks: Some(tasks), rollout: Some(rollout), ..job() };
    let stopped = v1::Job { state: v1::JobState::Stopped.into(), tasks: None, ..surging.clone() };
    let rows = [JobView::from(surging), JobView::from(stopped)];
    check(
        &table(&rows, &Style::default()),
        &expect![[r#"
        USER   JOB  KIND     STATE                             HEALTHY  PRIORITY  SUBMITTED             LABELS
        alice  web  service  running (rollout 0/3, 1 surging)  3/3      200       2023-11-14T22:13:20Z  team=web,tier=front
        alice  web  service  stopped                           -        200       2023-11-14T22:13:20Z  team=web,tier=front
    "#]],
    );
}

#[test]
fn a_table_of_tasks() {
    let rows = [TaskOutput::from(task())];
    check(
        &table(&rows, &Style::default()),
        &expect![[r#"
        TASK         STATE    HEALTH   NODE     PORTS       RESTARTS  LAST EXIT
        alice/web/1  running  healthy  alpha-2  http:21000  2         SIGKILL
    "#]],
    );
    check(
        &table(&rows, &WIDE),
        &expect![[r#"
            TASK         STATE    HEALTH   NODE     PORTS       RESTARTS  LAST EXIT  ATTEMPT  VERSION  PID   STARTED               CPU  MEMORY  PEAK
            alice/web/1  running  healthy  alpha-2  http:21000  2         SIGKILL    3        1        4711  2023-11-14T22:13:21Z  12m  25MiB   0B
        "#]],
    );
}

#[test]
fn a_task_as_json() {
    check(
        &as_json(&TaskOutput::from(task())),
        &expect![[r#"
            {
              "user": "alice",
              "job": "web",
              "index": 1,
              "state": "running",
              "health": "healthy",
              "node": "alpha-2",
              "host": "127.0.0.1",
              "attempt": 3,
              "ports": {
                "http": 21000
              },
              "pid": 4711,
              "cores": [],
              "restarts": 2,
              "failures": 0,
              "stop": null,
              "exit": {
                "reason": "signaled",
                "code": null,
                "signal": 9,
                "message": "",
                "at_ms": 1700000000500,
                "attempt": 2,
                "node": "alpha-1"
              },
              "not_before_ms": 0,
              "started_ms": 1700000001000,
              "changed_ms": 1700000001000,
              "spec_version": 1,
              "revision": 9,
              "usage": {
                "at_ms": 0,
                "cpu_millis": 12,
                "memory_bytes": 26214400,
                "memory_peak_bytes": 0,
                "processes": 0
              },
              "charge": null,
              "surges": false,
              "resize": null,
              "alloc": null,
              "inside": [],
              "helpers": []
            }"#]],
    );
}

#[test]
fn a_job_with_everything() {
    let view = JobStatusView {
        job: job().into(),
        tasks: vec![task().into()],
        unplaced: vec![explanation().into()],
        unhealthy: Vec::new(),
        spec: SpecView(None),
        next_page: None,
    };
    check(
        &view.text(&Style::default()),
        &expect![[r#"
            job        alice/web in cell alpha
            kind       service
            state      running
            priority   200
            tasks      3 wanted: 1 pending, 2 running, 1 healthy
            submitted  2023-11-14T22:13:20Z
            changed    2023-11-14T22:14:20Z
            version    1 (revision 4)

            TASK         STATE    HEALTH   NODE     PORTS       RESTARTS  LAST EXIT
            alice/web/1  running  healthy  alpha-2  http:21000  2         SIGKILL

            4 tasks (0-2, 5): no node fits
              5 of 6 nodes refused by: memory
              1 of 6 nodes refused by: cordoned
              would fit on 1 node with memory <= 1.5GiB
              evicts task bob/low/7 (priority 50) on alpha-2
        "#]],
    );
}

#[test]
fn endpoints_and_their_changes() {
    let endpoint = EndpointView::from(v1::Endpoint {
        name: "1.web.alice.alpha".to_owned(),
        user: "alice".to_owned(),
        job: "web".to_owned(),
        index: 1,
        incarnation: 3,
        host: "::1".to_owned(),
        ports: vec![v1::Port { name: "http".to_owned(), number: 21_000 }],
        health: v1::Health::Healthy.into(),
        weight: 1,
        node: "alpha-2".to_owned(),
        healthy_since_ms: 1_800_000_000_000,
        domains: vec!["eu1".to_owned(), String::new(), "r7".to_owned()],
        labels: [("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "front".to_owned())].into(),
        draining: true,
    });
    check(
        &table(std::slice::from_ref(&endpoint), &WIDE),
        &expect![[r#"
            NAME               ADDRESSES         HEALTH   WEIGHT  NODE     DRAINING  DOMAINS  LABELS              ATTEMPT
            1.web.alice.alpha  http [::1]:21000  healthy  1       alpha-2  yes       eu1,,r7  app=web,tier=front  3
        "#]],
    );
    let published = EndpointChangeView::Published { endpoint };
    check(&published.text(), &expect!["+ 1.web.alice.alpha http [::1]:21000 healthy (attempt 3)"]);
    check(
        &json(&published, JsonLayout::Line).expect("JSON"),
        &expect![[
            r#"{"event":"published","endpoint":{"name":"1.web.alice.alpha","user":"alice","job":"web","index":1,"attempt":3,"host":"::1","ports":{"http":21000},"health":"healthy","weight":1,"node":"alpha-2","healthy_since_ms":1800000000000,"domains":["eu1","","r7"],"labels":{"app":"web","tier":"front"},"draining":true}}"#
        ]],
    );
    let withdrawn = EndpointChangeView::Withdrawn {
        user: "alice".into(),
        job: "web".into(),
        index: 1,
        attempt: 3,
        cell: "alpha".into(),
    };
    check(&withdrawn.text(), &expect!["- 1.web.alice.alpha (attempt 3)"]);
}

fn worker() -> v1::SchedulerWorker {
    let stats = v1::WorkerStats {
        waiting: 12,
        rate_per_s: 1234.5,
        conflicts: 3,
        scored_per_task: 1.25,
        cached_share: 0.9,
        age_ms: 7,
        part_first: 0,
        part_nodes: 3,
        batch_tasks: 256,
        ..Default::default()
    };
    let (owner, scheduler) = ("w1".to_owned(), "default".to_owned());
    v1::SchedulerWorker { shard: 0, owner, epoch: 5, scheduler, stats: Some(stats), standby: false }
}

fn cell(capacity: v1::Resources, used: v1::Resources) -> v1::Cell {
    v1::Cell {
        name: "alpha".to_owned(),
        state: v1::CellState::Open.into(),
        store: "embedded".to_owned(),
        nodes: 3,
        nodes_ready: 2,
        capacity: Some(capacity),
        used: Some(used),
        jobs: 1,
        tasks: Some(v1::TaskCounts { running: 2, healthy: 2, ..Default::default() }),
        settings: Some(v1::CellSettings {
            schedulers: Some(v1::SchedulerRules {
                of: [("batch", "fast"), ("band:production", "default")]
                    .map(|(work, scheduler)| (work.to_owned(), scheduler.to_owned()))
                    .into(),
            }),
            ..Default::default()
        }),
        warnings: vec!["no worker serves scheduler fast, and none ever has; 2 jobs are its".to_owned()],
        schedulers: vec![
            worker(),
            v1::SchedulerWorker { shard: 1, scheduler: "default".to_owned(), ..Default::default() },
            v1::SchedulerWorker { shard: 2, owner: "w3".to_owned(), standby: true, ..worker() },
        ],
        ..Default::default()
    }
}

#[test]
fn nodes_and_cells() {
    let capacity = v1::Resources { cpu_millis: 4000, memory_bytes: 8 << 30, ..Default::default() };
    let used = v1::Resources { cpu_millis: 500, memory_bytes: 64 << 20, ..Default::default() };
    let node = v1::Node {
        cell: "alpha".to_owned(),
        name: "alpha-1".to_owned(),
        state: v1::NodeState::Ready.into(),
        draining: true,
        capacity: Some(capacity.clone()),
        used: Some(used.clone()),
        load: Some(v1::NodeLoad { cpu_millis: 3000, memory_bytes: 1 << 30, ..Default::default() }),
        tasks: 2,
        connected: true,
        host: "127.0.0.1".to_owned(),
        attributes: [("rack".to_owned(), "r1".to_owned())].into(),
        ..Default::default()
    };
    let view = NodeStatusView { node: node.into(), drain: Vec::new(), tasks: Vec::new() };
    check(
        &table(std::slice::from_ref(&view.node), &Style::default()),
        &expect![[r#"
        NODE     STATE            TASKS  CPU           MEMORY
        alpha-1  ready, draining  2      500m/4 (12%)  64MiB/8GiB (0%)
    "#]],
    );
    check(
        &view.text(&Style::default()),
        &expect![[r#"
        node      alpha-1 in cell alpha
        state     ready, draining
        host      127.0.0.1
        capacity  cpu 4, memory 8GiB
        charged   cpu 500m, memory 64MiB
        load      cpu 3/4 (75%), memory 1GiB/8GiB (12%)
        ports     0 to 0, 0 used
        changed   -
        attributes
          rack = r1
    "#]],
    );
    let cell = cell(capacity, used);
    check(
        &CellOutput::from(cell).text(&Style::default()),
        &expect![[r#"
            cell             alpha
            state            open
            store            embedded (epoch 0), read 0 ms ago
            nodes            2 of 3 ready
            capacity         cpu 4, memory 8GiB
            charged          cpu 500m, memory 64MiB
            jobs             1
            tasks            2 running, 2 healthy
            schedulers       band:production=default, batch=fast
            node losses      0 a minute at most
            ended jobs       kept for 0s, 0 at most
            journal          kept for 0s, 0B at most
            audit            kept for 0s
            dns              kept for 0s by resolvers, 0s if there are no records
            warning: no worker serves scheduler fast, and none ever has; 2 jobs are its

            SCHEDULER  SHARD    WORKER  WAITING  UNSCHEDULABLE  PER SECOND  CONFLICTS  SCORED  CACHED  AGE  NODES  BATCH
            default    0        w1      12       0              1234        3          1.2     90%     7ms  0+3    256
            default    1        nobody  -        -              -           -          -       -       -    -      -
            default    standby  w3      12       0              1234        3          1.2     90%     7ms  0+3    256
        "#]],
    );
}

#[test]
fn changes_of_a_watch() {
    let message = |change| v1::WatchResponse {
        action: "task_running".to_owned(),
        actor: "node alpha-2".to_owned(),
        at_ms: 1_700_000_001_000,
        change: Some(change),
        ..Default::default()
    };
    let text = |change| ChangeView::new(message(change)).map(|view| view.text()).unwrap_or_default();
    check(
        &text(v1::watch_response::Change::Task(task())),
        &expect![
            "2023-11-14T22:13:21Z task alice/web/1: running, healthy on alpha-2 (attempt 3) [task_running]"
        ],
    );
    check(
        &text(v1::watch_response::Change::Job(job())),
        &expect![
            "2023-11-14T22:13:21Z job alice/web: running (1 pending, 2 running, 1 healthy) [task_running]"
        ],
    );
    check(
        &text(v1::watch_response::Change::NodeRemoved("alpha-1".to_owned())),
        &expect!["2023-11-14T22:13:21Z node removed alpha-1: [task_running]"],
    );
    check(&text(v1::watch_response::Change::Bookmark(true)), &expect![[""]]);
}

#[test]
fn stats_for_people() {
    let sizes = [0, 1, 1023, 1024, 1536, 10 << 20, 1_500_000_000, u64::MAX].map(bytes);
    assert_eq!(sizes, ["0B", "1B", "1023B", "1KiB", "1.5KiB", "10MiB", "1.3GiB", "15.9EiB"]);
    assert_eq!([time(0), time(-5)], ["-", "-"]);
    assert_eq!(time(1_700_000_000_000), "2023-11-14T22:13:20Z");
    assert_eq!([ranges(&[3, 1, 2, 7, 2, u32::MAX]), ranges(&[])], ["1-3, 7, 4294967295", ""]);
}

/// A watch would otherwise wait for its next change, for hours.
#[test]
fn a_pipe_that_nobody_reads_is_noticed_without_a_write() {
    let (reader, writer) = std::io::pipe().unwrap();
    assert!(!super::is_abandoned(&writer));
    drop(reader);
    assert!(super::is_abandoned(&writer));
    assert!(!super::is_abandoned(std::fs::File::create("/dev/null").unwrap()));
}
