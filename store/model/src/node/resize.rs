//! Whether the agent of a node resizes running attempts. An agent that does not know the order would never answer it.

use super::NodeRow;

/// The attribute of a node with an agent that resizes running attempts: `yes`. Agents report it of themselves.
pub const AGENT_RESIZE: &str = "agent.resize";

/// Returns true if running attempts of the node can be resized.
pub fn node_resizes(node: &NodeRow) -> bool {
    node.attributes.get(AGENT_RESIZE).is_some_and(|value| value == "yes")
}
