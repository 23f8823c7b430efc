//! What a name service takes up while it runs: cells of the directory, settings of a cell, refusals of its clients.

use borough_kv::Idempotency;
use borough_store::cell::{cell_create, cell_meta_change};
use borough_store::federation::{federation_cell_enter, federation_cell_remove, federation_cell_set};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::rpc::Status as RefusalDetail;

use super::*;

/// Creates a cell with its entry in the directory, as a control role does.
async fn cell_enter(db: &Database, cell: &str, at_ms: i64) {
    let (cell, space, meta) = (&name(cell), &CellSpace::new(name(cell)), &CellMeta::default());
    let entered = db.run("cell_enter", Idempotency::Natural, |tx, _| async move {
        cell_create(&tx, space, meta, at_ms).await?;
        federation_cell_enter(&tx, cell, at_ms).await
    });
    entered.await.unwrap();
}

/// Waits until these cells are served, as data centres.
async fn cells_served(http: SocketAddr, cells: &[&str]) {
    let served = async {
        loop {
            let answer = http_get(http, "/v1/catalog/datacenters", "").await;
            if answer.status == 200 && answer.json() == serde_json::json!(cells) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, served).await.unwrap_or_else(|_| panic!("{cells:?} are not served"));
}

#[tokio::test]
async fn the_cells_of_the_directory_are_served_as_they_come() {
    let clock = SystemClock::shared();
    let db = MemoryStore::new(Arc::clone(&clock), SeededRng::shared(1)).quiet();
    let listeners = names_listeners(ANY).await.unwrap();
    let (addresses, cancelled) = serve_cells(clock, NamesCells::Directory(db.clone()), listeners);
    let http = addresses.http;
    assert_eq!(http_get(http, "/readyz", "").await.status, 503, "there is no cell yet");
    assert_eq!(http_get(http, "/v1/agent/self", "").await.status, 503);
    cell_enter(&db, "gamma", 1).await;
    cells_served(http, &["gamma"]).await;
    // A cell of another store, and one that nobody has made, keep nobody from being served.
    let strange = db.run("strange", Idempotency::Natural, |tx, _| async move {
        federation_cell_enter(&tx, &name("absent"), 2).await?;
        federation_cell_set(&tx, &name("away"), "fdb:/elsewhere", 2).await
    });
    strange.await.unwrap();
    cell_enter(&db, "alpha", 3).await;
    cells_served(http, &["alpha", "gamma"]).await;
    let default = http_get(http, "/v1/agent/self", "").await.json();
    assert_eq!(default["Config"]["Datacenter"], "gamma", "the oldest stays the default");
    assert_eq!(http_get(http, "/v1/catalog/services?dc=alpha", "").await.status, 200);
    // What the directory loses is served as last known.
    let lost =
        db.run(
            "lost",
            Idempotency::Natural,
            |tx, _| async move { federation_cell_remove(&tx, &name("gamma")) },
        );
    lost.await.unwrap();
    cell_enter(&db, "beta", 4).await;
    cells_served(http, &["alpha", "beta", "gamma"]).await;
    cancelled.cancel();
}

#[tokio::test]
async fn other_times_of_a_cell_are_in_answers_without_a_restart() {
    let mut views = Views::start().await;
    views.publish((1, "web"), 0, 8_080).await;
    let ttl = async |wanted: u32| {
        let answer = views.dns("_http._tcp.web.ann.alpha.names.test", RecordType::SRV).await;
        (answer.answers.first()?.ttl == wanted).then_some(())
    };
    views.until("a record", async || ttl(1).await).await;
    let set = views.cell.change(change(99, "set", 1), async |tx, changes| {
        let edit = |meta: &mut CellMeta| {
            (meta.dns_ttl_ms, meta.dns_negative_ttl_ms) = (Some(30_000), Some(4_000));
        };
        cell_meta_change(tx, changes, edit).await
    });
    set.await.unwrap();
    views.until("the new time", async || ttl(30).await).await;
    let nobody = views.dns("api.ann.alpha.names.test", RecordType::A).await;
    assert_eq!(nobody.authorities.first().map(|record| record.ttl), Some(4));
}

#[tokio::test]
async fn a_refusal_is_counted_by_the_type_of_its_resource() {
    let mut views = Views::start().await;
    views.publish((1, "web"), 0, 8_080).await;
    let (requests, mut responses) = views.xds().endpoints("web.ann.alpha").await;
    let first = tokio::time::timeout(DEADLINE, responses.message()).await.unwrap().unwrap().unwrap();
    let detail =
        RefusalDetail { code: 3, message: "no such locality".to_owned(), ..RefusalDetail::default() };
    let refusal = DiscoveryRequest {
        node: Some(Node { id: "edge-1".to_owned(), ..Node::default() }),
        error_detail: Some(detail),
        ..xds_request("web.ann.alpha", &first.nonce)
    };
    requests.send(refusal).await.unwrap();
    views
        .until("the refusal in the metrics", async || {
            let metrics = views.get("/metrics").await.body;
            metrics.contains("borough_names_xds_refused_total{resource=\"endpoints\"} 1").then_some(())
        })
        .await;
    let again = tokio::time::timeout(Duration::from_millis(200), responses.message()).await;
    assert!(again.is_err(), "what was refused is not sent again: {again:?}");
}

#[tokio::test]
async fn who_waits_for_the_checks_of_a_cell_wakes_for_any_service() {
    let mut views = Views::start().await;
    views.publish((1, "web"), 0, 8_080).await;
    let first = views
        .until("a check", async || {
            let answer = views.get("/v1/health/state/any").await;
            (answer.json().as_array().unwrap().len() == 1).then_some(answer)
        })
        .await;
    let (address, index) = (views.addresses.http, first.header("x-consul-index").to_owned());
    let path = format!("/v1/health/state/passing?index={index}&wait=5m");
    let waits = tokio::spawn(async move { http_get(address, &path, "").await });
    views.publish((2, "api"), 0, 8_090).await;
    let woken = tokio::time::timeout(DEADLINE, waits).await.unwrap().unwrap();
    let names: Vec<_> =
        woken.json().as_array().unwrap().iter().map(|one| one["ServiceName"].clone()).collect();
    assert_eq!(names, ["api_ann", "web_ann"]);
    assert!(woken.header("x-consul-index").parse::<u64>().unwrap() > index.parse().unwrap());
    let node = views.get("/v1/catalog/node/n1").await;
    assert_eq!((node.status, node.body.as_str()), (200, "null"), "nothing is known of the node itself");
}
