//! The name service of a cell: every view shows a job as it comes, changes and goes.

mod merged;

use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_testkit::HeldProgram;
use borough_tests::{DEADLINE, TestCell, TestStore, http_get, options, until};
use serde_json::Value;
use tokio::net::UdpSocket;

use crate::example;

/// The example as it is shipped.
const WEB: &str = example!("web.jsonnet");

/// A body of the catalogue.
async fn catalogue(cell: &TestCell, path: &str) -> Value {
    let (status, body) = http_get(&cell.names(), path, None).await.unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The packet of a question of DNS.
fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend(label.bytes());
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

/// An answer of DNS.
async fn dns_answer(cell: &TestCell, name: &str, kind: u16) -> Vec<u8> {
    let packet = question(name, kind);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&packet, cell.dns()).await.unwrap();
    let mut answer = [0; 2_048];
    let length = tokio::time::timeout(DEADLINE, socket.recv(&mut answer)).await.unwrap().unwrap();
    answer[..length].to_vec()
}

/// The code of an answer of DNS, and the number of its records.
async fn dns_counts(cell: &TestCell, name: &str, kind: u16) -> (u8, u16) {
    let answer = dns_answer(cell, name, kind).await;
    (answer[3] & 0x0f, u16::from_be_bytes([answer[6], answer[7]]))
}

/// The place behind a name in a packet.
fn name_end(packet: &[u8], mut at: usize) -> usize {
    loop {
        match packet[at] {
            0 => return at + 1,
            pointer if pointer >= 0xc0 => return at + 2,
            label => at += 1 + usize::from(label),
        }
    }
}

/// The weights of the SRV records of a name, in order.
pub(crate) async fn srv_weights(cell: &TestCell, name: &str) -> Vec<u32> {
    let answer = dns_answer(cell, name, SRV).await;
    let number = |at: usize| u16::from_be_bytes([answer[at], answer[at + 1]]);
    // The question is behind the header of 12 bytes, and has a type and a class.
    let mut at = name_end(&answer, 12) + 4;
    let mut weights = Vec::new();
    for _ in 0..number(6) {
        // A record has its type, class, TTL and length before its data. SRV data begins with a priority.
        let data = name_end(&answer, at) + 10;
        weights.push(u32::from(number(data + 2)));
        at = data + usize::from(number(data - 2));
    }
    weights.sort_unstable();
    weights
}

const A: u16 = 1;
const SRV: u16 = 33;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_view_shows_a_job_as_it_comes_and_goes() {
    let cell = TestCell::start(options!()).await;
    let ready = until("a ready name service", || async {
        http_get(&cell.names(), "/readyz", None).await.ok().filter(|(status, _)| *status == 200)
    });
    ready.await;
    let port = "_http._tcp.web.tester.alpha.borough.internal";
    assert_eq!(dns_counts(&cell, port, SRV).await, (3, 0), "no such job yet");
    cell.borough(&["job", "run", WEB]).await.ended(0).prints("3/3 healthy");
    until("three endpoints", || async { (dns_counts(&cell, port, SRV).await == (0, 3)).then_some(()) }).await;
    // All tasks are on one address.
    assert_eq!(dns_counts(&cell, "web.tester.alpha.borough.internal", A).await, (0, 1));
    assert_eq!(dns_counts(&cell, "2.web.tester.alpha.borough.internal", A).await, (0, 1));
    let health = catalogue(&cell, "/v1/health/service/web_tester?passing").await;
    let rows = health.as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let service = &row["Service"];
        let since: i64 = service["Meta"]["borough_healthy_since_ms"].as_str().unwrap().parse().unwrap();
        assert!(since > 0, "since when it is healthy: {service}");
        let address = format!("{}:{}", service["Address"].as_str().unwrap(), service["Port"]);
        assert_eq!(http_get(&address, "/", None).await.unwrap().0, 200, "{address}");
    }
    assert_eq!(rows[0]["Service"]["Weights"]["Passing"], 2);
    assert_eq!(catalogue(&cell, "/v1/http_sd?job=web").await.as_array().unwrap().len(), 3);
    assert!(catalogue(&cell, "/v1/catalog/services").await.get("web_tester").is_some());
    cell.borough(&["job", "label", "web", "tier=front"]).await.ended(0);
    until("the label as a tag", || async {
        let tags = &catalogue(&cell, "/v1/catalog/services").await["web_tester"];
        (*tags == serde_json::json!(["tier=front"])).then_some(())
    })
    .await;
    let asked = tokio::spawn({
        let address = cell.names();
        async move {
            let (_, body) = http_get(&address, "/v1/health/service/web_tester", None).await.unwrap();
            serde_json::from_str::<Value>(&body).unwrap()[0]["Node"]["ModifyIndex"].as_u64().unwrap()
        }
    });
    let index = asked.await.unwrap();
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    until("no endpoint", || async { (dns_counts(&cell, port, SRV).await == (0, 0)).then_some(()) }).await;
    let path = format!("/v1/health/service/web_tester?index={index}&wait=5m");
    let woken = tokio::time::timeout(Duration::from_secs(30), catalogue(&cell, &path)).await.unwrap();
    assert_eq!(woken, serde_json::json!([]), "it has changed since that index");
    cell.finish().await;
}

/// As the example, without a drain delay of its own.
const PLAIN_WEB: &str = "name: web
count: 3
task:
  command: [python3, -u, -m, http.server, --bind, 127.0.0.1, '${PORT_HTTP}']
  resources: {cpu: 20m, memory: 64MiB}
  ports: [http]
  health: {http: {port: http, path: /}, interval: 1s, timeout: 1s}
  grace: 2s
";

/// A load balancer that has yet to hear of the withdrawal still finds the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_withdrawn_task_serves_on_for_the_drain_delay_of_its_cell() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["cell", "set", "--drain-delay", "11s"]).await.ended(2).warns("0s to 10s");
    let set = cell.borough(&["cell", "set", "--drain-delay", "10s", "--dns-ttl", "30s"]).await.ended(0);
    set.prints("10s for jobs with ports and without their own").prints("kept for 30s by resolvers, 1s if");
    cell.run("web.yaml", PLAIN_WEB).await;
    let rows = until("three endpoints", || async {
        let rows = catalogue(&cell, "/v1/health/service/web_tester?passing").await;
        (rows.as_array().unwrap().len() == 3).then_some(rows)
    })
    .await;
    let record = dns_answer(&cell, "_http._tcp.web.tester.alpha.borough.internal", SRV).await;
    // Behind the name of the first record are its type and its class, then its TTL.
    let ttl = name_end(&record, name_end(&record, 12) + 4) + 4;
    assert_eq!(record[ttl..ttl + 4], [0, 0, 0, 30]);
    cell.borough(&["job", "stop", "web", "--timeout", "1s"]).await.ended(1);
    let path = "/v1/health/service/web_tester";
    until("the withdrawal", || async {
        (catalogue(&cell, path).await == serde_json::json!([])).then_some(())
    })
    .await;
    for row in rows.as_array().unwrap() {
        let address = format!("{}:{}", row["Service"]["Address"].as_str().unwrap(), row["Service"]["Port"]);
        assert_eq!(http_get(&address, "/", None).await.unwrap().0, 200, "{address}");
    }
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// Nobody names its cells: the directory of the store does.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_name_service_of_its_own_serves_the_cells_of_its_store() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", PLAIN_WEB).await;
    // An embedded store is for one process at a time. The tasks go on.
    cell.control_kill();
    let program = Path::new(env!("CARGO_BIN_EXE_borough-under-test"));
    let (dns, http, xds) = (cell.dns(), cell.names(), cell.xds());
    let listen = ["--dns-listen", &dns, "--http-listen", &http, "--xds-listen", &xds];
    let store = match cell.store() {
        TestStore::Embedded(directory) => format!("embedded:{}", directory.display()),
        shared @ TestStore::Fdb(_) => shared.location().unwrap(),
    };
    let words = [&["names", "--store", &store][..], &listen].concat();
    let names = HeldProgram::start(program, &words, PathBuf::from(cell.file("names.log", "")));
    let path = "/v1/health/state/passing?dc=alpha";
    until("three checks", || async {
        let (status, body) = http_get(&http, path, None).await.ok()?;
        (status == 200 && body.matches("\"web_tester\"").count() == 3).then_some(())
    })
    .await;
    let node = catalogue(&cell, "/v1/catalog/node/alpha-1").await;
    assert_eq!(node["Services"].as_object().unwrap().len(), 3, "{node}");
    names.end().await;
    cell.control_start().await;
    cell.finish().await;
}
