//! Nodes: registration, cordon and drain, liveness, loss and return.
//!
//! `borough_model::node` decides what an event does to a row. This module reads the row, writes it, and records the
//! change. Any change of a node's row also raises [`NodeAlloc::epoch`](borough_model::NodeAlloc), the token on which
//! every placement on the node guards: a placement decided before a cordon cannot commit after it. Liveness is a
//! separate key that placements never read.
//!
//! Everything that a gateway writes for a node passes the fence of its session ([`NodeWriter`]).

mod fence;
mod gateway;
mod live;
mod load;
mod register;
mod step;
#[cfg(test)]
mod tests;

pub use fence::{NodeWriter, SessionFence, node_writer, node_writers};
pub use gateway::{GatewayRenewed, gateway_live_claim, gateway_live_remove, gateway_live_renew};
pub use live::{
    DeclaredLost, LiveChanges, LiveCursor, live_changes_read, live_cursor_now, node_declare_lost,
    node_live_list, node_live_page, node_live_read, node_live_renew, node_live_withdraw,
    nodes_held_elsewhere,
};
pub use load::{LoadsStep, node_loads_read, node_loads_set};
#[cfg(test)]
pub(crate) use load::{loads_begin, loads_begun, loads_end, loads_journal};
pub use register::{NodeRegistration, Registered, node_agent_admit, node_register};
pub use step::{
    node_alloc_read, node_alloc_write, node_by_name, node_cordon, node_drain, node_event, node_labels_set,
    node_list, node_packages_set, node_pressure_set, node_read, node_removable, node_remove, node_reported,
    node_silence_begin, node_silence_end, node_taints_set, node_tasks, node_uncordon,
};
