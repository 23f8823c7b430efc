//! The services of a cell: gRPC for operators, programs and node agents, and server-sent events over HTTP for load
//! balancers. A gateway is stateless: it reads all that it knows from the store and can read it again.
//!
//! Begin at [`Gateway`] (the process) and [`cell::CellContext`] (one cell: its database, mirror and sessions). Then
//! each service has a folder: [`session`] for agents, [`name`] for endpoints, [`watch`] for changes, [`job`], [`node`],
//! [`task`].

pub mod access;
pub mod audit;
pub mod auth;
mod call;
pub mod cell;
mod connection;
mod dry_run;
pub mod fault;
pub mod federated;
pub mod health;
pub mod http;
pub mod job;
mod join;
pub mod member;
pub mod merged;
pub mod name;
pub mod node;
mod overload;
pub mod page;
pub mod peer;
pub mod quota;
mod select;
pub mod serve;
pub mod session;
pub mod status;
pub mod task;
pub mod watch;
mod web;
mod workload;

pub use connection::{CallLimits, ConnectionLimits, SEATS_MIN};
pub use serve::{Gateway, GatewayConfig, GatewayListeners, GatewayTls, ListenError, NetworkSettings};
pub use web::{WebOrigin, WebOriginError};
pub use workload::{IdentityUrl, IdentityUrlError};
