//! The node agents of a dev cell: separate processes, started if none runs, and started again when they end. Agents
//! that outlived an earlier `dev` are left alone, unless they look for their gateway at an address that it no longer
//! has.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use borough_agent::{TASK_DIR, tasks_home, tree_remove};
use borough_model::Name;
use borough_shim::file::json_read;
use borough_shim::record::{ProcessKind, ProcessRecord};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use super::layout::{Layout, private_directory, private_file};
use crate::role::descriptors::OpenFiles;

/// Interval of checks for an agent.
const LOOK: Duration = Duration::from_millis(200);
/// Longest pause before an agent that keeps ending is started again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The option by which an agent learns its gateway.
const GATEWAY_OPTION: &str = "--gateway";
const NODE_OPTION: &str = "--node";
/// The most ports of one node.
const PORTS_PER_NODE_MAX: usize = 400;

/// One node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub cell: Name,
    pub name: String,
    pub rack: String,
    pub port_first: u16,
    pub port_last: u16,
}

/// `count` nodes for each cell, each with its own ports, since they share one machine. Empty if `ports` are fewer than
/// the nodes.
pub(super) fn nodes_plan(cells: &[Name], count: u32, ports: &RangeInclusive<u16>) -> Vec<NodePlan> {
    let all: Vec<_> = cells.iter().flat_map(|cell| (1..=count).map(move |number| (cell, number))).collect();
    let each = (ports.len() / all.len().max(1)).min(PORTS_PER_NODE_MAX);
    let first =
        |place: usize| u16::try_from(place * each).ok().and_then(|past| ports.start().checked_add(past));
    let plan = |(place, (cell, number)): (usize, (&Name, u32))| {
        let (port_first, port_next) = (first(place)?, first(place + 1)?);
        let port_last = port_next.checked_sub(1).filter(|last| *last >= port_first)?;
        let rack = format!("r{}", number.saturating_sub(1) % 2 + 1);
        Some(NodePlan { cell: cell.clone(), name: format!("{cell}-{number}"), rack, port_first, port_last })
    };
    all.into_iter().enumerate().filter_map(plan).collect()
}

/// Nodes that fit the ports of one machine, over all cells.
pub(super) const NODES_MAX: usize = 30;

/// The configuration of agents.
#[derive(Clone, Debug)]
pub(super) struct AgentStart {
    pub program: PathBuf,
    pub gateway: String,
    pub layout: Layout,
    pub cards: Vec<String>,
    /// The percentage of the disk below which nodes take no tasks; `None`: that of agents.
    pub disk_low: Option<u8>,
    /// The limit of open files that agents, and so tasks, get back.
    pub open_files: OpenFiles,
    /// Additional arguments, for every node or for one: `NODE:ARGUMENT`.
    pub arguments: Vec<String>,
}

impl AgentStart {
    fn command(&self, node: &NodePlan) -> io::Result<Command> {
        let state = self.layout.node(&node.name);
        private_directory(&state)?;
        let log = self.layout.log(&node.name);
        private_file(&log)?;
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
        let mut command = Command::new(&self.program);
        command
            .args(["agent", "--cell", node.cell.as_str(), NODE_OPTION, &node.name])
            .args([GATEWAY_OPTION, &self.gateway])
            // The gateway of `dev` is not encrypted, whatever the user's environment says of others.
            .env_remove("BOROUGH_TLS_CA")
            .env_remove("BOROUGH_TLS_CERT")
            .env_remove("BOROUGH_TLS_KEY")
            .arg("--token-file")
            .arg(self.layout.node_token(&node.cell))
            .arg("--state-dir")
            .arg(&state)
            .arg("--record-dir")
            .arg(self.layout.records())
            .arg("--secrets-dir")
            .arg(self.layout.secrets())
            .args(["--ports", &format!("{}-{}", node.port_first, node.port_last)])
            .args(["--host", "127.0.0.1"])
            .args(self.disk_low.map(|percent| format!("--disk-low={percent}")))
            .args(["--attribute", &format!("rack={}", node.rack), "--attribute", "zone=local"])
            .args(self.cards.iter().flat_map(|card| ["--card", card]))
            .args(self.arguments.iter().filter_map(|argument| argument_of(argument, &node.name)))
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            // A Ctrl-C for `dev` must not reach the agents: `dev` ends them itself.
            .process_group(0);
        Ok(command)
    }
}

/// An argument as a node's agent gets it, if it is for that node.
fn argument_of<'a>(argument: &'a str, node: &str) -> Option<&'a str> {
    match argument.split_once(':') {
        Some((of, own)) if !of.starts_with('-') => (of == node).then_some(own),
        _ => Some(argument),
    }
}

/// Keeps the agent of one node running until cancelled. If the state directory is locked, an agent runs already.
pub(super) async fn node_keep(
    start: AgentStart,
    node: NodePlan,
    cancelled: CancellationToken,
) -> Option<Child> {
    let state = start.layout.node(&node.name);
    let mut child: Option<Child> = None;
    let mut pause = LOOK;
    loop {
        if !agent_runs(&state, child.as_mut()) {
            if child.take().is_some() {
                tracing::warn!(node = node.name, "the agent has ended and is started again");
            }
            match start.command(&node).and_then(|mut command| command.spawn()) {
                Ok(started) => {
                    start.open_files.restore(started.id());
                    child = Some(started);
                }
                Err(error) => tracing::error!(node = node.name, %error, "the agent cannot be started"),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancelled.cancelled() => return child,
            }
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
            continue;
        }
        pause = LOOK;
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = cancelled.cancelled() => return child,
        }
    }
}

/// Ends the agents of this directory that an earlier `dev` started for another gateway: they would never find this one.
/// Their tasks go on, and the next agents take them up. Returns the names of their nodes.
pub(super) fn stranded_agents_end(layout: &Layout, gateway: &str) -> BTreeSet<String> {
    let mut ended = BTreeSet::new();
    for agent in recorded(&layout.records(), ProcessKind::Agent) {
        let line = fs::read(format!("/proc/{}/cmdline", agent.process.pid)).unwrap_or_default();
        let is_stranded = option_of(&line, GATEWAY_OPTION).is_some_and(|known| known != gateway);
        if is_stranded && agent.process.signal(Signal::TERM).is_ok() {
            ended.extend(option_of(&line, NODE_OPTION).map(str::to_owned));
        }
    }
    ended
}

/// The value of an option on the command line of an agent, as [`AgentStart::command`] writes it. Words end with a zero
/// byte.
fn option_of<'l>(line: &'l [u8], option: &str) -> Option<&'l str> {
    let mut words = line.split(|byte| *byte == 0);
    words.find(|word| *word == option.as_bytes())?;
    str::from_utf8(words.next()?).ok()
}

/// Recorded processes of a kind that still run.
pub(super) fn recorded(records: &Path, kind: ProcessKind) -> Vec<ProcessRecord> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.ends_with(".json") && !name.starts_with('.'))?;
        json_read::<ProcessRecord>(records, name).ok().flatten()
    };
    let found = fs::read_dir(records).into_iter().flatten().flatten().filter_map(read);
    found.filter(|record| record.kind == kind && record.process.alive()).collect()
}

/// Returns true if the node has an agent: a running child of ours, or a process that holds the lock.
fn agent_runs(state: &Path, child: Option<&mut Child>) -> bool {
    if let Some(child) = child {
        return matches!(child.try_wait(), Ok(None));
    }
    is_locked(state)
}

/// Returns true if an agent holds the lock of the state directory.
pub(super) fn is_locked(state: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(state.join("lock")) else { return false };
    // A short shared lock: it is refused if an agent holds the exclusive one.
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Removes the directories of tasks of a cell that is removed: its agents had no time for that.
pub(super) fn tasks_remove(layout: &Layout) {
    for entry in fs::read_dir(layout.nodes()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((name, cell)) = name.to_str().and_then(|name| Some((name, cell_of(name)?))) else {
            continue;
        };
        let Ok(state) = entry.path().canonicalize() else { continue };
        let home = tasks_home(Path::new(TASK_DIR), cell, name, &state);
        if tree_remove(&home).is_ok() {
            // The parent holds tasks of this cell only. It does not exist if tasks run as the agent's user.
            home.parent().map(fs::remove_dir);
        }
    }
}

/// The cell of a node, by the name that it has from [`nodes_plan`].
pub(super) fn cell_of(node: &str) -> Option<&str> {
    node.rsplit_once('-').map(|(cell, _)| cell)
}

/// Its number there.
pub(super) fn number_of(node: &str) -> Option<u32> {
    node.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_gateway_of_an_agent_is_on_its_command_line() {
        let line = b"borough\0agent\0--cell\0alpha\0--gateway\0http://127.0.0.1:1\0--token-file\0t\0";
        assert_eq!(option_of(line, GATEWAY_OPTION), Some("http://127.0.0.1:1"));
        assert_eq!(option_of(b"borough\0agent\0", GATEWAY_OPTION), None);
        assert_eq!(option_of(b"", GATEWAY_OPTION), None);
    }

    #[test]
    fn nodes_of_one_machine_have_names_and_ports_of_their_own() {
        let cells = [Name::new("alpha").unwrap(), Name::new("beta").unwrap()];
        let plan = nodes_plan(&cells, 3, &(20_000..=31_999));
        let names: BTreeSet<&str> = plan.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["alpha-1", "alpha-2", "alpha-3", "beta-1", "beta-2", "beta-3"]
        );
        for pair in plan.windows(2) {
            assert!(pair[0].port_last < pair[1].port_first);
        }
        let most = nodes_plan(&cells, u32::try_from(NODES_MAX / 2).unwrap(), &(20_000..=31_999));
        assert!(most.iter().all(|node| node.port_last < 32_768), "below the kernel's own ports");
        assert_eq!(most.len(), NODES_MAX);
        let narrow = nodes_plan(&cells, 2, &(10_000..=10_005));
        let ports: Vec<_> = narrow.iter().map(|node| (node.port_first, node.port_last)).collect();
        assert_eq!(ports, [(10_000, 10_000), (10_001, 10_001), (10_002, 10_002), (10_003, 10_003)]);
        assert!(nodes_plan(&cells, 2, &(10_000..=10_002)).is_empty());
    }
}
