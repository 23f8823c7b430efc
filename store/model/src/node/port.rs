//! Assigns a task's ports on a node: fixed ones as they are, the others from the node's range.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{NodeAlloc, NodeRow};
use crate::job::PortSpec;
use crate::task::PortAssignment;

/// The port space of a node: nodes of one space cannot assign the same port twice. It is the node's address, in one
/// spelling. A loopback address means its machine's, and so counts within one boot only. `None` if the node shares no
/// space: it has no address, or a loopback address of an unknown boot.
pub fn port_space(row: &NodeRow) -> Option<String> {
    let host = row.host.trim().trim_matches(['[', ']']).to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let loopback = address.map_or(host == "localhost", |address| address.is_loopback());
    match (address, loopback) {
        (_, true) => (!row.boot_id.is_empty()).then(|| format!("loopback@{}", row.boot_id)),
        (Some(address), false) => Some(address.to_string()),
        (None, false) => (!host.is_empty()).then(|| host.trim_end_matches('.').to_owned()),
    }
}

/// Why a node has no ports for a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortsShort {
    /// Another task has the fixed port, or it cools down.
    #[error("port {port} is taken")]
    FixedTaken { port: u16 },
    /// The range has no free port left.
    #[error("{wanted} ports wanted, {free} free from {first} to {last}")]
    RangeFull {
        /// The number of ports to assign.
        wanted: usize,
        /// Free ports of the range.
        free: usize,
        /// First port of the range.
        first: u16,
        /// Last port of the range.
        last: u16,
    },
}

/// A number for every port of `wanted`, in its order. `seed` selects where in the range the search begins, so that
/// concurrent workers rarely choose the same numbers. The same arguments give the same answer.
pub fn ports_pick(
    row: &NodeRow,
    alloc: &NodeAlloc,
    wanted: &[PortSpec],
    seed: u64,
    now_ms: i64,
) -> Result<Vec<PortAssignment>, PortsShort> {
    let cooling = |port: &u16| alloc.ports_cooling.get(port).is_some_and(|&until_ms| until_ms > now_ms);
    let taken = |port: &u16| alloc.ports.contains(port) || cooling(port);
    let fixed: BTreeSet<u16> = wanted.iter().filter_map(|port| port.number).collect();
    if let Some(&port) = fixed.iter().find(|port| taken(port)) {
        return Err(PortsShort::FixedTaken { port });
    }
    let open = wanted.iter().filter(|port| port.number.is_none()).count();
    let free = |port: &u16| !taken(port) && !fixed.contains(port);
    let picked: Vec<u16> = range_from(row.port_first, row.port_last, seed).filter(free).take(open).collect();
    if picked.len() < open {
        let (first, last) = (row.port_first, row.port_last);
        return Err(PortsShort::RangeFull { wanted: open, free: picked.len(), first, last });
    }
    let mut picked = picked.into_iter();
    let numbers = wanted.iter().filter_map(|port| Some((port, port.number.or_else(|| picked.next())?)));
    Ok(numbers.map(|(port, number)| PortAssignment { name: port.name.clone(), number }).collect())
}

/// The whole range once, beginning at the place that the seed selects.
fn range_from(first: u16, last: u16, seed: u64) -> impl Iterator<Item = u16> {
    let size = u64::from(last.saturating_sub(first)) + u64::from(first <= last);
    let begin = if size == 0 { 0 } else { seed % size };
    let at = move |step: u64| {
        let offset = (begin + step) % size.max(1);
        u16::try_from(offset).ok().and_then(|offset| first.checked_add(offset))
    };
    (0..size).filter_map(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;
    use crate::id::NodeId;
    use crate::node::{NodeFacts, node_new};
    use crate::resource::Resources;

    fn space(host: &str, boot: &str) -> Option<String> {
        let facts = NodeFacts {
            capacity: Resources::default(),
            port_first: 20_000,
            port_last: 20_009,
            attributes: Default::default(),
            host: host.to_owned(),
            boot_id: boot.to_owned(),
            agent_version: String::new(),
            cards: Vec::new(),
            domains: Vec::new(),
        };
        port_space(&node_new(NodeId(1), Name::new("n1").unwrap(), facts, 0))
    }

    #[test]
    fn nodes_share_the_ports_of_an_address_however_it_is_written() {
        assert_eq!(space("10.0.0.1", "a"), Some("10.0.0.1".to_owned()));
        assert_eq!(space("::ffff:10.0.0.1", "b"), space("10.0.0.1", "a"));
        assert_eq!(space("[2001:DB8::0:1]", ""), Some("2001:db8::1".to_owned()));
        assert_eq!(space("Node7.Example.COM.", ""), space("node7.example.com", ""));
        // A loopback address belongs to its machine.
        assert_eq!(space("127.0.0.1", "a"), space("localhost", "a"));
        assert_eq!(space("::1", "a"), space("127.0.0.2", "a"));
        assert_ne!(space("127.0.0.1", "a"), space("127.0.0.1", "b"));
        for (host, boot) in [("127.0.0.1", ""), ("", "a")] {
            assert_eq!(space(host, boot), None, "{host:?}");
        }
    }
}
