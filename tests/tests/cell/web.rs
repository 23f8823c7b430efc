//! The web example: from its job file to endpoints that answer, in every view.

use std::collections::BTreeSet;
use std::time::Duration;

use borough_tests::{TestCell, Watcher, http_get, options, sse_events, until};
use serde_json::Value;

use crate::example;

/// The example as it is shipped.
const WEB: &str = example!("web.jsonnet");

/// `host:port` of every endpoint in a list over HTTP.
fn addresses(list: &Value) -> BTreeSet<String> {
    let address = |endpoint: &Value| {
        let port = endpoint["ports"]["http"].as_u64().expect("a port");
        format!("{}:{port}", endpoint["host"].as_str().expect("a host"))
    };
    list["endpoints"].as_array().expect("a list").iter().map(address).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_web_example_comes_up_and_is_seen_the_same_everywhere() {
    let cell = TestCell::start(options!()).await;
    let ran = cell.borough(&["job", "run", WEB]).await.ended(0).prints("3/3 healthy");
    let (endpoints, _) = cell.client().endpoint_list("tester", "web").await.unwrap();
    assert_eq!(endpoints.len(), 3);
    let grpc: BTreeSet<String> =
        endpoints.iter().map(|endpoint| format!("{}:{}", endpoint.host, endpoint.ports[0].number)).collect();
    for address in &grpc {
        assert!(ran.stdout.contains(address.as_str()), "{address} is not in {}", ran.stdout);
        let (status, _) = http_get(address, "/", None).await.unwrap();
        assert_eq!(status, 200, "{address}");
    }
    assert_eq!(endpoints.iter().map(|endpoint| endpoint.weight).collect::<Vec<_>>(), [2, 1, 1]);
    let nodes: BTreeSet<&str> = endpoints.iter().map(|endpoint| endpoint.node.as_str()).collect();
    assert_eq!(nodes.len(), 2, "spread over the nodes");

    // Over HTTP: only with the token, and the same.
    let path = "/v1/cells/alpha/names/tester/web";
    for wrong in [None, Some("0000")] {
        assert_eq!(http_get(&cell.http(), path, wrong).await.unwrap().0, 401);
        assert_eq!(http_get(&cell.http(), &format!("{path}/watch"), wrong).await.unwrap().0, 401);
    }
    let (status, body) = http_get(&cell.http(), path, Some(&cell.token())).await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(addresses(&serde_json::from_str(&body).unwrap()), grpc);
    // By the program.
    let listed = cell.borough(&["name", "list", "web", "-o", "json"]).await.ended(0).json();
    let listed = listed.get("endpoints").cloned().unwrap_or(listed);
    assert_eq!(listed.as_array().unwrap().len(), 3);

    watches_agree(&cell, &format!("{path}/watch")).await;
    cell.finish().await;
}

/// Both watches begin with the same endpoints and see the same withdrawals.
async fn watches_agree(cell: &TestCell, path: &str) {
    let watcher = Watcher::start(cell.client(), "web").await;
    assert_eq!(watcher.published().len(), 3);
    let mut events = sse_events(&cell.http(), path, &cell.token()).await.unwrap();
    let mut snapshot = BTreeSet::new();
    loop {
        let (kind, data) =
            tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap();
        match kind.as_str() {
            "published" => snapshot.insert(data["index"].as_u64().unwrap()),
            "bookmark" => break,
            other => panic!("{other} in a snapshot"),
        };
    }
    assert_eq!(snapshot, BTreeSet::from([0, 1, 2]));
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    let mut withdrawn = BTreeSet::new();
    while withdrawn.len() < 3 {
        let (kind, data) =
            tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap();
        if kind == "withdrawn" {
            withdrawn.insert((data["index"].as_u64().unwrap(), data["attempt"].as_u64().unwrap()));
        }
    }
    until("both watches to agree", || async { watcher.published().is_empty().then_some(()) }).await;
    for (index, incarnation) in withdrawn {
        let index = u32::try_from(index).unwrap();
        assert!(watcher.withdrawn_at(index, incarnation).is_some(), "{index} {incarnation}");
    }
    watcher.assert_sound();
}

/// Every path that a gateway answers over HTTP, with and without its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_path_over_http_answers_as_the_table_says() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let (http, token) = (cell.http(), cell.token());
    let names = "/v1/cells/alpha/names";
    let ready = || async { (http_get(&http, "/readyz", None).await.ok()?.0 == 200).then_some(()) };
    until("the gateway to be ready", ready).await;
    for (path, status, part) in [
        ("/healthz", 200, "ok"),
        ("/readyz", 200, "ok"),
        ("/metrics", 200, "# EOF"),
        ("/v1/cells/alpha/names", 200, "\"endpoints\""),
        ("/v1/cells/alpha/names/", 200, "\"endpoints\""),
        ("/v1/cells/alpha/names/tester", 200, "\"endpoints\""),
        ("/v1/cells/alpha/names/tester/web", 200, "\"endpoints\""),
        (
            "/v1/cells/alpha/names/tester/web/0",
            404,
            "there are /healthz, /readyz, /metrics and /v1/cells/{cell}",
        ),
        ("/v1/cells/alpha/names/Tester", 400, "user: the name \"Tester\" has 'T' at position 1; accepted: "),
        ("/v1/cells/alpha/names/tester/W", 400, "job: the name \"W\" has 'W' at position 1; accepted: "),
        ("/v1/cells/nowhere/names", 404, "nowhere"),
        ("/v1/cells/A%20B/names", 400, "cell: the name \"A%20B\" has 'A' at position 1; accepted: "),
        ("/v1/cells/alpha", 404, "there are /healthz"),
        ("/v1", 404, "there are /healthz"),
        ("/", 404, "there are /healthz"),
    ] {
        let (answered, body) = http_get(&http, path, Some(&token)).await.unwrap();
        assert_eq!(answered, status, "{path}: {body}");
        assert!(body.contains(part), "{path}: {body}");
        // Only the two probes need no token.
        let expected = if matches!(path, "/healthz" | "/readyz") { 200 } else { 401 };
        for wrong in [None, Some("0000")] {
            assert_eq!(http_get(&http, path, wrong).await.unwrap().0, expected, "{path} with {wrong:?}");
        }
    }
    for below in ["/watch", "/tester/watch", "/tester/web/watch"] {
        let mut events = sse_events(&http, &format!("{names}{below}"), &token).await.unwrap();
        let first = tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap();
        assert_eq!(first.0, "bookmark", "{below}: the snapshot has no endpoint");
    }
    cell.finish().await;
}
