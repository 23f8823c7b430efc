//! What an agent is told when it is started.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::secret::Secret;
use borough_model::node::{AgentKey, CORE_SPEED_REFERENCE};
use borough_proto::connect::Connector;
use borough_proto::v1;

use crate::decide::pressure::PressureLimits;
use crate::disk::TaskUsers;

/// Where tasks that run as other users have their own directories, unless a setting names another place.
pub const TASK_DIR: &str = "/var/lib/borough-tasks";

/// An agent's settings. [`AgentConfig::new`] gives the usual ones.
#[derive(Clone)]
pub struct AgentConfig {
    /// The cell it belongs to.
    pub cell: String,
    /// The node's name, unique within the cell.
    pub node: String,
    /// Gateways, such as `http://127.0.0.1:7000`; any of them will do.
    pub gateways: Vec<String>,
    /// How gateways are reached: TCP, unless a simulation says otherwise.
    pub connector: Connector,
    /// Sent as `authorization: Bearer …`: a node's token, which opens sessions and nothing else.
    pub token: Option<Secret>,
    /// Its state, kept over restarts; one agent at a time.
    pub state_dir: PathBuf,
    /// Instead of what the machine has; dimensions that are 0 are taken from the machine.
    pub capacity: Option<v1::Resources>,
    /// Its single devices. Whole devices of `capacity` whose kind has none here become cards numbered from 0.
    pub cards: Vec<v1::Card>,
    /// Where the kernel shows its processors and memory; tests put another machine there.
    pub sysfs: PathBuf,
    /// Where the kernel shows what is left of it; tests put another machine there.
    pub proc: PathBuf,
    /// From when on it is short of something.
    pub pressure: PressureLimits,
    /// How fast one of its cores is, in thousandths of the reference's.
    pub core_speed: u64,
    /// Where packages are installed, as `NAME/VERSION`; absent: there are none.
    pub packages: Option<PathBuf>,
    /// TCP ports the scheduler may hand out here.
    pub ports: RangeInclusive<u16>,
    /// Where tasks are reached: an IP address or host name.
    pub host: String,
    /// Failure domains and whatever else is to be known; they win over what the agent finds.
    pub attributes: BTreeMap<String, String>,
    /// As whom tasks run. Another user than the agent's own needs an agent that is root.
    pub task_users: TaskUsers,
    /// Where tasks that run as other users have their own directories, and where all agents of the machine note which
    /// user an owner has. Other users must be able to pass through.
    pub task_dir: PathBuf,
    /// The name of its cgroups below `borough/`; absent: the cell and a hash of the state directory.
    pub cgroup_name: Option<String>,
    /// Where every started process is recorded for a guard; tests set it.
    pub record_dir: Option<PathBuf>,
    /// How often it does what it does by time.
    pub intervals: Intervals,
    /// How much of ended attempts it keeps.
    pub retention: Retention,
    /// Where the machine's id is read.
    pub machine_id: PathBuf,
    /// How it shows who it is, instead of by its state directory and its machine; for simulations.
    pub credential: Option<Credential>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for the pauses between attempts to connect.
    pub rng: Arc<dyn Rng>,
}

/// How an agent shows who it is.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Its state directory's.
    pub key: AgentKey,
    /// The machine's id; empty where it has none.
    pub machine: String,
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token stays out of logs.
        f.debug_struct("AgentConfig")
            .field("cell", &self.cell)
            .field("node", &self.node)
            .field("gateways", &self.gateways)
            .field("state_dir", &self.state_dir)
            .finish_non_exhaustive()
    }
}

impl AgentConfig {
    /// The usual settings on loopback.
    pub fn new(
        cell: impl Into<String>,
        node: impl Into<String>,
        state_dir: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        Self {
            cell: cell.into(),
            node: node.into(),
            gateways: Vec::new(),
            connector: Connector::default(),
            token: None,
            state_dir: state_dir.into(),
            capacity: None,
            cards: Vec::new(),
            sysfs: PathBuf::from(crate::topology::SYSFS),
            proc: PathBuf::from("/proc"),
            pressure: PressureLimits::default(),
            core_speed: CORE_SPEED_REFERENCE,
            packages: None,
            ports: 20_000..=29_999,
            host: "127.0.0.1".to_owned(),
            attributes: BTreeMap::new(),
            task_users: TaskUsers::Agent,
            task_dir: PathBuf::from(TASK_DIR),
            cgroup_name: None,
            record_dir: None,
            intervals: Intervals::default(),
            retention: Retention::default(),
            machine_id: PathBuf::from("/etc/machine-id"),
            credential: None,
            clock,
            rng,
        }
    }
}

/// How often things are done by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Between two measurements of what tasks use.
    pub sample: Duration,
    /// Between two looks at every attempt's record, in case a change was not announced.
    pub look: Duration,
    /// First pause after a failed attempt to connect; doubled each time, with jitter.
    pub reconnect_first: Duration,
    /// Longest pause between attempts to connect.
    pub reconnect_max: Duration,
    /// Pause after a gateway has refused the agent for who it is, its token or its settings: somebody has to do
    /// something first.
    pub refused: Duration,
    /// Longest pause after sessions that a gateway has welcomed and that made no lasting progress.
    pub fruitless_max: Duration,
    /// A report that a gateway has not applied after this long is sent again.
    pub repeat: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            sample: Duration::from_secs(5),
            look: Duration::from_secs(5),
            reconnect_first: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            refused: Duration::from_secs(15),
            fruitless_max: Duration::from_secs(30),
            repeat: Duration::from_secs(10),
        }
    }
}

/// How much is kept of attempts that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Attempts of one task.
    pub attempts_per_task: usize,
    /// Attempts in all.
    pub attempts: usize,
    /// Bytes of logs in all.
    pub bytes: u64,
    /// Milliseconds after the end.
    pub age_ms: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { attempts_per_task: 5, attempts: 2000, bytes: 4 << 30, age_ms: 24 * 60 * 60 * 1000 }
    }
}
