//! The open connections, as data: decides what a new connection gets, and which one is evicted for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use super::ConnectionLimits;

/// The number of a connection; later ones are larger.
pub(super) type ConnectionId = u64;

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// No valid token yet.
    Unauthenticated,
    /// Evicted, and open until it is closed.
    Evicted,
    /// It has presented a valid token.
    Caller,
    /// As `Caller`, and an agent's session runs over it.
    Agent,
}

struct ConnectionEntry<T> {
    peer: IpAddr,
    kind: ConnectionKind,
    handle: T,
}

/// The result of a new connection.
pub(super) struct Admission<T> {
    /// The number of the connection; `None` if it is refused.
    pub(super) admitted: Option<ConnectionId>,
    /// The connection that is evicted.
    pub(super) gone: Option<T>,
}

/// The open connections. `T` is the handle by which one is evicted.
pub(super) struct ConnectionTable<T> {
    limits: ConnectionLimits,
    entries: BTreeMap<ConnectionId, ConnectionEntry<T>>,
    /// Connections without a token, by peer, the oldest first.
    unauthenticated: BTreeMap<IpAddr, BTreeSet<ConnectionId>>,
    unauthenticated_count: usize,
    callers: usize,
    next: ConnectionId,
}

/// The address that a connection counts for. The holder of an IPv6 network has all of its addresses, so a /64 counts as
/// one.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl<T: Clone> ConnectionTable<T> {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        let (entries, unauthenticated) = (BTreeMap::new(), BTreeMap::new());
        Self { limits, entries, unauthenticated, unauthenticated_count: 0, callers: 0, next: 0 }
    }

    /// Counts the open connections.
    pub(super) fn open(&self) -> usize {
        self.entries.len()
    }

    /// Counts those without a token.
    pub(super) fn unauthenticated(&self) -> usize {
        self.unauthenticated_count
    }

    /// Admits or refuses a new connection from `address`.
    pub(super) fn admit(&mut self, address: IpAddr, handle: T) -> Admission<T> {
        let peer = peer_of(address);
        if self.entries.len() >= self.limits.total {
            // The evicted connection frees its place for a later one.
            return Admission { admitted: None, gone: self.shed() };
        }
        let of_peer = self.unauthenticated.get(&peer).map_or(0, BTreeSet::len);
        let gone = if of_peer >= self.limits.unauthenticated_per_peer {
            self.evict(peer)
        } else if self.unauthenticated_count >= self.limits.unauthenticated {
            self.shed()
        } else {
            None
        };
        let id = self.next;
        self.next = self.next.saturating_add(1);
        self.entries.insert(id, ConnectionEntry { peer, kind: ConnectionKind::Unauthenticated, handle });
        self.unauthenticated.entry(peer).or_default().insert(id);
        self.unauthenticated_count = self.unauthenticated_count.saturating_add(1);
        Admission { admitted: Some(id), gone }
    }

    /// Evicts the oldest unauthenticated connection of the peer that has most of them.
    pub(super) fn shed(&mut self) -> Option<T> {
        let (peer, _) = self.unauthenticated.iter().max_by_key(|(_, ids)| ids.len())?;
        self.evict(*peer)
    }

    fn evict(&mut self, peer: IpAddr) -> Option<T> {
        let id = self.unauthenticated.get(&peer)?.first().copied()?;
        self.unauthenticated_remove(peer, id);
        let entry = self.entries.get_mut(&id)?;
        entry.kind = ConnectionKind::Evicted;
        Some(entry.handle.clone())
    }

    fn unauthenticated_remove(&mut self, peer: IpAddr, id: ConnectionId) {
        let Some(ids) = self.unauthenticated.get_mut(&peer) else { return };
        if ids.remove(&id) {
            self.unauthenticated_count = self.unauthenticated_count.saturating_sub(1);
        }
        if ids.is_empty() {
            self.unauthenticated.remove(&peer);
        }
    }

    /// Records that a connection has presented a valid token. Returns false if no capacity is left for that kind.
    pub(super) fn authenticate(&mut self, id: ConnectionId, kind: ConnectionKind) -> bool {
        let Some(ConnectionEntry { peer, kind: known, .. }) = self.entries.get(&id) else { return true };
        let (peer, known) = (*peer, *known);
        if known == kind || known == ConnectionKind::Agent {
            return true;
        }
        let for_callers = self.limits.total.saturating_sub(self.limits.for_agents);
        if kind == ConnectionKind::Caller && self.callers >= for_callers {
            return false;
        }
        self.unauthenticated_remove(peer, id);
        self.callers_count(known, kind);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.kind = kind;
        }
        true
    }

    fn callers_count(&mut self, before: ConnectionKind, after: ConnectionKind) {
        self.callers = self.callers.saturating_add(usize::from(after == ConnectionKind::Caller));
        self.callers = self.callers.saturating_sub(usize::from(before == ConnectionKind::Caller));
    }

    /// Removes a closed connection.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(ConnectionEntry { peer, kind, .. }) = self.entries.remove(&id) else { return };
        self.unauthenticated_remove(peer, id);
        self.callers_count(kind, ConnectionKind::Evicted);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn limits() -> ConnectionLimits {
        ConnectionLimits {
            total: 12,
            for_agents: 4,
            unauthenticated: 6,
            unauthenticated_per_peer: 3,
            unauthenticated_for: Duration::from_secs(1),
            ..ConnectionLimits::of_total(12)
        }
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_oldest_of_a_peer_goes_for_a_newcomer_of_it() {
        let mut table = ConnectionTable::new(limits());
        for number in 0..3 {
            assert!(table.admit(peer(1), number).gone.is_none());
        }
        assert!(table.admit(peer(2), 9).gone.is_none(), "another peer is in nobody's way");
        assert_eq!(table.admit(peer(1), 3).gone, Some(0));
        assert_eq!(table.admit(peer(1), 4).gone, Some(1));
    }

    #[test]
    fn connections_with_a_token_count_for_no_peer() {
        let mut table = ConnectionTable::new(limits());
        for number in 0..8 {
            let id = table.admit(peer(1), number).admitted.unwrap();
            assert!(table.authenticate(id, ConnectionKind::Agent));
        }
        assert_eq!((table.open(), table.unauthenticated()), (8, 0));
        assert!(table.admit(peer(1), 9).gone.is_none());
    }

    #[test]
    fn agents_have_capacity_that_callers_do_not_get() {
        let mut table = ConnectionTable::new(limits());
        let admit = |table: &mut ConnectionTable<u8>, kind| {
            let id = table.admit(peer(1), 0).admitted?;
            let admitted = table.authenticate(id, kind);
            if !admitted {
                table.close(id);
            }
            admitted.then_some(id)
        };
        let callers: Vec<_> = std::iter::from_fn(|| admit(&mut table, ConnectionKind::Caller)).collect();
        assert_eq!(callers.len(), 8);
        let agents: Vec<_> = std::iter::from_fn(|| admit(&mut table, ConnectionKind::Agent)).collect();
        assert_eq!(agents.len(), 4);
        table.close(callers[0]);
        assert!(admit(&mut table, ConnectionKind::Caller).is_some(), "room comes back");
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let one: IpAddr = "2001:db8:1:2::1".parse().unwrap();
        let other: IpAddr = "2001:db8:1:2:ffff::9".parse().unwrap();
        let far: IpAddr = "2001:db8:1:3::1".parse().unwrap();
        assert_eq!(peer_of(one), peer_of(other));
        assert_ne!(peer_of(one), peer_of(far));
        assert_eq!(peer_of("::ffff:10.0.0.1".parse().unwrap()), peer(1));
    }

    proptest! {
        /// No sequence of connections exceeds a bound, and nothing is left after all are closed.
        #[test]
        fn no_bound_is_ever_exceeded(steps in prop::collection::vec((0..4u8, 0..4u8, any::<prop::sample::Index>()), 0..200)) {
            let (mut table, limits) = (ConnectionTable::new(limits()), limits());
            let mut open = Vec::new();
            for (step, from, which) in steps {
                match step {
                    0 | 1 => open.extend(table.admit(peer(from), ()).admitted),
                    2 if !open.is_empty() => {
                        let kind = if from == 0 { ConnectionKind::Agent } else { ConnectionKind::Caller };
                        table.authenticate(open[which.index(open.len())], kind);
                    }
                    3 if !open.is_empty() => table.close(open.swap_remove(which.index(open.len()))),
                    _ => {}
                }
                prop_assert_eq!(table.open(), open.len());
                prop_assert!(table.open() <= limits.total);
                prop_assert!(table.unauthenticated() <= limits.unauthenticated);
                prop_assert!(table.unauthenticated.values().all(|ids| ids.len() <= limits.unauthenticated_per_peer));
                prop_assert!(table.callers <= limits.total - limits.for_agents);
                let kinds = table.entries.values().filter(|entry| entry.kind == ConnectionKind::Unauthenticated);
                prop_assert_eq!(table.unauthenticated(), kinds.count());
            }
            open.into_iter().for_each(|id| table.close(id));
            prop_assert_eq!((table.open(), table.unauthenticated(), table.callers), (0, 0, 0));
        }
    }
}
