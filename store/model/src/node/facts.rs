//! Whether what an agent or an operator says of a node can be stored: bounded, so that a node's row stays small.

use std::collections::BTreeMap;

use super::NodeFacts;
use crate::job::{FieldError, Fields};

/// Most attributes, and most labels, of a node.
pub const NODE_ENTRIES_MAX: usize = 128;
/// Most bytes of an attribute's value.
const ATTRIBUTE_BYTES_MAX: usize = 4096;
/// Most bytes of all attributes together: with the labels they fit one value of the store.
const ATTRIBUTES_BYTES_MAX: usize = 40_000;
/// Lowest port a node may hand out: those below need privileges.
const PORT_MIN: u16 = 1024;

/// Checks what an agent registers with.
pub fn node_facts_check(facts: &NodeFacts) -> Result<(), Vec<FieldError>> {
    let mut fields = Fields::default();
    let (first, last) = (facts.port_first, facts.port_last);
    let accepted = "1024 to 65535, the first not above the last";
    fields.require(first >= PORT_MIN && first <= last, "ports", format!("{first} to {last}"), accepted);
    fields.require(!facts.host.is_empty(), "host", format!("{:?}", facts.host), "an address or host name");
    for (path, text) in
        [("host", &facts.host), ("boot_id", &facts.boot_id), ("agent_version", &facts.agent_version)]
    {
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
    let kinds = facts.capacity.device_millis.len();
    fields.require(kinds <= NODE_ENTRIES_MAX, "capacity.devices", format!("{kinds} kinds"), "at most 128");
    for kind in facts.capacity.device_millis.keys() {
        fields.key("capacity.devices", kind);
    }
    fields.done()
}

/// Checks all labels of a node together.
pub fn node_labels_check(labels: &BTreeMap<String, String>) -> Result<(), Vec<FieldError>> {
    let mut fields = Fields::default();
    fields.labels("labels", labels, NODE_ENTRIES_MAX);
    fields.done()
}
