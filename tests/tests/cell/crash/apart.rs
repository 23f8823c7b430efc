//! A cell of which a test kills the roles: `dev`, or processes of their own.

use std::fs;

use borough_client::Client;
use borough_proto::v1::{Node, NodeState};
use borough_tests::{DEADLINE, Ran, TestCell, is_fdb, options, store_violations, until};
use rustix::process::Signal;

use crate::role::Roles;

/// With every so many kills of `dev`, its agents are killed too: they wait longer and longer for a gateway that ends
/// again and again. New ones do not, and adopt.
const AGENT_KILLS: usize = 4;
/// What each node offers.
const CPU: &str = "--cpu=1";

/// The cell, with what is killed in it.
pub(crate) enum KilledCell {
    /// The control roles are one process.
    Together { cell: Box<TestCell>, kills: usize },
    /// Two gateways, a scheduler, a controller and two agents.
    Apart { roles: Box<Roles>, client: Client, gateways: String, kills: usize },
}

impl KilledCell {
    pub(crate) async fn start() -> Self {
        if !is_fdb() {
            let options = options!().nodes(2).agent_arguments(&[CPU]);
            return Self::Together { cell: Box::new(TestCell::start(options).await), kills: 0 };
        }
        let mut roles = Box::new(Roles::new());
        let [grpc_a, http_a, grpc_b, http_b, scheduler, controller] =
            std::array::from_fn(|offset| roles.address(u16::try_from(offset).unwrap()));
        roles.control("gateway-a", &["--listen", &grpc_a, "--http-listen", &http_a]);
        roles.control("gateway-b", &["--listen", &grpc_b, "--http-listen", &http_b]);
        roles.control("scheduler-1", &["--lease-ms", "1500", "--http-listen", &scheduler]);
        roles.control("controller-1", &["--http-listen", &controller]);
        let (near, far) = (roles.task_ports(20), roles.task_ports(40));
        roles.agent("node-1", &format!("{grpc_a},{grpc_b}"), &near);
        roles.agent("node-2", &format!("{grpc_b},{grpc_a}"), &far);
        let client = roles.client(&[&grpc_a, &grpc_b]);
        let cell = Self::Apart { roles, client, gateways: format!("{grpc_a},{grpc_b}"), kills: 0 };
        cell.nodes_ready().await;
        cell
    }

    /// The roles that a test kills.
    pub(crate) fn roles(&self) -> &'static [&'static str] {
        match self {
            Self::Together { .. } => &["dev"],
            Self::Apart { .. } => &["gateway", "scheduler", "controller", "agent"],
        }
    }

    /// Sends SIGKILL to a role, and starts it again. Of two processes each has its turn.
    pub(crate) async fn kill(&mut self, role: &str) {
        match self {
            Self::Together { cell, kills } => {
                *kills += 1;
                cell.control_kill();
                if kills.is_multiple_of(AGENT_KILLS) {
                    for agent in ["alpha-1", "alpha-2"].iter().filter_map(|node| cell.agent(node)) {
                        agent.signal(Signal::KILL).unwrap();
                    }
                }
                cell.control_start().await;
            }
            Self::Apart { roles, kills, .. } => {
                *kills += 1;
                let is_odd = *kills % 2 == 1;
                roles.restart(match role {
                    "gateway" if is_odd => "gateway-a",
                    "gateway" => "gateway-b",
                    "agent" if is_odd => "node-1",
                    "agent" => "node-2",
                    "scheduler" => "scheduler-1",
                    _ => "controller-1",
                });
            }
        }
    }

    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Together { cell, .. } => cell.client(),
            Self::Apart { client, .. } => client,
        }
    }

    /// Writes a job file, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        match self {
            Self::Together { cell, .. } => cell.file(name, text),
            Self::Apart { roles, .. } => {
                let path = roles.directory().join(name);
                fs::write(&path, text).unwrap();
                path.display().to_string()
            }
        }
    }

    /// Runs a verb to its end.
    pub(crate) async fn borough(&self, arguments: &[&str]) -> Ran {
        let (roles, gateways) = match self {
            Self::Together { cell, .. } => return cell.borough(arguments).await,
            Self::Apart { roles, gateways, .. } => (roles, gateways),
        };
        let mut command = roles.command(gateways);
        command.args(arguments);
        let line = arguments.join(" ");
        let ran = tokio::time::timeout(DEADLINE * 2, command.output()).await;
        let output = ran.unwrap_or_else(|_| panic!("borough {line} does not end"));
        Ran::new(line, &output.unwrap())
    }

    pub(crate) async fn nodes_ready(&self) {
        until("two ready nodes", || async {
            let nodes = self.client().node_list().await.ok()?;
            // Of several gateways each has the sessions of some agents.
            let is_ready = |node: &&Node| {
                node.state() == NodeState::Ready && (node.connected || matches!(self, Self::Apart { .. }))
            };
            let ready = nodes.iter().filter(is_ready);
            (ready.count() == 2).then_some(())
        })
        .await;
    }

    /// Ends the control roles, and checks the store.
    pub(crate) async fn finish(self) {
        match self {
            Self::Together { cell, .. } => cell.finish().await,
            Self::Apart { mut roles, .. } => {
                for role in ["gateway-a", "gateway-b", "scheduler-1", "controller-1"] {
                    roles.kill(role);
                }
                let violations = store_violations(roles.store(), &["alpha".to_owned()]).await;
                assert!(violations.is_empty(), "the store is broken:\n  {}", violations.join("\n  "));
            }
        }
    }
}
