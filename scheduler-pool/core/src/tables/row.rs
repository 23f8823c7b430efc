//! Stores node rows, and tells what a newer row changed. A row that changes nothing that plans look at moves no cache.

use std::collections::BTreeMap;

use borough_model::NodeRow;
use borough_model::node::{NodeState, package_attributes, port_space};
use smallvec::SmallVec;

use super::node::{NODE_NAME, NodeGate, NodeTable};
use crate::settings::Overcommit;

/// What a newer row of a node changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowApplied {
    pub node: u32,
    pub effect: NodeEffect,
    /// The node's attributes before.
    pub attributes_before: Box<[(u32, u32)]>,
}

/// How a newer row or allocation of a node may change decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeEffect {
    /// In no way.
    None,
    /// The node takes less than before.
    Less,
    /// The node may take more than before, or other tasks.
    More,
}

/// What filters read of a node besides its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowFacts {
    gate: NodeGate,
    limits: SmallVec<[u64; 16]>,
    taint_set: u32,
    cards: u32,
    domains: u32,
    ports: (u16, u16),
    space: Option<String>,
}

impl RowFacts {
    /// What the change to `after` means for tasks.
    fn effect(&self, after: &Self) -> NodeEffect {
        if self == after {
            return NodeEffect::None;
        }
        // A cordoned node takes tasks of daemon jobs.
        let takes = matches!(after.gate, NodeGate::Open | NodeGate::Cordoned);
        let opened = self.gate != after.gate && takes;
        let limit_before = |dimension: usize| self.limits.get(dimension).copied().unwrap_or(0);
        let grown = (0..).zip(&after.limits).any(|(dimension, &limit)| limit > limit_before(dimension));
        // The kinds of the other facts have no order of more and less.
        let other = self.taint_set != after.taint_set
            || self.cards != after.cards
            || self.domains != after.domains
            || self.ports != after.ports
            || self.space != after.space;
        if opened || grown || other { NodeEffect::More } else { NodeEffect::Less }
    }
}

fn gate(row: &NodeRow) -> NodeGate {
    match row.state {
        NodeState::Recovering => NodeGate::Recovering,
        NodeState::Lost => NodeGate::Lost,
        NodeState::Ready if row.draining => NodeGate::Draining,
        NodeState::Ready if !row.schedulable => NodeGate::Cordoned,
        NodeState::Ready => NodeGate::Open,
    }
}

/// The keys whose values differ. Both lists ascend by key.
fn keys_changed(before: &[(u32, u32)], after: &[(u32, u32)]) -> SmallVec<[u32; 4]> {
    let gone = before.iter().filter(|pair| after.binary_search(pair).is_err());
    let come = after.iter().filter(|pair| before.binary_search(pair).is_err());
    let mut keys: SmallVec<[u32; 4]> = gone.chain(come).map(|&(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl NodeTable {
    /// Stores a node's row. Returns `None` if a newer one is stored.
    pub(super) fn row_set(&mut self, row: &NodeRow, overcommit: &Overcommit) -> Option<RowApplied> {
        let node = self.ordinal_made(row.id);
        let index = node as usize;
        if self.gate(node) != NodeGate::Unknown && row.revision < *self.revisions.get(index)? {
            return None;
        }
        let free = self.free(node);
        let before = self.row_facts(node)?;
        self.sums_leave(node);
        if let Err(position) = self.order_position(row.id) {
            self.order.insert(position, node);
            self.index.order_changed();
            self.resident.order_changed();
            self.changes.membership_changed();
        }
        *self.revisions.get_mut(index)? = row.revision;
        *self.gates.get_mut(index)? = gate(row);
        if self.name(node) != Some(&row.name) {
            *self.names.get_mut(index)? = Some(row.name.clone());
        }
        let ports = self.ports.get_mut(index)?;
        (ports.first, ports.last) = (row.port_first, row.port_last);
        self.spaces.set(node, port_space(row));
        let taints = self.taints.set_interned(&row.taints);
        self.taint_set_put(node, taints);
        self.limits_set(node, &row.capacity, overcommit);
        self.cards_put(node, &row.cards);
        self.domains_put(node, row);
        let attributes = self.attributes_interned(row);
        let attributes_before = std::mem::replace(self.attributes.get_mut(index)?, attributes);
        self.sums_join(node);
        self.free_changed(node, free);
        let effect = before.effect(&self.row_facts(node)?);
        let effect = self.row_followed(node, effect, &attributes_before);
        Some(RowApplied { node, effect, attributes_before })
    }

    /// Tells indexes and caches what a row changed.
    fn row_followed(
        &mut self,
        node: u32,
        effect: NodeEffect,
        attributes_before: &[(u32, u32)],
    ) -> NodeEffect {
        let attributes = self.attributes.get(node as usize).map_or(&[] as &[_], |attributes| attributes);
        let keys = keys_changed(attributes_before, attributes);
        if !keys.is_empty() {
            self.index.attributes_moved(node, attributes_before, attributes);
        }
        self.changes.affected(node, effect);
        if effect != NodeEffect::None {
            self.evictable_changed(node);
        }
        if keys.is_empty() {
            return effect;
        }
        if effect != NodeEffect::More {
            self.changes.attributes_changed(node, &keys);
        }
        NodeEffect::More
    }

    fn row_facts(&self, node: u32) -> Option<RowFacts> {
        let ports = self.ports(node)?;
        Some(RowFacts {
            gate: self.gate(node),
            limits: self.limits_of(node),
            taint_set: self.taint_set(node),
            cards: self.card_layouts.of(node),
            domains: self.domain_layouts.of(node),
            ports: (ports.first, ports.last),
            space: self.spaces.name(node).map(str::to_owned),
        })
    }

    /// Later sources override earlier ones, as in the model's `node_attribute`: the agent's attributes, the packages,
    /// the operator's labels, the node's name.
    fn attributes_interned(&mut self, row: &NodeRow) -> Box<[(u32, u32)]> {
        let packages: Vec<(String, &str)> = package_attributes(&row.packages).collect();
        let mut merged: BTreeMap<&str, &str> = BTreeMap::new();
        merged.extend(row.attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        merged.extend(packages.iter().map(|(key, value)| (key.as_str(), *value)));
        merged.extend(row.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        merged.insert(NODE_NAME, row.name.as_str());
        let mut interned: Vec<(u32, u32)> = merged
            .into_iter()
            .map(|(key, value)| (self.texts.interned(key), self.texts.interned(value)))
            .collect();
        interned.sort_unstable();
        interned.into_boxed_slice()
    }
}
