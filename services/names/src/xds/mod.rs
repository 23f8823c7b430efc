//! xDS: listeners, routes, clusters and endpoints for gRPC clients and for Envoy, over one aggregated stream.
//!
//! A resource is called like its service: `JOB.USER.CELL` for the first port, `PORT.JOB.USER.CELL` for a port by name.
//! That is the target of a gRPC client, as in `xds:///web.ann.alpha`. `svc/` in front of either names a merged service:
//! its route divides the traffic over the clusters of its jobs. Each stream is a pure state machine
//! ([`stream::AdsStream`]).

mod budget;
mod connection;
mod name;
mod refusal;
mod resource;
mod server;
mod stream;
mod subscription;

pub use name::{XdsKind, XdsName, XdsOwner};
pub use resource::{XdsResource, xds_resource};
pub use server::{XdsListener, xds_serve};
pub use stream::{
    AdsMode, AdsRefusal, AdsRequest, AdsResponse, AdsStream, FollowChange, NAMES_MAX, RefusedResponse,
    TooManyNames,
};
pub use subscription::GivenResource;

#[cfg(test)]
mod merged_tests;
#[cfg(test)]
mod tests;
