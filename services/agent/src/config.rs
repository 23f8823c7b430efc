//! The settings of an agent.

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
use crate::decide::retention::Retention;
use crate::task_users::TaskUsers;

/// The default place for the directories of tasks that run as other users.
pub const TASK_DIR: &str = "/var/lib/borough-tasks";

/// An agent's settings. [`AgentConfig::new`] sets the defaults.
#[derive(Clone)]
pub struct AgentConfig {
    pub cell: String,
    /// The node's name, unique within the cell.
    pub node: String,
    /// Gateways, such as `http://127.0.0.1:7000`. The agent may use any of them.
    pub gateways: Vec<String>,
    /// Connects to gateways: by TCP, unless a simulation replaces it.
    pub connector: Connector,
    /// Sent as `authorization: Bearer …`: a node's token, which only opens sessions.
    pub token: Option<Secret>,
    /// The file of a join token, which the agent exchanges for an identity of its node. It need not exist once the
    /// state directory has one. Absent: the agent has another credential.
    pub join_token: Option<PathBuf>,
    /// The state directory, kept over restarts. One agent uses it at a time.
    pub state_dir: PathBuf,
    /// Replaces the machine's capacity. Dimensions that are 0 are taken from the machine.
    pub capacity: Option<v1::Resources>,
    /// The cards of the node. A kind of which `capacity` has whole devices, and which has no card here, gets that many
    /// cards with the ids 0, 1, ….
    pub cards: Vec<v1::Card>,
    /// The kernel's directory on processors and memory: `/sys/devices/system`, except in tests.
    pub sysfs: PathBuf,
    /// The kernel's directory on processes: `/proc`, except in tests.
    pub proc: PathBuf,
    /// The thresholds of shortages.
    pub pressure: PressureLimits,
    /// The speed of one of its cores, in thousandths of the reference core's.
    pub core_speed: u64,
    /// The directory of packages, installed as `NAME/VERSION`; absent: no packages.
    pub packages: Option<PathBuf>,
    /// The secrets that it may give to tasks, as `USER/…`; absent: none.
    pub secrets: Option<PathBuf>,
    /// TCP ports that the scheduler may assign here.
    pub ports: RangeInclusive<u16>,
    /// The address of its tasks: an IP address or host name.
    pub host: String,
    /// Failure domains and other attributes. They override what the agent finds.
    pub attributes: BTreeMap<String, String>,
    /// The users that tasks run as. A user other than the agent's own needs an agent that runs as root.
    pub task_users: TaskUsers,
    /// Where tasks that run as other users have their directories. All agents of the machine also record there which
    /// user each job owner has. Other users must be able to pass through.
    pub task_dir: PathBuf,
    /// The name of its cgroups below `borough/`; absent: the cell and a hash of the state directory.
    pub cgroup_name: Option<String>,
    /// Where every started process is recorded for a guard; tests set it.
    pub record_dir: Option<PathBuf>,
    pub intervals: Intervals,
    pub retention: Retention,
    /// The file with the machine's id.
    pub machine_id: PathBuf,
    /// Replaces the identity that the agent reads from its state directory and its machine. Only simulations set it.
    pub credential: Option<Credential>,
    pub clock: Arc<dyn Clock>,
    /// For the pauses between attempts to connect.
    pub rng: Arc<dyn Rng>,
}

/// How an agent proves its identity.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The key in its state directory.
    pub key: AgentKey,
    /// The machine's id; empty if it has none.
    pub machine: String,
}

impl fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Logs must not show the token.
        f.debug_struct("AgentConfig")
            .field("cell", &self.cell)
            .field("node", &self.node)
            .field("gateways", &self.gateways)
            .field("state_dir", &self.state_dir)
            .finish_non_exhaustive()
    }
}

impl AgentConfig {
    /// The default settings. Tasks have the address 127.0.0.1 and run as the agent's own user.
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
            join_token: None,
            state_dir: state_dir.into(),
            capacity: None,
            cards: Vec::new(),
            sysfs: PathBuf::from(crate::topology::SYSFS),
            proc: PathBuf::from("/proc"),
            pressure: PressureLimits::default(),
            core_speed: CORE_SPEED_REFERENCE,
            packages: None,
            secrets: None,
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

/// The intervals of periodic work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Interval of measuring what tasks use.
    pub sample: Duration,
    /// Interval of reading the record of every attempt, in case the kernel did not announce a change.
    pub look: Duration,
    /// First pause after a failed attempt to connect; doubled each time, with jitter.
    pub reconnect_first: Duration,
    /// Longest pause between attempts to connect.
    pub reconnect_max: Duration,
    /// Pause after a gateway has refused the agent's identity, token or settings: an operator must act first.
    pub refused: Duration,
    /// Longest pause after sessions that a gateway welcomed but that made no lasting progress.
    pub fruitless_max: Duration,
    /// The agent sends a report again if a gateway has not applied it after this time.
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
