//! The work of a federation. One process leads it, by a lease in the cell that is its home. It looks at each member
//! cell by the gateways of that cell, as any other client, and records in the home what it saw.
//!
//! No member reads what is recorded here: a cell goes on as it is when the federation is gone.

mod config;
mod divide;
mod lead;
mod look;

pub use config::{FederationConfig, FederationMetrics, MemberClients};
pub use lead::Federation;
