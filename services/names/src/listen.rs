//! Addresses to listen on.

use std::io;
use std::net::SocketAddr;

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
