//! What the address of a gateway says by itself.

use std::net::IpAddr;

/// The ports on which other services of a cell listen unless an option says otherwise, and what each answers.
const OTHER_PORTS: [(u16, &str); 6] = [
    (7401, "HTTP of a gateway"),
    (7402, "HTTP of a scheduler"),
    (7403, "HTTP of a controller"),
    (7404, "HTTP of a name service"),
    (7405, "xDS of a name service"),
    (7453, "DNS of a name service"),
];

/// What listens on the port of an address by default, if that is no gateway.
pub(super) fn other_port(gateway: &str) -> Option<String> {
    let port: u16 = gateway.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()?;
    let (_, what) = OTHER_PORTS.into_iter().find(|(known, _)| *known == port)?;
    Some(format!("by default, port {port} is for {what}, and 7400 for a gateway"))
}

/// Returns true if the host of an address is this machine.
pub(super) fn is_loopback(gateway: &str) -> bool {
    let place = gateway.split_once("://").map_or(gateway, |(_, place)| place);
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_on_a_port_by_default_is_named() {
        let of = |gateway: &str| other_port(gateway).unwrap_or_default();
        assert_eq!(
            of("127.0.0.1:7453"),
            "by default, port 7453 is for DNS of a name service, and 7400 for a gateway"
        );
        assert!(of("http://gate-1:7404/").contains("7404 is for HTTP of a name service"));
        assert!(of("[::1]:7405").contains("7405 is for xDS of a name service"));
        for other in ["127.0.0.1:7400", "gate-1", "gate-1:http", ""] {
            assert_eq!(of(other), "", "{other}");
        }
    }
}
