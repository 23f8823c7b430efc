//! What is published of an endpoint besides its address: since when it is healthy, its failure domains, the labels of
//! its job, and whether its node is drained. Changes of these reach watches, each once, and nothing is withdrawn.

use borough_client::EndpointItem;
use borough_proto::v1::{Cursor, Endpoint};
use borough_tests::{TestCell, Watcher, http_get, options, until};
use futures::StreamExt as _;
use serde_json::{Value, json};

const JOB: &str = "name: web\ncount: 2\nlabels: {tier: front}\ntask: {command: [sleep, '600'], ports: [http], \
    resources: {cpu: 10m, memory: 4MiB}, grace: 100ms}\n";

/// The label `tier`, and whether the node is drained.
fn facts(endpoint: &Endpoint) -> (&str, bool) {
    (endpoint.labels.get("tier").map_or("", String::as_str), endpoint.draining)
}

async fn both_have(watcher: &Watcher, tier: &str, draining: bool) {
    until(&format!("two endpoints of {tier:?}, draining: {draining}"), || async {
        let published = watcher.published();
        let all = published.len() == 2 && published.values().all(|each| facts(each) == (tier, draining));
        all.then_some(())
    })
    .await;
}

/// The endpoints that a watch from `resume` publishes first.
async fn published_after(cell: &TestCell, resume: Cursor, count: usize) -> Vec<(u32, String, bool)> {
    let mut items = cell.client().watch_endpoints("tester", "web", Some(resume));
    let mut found = Vec::new();
    while found.len() < count {
        match items.next().await.unwrap().unwrap() {
            EndpointItem::Published(endpoint) => {
                let (tier, draining) = facts(&endpoint);
                found.push((endpoint.index, tier.to_owned(), draining));
            }
            EndpointItem::Bookmark(_) | EndpointItem::Absent(_) => {}
            other => panic!("{other:?}"),
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn labels_and_drains_reach_watches_once_and_withdraw_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["cell", "set", "--failure-domains", "rack,node.name"]).await.ended(0);
    cell.borough(&["node", "label", "alpha-1", "rack=r7"]).await.ended(0);
    cell.run("web.yaml", JOB).await;
    let watcher = Watcher::start(cell.client(), "web").await;
    let first = watcher.until_published(2).await;
    for endpoint in first.values() {
        assert_eq!(endpoint.domains, ["r7", "alpha-1"]);
        assert!(endpoint.healthy_since_ms > 1_600_000_000_000, "{endpoint:?}");
        assert_eq!(facts(endpoint), ("front", false));
    }
    let (listed, cursor) = cell.client().endpoint_list("tester", "web").await.unwrap();
    assert_eq!(listed, first.values().cloned().collect::<Vec<_>>(), "a list says the same");
    let (_, body) =
        http_get(&cell.http(), "/v1/cells/alpha/names/tester/web", Some(&cell.token())).await.unwrap();
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(shown["endpoints"][1]["labels"], json!({"tier": "front"}));
    assert_eq!(shown["endpoints"][1]["domains"], json!(["r7", "alpha-1"]));
    assert_eq!(shown["endpoints"][1]["healthy_since_ms"], json!(listed[1].healthy_since_ms));

    cell.borough(&["job", "label", "web", "tier=back"]).await.ended(0);
    both_have(&watcher, "back", false).await;
    // The node has no room for its tasks elsewhere, so they stay.
    cell.borough(&["node", "drain", "alpha-1", "--timeout", "1s"]).await;
    both_have(&watcher, "back", true).await;
    // Neither concerns an endpoint.
    cell.borough(&["node", "label", "alpha-1", "tier=db"]).await.ended(0);
    cell.borough(&["job", "scale", "web", "2"]).await;
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    both_have(&watcher, "back", false).await;

    let changes: Vec<(u32, String, bool)> = watcher
        .seen()
        .iter()
        .filter_map(|seen| match &seen.item {
            EndpointItem::Published(endpoint) => {
                let (tier, draining) = facts(endpoint);
                Some((endpoint.index, tier.to_owned(), draining))
            }
            EndpointItem::Snapshot { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let steps = [("back", false), ("back", true), ("back", false)];
    let expected: Vec<(u32, String, bool)> = steps
        .iter()
        .flat_map(|(tier, draining)| [0, 1].map(|index| (index, (*tier).to_owned(), *draining)))
        .collect();
    assert_eq!(changes, expected, "each once");
    watcher.assert_sound();
    let mut again = expected;
    again.sort();
    assert_eq!(published_after(&cell, cursor.unwrap(), 6).await, again, "a watch from before sees the same");
    cell.borough(&["name", "list", "web", "-o", "wide"]).await.ended(0).prints("r7,alpha-1  tier=back");
    cell.finish().await;
}
