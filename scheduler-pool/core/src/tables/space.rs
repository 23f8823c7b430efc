//! Port spaces: nodes that share an address share its ports.

use std::collections::BTreeMap;

/// Which nodes share a port space. A node alone in its space costs one entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortSpaces {
    /// Ordinals by the space's name, ascending.
    nodes: BTreeMap<String, Vec<u32>>,
    /// The names, by ordinal.
    names: BTreeMap<u32, String>,
}

impl PortSpaces {
    /// Moves a node into a space, or out of any.
    pub(crate) fn set(&mut self, node: u32, name: Option<String>) {
        if self.names.get(&node) == name.as_ref() {
            return;
        }
        if let Some(before) = self.names.remove(&node)
            && let Some(nodes) = self.nodes.get_mut(&before)
        {
            nodes.retain(|&other| other != node);
            if nodes.is_empty() {
                self.nodes.remove(&before);
            }
        }
        if let Some(name) = name {
            let nodes = self.nodes.entry(name.clone()).or_default();
            if let Err(position) = nodes.binary_search(&node) {
                nodes.insert(position, node);
            }
            self.names.insert(node, name);
        }
    }

    /// The name of a node's space.
    pub(crate) fn name(&self, node: u32) -> Option<&str> {
        self.names.get(&node).map(String::as_str)
    }

    /// The node and those that share its port space.
    pub(crate) fn with(&self, node: u32) -> impl Iterator<Item = u32> {
        let shared = self.shared(node).map_or(&[][..], |(_, nodes)| nodes);
        std::iter::once(node).chain(shared.iter().copied().filter(move |&other| other != node))
    }

    /// The name and the nodes of a node's space, if it shares one.
    pub(crate) fn shared(&self, node: u32) -> Option<(&str, &[u32])> {
        let name = self.names.get(&node)?;
        let nodes = self.nodes.get(name)?;
        (nodes.len() > 1).then_some((name.as_str(), nodes.as_slice()))
    }
}
