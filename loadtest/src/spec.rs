//! Specs of the benchmarks' jobs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use borough_model::Resources;
use borough_model::node::NodeFacts;
use borough_proto::v1;

/// A service of one micro workload task: it records its start in `folder` and listens on a port of the scheduler.
pub(crate) fn micro_service(name: &str, folder: &Path) -> anyhow::Result<v1::JobSpec> {
    Ok(service("loadtest", name.to_owned(), 1, micro_task(&folder.join(name))?))
}

/// A micro workload task that records its start in `note`, and listens on a port of the scheduler.
pub(crate) fn micro_task(note: &Path) -> anyhow::Result<v1::TaskSpec> {
    let program = std::env::current_exe()?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let command = vec![
        text(&program)?,
        "micro-task".to_owned(),
        "--note".to_owned(),
        text(note)?,
        "--port".to_owned(),
        "${PORT_MAIN}".to_owned(),
    ];
    Ok(v1::TaskSpec {
        command,
        environment: BTreeMap::new(),
        working_directory: None,
        resources: Some(v1::Resources { cpu_millis: 5, memory_bytes: 8 << 20, ..v1::Resources::default() }),
        ports: vec![main_port()],
        health: Some(main_probe()),
        grace_ms: 2_000,
        log: Some(v1::LogSpec { file_bytes_max: 65_536, files_max: 1 }),
        weight: 1,
        ..v1::TaskSpec::default()
    })
}

/// The port `main`, with a number of the scheduler.
pub(crate) fn main_port() -> v1::PortSpec {
    v1::PortSpec { name: "main".to_owned(), number: None }
}

/// A health check that connects to the port `main`.
pub(crate) fn main_probe() -> v1::HealthCheck {
    let probe = v1::health_check::Probe::Tcp(v1::TcpProbe { port: "main".to_owned() });
    v1::HealthCheck {
        probe: Some(probe),
        interval_ms: 5_000,
        timeout_ms: 1_000,
        failures_max: 5,
        initial_grace_ms: 5_000,
    }
}

/// A task without a port and a health check, which takes so much of a processor and `memory_bytes`.
pub(crate) fn plain_task(command: &[&str], cpu_millis: u64, memory_bytes: u64) -> v1::TaskSpec {
    v1::TaskSpec {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        resources: Some(v1::Resources { cpu_millis, memory_bytes, ..v1::Resources::default() }),
        log: Some(v1::LogSpec { file_bytes_max: 65_536, files_max: 1 }),
        grace_ms: 2_000,
        weight: 1,
        ..v1::TaskSpec::default()
    }
}

/// A service of `count` tasks that restart always.
pub(crate) fn service(user: &str, name: String, count: u32, task: v1::TaskSpec) -> v1::JobSpec {
    let restart = v1::RestartSpec {
        mode: v1::restart_spec::Mode::Always.into(),
        attempts_max: None,
        backoff_initial_ms: 500,
        backoff_max_ms: 10_000,
        reset_after_ms: 60_000,
    };
    v1::JobSpec {
        user: user.to_owned(),
        name,
        kind: v1::JobKind::Service.into(),
        priority: 200,
        count,
        min_member: 1,
        task: Some(task),
        restart: Some(restart),
        ..v1::JobSpec::default()
    }
}

/// A simulated machine without cards, domains and attributes.
pub(crate) fn machine_facts(capacity: Resources) -> NodeFacts {
    NodeFacts {
        capacity,
        port_first: 20_000,
        port_last: 29_999,
        attributes: BTreeMap::new(),
        host: "127.0.0.1".to_owned(),
        boot_id: "boot".to_owned(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        cards: Vec::new(),
        domains: Vec::new(),
    }
}
