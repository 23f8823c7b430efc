//! The mirror against the store: whatever happens while it lists, it ends up with the store's state.

mod faults;
mod following;
mod listing;
mod workload;
