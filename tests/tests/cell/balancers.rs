//! Unmodified load balancers and clients over the name service, under load: no request fails in planned changes.

/// A file of `tests/programs`.
macro_rules! source {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/", $name))
    };
}

mod changes;
mod consul_template;
mod envoy;
mod grpc;
mod haproxy;
mod load;
mod nginx;
mod page;
mod prometheus;
mod traefik;

use std::path::PathBuf;
use std::sync::Arc;

use borough_kv::exercise::not_exercised;
use borough_store::cell::VIEW_DELAY_MS;
use borough_testkit::{program_find, python_with_grpc};
use borough_tests::{TestCell, options};

use changes::{FEW, changes_and_faults};
use envoy::Clusters;
use grpc::GrpcLoad;
use load::{HttpLoad, Tally};

/// A service. Its drain delay is that of the cell.
fn service(name: &str, port: &str, command: &str, health: &str) -> String {
    format!(
        "name: {name}
kind: service
count: {FEW}
task:
  command: [{command}, \"${{PORT_{}}}\"]
  resources: {{cpu: 10m, memory: 32MiB}}
  ports: [{port}]
  health: {{{health}, interval: 1s, timeout: 1s}}
  grace: 3s
restart: {{mode: always, backoff: 100ms}}
",
        port.to_uppercase()
    )
}

/// Finds a program of another project, or reports that it is not exercised.
fn program_or_report(name: &str) -> Option<PathBuf> {
    let found = program_find(name);
    if found.is_none() {
        not_exercised(
            &format!("{name} over the names of a cell"),
            "it is neither installed nor in the cache",
        );
    }
    found
}

/// Sets the drain delay that new cells of a cluster begin with. A cell of `borough dev` begins without one.
async fn drain_delay_set(cell: &TestCell) {
    let delay = format!("{VIEW_DELAY_MS}ms");
    cell.borough(&["cell", "set", "--drain-delay", &delay]).await.ended(0);
}

/// Runs the job `web`, whose tasks answer with their port.
async fn web_run(cell: &TestCell) {
    let server = cell.file("server.py", source!("http-python/server.py"));
    let web = service("web", "http", &format!("python3, -u, {server}"), "http: {port: http, path: /health}");
    cell.run("web.yaml", &web).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_request_fails_through_a_load_balancer_while_a_job_changes() {
    // Tasks of other users may not read the server.
    let mut cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    drain_delay_set(&cell).await;
    web_run(&cell).await;
    let (mut programs, mut loads) = (Vec::new(), Vec::new());
    let mut number = 0;
    let mut address = |cell: &TestCell| {
        number += 1;
        cell.balancer(number)
    };
    if let Some(program) = program_or_report("haproxy") {
        let at = address(&cell);
        programs.push(haproxy::start(&cell, &program, &at));
        loads.push(HttpLoad::start("HAProxy", at, "/").await);
    }
    if let Some(program) = program_or_report("envoy") {
        for (name, clusters) in [("Envoy", Clusters::Named), ("Envoy with all clusters", Clusters::All)] {
            let at = address(&cell);
            programs.push(envoy::start(&cell, &program, &at, clusters));
            loads.push(HttpLoad::start(name, at, "/").await);
        }
    }
    if let (Some(program), Some(server)) = (program_or_report("consul-template"), program_or_report("nginx"))
    {
        let at = address(&cell);
        programs.extend(consul_template::start(&cell, &program, &server, &at).await);
        loads.push(HttpLoad::start("nginx with consul-template", at, "/").await);
    }
    if let Some(program) = program_or_report("traefik") {
        let at = address(&cell);
        programs.push(traefik::start(&cell, &program, &at));
        loads.push(HttpLoad::start("Traefik", at, "/web_tester").await);
    }
    let tallies: Vec<Arc<Tally>> = loads.iter().map(|load| Arc::clone(&load.tally)).collect();
    changes_and_faults(&mut cell, "web", &tallies).await;
    for load in loads {
        load.end().await;
    }
    for program in programs {
        program.end().await;
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_call_of_a_grpc_client_fails_while_a_job_changes() {
    let (python, go) = (python_with_grpc().await, program_or_report("grpc-go"));
    if python.is_none() {
        let reason = "python3 has no module grpc, and BOROUGH_TEST_PYTHON names none";
        not_exercised("gRPC in Python over xDS", reason);
    }
    if python.is_none() && go.is_none() {
        return;
    }
    // Tasks of other users may not execute this Python.
    let mut cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    drain_delay_set(&cell).await;
    let server = cell.file("server.py", source!("grpc-python/server.py"));
    let command = match (&go, &python) {
        (Some(go), _) => format!("{}, server", go.display()),
        (None, Some(python)) => format!("{}, -u, {server}", python.display()),
        (None, None) => return,
    };
    cell.run("echo.yaml", &service("echo", "grpc", &command, "tcp: {port: grpc}")).await;
    let client = cell.file("client.py", source!("grpc-python/client.py"));
    let mut loads = Vec::new();
    if let Some(python) = &python {
        loads.push(GrpcLoad::start(&cell, "gRPC in Python", python, &["-u", &client]).await);
    }
    if let Some(go) = &go {
        loads.push(GrpcLoad::start(&cell, "gRPC in Go", go, &["client"]).await);
    }
    let tallies: Vec<Arc<Tally>> = loads.iter().map(|load| Arc::clone(&load.tally)).collect();
    changes_and_faults(&mut cell, "echo", &tallies).await;
    for load in loads {
        load.end().await;
    }
    cell.finish().await;
}
