//! Prometheus: its targets come and go with the endpoints of a job.

use std::collections::BTreeSet;
use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::{TestCell, http_get, options, until};
use serde_json::Value;

use super::page::example;
use super::{program_or_report, web_run};

/// Starts it with a documented example. It listens on `address`.
fn start(cell: &TestCell, program: &Path, heading: &str, address: &str) -> HeldProgram {
    let file = cell.file("prometheus.yaml", &example(cell, heading, address));
    let data = Path::new(&file).with_file_name("prometheus");
    let arguments = [
        format!("--config.file={file}"),
        format!("--storage.tsdb.path={}", data.display()),
        format!("--web.listen-address={address}"),
    ];
    HeldProgram::start(program, &arguments, Path::new(&file).with_extension("log"))
}

/// The addresses of its targets.
async fn targets(address: &str) -> Option<BTreeSet<String>> {
    let (_, body) = http_get(address, "/api/v1/targets?state=active", None).await.ok()?;
    let body: Value = serde_json::from_str(&body).ok()?;
    let targets = body["data"]["activeTargets"].as_array()?.clone();
    let address = |target: &Value| Some(target["discoveredLabels"]["__address__"].as_str()?.to_owned());
    targets.iter().map(address).collect()
}

/// The addresses of the endpoints of the job `web`.
async fn endpoints(cell: &TestCell) -> BTreeSet<String> {
    let (endpoints, _) = cell.client().endpoint_list("tester", "web").await.unwrap();
    let address = |endpoint: &borough_proto::v1::Endpoint| {
        format!("{}:{}", endpoint.host, endpoint.ports.first().unwrap().number)
    };
    endpoints.iter().map(address).collect()
}

/// Waits until the targets are the endpoints, of which there are `count`.
async fn targets_until(cell: &TestCell, address: &str, count: usize) {
    until(&format!("{count} targets"), || async {
        let found = targets(address).await?;
        (found.len() == count && found == endpoints(cell).await).then_some(())
    })
    .await;
}

/// How often a refresh has failed, by the metrics of Prometheus itself.
async fn failures(address: &str, metric: &str) -> f64 {
    let (_, body) = http_get(address, "/metrics", None).await.unwrap();
    let of_metric = body.lines().filter(|line| line.starts_with(metric));
    of_metric.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn followed(program: &str, heading: &str, failure_metric: &str) {
    let Some(program) = program_or_report(program) else { return };
    let mut cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    web_run(&cell).await;
    let address = cell.balancer(0);
    let prometheus = start(&cell, &program, heading, &address);
    targets_until(&cell, &address, 3).await;
    cell.borough(&["job", "scale", "web", "6"]).await.ended(0);
    targets_until(&cell, &address, 6).await;
    cell.borough(&["job", "scale", "web", "2"]).await.ended(0);
    targets_until(&cell, &address, 2).await;
    // Without a name service it keeps what it has.
    let known = targets(&address).await;
    let before = failures(&address, failure_metric).await;
    cell.control_kill();
    until("a failed refresh", || async { (failures(&address, failure_metric).await > before).then_some(()) })
        .await;
    assert_eq!(targets(&address).await, known);
    cell.control_start().await;
    cell.nodes_ready().await;
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    targets_until(&cell, &address, 0).await;
    prometheus.end().await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn prometheus_follows_a_job_by_http_sd() {
    followed("prometheus", "## Prometheus", "prometheus_sd_http_failures_total").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn prometheus_follows_a_job_by_consul_sd() {
    let metric = "prometheus_sd_consul_rpc_failures_total";
    followed("prometheus-consul", "### consul_sd of Prometheus", metric).await;
}
