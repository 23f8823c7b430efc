//! Which nodes share the ports of one address.

use std::net::IpAddr;

use super::NodeRow;

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
