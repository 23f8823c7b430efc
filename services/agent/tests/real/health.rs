//! Health, with probes of every kind.

use borough_proto::v1::health_check::Probe;
use borough_proto::v1::task_status::Phase;
use borough_proto::v1::{self, Health};
use tokio::net::TcpListener;

use crate::gateway::key;
use crate::harness::{Cell, attempt, number_in, runs, script, until};

fn checked(attempt: &v1::TaskAttempt, probe: Probe, port: u16, text: &str) -> v1::Assignment {
    let mut work = script(attempt, text);
    work.ports = vec![v1::Port { name: "main".to_owned(), number: u32::from(port) }];
    work.spec.as_mut().unwrap().health = Some(v1::HealthCheck {
        probe: Some(probe),
        interval_ms: 30,
        timeout_ms: 5000,
        failures_max: 2,
        initial_grace_ms: 20_000,
    });
    work
}

async fn health(cell: &Cell, attempt: &v1::TaskAttempt, health: Health) {
    let what = format!("{health:?}");
    cell.gateway
        .wait(&what, |seen| seen.tasks.get(&key(attempt)).filter(|task| task.health() == health).map(|_| ()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_probes_a_task_is_healthy_once_it_has_run_for_a_while() {
    let cell = Cell::with_agent().await;
    let (stays, crashes) = (attempt(0, 1), attempt(1, 1));
    cell.gateway.run(script(&stays, "exec sleep 600"));
    cell.gateway.run(script(&crashes, "sleep 0.2; exit 3"));
    assert_eq!(cell.gateway.phase(&stays, Phase::Running).await.health(), Health::Unknown);
    health(&cell, &stays, Health::Healthy).await;
    cell.gateway.phase(&crashes, Phase::Released).await;
    let up = |seen: &crate::gateway::Seen| {
        let of = |status: &&v1::TaskStatus| status.index == 1 && status.health() == Health::Healthy;
        seen.history.iter().any(|status| of(&status))
    };
    assert!(!cell.gateway.look(up), "what ends at once was never healthy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_decides_and_a_restarted_agent_does_not_take_it_back() {
    let mut cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let command = ["test", "-e", "good"].map(str::to_owned).to_vec();
    let probe = Probe::Command(v1::CommandProbe { command });
    cell.gateway.run(checked(&attempt, probe, 1, "exec sleep 600"));
    assert_eq!(cell.gateway.phase(&attempt, Phase::Running).await.health(), Health::Unknown);
    let good = cell.attempt_dir(&attempt).join("work/good");
    std::fs::write(&good, "").unwrap();
    health(&cell, &attempt, Health::Healthy).await;
    cell.agent_stop().await;
    let before = cell.gateway.look(|seen| seen.history.len());
    cell.agent_start(cell.config());
    cell.gateway.wait("a second session", |seen| (seen.history.len() > before).then_some(())).await;
    let after = cell
        .gateway
        .look(|seen| seen.history[before..].iter().map(v1::TaskStatus::health).collect::<Vec<_>>());
    assert!(after.iter().all(|health| *health == Health::Healthy), "{after:?}");
    std::fs::remove_file(&good).unwrap();
    health(&cell, &attempt, Health::Unhealthy).await;
    std::fs::write(&good, "").unwrap();
    health(&cell, &attempt, Health::Healthy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_is_a_failure_and_leaves_nothing() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let command = ["sh", "-c", "sleep 600 & echo $! > hangs; wait"].map(str::to_owned).to_vec();
    let mut work = checked(&attempt, Probe::Command(v1::CommandProbe { command }), 1, "exec sleep 600");
    let check = work.spec.as_mut().unwrap().health.as_mut().unwrap();
    (check.timeout_ms, check.initial_grace_ms) = (300, 0);
    cell.gateway.run(work);
    cell.gateway.phase(&attempt, Phase::Running).await;
    let hangs = number_in(cell.attempt_dir(&attempt).join("work/hangs")).await;
    until("its end", || (!runs(hangs)).then_some(())).await;
    health(&cell, &attempt, Health::Unhealthy).await;
}

/// A port that was free a moment ago.
async fn port_free() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// A task whose child answers every question with `answer`.
fn serving(port: u16, answer: &str) -> String {
    format!(
        "python3 -c '\nimport socket\nserver = socket.create_server((\"127.0.0.1\", {port}))\n\
         while True:\n    client = server.accept()[0]\n    client.recv(1024)\n    \
         client.sendall(b\"{answer}\")\n    client.close()\n' & exec sleep 600"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_tcp_are_asked_on_the_named_port() {
    let cell = Cell::with_agent().await;
    let http = |path: &str| Probe::Http(v1::HttpProbe { port: "main".to_owned(), path: path.to_owned() });
    let good = "HTTP/1.1 204 No Content\\r\\n\\r\\n";
    let bad = "HTTP/1.1 503 Unavailable\\r\\ncontent-length: 0\\r\\n\\r\\n";
    let tcp = || Probe::Tcp(v1::TcpProbe { port: "main".to_owned() });
    let cases = [
        (http("/healthz?x=1"), Some(good), Health::Healthy),
        (tcp(), Some(""), Health::Healthy),
        (http("/"), Some(bad), Health::Unhealthy),
        (http("/"), Some(""), Health::Unhealthy),
        (tcp(), None, Health::Unhealthy),
    ];
    for (index, (probe, answer, expect)) in (0..).zip(&cases) {
        let port = port_free().await;
        let text = answer.map_or_else(|| "exec sleep 600".to_owned(), |answer| serving(port, answer));
        let mut work = checked(&attempt(index, 1), probe.clone(), port, &text);
        if *expect == Health::Unhealthy {
            work.spec.as_mut().unwrap().health.as_mut().unwrap().initial_grace_ms = 3_000;
        }
        cell.gateway.run(work);
    }
    for (index, (_, _, expect)) in (0..).zip(cases) {
        health(&cell, &attempt(index, 1), expect).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_the_tasks_shows_nothing() {
    let cell = Cell::with_agent().await;
    let (attempt, port) = (attempt(0, 1), port_free().await);
    let probe = Probe::Tcp(v1::TcpProbe { port: "main".to_owned() });
    let mut work = checked(&attempt, probe, port, "exec sleep 600");
    work.spec.as_mut().unwrap().health.as_mut().unwrap().initial_grace_ms = 3_000;
    cell.gateway.run(work);
    cell.gateway.phase(&attempt, Phase::Running).await;
    // It answers, but it is this test and not the task.
    let _server = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    health(&cell, &attempt, Health::Unhealthy).await;
    let healthy =
        |seen: &crate::gateway::Seen| seen.history.iter().any(|status| status.health() == Health::Healthy);
    assert!(!cell.gateway.look(healthy));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_port_another_process_has_is_not_started() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let server = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let mut work = script(&attempt, "exec sleep 600");
    work.ports = vec![v1::Port { name: "main".to_owned(), number: u32::from(port) }];
    cell.gateway.run(work);
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!(exit.reason(), v1::EndReason::StartFailed);
    let expected = format!("its port main ({port}) is in use: process {} (", std::process::id());
    assert!(exit.message.contains(&expected), "{exit:?}");
    assert_eq!(exit.start_failure(), v1::StartFailure::PortInUse, "{exit:?}");
}
