//! Sessions of a real gateway with scripted agents: bounds, credit, and what keeps a node alive.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod load;
mod workload;
mod world;

use borough_model::node::{AgentKey, REGISTERED};
use borough_model::{JobId, TaskId};
use borough_proto::bounds::{
    CHUNK_BYTES_MAX, DESIRED_WINDOW_BYTES, REPORT_TASKS_MAX, REPORTS_UNAPPLIED_MAX, SESSION_ATTEMPTS_MAX,
};
use borough_proto::v1;
use borough_proto::v1::agent_message::Message as FromAgent;
use borough_proto::v1::gateway_message::Message as ToAgent;

use world::{BEAT, World, spec, within};

/// A thousand tasks of different jobs, 4.2 kilobytes each: more than any message can hold, and more than the agent's
/// credit. The stop of one task does not wait for the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_specs_come_within_the_credit_and_a_stop_comes_between() {
    let world = World::start().await;
    let node = world.agent().await.node;
    let jobs: Vec<_> = (1..=1_000).map(|job| (JobId(job), spec(job, 1, 4_200))).collect();
    world.place(node, &jobs).await;
    let mut agent = world.agent().await;
    agent.drain().await;
    assert!(
        agent.held.bytes <= DESIRED_WINDOW_BYTES && agent.held.bytes >= CHUNK_BYTES_MAX,
        "{}",
        agent.held.bytes
    );
    assert!(!agent.held.complete && agent.held.assignments.len() < 500);
    // The last job in the order of sending.
    world.stop(TaskId { job: JobId(1_000), index: 0 }).await;
    agent.acknowledge();
    agent.held_until("the stop", |held| !held.stops.is_empty()).await;
    assert!(agent.held.assignments.len() < 900, "{} attempts before it", agent.held.assignments.len());
    agent.held_until("the end of the full state", |held| held.complete).await;
    assert_eq!((agent.held.assignments.len(), agent.held.specs.len()), (999, 999));
    assert_eq!(agent.held.stops.len(), 1);
}

/// Sixty tasks with one spec of 85 kilobytes: one delivery of the spec.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_tasks_of_one_large_spec_come_with_it_once() {
    let world = World::start().await;
    let mut agent = world.agent().await;
    world.place(agent.node, &[(JobId(1), spec(1, 60, 85_000))]).await;
    agent.held_until("every attempt", |held| held.assignments.len() == 60).await;
    assert_eq!(agent.held.specs.len(), 1);
    assert!(agent.held.assignments.values().all(|assignment| assignment.spec.is_none()));
}

/// An agent fails on its desired state again and again. After a few failures its sessions no longer keep the node's
/// lease, and the node shows why. A session that applies its state counts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_come_to_nothing_keep_no_lease_and_are_shown() {
    let world = World::start().await;
    let node = world.agent().await.node;
    world.place(node, &[(JobId(1), spec(1, 60, 85_000))]).await;
    for _ in 0..4 {
        let mut agent = world.agent().await;
        agent
            .next_until("what it is to run", |message| matches!(message, ToAgent::Desired(_)).then_some(()))
            .await;
        // The agent acknowledges what nobody has sent. A session that an agent closes itself is no failure.
        agent.send(FromAgent::DesiredApplied(v1::DesiredApplied { sequence: 77, refused: Vec::new() }));
        agent.ended().await;
    }
    let failures = async {
        loop {
            let failure = world.node().await.session_failure;
            if let Some(failure) = failure.filter(|failure| failure.sessions >= 4) {
                return failure;
            }
            tokio::time::sleep(BEAT).await;
        }
    };
    assert!(!within("four failures", failures).await.error.is_empty());
    let mut agent = world.agent().await;
    agent.report(v1::Report::default()).await;
    tokio::time::sleep(BEAT * 10).await;
    let live = world.live(node).await;
    assert_eq!(
        (live.live.session, live.live.beat),
        (agent.session, REGISTERED),
        "reports alone do not keep it alive"
    );
    agent.drain().await;
    assert!(agent.held.complete);
    agent.acknowledge();
    let alive = async {
        while world.live(node).await.live.beat == REGISTERED {
            tokio::time::sleep(BEAT).await;
        }
    };
    within("a lease for work that is done", alive).await;
    let cleared = async {
        while world.node().await.session_failure.is_some() {
            agent.report(v1::Report::default()).await;
            tokio::time::sleep(BEAT).await;
        }
    };
    within("the end of the failures", cleared).await;
}

/// An agent that exceeds its bounds gets an error that names the bound, and the gateway stores nothing of the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_beyond_its_bounds_gets_an_error_that_names_them() {
    let world = World::start().await;
    let mut agent = world.agent().await;
    let status =
        v1::TaskStatus { job_id: "j0000000000000001".to_owned(), phase: 1, ..v1::TaskStatus::default() };
    let tasks = vec![status; REPORT_TASKS_MAX + 1];
    agent.send(FromAgent::Report(v1::Report { revision: 2, tasks, ..v1::Report::default() }));
    assert!(agent.ended().await.message().contains("more tasks at once"));
    let mut agent = world.agent().await;
    agent.send(FromAgent::DesiredApplied(v1::DesiredApplied { sequence: 77, refused: Vec::new() }));
    assert!(agent.ended().await.message().contains("acknowledged chunk 77"));
    let mut agent = world.agent().await;
    for revision in 0..100 * REPORTS_UNAPPLIED_MAX as u64 {
        agent.send(FromAgent::Report(v1::Report { revision: revision + 2, ..v1::Report::default() }));
    }
    assert!(agent.ended().await.message().contains("more reports on their way"));
    let mut agent = world.agent().await;
    let installed = vec!["x".repeat(600_000)];
    let packages = Some(v1::PackageReport { installed });
    agent.send(FromAgent::Report(v1::Report { revision: 2, packages, ..v1::Report::default() }));
    agent.ended().await;
    assert!(world.node().await.session_failure.is_some());
    let mut agent = world.agent().await;
    let attempt = |index| v1::TaskStatus {
        job_id: "j0000000000000001".to_owned(),
        index,
        incarnation: 1,
        phase: v1::task_status::Phase::Running.into(),
        pid: Some(1),
        started_ms: Some(1),
        ..v1::TaskStatus::default()
    };
    let attempts: Vec<v1::TaskStatus> =
        (0..=u32::try_from(SESSION_ATTEMPTS_MAX).unwrap()).map(attempt).collect();
    let (last, within_bound) = attempts.split_last().unwrap();
    for tasks in within_bound.chunks(REPORT_TASKS_MAX) {
        agent.report(v1::Report { tasks: tasks.to_vec(), ..v1::Report::default() }).await;
    }
    let tasks = vec![last.clone()];
    agent.send(FromAgent::Report(v1::Report { revision: 1_000, tasks, ..v1::Report::default() }));
    assert!(agent.ended().await.message().contains("more attempts than its bound"));
}

/// The full report of a node with many tasks arrives in chunks. The gateway sends nothing before its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_report_in_chunks_is_whole_before_anything_is_missed() {
    let world = World::start().await;
    let mut agent = world.agent().await;
    let node = agent.node;
    world.place(node, &[(JobId(1), spec(1, 1_200, 10))]).await;
    agent.held_until("every attempt", |held| held.assignments.len() == 1_200).await;
    let statuses: Vec<v1::TaskStatus> = agent
        .held
        .assignments
        .keys()
        .map(|(job_id, index)| v1::TaskStatus {
            job_id: job_id.clone(),
            index: *index,
            incarnation: 1,
            phase: v1::task_status::Phase::Running.into(),
            pid: Some(index + 1),
            started_ms: Some(1),
            ..v1::TaskStatus::default()
        })
        .collect();
    for tasks in statuses.chunks(REPORT_TASKS_MAX) {
        agent.report(v1::Report { tasks: tasks.to_vec(), ..v1::Report::default() }).await;
    }
    drop(agent);
    let mut agent = world.agent_silent().await;
    let last = statuses.len().div_ceil(REPORT_TASKS_MAX) - 1;
    for (number, tasks) in statuses.chunks(REPORT_TASKS_MAX).enumerate() {
        assert_eq!(agent.held.sequence, 0, "nothing is said before the full report is durable");
        let (full_begin, full_end) = (number == 0, number == last);
        agent
            .report(v1::Report { tasks: tasks.to_vec(), full_begin, full_end, ..v1::Report::default() })
            .await;
    }
    agent.held_until("the full state", |held| held.complete).await;
    assert_eq!(
        (agent.held.assignments.len(), agent.held.stops.len()),
        (1_200, 0),
        "none was taken as missing"
    );
}

/// A repeated admission gets the answer of the first one, even if the node has another agent by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_admission_is_answered_while_another_agent_beats() {
    let world = World::start().await;
    let identity = |byte: u8| format!("{}@-", AgentKey(u128::from_be_bytes([byte; 16])).durable_id());
    let (first, second) = (identity(1), identity(2));
    let agent = world.agent_of(1).await;
    let node = agent.node;
    drop(agent);
    // Silent, and perhaps only during an upgrade of its agent.
    let silent =
        async { while !world.admit(1, &second).await.unwrap_err().message().contains("not lost yet") {} };
    within("silence", silent).await;
    world.lose(node).await;
    world.admit(1, &second).await.unwrap();
    world.admit(2, &first).await.unwrap();
    let mut agent = world.agent_of(1).await;
    agent.held_until("the full state", |held| held.complete).await;
    world.vouched(agent.node).await;
    agent.report(v1::Report::default()).await;
    let refused = world.admit(3, &second).await.unwrap_err();
    assert!(refused.message().contains("still reports"), "{refused}");
    world.admit(1, &second).await.unwrap();
    let row = world.node().await;
    assert_eq!(row.identity, first, "a repetition changes nothing");
}

/// A node opens a session ten times a second and breaks it, and its agent makes no pause. The gateway registers it ever
/// more rarely. When the agent stays, the node is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_flaps_registers_ever_more_rarely_and_comes_back() {
    const TRIES: usize = 40;
    let world = World::start().await;
    let node = world.agent().await.node;
    let mut sessions = std::collections::BTreeSet::new();
    for _ in 0..TRIES {
        let opened = tokio::time::timeout(BEAT * 5, world.agent_silent_try()).await;
        if let Ok(Ok(agent)) = opened {
            sessions.insert(agent.session);
        }
        tokio::time::sleep(BEAT).await;
    }
    assert!(sessions.len() <= 12, "{} of {TRIES} tries have registered", sessions.len());
    let back = async {
        loop {
            match world.agent_silent_try().await {
                Ok(agent) => return agent,
                Err(status) => assert_eq!(status.code(), tonic::Code::Unavailable, "{status}"),
            }
            tokio::time::sleep(BEAT * 10).await;
        }
    };
    let mut agent = within("a session", back).await;
    agent.report(v1::Report { full_begin: true, full_end: true, ..v1::Report::default() }).await;
    agent.held_until("the full state", |held| held.complete).await;
    world.vouched(node).await;
    assert_eq!(world.live(node).await.live.session, agent.session);
}

/// The same report over and over, with a clock that stands still: the agent lives, since the gateway counts the time.
/// Its node has one row, that nothing writes. When the agent says nothing more, the gateway withdraws its voucher.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_lives_by_its_reports_whatever_its_clock_says() {
    let world = World::start().await;
    let mut agent = world.agent().await;
    agent.held_until("the end of the full state", |held| held.complete).await;
    agent.acknowledge();
    let node = agent.node;
    world.vouched(node).await;
    let first = world.live(node).await;
    for _ in 0..50 {
        agent.send(FromAgent::Report(v1::Report { revision: 1, ..v1::Report::default() }));
        tokio::time::sleep(BEAT).await;
    }
    let after = world.live(node).await;
    assert_eq!(after.live, first.live);
    assert_ne!(after.beat, first.beat);
    let silent = async {
        while world.live(node).await.live.voucher.is_some() {
            tokio::time::sleep(BEAT).await;
        }
    };
    within("the end of the voucher", silent).await;
    agent.report(v1::Report::default()).await;
    world.vouched(node).await;
}
