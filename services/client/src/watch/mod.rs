//! Watches that survive broken connections: what was delivered is never delivered again, what was not is not lost,
//! and where the gateway can no longer go on from a cursor the consumer is told so.

mod cell;
mod endpoints;
mod follow;
mod resumption;

pub use cell::CellItem;
pub use endpoints::EndpointItem;
