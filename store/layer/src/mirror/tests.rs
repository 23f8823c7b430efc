//! The mirror against the store: whatever happens during a listing, it ends with the store's state.

mod faults;
mod following;
mod listing;
mod workload;
