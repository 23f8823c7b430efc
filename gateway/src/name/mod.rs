//! Endpoints, for load balancers: listed, and watched without gaps over gRPC and as server-sent events.

mod service;
mod stream;

pub use service::{NameServer, filter_of};
pub use stream::{
    EndpointEvent, EndpointFilter, ShownEndpoint, StampedEvent, endpoint_changes, endpoints_now,
};
