//! The name service: follows the endpoints of the cells of one store once, keeps one table of them, and serves it by
//! DNS, a Consul-compatible catalogue, Prometheus `http_sd` and xDS.
//!
//! Each view is a pure function of the table ([`table::NamesTable`]). When the store is away, the views answer from the
//! last known table, and say since when. Before the first complete table they answer nothing.

mod directory;
pub mod dns;
mod follow;
pub mod http;
pub mod hub;
mod listen;
mod metrics;
mod serve;
mod service;
pub mod table;
pub mod xds;

pub use directory::NamesCells;
pub use follow::FollowedCell;
pub use listen::BindError;
pub use serve::{NamesAddresses, NamesConfig, NamesListeners, NamesServer};
pub use service::{NamesShared, TableAge};
