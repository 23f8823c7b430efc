//! Endpoints, for load balancers: listed, and watched without gaps over gRPC and as server-sent events.

mod service;
mod stream;

pub use service::{NameRoom, filter_of};
pub use stream::{EndpointChange, EndpointFilter, Told, endpoint_changes, endpoints_now};
