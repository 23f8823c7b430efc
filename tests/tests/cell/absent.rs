//! No gateway answers while a verb waits or follows: a remark says so, and the verb goes on as soon as one answers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use borough_kv::env::SystemClock;
use borough_tests::{TestCell, options, until};

use crate::output::{Following, relay, relay_at};
use crate::overload::streams;

/// The verbs that are followed by a stream each.
const FOLLOWED: u32 = 5;

/// A job that no node takes.
const WAITS: &str = "name: waits\ntask: {command: [sleep, '600'], resources: {cpu: 10m, memory: 4MiB}}\n\
                     constraints: ['node.name == nowhere']\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_says_that_no_gateway_answers_and_goes_on_when_one_does() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let before = until("the streams", || streams(&cell)).await;
    let (address, relayed) = relay(cell.grpc()).await;
    let token = cell.root().join("token").display().to_string();
    let common = ["--gateway", address.as_str(), "--token-file", token.as_str(), "--cell", "alpha"];
    let follow = |name: &str, words: &[&str]| Following::start(&cell, name, &[&common[..], words].concat());
    let file = cell.file("waits.yaml", WAITS);
    let patient = follow("patient", &["job", "run", &file]);
    patient.until_warned("tester/waits: 0/1 healthy, 1 pending").await;
    // It says nothing, so it begins well before the gateway goes.
    let output = follow("output", &["job", "logs", "-f", "waits"]);
    let limited = follow("limited", &["job", "run", &file, "--timeout", "45s"]);
    limited.until_warned("tester/waits: 0/1 healthy, 1 pending").await;
    let events = follow("events", &["event", "watch", "-o", "json"]);
    let names = follow("names", &["name", "watch", "waits"]);
    // They are of what happens after the watch has begun.
    let seen = AtomicU32::new(0);
    until("an event in what is followed", || async {
        let label = format!("seen={}", seen.fetch_add(1, Ordering::Relaxed));
        cell.borough(&["job", "label", "waits", &label]).await.ended(0);
        events.shown().contains("tester/waits").then_some(())
    })
    .await;

    // One that has not begun would not begin without a gateway.
    until("a stream of each watch", || async {
        streams(&cell).await.filter(|now| *now >= before + FOLLOWED)
    })
    .await;
    relayed.abort();
    // How long they go on depends on when they noticed.
    let told = format!("no gateway answers at {address} (connection refused); trying again for ");
    for told_one in [&patient, &limited, &events, &output, &names] {
        told_one.until_warned(&told).await;
    }
    for waits in [&patient, &limited] {
        waits.until_warned("s; the job goes on\n").await;
    }
    let (_, warned) = limited.ended_with(5).await;
    assert!(tries_for(&warned) <= 45, "no longer than it waits: {warned}");
    let end = format!(
        "tester/waits: 0/1 healthy, 1 pending; the wait ended after 45s; no gateway answers at {address} (connection \
         refused); the job goes on\nhint: borough --gateway {address} --token-file {token} --cell alpha job status \
         tester/waits\n"
    );
    assert!(warned.ends_with(&end), "{warned}");

    // Others get a remark of a change that was made meanwhile, once a gateway answers again.
    let relayed = relay_at(&address, cell.grpc()).await;
    patient.until_warned("a gateway answers again\n").await;
    cell.borough(&["job", "label", "waits", "seen=again"]).await.ended(0);
    events.until_shown("again").await;
    for watch in [&events, &names] {
        watch.until_warned("a gateway answers again; the watch goes on\n").await;
    }
    cell.borough(&["job", "stop", "waits"]).await.ended(0);
    let (_, warned) = patient.ended_with(1).await;
    assert!(warned.contains("error: tester/waits was stopped meanwhile\n"), "{warned}");
    assert_eq!(warned.matches("no gateway answers").count(), 1, "{warned}");
    output.ended().await;
    drop((events.end().await, names.end().await));
    relayed.abort();
    cell.finish().await;
}

/// For how many whole seconds a wait says that it tries again. It says less than a minute.
fn tries_for(warned: &str) -> u64 {
    let (_, behind) = warned.split_once("trying again for ").expect(warned);
    behind.split('s').next().unwrap_or_default().parse().expect(warned)
}

/// While no gateway answers, nobody knows whether a job makes progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_progress_deadline_without_a_gateway_blames_the_gateway() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let (address, relayed) = relay(cell.grpc()).await;
    let token = cell.root().join("token").display().to_string();
    let common = ["--gateway", address.as_str(), "--token-file", token.as_str(), "--cell", "alpha"];
    let file = cell.file("waits.yaml", WAITS);
    let run = ["job", "run", &file, "--progress-deadline", "25s"];
    let waits = Following::start(&cell, "waits", &[&common[..], &run[..]].concat());
    waits.until_warned("tester/waits: 0/1 healthy, 1 pending").await;
    relayed.abort();
    let (_, warned) = waits.ended_with(5).await;
    assert!(tries_for(&warned) <= 25, "{warned}");
    let end = format!(
        "tester/waits: 0/1 healthy, 1 pending; the progress deadline of 25s has passed, and no gateway answers at \
         {address} (connection refused); the job goes on\n"
    );
    assert!(warned.contains(&end), "{warned}");
    cell.borough(&["job", "stop", "waits"]).await.ended(0);
    cell.finish().await;
}

/// A stream says only after 3 s that no gateway answers. A wait that is over before knows no more of the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_that_ends_soon_after_the_gateway_has_gone_blames_the_gateway() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let (address, relayed) = relay(cell.grpc()).await;
    let token = cell.root().join("token").display().to_string();
    let common = ["--gateway", address.as_str(), "--token-file", token.as_str(), "--cell", "alpha"];
    let file = cell.file("waits.yaml", WAITS);
    let clock = SystemClock::shared();
    let begun = clock.monotonic();
    let run = ["job", "run", &file, "--timeout", "8s"];
    let waits = Following::start(&cell, "waits", &[&common[..], &run[..]].concat());
    waits.until_warned("tester/waits: 0/1 healthy, 1 pending").await;
    tokio::time::sleep(Duration::from_secs(6).saturating_sub(clock.monotonic().saturating_sub(begun))).await;
    relayed.abort();
    let (_, warned) = waits.ended_with(5).await;
    let end = format!(
        "error: tester/waits: 0/1 healthy, 1 pending; the wait ended after 8s; no gateway answers at {address} \
         (connection refused); the job goes on\nhint: borough --gateway {address} --token-file {token} --cell alpha job status \
         tester/waits\n"
    );
    assert!(warned.ends_with(&end), "{warned}");
    cell.borough(&["job", "stop", "waits"]).await.ended(0);
    cell.finish().await;
}

/// A list that is watched says of each outage once that no gateway answers, and where it asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watched_list_says_once_that_no_gateway_answers() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("waits.yaml", WAITS);
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let (address, relayed) = relay(cell.grpc()).await;
    let token = cell.root().join("token").display().to_string();
    let common = ["--gateway", address.as_str(), "--token-file", token.as_str(), "--cell", "alpha"];
    let list = Following::start(&cell, "list", &[&common[..], &["job", "list", "-w", "-o", "json"]].concat());
    list.until_shown("waits").await;
    // The list is read again before its stream has said that no gateway answers: the stream says it later.
    tokio::time::sleep(Duration::from_secs(4)).await;
    relayed.abort();
    let told = format!(
        "no gateway answers at {address} (connection refused); the watch goes on as soon as one answers\n"
    );
    list.until_warned(&told).await;
    // As long as the stream takes to say it, too.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let relayed = relay_at(&address, cell.grpc()).await;
    list.until_warned("a gateway answers again; the watch goes on\n").await;
    cell.borough(&["job", "label", "waits", "seen=again"]).await.ended(0);
    list.until_shown("again").await;
    let warned = list.warned();
    drop(list.end().await);
    assert_eq!(warned.matches("no gateway answers").count(), 1, "{warned}");
    assert_eq!(warned.matches("a gateway answers again").count(), 1, "{warned}");
    relayed.abort();
    cell.borough(&["job", "stop", "waits"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wait_names_another_user_who_has_stopped_its_job() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = cell.file("waits.yaml", WAITS);
    let waits = Following::start(&cell, "waits", &["job", "run", &file]);
    waits.until_warned("tester/waits: 0/1 healthy, 1 pending").await;
    cell.borough(&["--user", "ann", "job", "stop", "tester/waits"]).await.ended(0);
    let (_, warned) = waits.ended_with(1).await;
    assert!(warned.contains("error: tester/waits was stopped meanwhile by ann\n"), "{warned}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_goes_on_without_the_gateway_that_its_wait_has_asked() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("stays.yaml", &WAITS.replace("waits", "stays").replace("nowhere", "alpha-1")).await;
    let (address, relayed) = relay(cell.grpc()).await;
    let token = cell.root().join("token").display().to_string();
    let common = ["--gateway", address.as_str(), "--token-file", token.as_str(), "--cell", "alpha"];
    let drain = Following::start(&cell, "drain", &[&common[..], &["node", "drain", "alpha-1"]].concat());
    drain.until_warned("tester/stays/0 stays: ").await;
    relayed.abort();
    let (_, warned) = drain.ended_with(5).await;
    let end = format!(
        "error: no gateway answers at {address} (connection refused); the drain goes on\nhint: to wait for it again: \
         borough --gateway {address} --token-file {token} --cell alpha node drain alpha-1\n"
    );
    assert!(warned.ends_with(&end), "{warned}");
    cell.borough(&["node", "list"]).await.ended(0).prints("draining");
    cell.borough(&["job", "stop", "stays"]).await.ended(0);
    cell.finish().await;
}
