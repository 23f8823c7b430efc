//! Health, as probes of every kind see it.

use borough_proto::v1::health_check::Probe;
use borough_proto::v1::task_status::Phase;
use borough_proto::v1::{self, Health};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::gateway::key;
use crate::harness::{Cell, life, number_in, runs, script, until};

fn checked(life: &v1::TaskLife, probe: Probe, port: u16, text: &str) -> v1::Assignment {
    let mut work = script(life, text);
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

async fn health(cell: &Cell, life: &v1::TaskLife, health: Health) {
    let what = format!("{health:?}");
    cell.gateway
        .wait(&what, |seen| seen.tasks.get(&key(life)).filter(|task| task.health() == health).map(|_| ()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_probes_a_task_is_healthy_while_it_runs() {
    let cell = Cell::with_agent().await;
    let life = life(0, 1);
    cell.gateway.run(script(&life, "exec sleep 600"));
    assert_eq!(cell.gateway.phase(&life, Phase::Running).await.health(), Health::Healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_decides_and_a_restarted_agent_does_not_take_it_back() {
    let mut cell = Cell::with_agent().await;
    let life = life(0, 1);
    let command = ["test", "-e", "good"].map(str::to_owned).to_vec();
    let probe = Probe::Command(v1::CommandProbe { command });
    cell.gateway.run(checked(&life, probe, 1, "exec sleep 600"));
    assert_eq!(cell.gateway.phase(&life, Phase::Running).await.health(), Health::Unknown);
    let good = cell.life_dir(&life).join("work/good");
    std::fs::write(&good, "").unwrap();
    health(&cell, &life, Health::Healthy).await;
    cell.agent_stop().await;
    let before = cell.gateway.look(|seen| seen.history.len());
    cell.agent_start(cell.config());
    cell.gateway.wait("a second session", |seen| (seen.history.len() > before).then_some(())).await;
    let after = cell
        .gateway
        .look(|seen| seen.history[before..].iter().map(v1::TaskStatus::health).collect::<Vec<_>>());
    assert!(after.iter().all(|health| *health == Health::Healthy), "{after:?}");
    std::fs::remove_file(&good).unwrap();
    health(&cell, &life, Health::Unhealthy).await;
    std::fs::write(&good, "").unwrap();
    health(&cell, &life, Health::Healthy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_is_a_failure_and_leaves_nothing() {
    let cell = Cell::with_agent().await;
    let life = life(0, 1);
    let command = ["sh", "-c", "sleep 600 & echo $! > hangs; wait"].map(str::to_owned).to_vec();
    let mut work = checked(&life, Probe::Command(v1::CommandProbe { command }), 1, "exec sleep 600");
    let check = work.spec.as_mut().unwrap().health.as_mut().unwrap();
    (check.timeout_ms, check.initial_grace_ms) = (300, 0);
    cell.gateway.run(work);
    cell.gateway.phase(&life, Phase::Running).await;
    let hangs = number_in(cell.life_dir(&life).join("work/hangs")).await;
    until("its end", || (!runs(hangs)).then_some(())).await;
    health(&cell, &life, Health::Unhealthy).await;
}

/// Answers every question with what `answer` says.
async fn server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_tcp_are_asked_on_the_named_port() {
    let cell = Cell::with_agent().await;
    let http = |path: &str| Probe::Http(v1::HttpProbe { port: "main".to_owned(), path: path.to_owned() });
    let good = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    let bad = server("HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    let silent = server("").await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let tcp = || Probe::Tcp(v1::TcpProbe { port: "main".to_owned() });
    let cases = [
        (http("/healthz?x=1"), good, Health::Healthy),
        (tcp(), silent, Health::Healthy),
        (http("/"), bad, Health::Unhealthy),
        (http("/"), silent, Health::Unhealthy),
        (tcp(), closed, Health::Unhealthy),
    ];
    for (index, (probe, port, _)) in (0..).zip(&cases) {
        let mut work = checked(&life(index, 1), probe.clone(), *port, "exec sleep 600");
        work.spec.as_mut().unwrap().health.as_mut().unwrap().initial_grace_ms = 0;
        cell.gateway.run(work);
    }
    for (index, (_, _, expect)) in (0..).zip(cases) {
        health(&cell, &life(index, 1), expect).await;
    }
}
