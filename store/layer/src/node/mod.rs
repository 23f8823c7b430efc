//! Nodes: registration, cordon and drain, liveness, loss and return.
//!
//! Any change of a node's row also bumps [`NodeAlloc::epoch`](borough_model::NodeAlloc), the token on which every
//! placement on the node guards: a placement decided before a cordon cannot commit after it. Liveness is a key of its
//! own that placements never read.

mod decide;
mod live;
mod step;

pub use decide::{NodeRegistration, Registered};
pub use live::{DeclaredLost, node_declare_lost, node_live_list, node_live_renew};
pub use step::{
    node_alloc_write, node_by_name, node_change, node_cordon, node_drain, node_labels_set, node_list,
    node_read, node_recovered, node_register, node_remove, node_uncordon,
};
