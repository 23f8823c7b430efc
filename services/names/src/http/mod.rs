//! HTTP: a read-only catalogue that Consul's clients understand, targets for Prometheus, health and metrics.
//!
//! Each body is a pure function of the table. A blocking query wakes for its own service only.

mod block;
mod consul;
mod prometheus;
mod query;
mod server;
mod state;

pub use consul::{ServiceFilter, ServiceQuery, service_name};
pub use server::{HttpListener, http_serve};

#[cfg(test)]
mod tests;
