//! Measurements of lists and logs. Each prints one line of JSON; none asserts a time.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use borough_tests::{TestCell, now, options};
use serde_json::{Value, json};

/// A line of a file in `/proc`, in bytes.
fn memory(process: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kilobytes = found.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Makes the present memory of a process its peak, and returns it.
fn peak_reset(process: u32) -> u64 {
    fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
    memory(process, "VmRSS")
}

fn sockets(process: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

/// What a verb has cost.
struct Cost {
    first_row: Duration,
    total: Duration,
    bytes: usize,
    lines: usize,
    client_peak: u64,
    client_sockets: usize,
}

/// Runs a verb to its end, or until it has written `lines`. Its first row is line `head` from 0.
fn cost_of(mut command: std::process::Command, head: usize, lines: Option<usize>) -> Cost {
    let begun = now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (id, mut out) = (child.id(), BufReader::new(child.stdout.take().unwrap()));
    let sampler = std::thread::spawn(move || {
        let (mut peak, mut most) = (0, 0);
        loop {
            let now = memory(id, "VmHWM");
            if now == 0 {
                return (peak, most);
            }
            (peak, most) = (now.max(peak), sockets(id).max(most));
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let (mut text, mut first_row, mut read) = (String::new(), Duration::ZERO, 0);
    let mut bytes = 0;
    while lines.is_none_or(|lines| read < lines) && out.read_line(&mut text).unwrap() > 0 {
        (bytes, read) = (bytes + text.len(), read + 1);
        text.clear();
        if read == head + 1 {
            first_row = now().saturating_sub(begun);
        }
    }
    let total = now().saturating_sub(begun);
    if lines.is_some() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(lines.is_some() || status.success());
    let (client_peak, client_sockets) = sampler.join().unwrap();
    Cost { first_row, total, bytes, lines: read, client_peak, client_sockets }
}

fn command_of(cell: &TestCell, arguments: &[&str]) -> std::process::Command {
    let from = cell.command(arguments);
    let from = from.as_std();
    let mut command = std::process::Command::new(from.get_program());
    command.args(from.get_args());
    command.envs(from.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command
}

fn report(what: &str, cost: &Cost, control: u32, before: u64) -> Value {
    let control_peak = memory(control, "VmHWM");
    json!({
        "what": what,
        "lines": cost.lines,
        "bytes": cost.bytes,
        "first_row_ms": cost.first_row.as_secs_f64() * 1e3,
        "total_ms": cost.total.as_secs_f64() * 1e3,
        "client_peak_bytes": cost.client_peak,
        "client_sockets": cost.client_sockets,
        "control_before_bytes": before,
        "control_peak_bytes": control_peak,
        "control_grew_bytes": control_peak.saturating_sub(before),
    })
}

fn control_of(cell: &TestCell) -> u32 {
    cell.control().pid
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a measurement: prints JSON"]
async fn a_list_of_100_000_tasks() {
    let cell = TestCell::start(options!()).await;
    let job = json!({
        "name": "big", "kind": "batch", "count": 100_000,
        "task": {"command": ["true"], "resources": {"cpu": "999", "memory": "8MiB"}},
    });
    let file = cell.file("big.json", &job.to_string());
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let control = control_of(&cell);
    for (what, head, arguments) in [
        ("table", 1, &["task", "list"][..]),
        ("json", 1, &["task", "list", "-o", "json"]),
        ("a page of 100", 1, &["task", "list", "--limit", "100"]),
    ] {
        let before = peak_reset(control);
        let cost = tokio::task::block_in_place(|| cost_of(command_of(&cell, arguments), head, None));
        println!("{}", report(&format!("list of 100,000 tasks: {what}"), &cost, control, before));
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a measurement: prints JSON"]
async fn the_logs_of_1_000_tasks() {
    let cell = TestCell::start(options!()).await;
    let (tasks, lines) = (1_000_u32, 100_u32);
    let script = format!(
        "i=0; while [ $i -lt {lines} ]; do echo line $i of $BOROUGH_INDEX; i=$((i+1)); done; exec sleep 3600"
    );
    let job = json!({
        "name": "many", "kind": "batch", "count": tasks,
        "task": {"command": ["sh", "-c", script], "resources": {"cpu": "1m", "memory": "2MiB"}},
    });
    let file = cell.file("many.json", &job.to_string());
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    // A thousand processes start in more than the deadline of a condition.
    while cell.client().job_get(&cell.job("many")).await.unwrap().job.unwrap().tasks.unwrap().running < tasks
    {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let control = control_of(&cell);
    let before = peak_reset(control);
    let (command, all) =
        (command_of(&cell, &["job", "logs", "-f", "many"]), usize::try_from(tasks * lines).unwrap());
    let cost = tokio::task::spawn_blocking(move || cost_of(command, 0, Some(all))).await.unwrap();
    println!("{}", report("job logs -f of 1,000 tasks with 100 lines each", &cost, control, before));
    cell.finish().await;
}
