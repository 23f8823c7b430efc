//! One service of several jobs: its verbs, and what a canary gets in the views.

use std::process::Stdio;

use borough_kv::exercise::not_exercised;
use borough_tests::{DEADLINE, TestCell, http_get, options, until};
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{SRV, catalogue, question};
use borough_testkit::python_with_grpc;

/// A job of the application `shop`, with a command.
fn job(name: &str, count: u32, command: &str) -> String {
    format!(
        "name: {name}\nkind: service\ncount: {count}\nlabels: {{app: shop}}\ntask:\n  command: {command}\n  \
         resources: {{cpu: 20m, memory: 64MiB}}\n  ports: [grpc]\n  grace: 5s\n"
    )
}

/// The SRV records of a name: their weights and targets, or nothing for a name without records. TCP, since all must
/// fit.
async fn weights(cell: &TestCell, name: &str) -> Vec<(u16, String)> {
    let packet = question(name, SRV);
    let exchange = async {
        let mut stream = TcpStream::connect(cell.dns()).await?;
        stream.write_all(&u16::try_from(packet.len()).unwrap().to_be_bytes()).await?;
        stream.write_all(&packet).await?;
        let length = stream.read_u16().await?;
        let mut answer = vec![0; usize::from(length)];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(DEADLINE, exchange).await.unwrap().unwrap();
    let count = u16::from_be_bytes([answer[6], answer[7]]);
    let mut at = packet.len();
    let mut found = Vec::new();
    for _ in 0..count {
        // The owner is a pointer; type, class, time to live and length follow.
        assert_eq!(answer[at] & 0xc0, 0xc0, "an owner that repeats the question's");
        let data = at + 2 + 10;
        let length = u16::from_be_bytes([answer[data - 2], answer[data - 1]]);
        let weight = u16::from_be_bytes([answer[data + 2], answer[data + 3]]);
        let (mut label, mut target) = (data + 6, Vec::new());
        while answer[label] > 0 {
            let end = label + 1 + usize::from(answer[label]);
            target.push(String::from_utf8(answer[label + 1..end].to_vec()).unwrap());
            label = end;
        }
        found.push((weight, target.join(".")));
        at = data + usize::from(length);
    }
    found
}

/// The part of the traffic of a name that a job gets by the weights of DNS.
fn part_of(weights: &[(u16, String)], job: &str) -> f64 {
    let all: u32 = weights.iter().map(|(weight, _)| u32::from(*weight)).sum();
    let of_job = weights.iter().filter(|(_, target)| target.split('.').nth(1) == Some(job));
    let of_job: u32 = of_job.map(|(weight, _)| u32::from(*weight)).sum();
    f64::from(of_job) / f64::from(all)
}

const PORT: &str = "_grpc._tcp.shop.svc.tester.alpha.borough.internal";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn several_jobs_are_one_service_with_a_share_for_each() {
    let cell = TestCell::start(options!()).await;
    cell.run("shop.yaml", &job("shop", 9, "[sleep, infinity]")).await;
    cell.run("canary.yaml", &job("shop-canary", 1, "[sleep, infinity]")).await;
    cell.run("other.yaml", &job("other", 1, "[sleep, infinity]").replace("app: shop", "app: other")).await;
    until("a ready name service", || async {
        http_get(&cell.names(), "/readyz", None).await.ok().filter(|(status, _)| *status == 200)
    })
    .await;
    cell.borough(&["name", "set", "shop"]).await.ended(2).warns("accepted: --label as well");
    cell.borough(&["name", "set", "shop", "-l", "app=shop"]).await.ended(0).prints("90.0%").prints("10.0%");
    cell.borough(&["name", "set", "mall", "-l", "app=shop"]).await.ended(0);
    let ran = cell.borough(&["name", "list", "mall"]).await.ended(3);
    ran.warns("it is a service over several jobs").warns("hint: borough name status tester/mall");
    cell.borough(&["name", "remove", "mall", "--yes"]).await.ended(0);
    until("ten endpoints", || async { (weights(&cell, PORT).await.len() == 10).then_some(()) }).await;
    assert!(
        (part_of(&weights(&cell, PORT).await, "shop-canary") - 0.1).abs() < 0.001,
        "one of ten endpoints"
    );
    let set = cell.borough(&["name", "set", "shop", "--share", "shop-canary=5", "--share", "ghost=1"]).await;
    set.ended(0).warns("the share of job tester/ghost has no effect");
    cell.borough(&["name", "set", "shop", "--share", "ghost=none"])
        .await
        .ended(0)
        .prints("5.0%")
        .prints("95.0%");
    let canary = until("5 per cent by DNS", || async {
        let weights = weights(&cell, PORT).await;
        let part = part_of(&weights, "shop-canary");
        ((part - 0.05).abs() < 0.001).then_some(weights)
    })
    .await;
    assert_eq!(canary.len(), 10, "{canary:?}");
    let health = catalogue(&cell, "/v1/health/service/shop__tester?passing").await;
    assert_eq!(health.as_array().unwrap().len(), 10);
    assert_eq!(catalogue(&cell, "/v1/http_sd?service=shop").await.as_array().unwrap().len(), 10);
    // The canary of another application leaves, and its share goes to the rest.
    cell.borough(&["job", "label", "shop-canary", "app=other"]).await.ended(0);
    until("nine endpoints", || async { (weights(&cell, PORT).await.len() == 9).then_some(()) }).await;
    cell.borough(&["name", "status", "shop"])
        .await
        .ended(0)
        .prints("100.0%")
        .warns("the share of job tester/shop-canary has no effect");
    cell.borough(&["name", "status"]).await.ended(0).prints("shop-canary 5%");
    let json = cell.borough(&["name", "status", "shop", "-o", "json"]).await.ended(0);
    json.prints("\"selector\": [\n    \"app=shop\"\n  ]").prints("\"traffic_percent\": 100.0");
    cell.borough(&["name", "remove", "shop", "--yes"]).await.ended(0).prints("removed service tester/shop");
    until("no such name", || async { weights(&cell, PORT).await.is_empty().then_some(()) }).await;
    cell.borough(&["name", "status", "shop"]).await.ended(3).warns("there is no service \"tester/shop\"");
    cell.borough(&["event", "list"])
        .await
        .ended(0)
        .prints("service tester/shop")
        .prints("shop-canary gets 5 per cent");
    cell.finish().await;
}

/// None of them names a revision, so each one is for the service as it finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn shares_that_are_set_at_once_are_all_kept() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.borough(&["name", "set", "shop", "-l", "app=shop"]).await.ended(0);
    let shares: Vec<String> = (1..=7).map(|job| format!("canary-{job}={job}")).collect();
    let set = async |share: &str| cell.borough(&["name", "set", "shop", "--share", share]).await.ended(0);
    join_all(shares.iter().map(|share| set(share))).await;
    let status = cell.borough(&["name", "status"]).await.ended(0);
    for share in &shares {
        let shown = format!("{}%", share.replace('=', " "));
        assert!(status.stdout.contains(&shown), "{shown}: {}", status.stdout);
    }
    cell.finish().await;
}

/// Calls that the client makes. Of these, 5 per cent are 100, and the standard deviation is below 10.
const CALLS: u32 = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_canary_gets_its_share_of_real_requests() {
    let Some(python) = python_with_grpc().await else {
        return not_exercised(
            "shares over gRPC",
            "python3 has no module grpc, and BOROUGH_TEST_PYTHON names none",
        );
    };
    // Tasks of other users may not execute this Python.
    let cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    let server = cell.file("server.py", include_str!("../../../programs/grpc-python/server.py"));
    let serves = |name: &str| format!("[{}, -u, {server}, \"${{PORT_GRPC}}\", {name}]", python.display());
    let health = "  health: {tcp: {port: grpc}, interval: 1s, timeout: 1s}\n";
    cell.run("shop.yaml", &(job("shop", 9, &serves("stable")) + health)).await;
    cell.run("canary.yaml", &(job("shop-canary", 1, &serves("canary")) + health)).await;
    cell.borough(&["name", "set", "shop", "-l", "app=shop", "--share", "shop-canary=5"]).await.ended(0);
    let bootstrap = serde_json::json!({
        "xds_servers": [{
            "server_uri": cell.xds(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": "test"},
    });
    let client = cell.file("client.py", include_str!("../../../programs/grpc-python/client.py"));
    let mut command = Command::new(&python);
    command.args(["-u", &client, "xds:///svc/shop.tester.alpha", &CALLS.to_string()]);
    command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
    // It ends with its input, however this process ends.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.kill_on_drop(true).spawn().unwrap();
    // Held until it has made its calls.
    let input = client.stdin.take();
    let output = tokio::time::timeout(DEADLINE * 3, client.wait_with_output()).await.unwrap().unwrap();
    drop(input);
    let output = String::from_utf8(output.stdout).unwrap();
    let answered = |kind: &str| -> u32 {
        let lines = output.lines().filter_map(|line| line.strip_prefix("answered ")?.strip_prefix(kind));
        lines.map(|count| count.trim().parse::<u32>().unwrap()).sum()
    };
    let (stable, canary) = (answered("stable"), answered("canary"));
    assert!(output.ends_with(&format!("over {} 0\n", stable + canary)), "no call fails: {output}");
    let part = f64::from(canary) / f64::from(stable + canary);
    assert!((0.025..0.075).contains(&part), "{canary} of {} calls: {output}", stable + canary);
    assert!(stable + canary >= CALLS, "{output}");
    cell.finish().await;
}
