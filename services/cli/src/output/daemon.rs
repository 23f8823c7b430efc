//! The nodes of a daemon job, for people and programs.

use borough_proto::v1;
use serde::Serialize;

use super::text::tally;

/// How a daemon job serves the nodes of its cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct DaemonNodesView {
    /// Whether the controller has looked at the nodes.
    pub(crate) looked: bool,
    /// Nodes that match and have no task, since the quota has no room for it.
    pub(crate) unadmitted: u32,
    /// Nodes that match and are about to get a task.
    pub(crate) left: u32,
    /// What of this its tasks do not show, for people.
    #[serde(skip)]
    pub(crate) text: Option<String>,
}

impl From<v1::DaemonStatus> for DaemonNodesView {
    fn from(daemon: v1::DaemonStatus) -> Self {
        let text = nodes_text(&daemon);
        Self { looked: daemon.looked, unadmitted: daemon.unadmitted, left: daemon.left, text }
    }
}

/// What of the nodes of a daemon job its tasks do not show. `None`: nothing.
pub(crate) fn nodes_text(daemon: &v1::DaemonStatus) -> Option<String> {
    let nodes = |nodes: u32| tally(usize::try_from(nodes).unwrap_or(usize::MAX), "node");
    if !daemon.looked {
        return Some("the controller has not looked at the nodes yet".to_owned());
    }
    if daemon.unadmitted > 0 {
        return Some(format!("the quota has no room for {}", nodes(daemon.unadmitted)));
    }
    (daemon.left > 0).then(|| format!("{} to come", nodes(daemon.left)))
}
