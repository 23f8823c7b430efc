//! The nodes of a cell as a structure of arrays: one column per resource dimension, one entry per node, found by a
//! dense ordinal. The values that a filter reads for node after node lie next to each other.

use std::collections::BTreeMap;

use borough_model::resource::{resources_add, resources_sub};
use borough_model::{Name, NodeAlloc, NodeId, Resources};
use smallvec::SmallVec;

use super::card::CardSlot;
use super::change::NodeChanges;
use super::columns::{DIMENSIONS_FIXED, amount, amount_set, amounts_set, fixed_amounts, limit_amounts};
use super::index::NodeIndex;
use super::largest::LargestAmounts;
use super::layout::Layouts;
use super::load::Loads;
use super::resident::ResidentTasks;
use super::row::NodeEffect;
use super::space::PortSpaces;
use super::sums::OpenSums;
use super::taint::Taints;
use super::text::Texts;
use super::topology::DomainSlot;
use crate::count::CountChange;
use crate::settings::Overcommit;

/// The attribute that holds a node's name.
pub(crate) use borough_model::node::NODE_NAME;

/// Tells whether a node takes tasks, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeGate {
    /// Its allocation is known and its row is not.
    Unknown,
    Open,
    Recovering,
    Lost,
    Cordoned,
    Draining,
}

/// The ports of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePorts {
    pub first: u16,
    pub last: u16,
    /// Given to tasks, ascending.
    pub used: Vec<u16>,
    /// Cooling down, ascending, each with the time (milliseconds since 1970) from which it may be given again.
    pub cooling: Vec<(u16, i64)>,
}

impl NodePorts {
    /// Returns true if `alloc` frees a port, or lets one cool down sooner: those of a lost attempt are kept back until
    /// it is over.
    fn freed(&self, alloc: &NodeAlloc) -> bool {
        let sooner = |(port, until_ms): &(u16, i64)| {
            alloc.ports_cooling.get(port).is_some_and(|sooner_ms| sooner_ms < until_ms)
        };
        self.used.iter().any(|port| !alloc.ports.contains(port)) || self.cooling.iter().any(sooner)
    }
}

/// The nodes. Columns are indexed by ordinal. A new node gets the ordinal of a removed one.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTable {
    ordinals: BTreeMap<NodeId, u32>,
    /// Known nodes ordered by id. Plans look at nodes in this order, so the order of their arrival does not matter.
    pub order: Vec<u32>,
    vacant: Vec<u32>,
    pub ids: Vec<NodeId>,
    pub(super) names: Vec<Option<Name>>,
    pub gates: Vec<NodeGate>,
    pub(super) revisions: Vec<u64>,
    epochs: Vec<u64>,
    pub tasks: Vec<u32>,
    /// Attributes and labels as (key, value), ascending by key.
    pub attributes: Vec<Box<[(u32, u32)]>>,
    pub ports: Vec<NodePorts>,
    /// Which nodes share a port space.
    pub spaces: PortSpaces,
    /// How much tasks may ask for, per dimension and node, overcommit included.
    limits: Vec<Vec<u64>>,
    largest: LargestAmounts,
    /// What is not free, per dimension and node: used, or promised to tasks that wait for their victims.
    used: Vec<Vec<u64>>,
    /// The promised part of `used`. Nodes without promises have no entry.
    promised: BTreeMap<u32, Resources>,
    kinds: Vec<String>,
    pub(super) taint_sets: Vec<u32>,
    pub taints: Taints,
    pub card_layouts: Layouts<CardSlot>,
    pub domain_layouts: Layouts<DomainSlot>,
    pub texts: Texts,
    pub index: NodeIndex,
    /// The tasks on each node.
    pub resident: ResidentTasks,
    pub(super) changes: NodeChanges,
    pub(super) loads: Loads,
    /// The sums over the nodes that take tasks.
    pub sums: OpenSums,
}

impl NodeTable {
    pub(crate) fn new() -> Self {
        let columns = vec![Vec::new(); DIMENSIONS_FIXED];
        Self { limits: columns.clone(), used: columns, ..Self::default() }
    }

    pub(crate) fn ordinal(&self, id: NodeId) -> Option<u32> {
        self.ordinals.get(&id).copied()
    }

    /// The number of known nodes, in any state.
    pub(crate) fn count(&self) -> usize {
        self.order.len()
    }

    /// An exclusive bound of the ordinals in use.
    pub(crate) fn ordinals_end(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn id(&self, node: u32) -> NodeId {
        self.ids.get(node as usize).copied().unwrap_or_default()
    }

    pub(crate) fn name(&self, node: u32) -> Option<&Name> {
        self.names.get(node as usize).and_then(Option::as_ref)
    }

    pub(crate) fn gate(&self, node: u32) -> NodeGate {
        self.gates.get(node as usize).copied().unwrap_or(NodeGate::Unknown)
    }

    pub(crate) fn ports(&self, node: u32) -> Option<&NodePorts> {
        self.ports.get(node as usize)
    }

    pub(crate) fn revision(&self, node: u32) -> u64 {
        self.revisions.get(node as usize).copied().unwrap_or(0)
    }

    /// The epoch of a node's allocation.
    pub(crate) fn epoch(&self, node: u32) -> u64 {
        self.epochs.get(node as usize).copied().unwrap_or(0)
    }

    pub(crate) fn limit(&self, dimension: usize, node: u32) -> u64 {
        amount(&self.limits, dimension, node)
    }

    pub(crate) fn used(&self, dimension: usize, node: u32) -> u64 {
        amount(&self.used, dimension, node)
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.limits.len()
    }

    /// The device kind of a dimension past the fixed ones.
    pub(crate) fn kind(&self, dimension: usize) -> Option<&str> {
        dimension.checked_sub(DIMENSIONS_FIXED).and_then(|kind| self.kinds.get(kind)).map(String::as_str)
    }

    /// Changes when a node has the first device of a kind, or cards that no node before it had.
    pub(crate) fn kinds_version(&self) -> usize {
        self.kinds.len() + self.card_layouts.all().len()
    }

    /// The dimension of a device kind, if any node has it. A scan is fastest, because a cell has few kinds.
    pub(crate) fn kind_dimension(&self, kind: &str) -> Option<usize> {
        self.kinds.iter().position(|known| known == kind).map(|position| position + DIMENSIONS_FIXED)
    }

    fn kind_interned(&mut self, kind: &str) -> usize {
        self.kind_dimension(kind).unwrap_or_else(|| {
            self.kinds.push(kind.to_owned());
            self.limits.push(Vec::new());
            self.used.push(Vec::new());
            self.limits.len() - 1
        })
    }

    pub(crate) fn attribute(&self, node: u32, key: u32) -> Option<u32> {
        let attributes = self.attributes.get(node as usize)?;
        let position = attributes.binary_search_by_key(&key, |&(key, _)| key).ok()?;
        attributes.get(position).map(|&(_, value)| value)
    }

    /// The attributes of a node, ascending by key.
    pub(crate) fn attributes_of(&self, node: u32) -> &[(u32, u32)] {
        self.attributes.get(node as usize).map_or(&[], |attributes| attributes)
    }

    /// A node's position in the order, or where it would be inserted.
    pub(crate) fn order_position(&self, id: NodeId) -> Result<usize, usize> {
        self.order.binary_search_by_key(&id, |&node| self.id(node))
    }

    pub(super) fn ordinal_made(&mut self, id: NodeId) -> u32 {
        if let Some(node) = self.ordinal(id) {
            return node;
        }
        let node = self.vacant.pop().unwrap_or_else(|| {
            let node = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
            self.ids.push(id);
            self.names.push(None);
            self.gates.push(NodeGate::Unknown);
            self.revisions.push(0);
            self.epochs.push(0);
            self.tasks.push(0);
            self.attributes.push(Box::default());
            self.ports.push(NodePorts::default());
            self.changes.node_made();
            node
        });
        if let Some(entry) = self.ids.get_mut(node as usize) {
            *entry = id;
        }
        self.ordinals.insert(id, node);
        node
    }

    pub(super) fn limits_set(&mut self, node: u32, capacity: &Resources, overcommit: &Overcommit) {
        self.kinds_interned(capacity);
        let before = self.limits_of(node);
        amounts_set(&mut self.limits, &self.kinds, node, limit_amounts(capacity, overcommit), capacity);
        self.largest_follow(node, &before);
    }

    pub(super) fn limits_of(&self, node: u32) -> SmallVec<[u64; 16]> {
        (0..self.limits.len()).map(|dimension| self.limit(dimension, node)).collect()
    }

    fn largest_follow(&mut self, node: u32, before: &[u64]) {
        for (dimension, column) in self.limits.iter().enumerate() {
            let before = before.get(dimension).copied().unwrap_or(0);
            self.largest.follow(dimension, before, column, amount(&self.limits, dimension, node));
        }
    }

    /// The largest limit of any node in a dimension, whether it takes tasks or not.
    pub(crate) fn limit_largest(&self, dimension: usize) -> u64 {
        self.largest.of(dimension)
    }

    fn used_set(&mut self, node: u32, used: &Resources) {
        self.kinds_interned(used);
        amounts_set(&mut self.used, &self.kinds, node, fixed_amounts(used), used);
    }

    fn kinds_interned(&mut self, devices: &Resources) {
        for kind in devices.device_millis.keys() {
            self.kind_interned(kind);
        }
    }

    /// What a new allocation means for tasks. Each write of a node's row has one that differs only in its epoch.
    fn alloc_effect(&self, node: u32, taken: &Resources, alloc: &NodeAlloc) -> NodeEffect {
        let fixed = fixed_amounts(taken).into_iter();
        let devices = self.kinds.iter().map(|name| taken.device_millis.get(name).copied().unwrap_or(0));
        let amounts = || fixed.clone().chain(devices.clone()).zip(0..);
        let Some(ports) = self.ports(node) else { return NodeEffect::None };
        let freed = |(now, dimension)| now < self.used(dimension, node);
        if amounts().any(freed) || ports.freed(alloc) {
            return NodeEffect::More;
        }
        // A kind without a column yet is new, so some amount of it is taken.
        let known = taken.device_millis.keys().all(|kind| self.kind_dimension(kind).is_some());
        let same = known
            && amounts().all(|(now, dimension)| now == self.used(dimension, node))
            && self.tasks.get(node as usize) == Some(&alloc.tasks)
            && ports.used.iter().eq(&alloc.ports)
            && ports.cooling.iter().map(|(port, until_ms)| (port, until_ms)).eq(&alloc.ports_cooling);
        if same { NodeEffect::None } else { NodeEffect::Less }
    }

    /// Stores a node's allocation. Returns the node, and what it means for tasks. `None` if a newer one is stored.
    pub(super) fn alloc_set(&mut self, id: NodeId, alloc: &NodeAlloc) -> Option<(u32, NodeEffect)> {
        let node = self.ordinal_made(id);
        let index = node as usize;
        if alloc.epoch < *self.epochs.get(index)? {
            return None;
        }
        let taken = resources_add(&alloc.used, &alloc.promised).unwrap_or_else(|_| alloc.used.clone());
        let effect = self.alloc_effect(node, &taken, alloc);
        let free = self.free(node);
        self.sums_leave(node);
        self.promised.remove(&node);
        if !alloc.promised.is_zero() {
            self.promised.insert(node, alloc.promised.clone());
        }
        *self.epochs.get_mut(index)? = alloc.epoch;
        *self.tasks.get_mut(index)? = alloc.tasks;
        let ports = self.ports.get_mut(index)?;
        ports.used.clear();
        ports.used.extend(alloc.ports.iter().copied());
        ports.cooling.clear();
        ports.cooling.extend(alloc.ports_cooling.iter().map(|(&port, &until)| (port, until)));
        self.used_set(node, &taken);
        self.sums_join(node);
        self.free_changed(node, free);
        self.changes.affected(node, effect);
        Some((node, effect))
    }

    /// Changes how much of a node's charge is promised and not used yet.
    pub(crate) fn promised_moved(&mut self, node: u32, resources: &Resources, change: CountChange) {
        let promised = self.promised.entry(node).or_default();
        let moved = match change {
            CountChange::Add => resources_add(promised, resources),
            CountChange::Remove => resources_sub(promised, resources),
        };
        if let Ok(moved) = moved {
            *promised = moved;
        }
    }

    /// A node's allocation, in its stored form.
    pub(crate) fn alloc(&self, node: u32) -> Option<NodeAlloc> {
        let index = node as usize;
        let ports = self.ports(node)?;
        let promised = self.promised.get(&node).cloned().unwrap_or_default();
        let taken = self.resources(&self.used, node);
        Some(NodeAlloc {
            epoch: *self.epochs.get(index)?,
            used: resources_sub(&taken, &promised).unwrap_or(taken),
            promised,
            tasks: *self.tasks.get(index)?,
            ports: ports.used.iter().copied().collect(),
            ports_cooling: ports.cooling.iter().copied().collect(),
        })
    }

    /// Charges a node with a task, or releases the charge. The epoch stays as it is.
    pub(crate) fn charge(&mut self, node: u32, demand: &[(usize, u64)], ports: &[u16], change: CountChange) {
        let index = node as usize;
        let free = self.free(node);
        for &(dimension, amount) in demand {
            let used = self.used(dimension, node);
            let free_before = self.amount_free(dimension, node);
            amount_set(&mut self.used, dimension, node, change.amount(used, amount));
            self.sums_free_moved(dimension, node, free_before);
        }
        self.free_changed(node, free);
        match change {
            CountChange::Add => self.changes.changed(node),
            CountChange::Remove => self.changes.freed(node),
        }
        if let Some(tasks) = self.tasks.get_mut(index) {
            let before = std::mem::replace(tasks, change.tasks(*tasks, 1));
            self.sums_tasks_moved(node, before);
        }
        let Some(known) = self.ports.get_mut(index) else { return };
        for &port in ports {
            match (known.used.binary_search(&port), change) {
                (Err(position), CountChange::Add) => known.used.insert(position, port),
                (Ok(position), CountChange::Remove) => drop(known.used.remove(position)),
                _ => {}
            }
        }
    }

    /// The limits of a node, overcommit included.
    pub(crate) fn limits(&self, node: u32) -> Resources {
        self.resources(&self.limits, node)
    }

    fn resources(&self, columns: &[Vec<u64>], node: u32) -> Resources {
        let device = |(kind, name): (usize, &String)| {
            let amount = amount(columns, DIMENSIONS_FIXED + kind, node);
            (amount > 0).then(|| (name.clone(), amount))
        };
        Resources {
            cpu_millis: amount(columns, 0, node),
            memory_bytes: amount(columns, 1, node),
            disk_bytes: amount(columns, 2, node),
            disk_bytes_per_s: amount(columns, 3, node),
            network_bytes_per_s: amount(columns, 4, node),
            device_millis: self.kinds.iter().enumerate().filter_map(device).collect(),
        }
    }

    /// Removes a node. A later node gets its ordinal.
    pub(crate) fn removed(&mut self, id: NodeId) -> bool {
        let Some(node) = self.ordinals.remove(&id) else { return false };
        self.sums_leave(node);
        if let Ok(position) = self.order_position(id) {
            self.order.remove(position);
            self.index.order_changed();
            self.resident.order_changed();
            self.changes.membership_changed();
        }
        let index = node as usize;
        if let Some(known) = self.attributes.get(index) {
            self.index.attributes_moved(node, known, &[]);
        }
        let before = self.limits_of(node);
        let columns = self.limits.iter_mut().chain(self.used.iter_mut());
        for entry in columns.filter_map(|column| column.get_mut(index)) {
            *entry = 0;
        }
        self.largest_follow(node, &before);
        self.promised.remove(&node);
        self.taint_set_put(node, 0);
        self.card_layouts.put(node, Box::default());
        self.domain_layouts.put(node, Box::default());
        self.entry_cleared(index);
        self.spaces.set(node, None);
        self.vacant.push(node);
        true
    }

    fn entry_cleared(&mut self, index: usize) {
        if let Some(entry) = self.names.get_mut(index) {
            *entry = None;
        }
        if let Some(entry) = self.gates.get_mut(index) {
            *entry = NodeGate::Unknown;
        }
        for column in [&mut self.revisions, &mut self.epochs] {
            if let Some(entry) = column.get_mut(index) {
                *entry = 0;
            }
        }
        self.loads.cleared(index);
        if let Some(entry) = self.tasks.get_mut(index) {
            *entry = 0;
        }
        if let Some(entry) = self.attributes.get_mut(index) {
            *entry = Box::default();
        }
        if let Some(entry) = self.ports.get_mut(index) {
            *entry = NodePorts::default();
        }
    }
}
