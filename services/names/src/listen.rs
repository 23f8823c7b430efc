//! Addresses to listen on.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
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

/// The places of the connections of a view. One peer gets at most half of them, so that it cannot keep all others out.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlaces(Arc<PlacesShared>);

#[derive(Debug)]
struct PlacesShared {
    most: usize,
    taken: Mutex<PlacesTaken>,
}

#[derive(Debug, Default)]
struct PlacesTaken {
    all: usize,
    by_peer: BTreeMap<IpAddr, usize>,
}

impl ConnectionPlaces {
    /// So many places.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(PlacesShared { most, taken: Mutex::default() }))
    }

    /// Takes a place for a connection of `peer`; `None` if none is free for it.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<ConnectionPlace> {
        let peer = peer_of(peer);
        let mut taken = self.0.taken.lock();
        let of_peer = taken.by_peer.get(&peer).copied().unwrap_or_default();
        if taken.all >= self.0.most || of_peer >= self.0.most.div_ceil(2) {
            return None;
        }
        taken.all += 1;
        taken.by_peer.insert(peer, of_peer + 1);
        Some(ConnectionPlace { places: Arc::clone(&self.0), peer })
    }
}

/// One place. Dropping it makes it free.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: Arc<PlacesShared>,
    peer: IpAddr,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        let Some(of_peer) = taken.by_peer.get_mut(&self.peer) else { return };
        *of_peer = of_peer.saturating_sub(1);
        if *of_peer == 0 {
            taken.by_peer.remove(&self.peer);
        }
    }
}

/// Who a client counts as: its address, or its /64 of IPv6, since whoever has one address there has them all.
fn peer_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_gets_half_of_the_places_and_each_place_is_free_again() {
        let places = ConnectionPlaces::new(4);
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (one, sibling, other) = (address("2001:db8::1"), address("2001:db8::2"), address("192.0.2.1"));
        let first = places.take(one).unwrap();
        let second = places.take(sibling).unwrap();
        assert!(places.take(one).is_none(), "the network of a peer counts as the peer");
        let third = places.take(other).unwrap();
        assert!(places.take(address("::ffff:192.0.2.1")).is_some(), "it is free again at once");
        let fourth = places.take(other).unwrap();
        assert!(places.take(address("192.0.2.2")).is_none(), "all are taken");
        drop((first, second, third, fourth));
        let taken = places.0.taken.lock();
        assert_eq!((taken.all, taken.by_peer.len()), (0, 0));
    }
}
