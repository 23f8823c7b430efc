//! `borough agent`: the agent of one node, until a signal ends it. Its tasks keep running.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_agent::{AgentConfig, PressureLimits, has_joined};
use borough_kv::env::{SystemClock, SystemRng};
use borough_model::Name;
use borough_proto::tls::{CertificateName, TlsFiles};
use borough_proto::v1;
use tokio_util::sync::CancellationToken;

use super::log::log_begin;
use super::token::node_secret_read;
use super::{RoleSignals, failed, files_private};
use crate::args::{AgentArguments, Global};
use crate::exit::{Code, Failure};

/// Runs the agent until a signal ends it.
pub(crate) fn run(global: &Global, arguments: AgentArguments) -> Result<Code, Failure> {
    log_begin("warn,borough=info");
    files_private();
    let config = config_of(global, arguments)?;
    // One node's agent waits far more than it works: two threads keep its memory small.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed("cannot start the runtime", &error))?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let ended = shutdown.clone();
        let mut signals = RoleSignals::catch();
        tokio::spawn(async move {
            let signal = signals.next().await;
            tracing::info!(signal, "the agent ends; its tasks go on");
            ended.cancel();
        });
        borough_agent::run(config, shutdown).await.map_err(|error| failed("the agent cannot run", &error))
    })?;
    Ok(Code::Done)
}

/// Refuses the certificate of another node: no gateway would take it, however often the agent asks.
fn own_certificate(files: Option<&TlsFiles>, cell: &str, node: &Name) -> Result<(), Failure> {
    let Some(holder) = files.and_then(TlsFiles::holder) else { return Ok(()) };
    let CertificateName::Node { cell: its_cell, node: its_node } = &holder else { return Ok(()) };
    if its_cell.as_str() == cell && its_node == node {
        return Ok(());
    }
    let file = files.and_then(|files| files.certificate.as_deref()).unwrap_or_else(|| Path::new(""));
    let text = format!(
        "{} is the certificate of node {its_node} of cell {its_cell}; this agent is for node {node} of cell {cell}",
        file.display()
    );
    let hint = format!("issue one for it: borough auth ca issue {cell}/{node} --to DIRECTORY");
    Err(Failure::new(Code::Usage, text).with_hint(hint))
}

/// What no agent runs without.
#[derive(Debug)]
struct AgentNeeds {
    cell: String,
    node: Name,
    state_dir: PathBuf,
    /// The file of its join token, for a node that has joined or is to join.
    join_token: Option<PathBuf>,
}

/// The name of a join token's file in the state directory, for an agent that has joined and names none.
const JOIN_TOKEN: &str = "join-token";

/// The file of the join token: the one that is named, or for an agent that has joined the one that an operator may put
/// into its state directory later.
fn join_token(global: &Global, arguments: &AgentArguments) -> Option<PathBuf> {
    let is_other = global.token_file.is_some() || global.tls.tls_cert.is_some();
    let joined = arguments.state_dir.as_deref().filter(|state| !is_other && has_joined(state));
    arguments.join_token_file.clone().or_else(|| joined.map(|state| state.join(JOIN_TOKEN)))
}

/// Takes what an agent needs. The error names all that is missing.
fn needs_of(global: &Global, arguments: &AgentArguments) -> Result<AgentNeeds, Failure> {
    // The certificate of a node says which node it is.
    let join_token = join_token(global, arguments);
    let joins = join_token.is_some();
    if joins && (global.token_file.is_some() || global.tls.tls_cert.is_some()) {
        let text = "--join-token-file stands alone; accepted: it, or --token-file, or --tls-cert";
        return Err(Failure::new(Code::Usage, text));
    }
    let proves_itself = joins || global.token_file.is_some() || global.tls.tls_cert.is_some();
    let missing = [
        ("--node NAME", arguments.node.is_none()),
        ("--state-dir DIR", arguments.state_dir.is_none()),
        ("--gateway HOST:PORT", global.gateway.is_empty()),
        ("--join-token-file FILE (or --token-file FILE, or --tls-cert FILE)", !proves_itself),
        ("--cell NAME", global.cell.is_none()),
    ];
    if let (Some(cell), Some(node), Some(state_dir), true, false) =
        (&global.cell, &arguments.node, &arguments.state_dir, proves_itself, global.gateway.is_empty())
    {
        let (cell, node, state_dir) = (cell.clone(), node.clone(), state_dir.clone());
        return Ok(AgentNeeds { cell, node, state_dir, join_token });
    }
    let missing = missing.into_iter().filter(|(_, lacks)| *lacks).map(|(option, _)| option);
    let text = format!("an agent needs {}", missing.collect::<Vec<_>>().join(", "));
    Err(Failure::new(Code::Usage, text).with_hint(
        "`borough node join-token issue` makes the file with the node's token; a gateway prints its address when it starts",
    ))
}

fn config_of(global: &Global, arguments: AgentArguments) -> Result<AgentConfig, Failure> {
    let AgentNeeds { cell, node, state_dir, join_token } = needs_of(global, &arguments)?;
    // An agent that has joined may never need it again; the others try nothing without it.
    if let Some(path) = join_token.as_deref().filter(|_| !has_joined(&state_dir)) {
        node_secret_read(path)?;
    }
    own_certificate(global.tls.files().as_ref(), &cell, &node)?;
    let token = global.token_file.as_deref().map(node_secret_read).transpose()?;
    let connector = crate::connect::connector(global.tls.files())?;
    let task_users = arguments.users.task_users()?;
    let rng = SystemRng::shared();
    let mut config = AgentConfig::new(cell, node.as_str(), state_dir, SystemClock::shared(), rng);
    let address = |gateway: &String| match gateway.split_once("://") {
        None => format!("http://{gateway}"),
        // The connector encrypts what goes there.
        Some(("https", place)) if connector.is_encrypted() => format!("http://{place}"),
        Some(_) => gateway.clone(),
    };
    config.gateways = global.gateway.iter().map(address).collect();
    (config.token, config.connector) = (token, connector);
    config.join_token = join_token;
    config.ports = arguments.ports;
    config.host = arguments.host;
    config.attributes = arguments.attributes.into_iter().collect();
    config.record_dir = arguments.record_dir;
    (config.task_users, config.task_dir) = (task_users, arguments.users.task_dir);
    config.cards = arguments.cards;
    let per_mille = |percent: u8| u64::from(percent) * 10;
    config.pressure = PressureLimits {
        memory_free_min: per_mille(arguments.memory_low),
        memory_stalled_max: per_mille(arguments.memory_stalled),
        disk_free_min: per_mille(arguments.disk_low),
        pids_free_min: per_mille(arguments.pids_low),
    };
    config.core_speed = arguments.core_speed;
    config.packages = arguments.package_dir;
    config.secrets = arguments.secrets_dir;
    config.proc = arguments.proc.unwrap_or(config.proc);
    config.sysfs = arguments.sysfs.unwrap_or(config.sysfs);
    config.machine_id = arguments.machine_id.unwrap_or(config.machine_id);
    config.intervals.sample = arguments.sample_ms.map_or(config.intervals.sample, Duration::from_millis);
    config.capacity = Some(v1::Resources {
        cpu_millis: arguments.cpu.unwrap_or_default(),
        memory_bytes: arguments.memory.unwrap_or_default(),
        disk_bytes: arguments.disk.unwrap_or_default(),
        device_millis: arguments.devices.into_iter().collect::<BTreeMap<_, _>>(),
        ..v1::Resources::default()
    });
    Ok(config)
}
