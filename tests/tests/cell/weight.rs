//! The weight of a running job changes in place: every view has the new one, nothing is withdrawn, and no process ends.

use borough_client::EndpointItem;
use borough_proto::v1::Task;
use borough_tests::{TestCell, Watcher, http_get, is_up, options, until};
use serde_json::Value;

use crate::names::srv_weights;

/// A service with the weight `weight` for task 0 and `own` for task 1. `more` is further text of the file.
fn web(weight: u32, own: u32, more: &str) -> String {
    format!(
        "name: web\ncount: 2\noverrides: {{1: {{weight: {own}}}}}\n{more}task: {{command: [sleep, '600'], ports: \
         [http], weight: {weight}, resources: {{cpu: 10m, memory: 8MiB}}, grace: 300ms}}\n"
    )
}

/// A rollout that replaced an attempt would have canaries, and wait for them.
const UPDATE: &str = "update: {healthy_after: 300ms, canaries: 1}\n";
const PORT: &str = "_http._tcp.web.tester.alpha.borough.internal";

fn processes(tasks: &[Task]) -> Vec<(Option<u32>, u64)> {
    tasks.iter().map(|task| (task.pid, task.incarnation)).collect()
}

async fn healthy(cell: &TestCell) -> Vec<Task> {
    cell.tasks_until("web", "two healthy tasks", |tasks| is_up(tasks, 2)).await
}

/// The weights of the catalogue of Consul, in the order of the tasks.
async fn catalogue_weights(cell: &TestCell) -> Vec<u64> {
    let (status, body) = http_get(&cell.names(), "/v1/health/service/web_tester", None).await.unwrap();
    assert_eq!(status, 200, "{body}");
    let rows: Vec<Value> = serde_json::from_str(&body).unwrap();
    let mut found: Vec<(String, u64)> = rows
        .iter()
        .map(|row| {
            let service = &row["Service"];
            (service["ID"].to_string(), service["Weights"]["Passing"].as_u64().unwrap())
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, weight)| weight).collect()
}

async fn all_views_have(cell: &TestCell, watcher: &Watcher, weights: [u32; 2]) {
    until(&format!("the weights {weights:?} by gRPC"), || async {
        let published = watcher.published();
        let found: Vec<u32> = published.values().map(|endpoint| endpoint.weight).collect();
        (found == weights).then_some(())
    })
    .await;
    let wanted: Vec<u64> = weights.iter().copied().map(u64::from).collect();
    until("the weights in the catalogue", || async {
        (catalogue_weights(cell).await == wanted).then_some(())
    })
    .await;
    let mut by_dns: Vec<u32> = weights.iter().map(|weight| weight * 256).collect();
    by_dns.sort_unstable();
    until("the weights by DNS", || async { (srv_weights(cell, PORT).await == by_dns).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_weight_changes_in_every_view_while_the_tasks_run() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &web(1, 2, UPDATE)).await;
    let before = healthy(&cell).await;
    let watcher = Watcher::start(cell.client(), "web").await;
    all_views_have(&cell, &watcher, [1, 2]).await;

    let file = cell.file("web.yaml", &web(40, 80, UPDATE));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    let plan = plan
        .prints("weigh task 0 in place, which keeps its process: task.weight\n")
        .prints("weigh task 1 in place, which keeps its process: task.weight, overrides.1.weight\n");
    assert!(!plan.stdout.contains("canary") && !plan.stdout.contains("replace the"), "{}", plan.stdout);
    cell.borough(&["job", "run", &file]).await.ended(0).prints("tester/web: 2/2 healthy with version 2");
    all_views_have(&cell, &watcher, [40, 80]).await;

    // A label beside it, and the way back, in place too.
    let labelled = format!("{UPDATE}labels: {{tier: front}}\n");
    let file = cell.file("web.yaml", &web(3, 80, &labelled));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("2/2 healthy with version 3");
    all_views_have(&cell, &watcher, [3, 80]).await;
    cell.borough(&["rollout", "undo", "web"]).await.ended(0);
    all_views_have(&cell, &watcher, [40, 80]).await;

    let after = healthy(&cell).await;
    assert_eq!(processes(&after), processes(&before), "the processes go on");
    let withdrawn =
        |item: &EndpointItem| matches!(item, EndpointItem::Withdrawn(_) | EndpointItem::Resync(_));
    let seen = watcher.seen();
    assert!(!seen.iter().any(|seen| withdrawn(&seen.item)), "{seen:?}");
    watcher.assert_sound();
    cell.finish().await;
}
