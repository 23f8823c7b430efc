//! Addresses to listen on.

use std::io;
use std::net::SocketAddr;

use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;

/// An address that nobody can listen on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {protocol}")]
pub struct BindError {
    pub address: SocketAddr,
    pub protocol: &'static str,
    #[source]
    pub source: io::Error,
}

/// The share of its descriptors that a process gives the connections of one view. Other roles may be in it.
const SHARE: u64 = 16;
/// Connections that a view takes however few descriptors there are.
const CONNECTIONS_MIN: usize = 32;

/// How many connections a view takes at a time: at most `most`, and no more than its share of the descriptors.
pub(crate) fn connections_max(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let share = usize::try_from(limit / SHARE).unwrap_or(usize::MAX);
    share.clamp(CONNECTIONS_MIN, most.max(CONNECTIONS_MIN))
}

/// A listener, and its address.
pub(crate) async fn tcp_bind(
    address: SocketAddr,
    protocol: &'static str,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |source| BindError { address, protocol, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
