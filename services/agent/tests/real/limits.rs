//! Limits of a task, and its measured use. A test that needs something that this machine lacks prints that.

use borough_kv::exercise::not_exercised;
use borough_proto::v1;
use borough_proto::v1::EndReason;
use borough_proto::v1::task_status::Phase;
use borough_shim::file::json_read;
use borough_shim::record::{AttemptRecord, STATE_FILE};

use crate::harness::{Cell, attempt, output, script};

/// Returns true if the node has what a test needs; otherwise prints what is missing.
async fn has(cell: &Cell, attribute: &str) -> bool {
    let hello = cell.gateway.wait("hello", |seen| seen.hello.clone()).await;
    let has = hello.attributes.get(attribute).is_some_and(|value| value == "yes");
    if !has {
        not_exercised(&format!("usable {attribute}"), &format!("the node reports {:?}", hello.attributes));
    }
    has
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_limit_kills_and_is_reported() {
    let cell = Cell::with_agent().await;
    if !has(&cell, "cgroup.memory").await {
        return;
    }
    let attempt = attempt(0, 1);
    // `tail` keeps all of an endless line.
    let mut work = script(&attempt, "exec tail /dev/zero");
    work.spec.as_mut().unwrap().resources =
        Some(v1::Resources { memory_bytes: 16 << 20, ..v1::Resources::default() });
    cell.gateway.run(work);
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.signal), (EndReason::OutOfMemory, Some(9)), "{exit:?}");
    assert!(exit.message.contains("memory limit"), "{exit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_killed_for_memory_is_reported_with_the_exit_of_its_parent() {
    let cell = Cell::with_agent().await;
    if !has(&cell, "cgroup.memory").await {
        return;
    }
    let attempt = attempt(0, 1);
    let mut work = script(&attempt, "tail /dev/zero; echo survived; exit 6");
    work.spec.as_mut().unwrap().resources =
        Some(v1::Resources { memory_bytes: 16 << 20, ..v1::Resources::default() });
    cell.gateway.run(work);
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(6)), "{exit:?}");
    assert!(exit.message.contains("memory limit"), "{exit:?}");
    assert!(output(&cell.attempt_dir(&attempt)).contains("survived"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_kept_on_the_processors_of_its_domain() {
    let own = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|&cpu| own.is_set(cpu)).unwrap();
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    let mut work = script(&attempt, "grep Cpus_allowed_list /proc/self/status; exec sh -c 'nproc'");
    work.cpus = vec![u32::try_from(last).unwrap()];
    cell.gateway.run(work);
    let exit = cell.gateway.phase(&attempt, Phase::Released).await.exit.unwrap();
    let printed = output(&cell.attempt_dir(&attempt));
    assert_eq!((exit.reason(), exit.code), (EndReason::Exited, Some(0)), "{exit:?}\n{printed}");
    let fields: Vec<&str> = printed.split_ascii_whitespace().collect();
    assert_eq!(fields, ["Cpus_allowed_list:", last.to_string().as_str(), "1"], "and what it starts too");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_seen() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(&attempt, "sleep 600 & while :; do :; done"));
    let usage = cell
        .gateway
        .wait("its usage", |seen| {
            let usage = seen.tasks.get(&crate::gateway::key(&attempt))?.usage?;
            (usage.cpu_millis > 0).then_some(usage)
        })
        .await;
    assert!(usage.memory_bytes > 0 && usage.memory_peak_bytes >= usage.memory_bytes, "{usage:?}");
    assert_eq!(usage.processes, 2, "{usage:?}");
    let node = cell
        .gateway
        .wait("the node's", |seen| seen.reports.iter().rev().find_map(|report| report.usage))
        .await;
    assert!(node.processes <= 2, "{node:?}");
}

/// The limit is 2 MiB, measured on the embedded program, which is the one in production.
#[tokio::test(flavor = "multi_thread")]
async fn a_shim_is_small() {
    let cell = Cell::with_agent().await;
    let attempt = attempt(0, 1);
    cell.gateway.run(script(
        &attempt,
        "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exec sleep 600",
    ));
    cell.gateway.phase(&attempt, Phase::Running).await;
    let directory = cell.attempt_dir(&attempt);
    crate::harness::until("its output", || output(&directory).contains("line 1999").then_some(())).await;
    let record: AttemptRecord = json_read(&directory, STATE_FILE).unwrap().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", record.shim.unwrap().pid)).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    println!("shim: {kib} KiB resident");
    assert!(kib < 2048, "{kib} KiB");
}
