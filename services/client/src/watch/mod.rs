//! Watches that survive broken connections. No change is delivered twice or lost. If the gateway cannot resume from a
//! cursor, the consumer is notified.

mod cell;
mod endpoints;
mod follow;
mod resolve;
mod resumption;

pub use cell::CellItem;
pub use endpoints::EndpointItem;
pub use resolve::TaskAddress;
