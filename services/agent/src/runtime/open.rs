//! Starts the agent: opens the directory and the cgroups, and adopts the attempts that it finds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use borough_kv::env::SeededRng;
use borough_model::node::{CORE_SPEED, CORE_SPEED_REFERENCE, CORE_SPEEDS};
use borough_proto::v1;
use borough_shim::cgroup::{CgroupLimits, CgroupRoot, Host};
use borough_shim::process::boot_id;
use borough_shim::record::ExitRecord;
use rustix::process::geteuid;
use tokio::sync::mpsc;

use super::agent::{Agent, Local};
use super::own_record::OwnRecord;
use super::real_machine::RealMachine;
use crate::attempt::AttemptId;
use crate::config::{AgentConfig, Credential};
use crate::decide::cores::Cores;
use crate::decide::environment::{Inherited, PATH_DEFAULT};
use crate::decide::pressure::PressureState;
use crate::decide::spec::{NodeContext, SHIMS_LEAF};
use crate::decide::{AgentState, REBOOTED, ShimState};
use crate::disk::{
    AttemptFiles, DirectoryOwner, HostGuard, StateDir, agent_key, copy_refuse, machine_id,
    secrets_directory_check, shim_install, shim_path,
};
use crate::error::AgentError;
use crate::event::Event;
use crate::machine::{Machine, MachineFacts};
use crate::shim::{DirectoryWatch, Starter};
use crate::task_users::{TaskUsers, tasks_directory};
use crate::{facts, topology};

/// Opens everything that an agent needs. Must run inside a runtime.
///
/// # Errors
/// It cannot start.
pub(super) fn agent_open(
    config: AgentConfig,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Agent, AgentError> {
    settings_check(&config)?;
    let (mut state_dir, lock) = StateDir::open(&config.state_dir)?;
    let credential = credential_read(&config, &state_dir)?;
    let lock = lock.with(HostGuard::take(credential.key.durable_id(), &state_dir.root)?);
    let boot_id = boot_id().map_err(|source| AgentError::Machine { what: "the boot's id", source })?;
    copy_refuse(&state_dir, &boot_id)?;
    state_dir.node_check(&DirectoryOwner { cell: config.cell.clone(), node: config.node.clone() })?;
    let program = program_install(&state_dir.root.join("bin"))?;
    let domains = topology::domains(&config.sysfs);
    let cores = Cores {
        all: domains.iter().flat_map(|domain| domain.cpus.iter().copied()).collect(),
        speed: config.core_speed,
    };
    let own = facts::capacity(config.capacity.as_ref(), &state_dir.root)?;
    let own_millis = own.cpu_millis;
    let (host, relative) = (Host::find(), cgroup_path(&config, &state_dir.root));
    let recorded = own_record(&config, &host, &relative);
    let base = base_prepare(&host, &relative, own_millis);
    let facts = MachineFacts {
        boot_id: boot_id.clone(),
        capacity: facts::capacity_normalised(own, &cores),
        attributes: facts::attributes(&base, &config.task_users, config.secrets.as_deref()),
    };
    let mut hello = hello(&config, facts, domains);
    tasks_prepare(&config, &mut state_dir)?;
    identify(&mut hello, &credential, &config);
    let inherited = Inherited {
        path: std::env::var("PATH").unwrap_or_else(|_| PATH_DEFAULT.to_owned()),
        home: std::env::var("HOME").ok(),
    };
    let context = NodeContext {
        node: config.node.clone(),
        host: config.host.clone(),
        boot_id: boot_id.clone(),
        base,
        cores: cores.clone(),
        inherited,
        record_dir: config.record_dir.clone(),
        users: config.task_users.clone(),
        task_dir: config.task_dir.clone(),
        secrets: config.secrets.clone(),
    };
    let starter = Starter {
        state: Arc::new(state_dir),
        program,
        context: Arc::new(context),
        watch: DirectoryWatch::open(events.clone()),
        events,
    };
    // Read before the first report: a restart must not remove packages, and no task may be placed on a full disk.
    let packages = config.packages.as_deref().map(facts::packages).unwrap_or_default();
    let reading = facts::reading(&config.proc, &config.state_dir);
    let pressure = PressureState::first(&reading, &config.pressure);
    let state =
        AgentState { node: config.node.clone(), boot_id, packages, cores, pressure, ..AgentState::default() };
    let real = RealMachine {
        starter: starter.clone(),
        proc: config.proc.clone(),
        packages: config.packages.clone(),
    };
    let mut agent = Agent::new(config, starter, Arc::new(real), hello, state, Some(lock));
    agent.own_record = recorded;
    attempts_adopt(&mut agent).map(|()| agent)
}

/// Writes the shim's program and returns its path.
fn program_install(bin: &Path) -> Result<PathBuf, AgentError> {
    match shim_install(bin) {
        // Running attempts are adopted anyway. Every start tries to write the program again.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            tracing::error!(path = %bin.display(), %error, "no space for the shim's program: no task starts");
            Ok(shim_path(bin))
        }
        installed => installed.map_err(|source| AgentError::State { path: bin.to_owned(), source }),
    }
}

/// Makes an agent on a simulated machine.
///
/// # Errors
/// It cannot start.
pub(super) fn agent_simulated(
    config: AgentConfig,
    facts: MachineFacts,
    machine: Arc<dyn Machine>,
    events: mpsc::UnboundedSender<Event>,
) -> Result<Agent, AgentError> {
    settings_check(&config)?;
    let boot_id = facts.boot_id.clone();
    let mut hello = hello(&config, facts, Vec::new());
    if let Some(credential) = &config.credential {
        identify(&mut hello, credential, &config);
    }
    let context = NodeContext {
        node: config.node.clone(),
        host: config.host.clone(),
        boot_id: boot_id.clone(),
        base: CgroupRoot::default(),
        cores: Cores::default(),
        inherited: Inherited { path: PATH_DEFAULT.to_owned(), home: None },
        record_dir: None,
        users: TaskUsers::Agent,
        task_dir: config.task_dir.clone(),
        secrets: None,
    };
    let starter = Starter {
        state: Arc::new(StateDir { root: config.state_dir.clone(), tasks: None }),
        program: PathBuf::new(),
        context: Arc::new(context),
        watch: DirectoryWatch::none(),
        events,
    };
    let state = AgentState { node: config.node.clone(), boot_id, ..AgentState::default() };
    let mut agent = Agent::new(config, starter, machine, hello, state, None);
    attempts_adopt(&mut agent)?;
    Ok(agent)
}

/// The agent's proof of identity, from its state directory and its machine.
fn credential_read(config: &AgentConfig, state_dir: &StateDir) -> Result<Credential, AgentError> {
    if let Some(given) = &config.credential {
        return Ok(given.clone());
    }
    // From the kernel, not from the agent's generator: two agents must never have the same key.
    let half = || u128::from(SeededRng::from_kernel().1);
    let random = || (half() << 64) | half();
    let key = agent_key(&state_dir.root, random)?;
    Ok(Credential { key, machine: machine_id(&config.machine_id) })
}

/// Adds the agent's identity to the hello, and which process of it this is.
fn identify(hello: &mut v1::Hello, credential: &Credential, config: &AgentConfig) {
    hello.agent_key = credential.key.0.to_be_bytes().to_vec().into();
    hello.machine_id.clone_from(&credential.machine);
    hello.instance = config.rng.next_u64().max(1);
}

/// Adopts the attempts on disk.
fn attempts_adopt(agent: &mut Agent) -> Result<(), AgentError> {
    let failed = |source| AgentError::State { path: agent.starter.state.root.clone(), source };
    for id in agent.machine.attempts().map_err(failed)? {
        attempt_adopt(agent, id);
    }
    Ok(())
}

fn settings_check(config: &AgentConfig) -> Result<(), AgentError> {
    let refuse = |setting, problem: &str| Err(AgentError::Setting { setting, problem: problem.to_owned() });
    if config.gateways.is_empty() {
        return refuse("gateways", "at least one is needed");
    }
    if config.ports.is_empty() || *config.ports.start() == 0 {
        return refuse("ports", "a range from 1 to 65535 is needed");
    }
    if config.task_users != TaskUsers::Agent && !geteuid().is_root() {
        return refuse("task_users", "an agent that is not root runs tasks as its own user only");
    }
    if let Some(problem) = config.secrets.as_deref().and_then(|of| secrets_directory_check(of).err()) {
        return Err(AgentError::Setting { setting: "secrets_dir", problem });
    }
    let core_speed = config.attributes.get(CORE_SPEED);
    if !CORE_SPEEDS.contains(&config.core_speed) || core_speed.is_some() {
        return refuse("core_speed", "0.01 to 100 times the reference's, and not given as an attribute");
    }
    for (setting, name) in [("cell", &config.cell), ("node", &config.node)] {
        if let Err(error) = borough_model::id::Name::new(name.clone()) {
            return Err(AgentError::Setting { setting, problem: error.to_string() });
        }
    }
    let name = config.cgroup_name.as_deref().unwrap_or("x");
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return refuse("cgroup_name", "is the name of a directory");
    }
    Ok(())
}

/// `borough/<cgroup name>/<node>`. The default name is the cell and a hash of the state directory: two cells of one
/// name on one machine must not kill each other's tasks.
fn cgroup_path(config: &AgentConfig, state_dir: &Path) -> PathBuf {
    let name = config.cgroup_name.clone().unwrap_or_else(|| own_name(&config.cell, state_dir));
    Path::new("borough").join(name).join(&config.node)
}

/// The cell and a hash of the agent's state directory.
fn own_name(cell: &str, state_dir: &Path) -> String {
    let hash = state_dir.as_os_str().as_encoded_bytes().iter();
    let hash = hash.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("{cell}-{hash:08x}")
}

/// Where the tasks of an agent have their directories below `task_dir`; `state_dir` is canonical.
pub fn tasks_home(task_dir: &Path, cell: &str, node: &str, state_dir: &Path) -> PathBuf {
    task_dir.join(own_name(cell, state_dir)).join(node)
}

/// If tasks run as other users, makes the directory that those users can reach. Removes from it the tasks that are not
/// here.
fn tasks_prepare(config: &AgentConfig, state_dir: &mut StateDir) -> Result<(), AgentError> {
    if config.task_users == TaskUsers::Agent {
        return Ok(());
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| AgentError::State { path, source }
    };
    let below = Path::new(&own_name(&config.cell, &state_dir.root)).join(&config.node);
    let made = tasks_directory(&config.task_dir, &below).map_err(failed(&config.task_dir))?;
    state_dir.tasks = Some(made);
    let attempts = state_dir.attempts().map_err(failed(&state_dir.root))?;
    // A directory that cannot be removed now is removed at the next start.
    if let Err(error) = state_dir.work_strays_remove(&attempts) {
        tracing::warn!(%error, "directories of earlier tasks are left");
    }
    Ok(())
}

fn base_prepare(host: &Host, relative: &Path, cpu_millis: u64) -> CgroupRoot {
    let base = CgroupRoot::prepare(host, relative, cpu_millis);
    for missing in &base.missing {
        tracing::warn!(missing, "a cgroup hierarchy cannot be used");
    }
    if let Err(error) = base.leaf(SHIMS_LEAF, CgroupLimits::default()).create() {
        tracing::warn!(%error, "no cgroup for shims: they stay in the agent's cgroup");
    }
    base
}

fn hello(config: &AgentConfig, facts: MachineFacts, domains: Vec<v1::NumaDomain>) -> v1::Hello {
    let MachineFacts { boot_id, capacity, mut attributes } = facts;
    let cards = facts::cards(&config.cards, &capacity);
    if config.core_speed != CORE_SPEED_REFERENCE {
        attributes.insert(CORE_SPEED.to_owned(), config.core_speed.to_string());
    }
    attributes.extend(config.attributes.clone());
    v1::Hello {
        cell: config.cell.clone(),
        node: config.node.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id,
        capacity: Some(capacity),
        port_first: u32::from(*config.ports.start()),
        port_last: u32::from(*config.ports.end()),
        attributes: attributes.into_iter().collect(),
        host: config.host.clone(),
        cards,
        domains,
        ..v1::Hello::default()
    }
}

/// The record for a guard, if there is one. It is written before anything that the guard would have to remove.
fn own_record(config: &AgentConfig, host: &Host, relative: &Path) -> OwnRecord {
    let mounts = host.unified.iter().chain(host.v1.values());
    let cgroups = mounts.map(|mount| mount.join(relative).join(SHIMS_LEAF)).collect();
    OwnRecord::make(config.record_dir.clone(), cgroups)
}

/// Adopts an attempt on disk: its shim if that still runs, otherwise its remaining processes.
fn attempt_adopt(agent: &mut Agent, id: AttemptId) {
    let AttemptFiles { mut attempt, boot_id } = agent.machine.load(&id);
    let open = attempt.record.released_ms.is_none();
    if open && boot_id.is_some_and(|of| of != agent.state.boot_id) {
        let at_ms = agent.config.clock.wall_ms();
        let exit = ExitRecord { message: REBOOTED.to_owned(), at_ms, ..ExitRecord::default() };
        if let Err(error) = agent.machine.end_write(&id, &mut attempt.record, exit) {
            tracing::warn!(attempt = %id, %error, "the end of an attempt cannot be recorded");
        }
    } else if open && let Some(shim) = attempt.record.shim {
        let alive = agent.machine.adopt(shim, &id);
        attempt.shim = if alive { ShimState::Alive } else { ShimState::Gone };
        tracing::info!(attempt = %id, alive, "found again");
        if !alive && let Some(record) = agent.machine.record(&id) {
            // The shim may have written its last record between the two reads.
            attempt.record = record;
        }
    }
    let leaf = agent.machine.leaf(&id);
    agent.local.insert(id.clone(), Local { leaf, ..Local::default() });
    agent.state.attempts.insert(id, attempt);
}
