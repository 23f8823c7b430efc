//! HAProxy over DNS.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::{TestCell, options, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::page::example;
use super::program_or_report;

/// What the documentation leaves to its reader.
const BEFORE: &str = "defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
";

/// Starts it before the job `web`. It listens on `address`.
pub(super) fn start(cell: &TestCell, program: &Path, address: &str) -> HeldProgram {
    let documented = example(cell, "### HAProxy", address);
    let text = format!("{BEFORE}{documented}\nfrontend in\n    bind {address}\n    default_backend web\n");
    let file = cell.file("haproxy.cfg", &text);
    HeldProgram::start(program, &["-f", &file], Path::new(&file).with_extension("log"))
}

/// A backend of a merged service, and a port that says what HAProxy has read.
const WEIGHTS: &str = "global
    stats socket ipv4@CONTROL level user
defaults
    mode tcp
    timeout connect 2s
    timeout client 10s
    timeout server 10s
resolvers borough
    nameserver names tcp@NAMES
    accepted_payload_size 65535
    hold valid 1s
backend shop
    server-template shop 4 _http._tcp.shop.svc.tester.alpha.borough.internal resolvers borough \
resolve-opts allow-dup-ip init-addr none
frontend in
    bind ADDRESS
    default_backend shop
";

/// The weights of the servers that HAProxy knows an address of, in order.
async fn server_weights(control: &str) -> Vec<u32> {
    let shown = async {
        let mut stream = TcpStream::connect(control).await?;
        stream.write_all(b"show servers state shop\n").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let text = shown.await.unwrap_or_default();
    let rows = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    // The fifth column is the address, and the eighth the weight.
    let known = rows.filter(|row| row.get(1) == Some(&"shop") && row.get(4).is_some_and(|at| *at != "-"));
    let mut weights: Vec<u32> = known.map(|row| row[7].parse().unwrap()).collect();
    weights.sort_unstable();
    weights
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn haproxy_divides_by_the_shares_of_a_merged_service() {
    let Some(program) = program_or_report("haproxy") else { return };
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, count: u32| {
        format!(
            "name: {name}\ncount: {count}\nlabels: {{app: shop}}\ntask:\n  command: [sleep, infinity]\n  resources: \
             {{cpu: 10m, memory: 16MiB}}\n  ports: [http]\n"
        )
    };
    cell.run("shop.yaml", &job("shop", 2)).await;
    cell.run("canary.yaml", &job("shop-canary", 1)).await;
    cell.borough(&["name", "set", "shop", "-l", "app=shop", "--share", "shop-canary=5"]).await.ended(0);
    let (address, control) = (cell.balancer(1), cell.balancer(2));
    let places = [("ADDRESS", &address), ("CONTROL", &control), ("NAMES", &cell.dns())];
    let text = places.iter().fold(WEIGHTS.to_owned(), |text, (place, here)| text.replace(place, here));
    let file = cell.file("weights.cfg", &text);
    let haproxy = HeldProgram::start(&program, &["-f", &file], Path::new(&file).with_extension("log"));
    // 5 beside 47.5 for each of the others, of which the largest is 255. Then 1 beside 49.5.
    for (share, weights) in [("5", [27, 255, 255]), ("1", [5, 255, 255]), ("90", [14, 15, 255])] {
        let share = format!("shop-canary={share}");
        cell.borough(&["name", "set", "shop", "--share", &share]).await.ended(0);
        until(&share, || async { (server_weights(&control).await == weights).then_some(()) }).await;
    }
    // A job that gets nothing has no server.
    cell.borough(&["name", "set", "shop", "--share", "shop-canary=0"]).await.ended(0);
    until("two servers", || async { (server_weights(&control).await == [255, 255]).then_some(()) }).await;
    haproxy.end().await;
    cell.finish().await;
}
