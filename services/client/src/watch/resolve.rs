//! Addresses of a Borough name, for callers that balance over its tasks themselves.

use std::collections::{BTreeMap, BTreeSet};

use borough_proto::v1::Endpoint as NamedEndpoint;
use futures::{StreamExt as _, stream};
use tonic::transport::channel::Change;
use tonic::transport::{Channel, Endpoint};

use crate::call::{Client, ItemStream};
use crate::job::JobRef;
use crate::watch::EndpointItem;

/// Changes of addresses that a balanced channel takes before it has used them.
const CHANGES_MAX: usize = 1_024;

/// The address of one task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskAddress {
    pub index: u32,
    /// The attempt: another one is another process, even at the same address.
    pub incarnation: u64,
    /// An IP address or a host name.
    pub host: String,
    pub port: u16,
    /// Its share of the traffic relative to the others, 1 to 255.
    pub weight: u32,
}

impl TaskAddress {
    fn of(endpoint: &NamedEndpoint, port: &str) -> Option<Self> {
        let port = endpoint.ports.iter().find(|known| known.name == port)?;
        Some(Self {
            index: endpoint.index,
            incarnation: endpoint.incarnation,
            host: endpoint.host.clone(),
            port: u16::try_from(port.number).ok()?,
            weight: endpoint.weight,
        })
    }

    /// As `HOST:PORT`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Client {
    /// Yields every address of the port of a job, and again all of them after each change. While no gateway answers,
    /// the last ones hold.
    pub fn addresses(&self, job: &JobRef, port: impl Into<String>) -> ItemStream<Vec<TaskAddress>> {
        let items = self.watch_endpoints(job.user.clone(), job.name.clone(), None);
        let known: BTreeMap<u32, TaskAddress> = BTreeMap::new();
        let state = (items, known, port.into());
        stream::try_unfold(state, |(mut items, mut known, port)| async move {
            loop {
                let Some(item) = items.next().await.transpose()? else { return Ok(None) };
                if take(&mut known, item, &port) {
                    return Ok(Some((known.values().cloned().collect(), (items, known, port))));
                }
            }
        })
        .boxed()
    }

    /// A gRPC channel that balances over the tasks of a job, by their port of this name, and follows them. It ends when
    /// it is dropped. A call waits while the job has no endpoint.
    ///
    /// It must be called within a tokio runtime.
    pub fn balanced_channel(&self, job: &JobRef, port: impl Into<String>) -> Channel {
        let (channel, changes) = Channel::balance_channel(CHANGES_MAX);
        let mut sets = self.addresses(job, port);
        let name = job.clone();
        tokio::spawn(async move {
            let mut connected = BTreeSet::new();
            loop {
                let set = tokio::select! {
                    set = sets.next() => set,
                    () = changes.closed() => return,
                };
                let set = match set {
                    Some(Ok(set)) => set,
                    Some(Err(error)) => {
                        tracing::warn!(job = %name, %error, "the channel keeps the addresses that it has");
                        return;
                    }
                    None => return,
                };
                for change in steps(&mut connected, set) {
                    if changes.send(change).await.is_err() {
                        return;
                    }
                }
            }
        });
        channel
    }
}

/// Takes an item into the known addresses. Returns true if they are whole and may differ.
fn take(known: &mut BTreeMap<u32, TaskAddress>, item: EndpointItem, port: &str) -> bool {
    match item {
        EndpointItem::Snapshot { endpoints, .. } => {
            let of = |endpoint| TaskAddress::of(endpoint, port).map(|address| (address.index, address));
            *known = endpoints.iter().filter_map(of).collect();
        }
        EndpointItem::Published(endpoint) => match TaskAddress::of(&endpoint, port) {
            Some(address) if known.get(&address.index) == Some(&address) => return false,
            Some(address) => {
                known.insert(address.index, address);
            }
            None => return known.remove(&endpoint.index).is_some(),
        },
        EndpointItem::Withdrawn(gone) => {
            let is_known = known.get(&gone.index).is_some_and(|known| known.incarnation <= gone.incarnation);
            return is_known && known.remove(&gone.index).is_some();
        }
        // The addresses of before hold until a snapshot follows.
        EndpointItem::Bookmark(_) | EndpointItem::Absent(_) | EndpointItem::Resync(_) => return false,
    }
    true
}

/// What a channel has to change, so that it is connected to `set`.
fn steps(connected: &mut BTreeSet<TaskAddress>, set: Vec<TaskAddress>) -> Vec<Change<TaskAddress, Endpoint>> {
    let set: BTreeSet<TaskAddress> = set.into_iter().collect();
    let mut steps = Vec::new();
    for address in set.difference(connected) {
        if let Ok(endpoint) = Endpoint::from_shared(format!("http://{}", address.authority())) {
            steps.push(Change::Insert(address.clone(), endpoint));
        }
    }
    // Those that go come last, so that some are always there.
    steps.extend(connected.difference(&set).cloned().map(Change::Remove));
    *connected = set;
    steps
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::{Cursor, EndpointWithdrawn, Port};

    use super::*;

    fn endpoint(index: u32, incarnation: u64, number: u32) -> NamedEndpoint {
        let ports = vec![Port { name: "http".to_owned(), number }];
        NamedEndpoint {
            index,
            incarnation,
            host: "::1".to_owned(),
            ports,
            weight: 1,
            ..NamedEndpoint::default()
        }
    }

    fn published(known: &mut BTreeMap<u32, TaskAddress>, endpoint: NamedEndpoint) -> bool {
        take(known, EndpointItem::Published(Box::new(endpoint)), "http")
    }

    #[test]
    fn addresses_follow_the_watch_and_hold_while_it_has_nothing_to_say() {
        let mut known = BTreeMap::new();
        let endpoints = vec![endpoint(0, 1, 20_000), endpoint(1, 1, 20_001)];
        let snapshot = EndpointItem::Snapshot { endpoints, cursor: Cursor::default() };
        assert!(take(&mut known, snapshot, "http"));
        assert_eq!(known[&1].authority(), "[::1]:20001");
        assert!(!published(&mut known, endpoint(1, 1, 20_001)), "nothing has changed");
        assert!(published(&mut known, endpoint(1, 2, 20_001)), "another process");
        let late = EndpointWithdrawn { index: 1, incarnation: 1, ..EndpointWithdrawn::default() };
        let late = EndpointItem::Withdrawn(EndpointWithdrawn { incarnation: 2, ..late });
        assert!(!take(&mut known, EndpointItem::Resync(String::new()), "http"));
        assert_eq!(known.len(), 2);
        assert!(take(&mut known, late, "http"));
        assert_eq!(known.keys().copied().collect::<Vec<_>>(), [0]);
        let before = EndpointWithdrawn { index: 0, incarnation: 0, ..EndpointWithdrawn::default() };
        assert!(!take(&mut known, EndpointItem::Withdrawn(before), "http"), "of an attempt before");
    }

    #[test]
    fn a_channel_gets_new_addresses_before_it_loses_old_ones() {
        let address = |index| TaskAddress::of(&endpoint(index, 1, 20_000 + index), "http").unwrap();
        let mut connected = BTreeSet::new();
        assert_eq!(steps(&mut connected, vec![address(0), address(1)]).len(), 2);
        let next = steps(&mut connected, vec![address(1), address(2)]);
        assert!(matches!(&next[..], [Change::Insert(new, _), Change::Remove(old)]
            if new.index == 2 && old.index == 0));
        assert!(steps(&mut connected, vec![address(2), address(1)]).is_empty());
    }
}
