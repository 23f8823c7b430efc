//! Checks agents' and operators' data about a node: bounded, so that a node's row stays small.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::topology::{DOMAIN_CPUS_MAX, device_kind_check};
use super::{CARD_MILLIS, CARDS_MAX, CORE_SPEED, CORE_SPEEDS, Card, DOMAINS_MAX, NodeFacts, NumaDomain};
use crate::field_error::{FieldError, FieldErrors};

/// Most attributes of a node, and most kinds of its devices.
pub const NODE_ENTRIES_MAX: usize = 128;
/// Most bytes of an attribute's value.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 4096;
/// Most bytes of all attributes together: the row of the node fits one value of the store.
const ATTRIBUTES_BYTES_MAX: usize = 40_000;
/// The lowest port that a node may assign: lower ones need privileges.
const PORT_MIN: u16 = 1024;

/// What the host of a node may be, in words.
pub const HOST_ACCEPTED: &str = "an IP address that others reach, such as 10.0.0.5 or fd00::5, or a host name of at \
                                 most 253 characters";
/// Most bytes of a host name, and of one label in it (RFC 1123).
const HOST_BYTES_MAX: usize = 253;
const HOST_LABEL_BYTES_MAX: usize = 63;

/// Returns true if `text` may be the host of a node's endpoints. It is an IP address of one machine, without brackets
/// or a zone. Or it is a host name, and its last label has a letter, as RFC 3696 asks.
pub fn is_host(text: &str) -> bool {
    if let Ok(address) = text.parse::<IpAddr>() {
        return is_reachable(address);
    }
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |label: &str| {
        (1..=HOST_LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_named = last.bytes().any(|byte| byte.is_ascii_alphabetic());
    text.len() <= HOST_BYTES_MAX && is_named && text.split('.').all(is_label)
}

/// Returns true if an address is that of one machine, wherever the client is. One that is local to a link means nothing
/// without the link, and an IPv4 address within IPv6 has a form of its own.
fn is_reachable(address: IpAddr) -> bool {
    let is_of_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
    };
    !(address.is_unspecified() || address.is_multicast() || is_of_link)
}

/// Checks the facts of a registration.
pub fn node_facts_check(facts: &NodeFacts) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let (first, last) = (facts.port_first, facts.port_last);
    let accepted = "1024 to 65535, the first not above the last";
    fields.require(first >= PORT_MIN && first <= last, "ports", format!("{first} to {last}"), accepted);
    fields.require(is_host(&facts.host), "host", format!("{:?}", facts.host), HOST_ACCEPTED);
    for (path, text) in [("boot_id", &facts.boot_id), ("agent_version", &facts.agent_version)] {
        fields.line(path, text);
    }
    let count = facts.attributes.len();
    fields.require(count <= NODE_ENTRIES_MAX, "attributes", format!("{count} entries"), "at most 128");
    let bytes: usize = facts.attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    let accepted = format!("at most {ATTRIBUTES_BYTES_MAX} bytes together");
    fields.require(bytes <= ATTRIBUTES_BYTES_MAX, "attributes", format!("{bytes} bytes"), accepted);
    for (key, value) in &facts.attributes {
        let path = format!("attributes[{key:?}]");
        fields.key(&path, key);
        fields.line_within(&path, value, ATTRIBUTE_BYTES_MAX);
    }
    if let Some(speed) = facts.attributes.get(CORE_SPEED) {
        let fine = speed.parse().is_ok_and(|speed| CORE_SPEEDS.contains(&speed));
        let accepted = "10 to 100000 thousandths of the reference's speed";
        fields.require(fine, &format!("attributes[{CORE_SPEED:?}]"), speed, accepted);
    }
    let kinds = facts.capacity.device_millis.len();
    fields.require(kinds <= NODE_ENTRIES_MAX, "capacity.devices", format!("{kinds} kinds"), "at most 128");
    for kind in facts.capacity.device_millis.keys() {
        device_kind_check(&mut fields, "capacity.devices", kind);
    }
    cards_check(&mut fields, facts);
    domains_check(&mut fields, &facts.domains);
    fields.done()
}

fn domains_check(fields: &mut FieldErrors, domains: &[NumaDomain]) {
    let count = domains.len();
    fields.require(
        count <= DOMAINS_MAX,
        "domains",
        format!("{count} domains"),
        format!("at most {DOMAINS_MAX}"),
    );
    let mut places = BTreeSet::new();
    for (at, domain) in domains.iter().enumerate() {
        let path = |field: &str| format!("domains[{at}].{field}");
        fields.require(places.insert(domain.place), &path("place"), domain.place, "each place once");
        let ascend = domain.cpus.windows(2).all(|pair| pair.first() < pair.last());
        let fine = ascend && domain.cpus.len() <= DOMAIN_CPUS_MAX;
        let accepted = format!("at most {DOMAIN_CPUS_MAX} numbers of processors, ascending");
        fields.require(fine, &path("cpus"), format!("{} processors", domain.cpus.len()), accepted);
    }
}

fn cards_check(fields: &mut FieldErrors, facts: &NodeFacts) {
    let count = facts.cards.len();
    fields.require(count <= CARDS_MAX, "cards", format!("{count} cards"), format!("at most {CARDS_MAX}"));
    let mut places = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (at, card) in facts.cards.iter().enumerate() {
        let path = |field: &str| format!("cards[{at}].{field}");
        device_kind_check(fields, &path("kind"), &card.kind);
        let place = places.insert((&card.kind, card.place));
        fields.require(place, &path("place"), card.place, "each place once within its kind");
        // A task gets several in one variable, separated by commas.
        let fine = !card.id.is_empty() && !card.id.contains(',') && ids.insert((&card.kind, &card.id));
        let accepted = "a number or name without commas, each once within its kind";
        fields.require(fine, &path("id"), format!("{:?}", card.id), accepted);
        fields.line(&path("id"), &card.id);
        fields.line(&path("model"), &card.model);
    }
    let of_kind = |kind: &String| facts.cards.iter().filter(|card: &&Card| card.kind == *kind).count() as u64;
    for (kind, &millis) in &facts.capacity.device_millis {
        let cards = of_kind(kind);
        let fine = cards == 0 || millis == cards.saturating_mul(CARD_MILLIS);
        let accepted = format!("{cards}, as many as there are cards of the kind, or none at all");
        let path = format!("capacity.devices[{kind:?}]");
        fields.require(fine, &path, crate::resource::device_display(millis), accepted);
    }
}
