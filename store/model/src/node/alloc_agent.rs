//! Whether the agent of a node holds allocs. An agent that does not know them would not keep the tasks of one together.

/// The attribute of a node with an agent that holds allocs: `yes`. Agents report it of themselves.
pub const AGENT_ALLOCS: &str = "agent.allocs";
