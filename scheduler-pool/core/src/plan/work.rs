//! What a plan has taken so far, over a snapshot that it leaves as it is: only nodes that were touched cost memory.

use smallvec::SmallVec;

use super::places::Places;
use crate::snapshot::NodeTable;

/// A node as the plan has left it.
#[derive(Clone, Debug)]
struct Touched {
    /// Counts changes, so that scores made before one are known to be old.
    version: u32,
    tasks: u32,
    used: SmallVec<[u64; 6]>,
    ports: SmallVec<[u16; 8]>,
}

/// The nodes under a plan.
#[derive(Clone, Debug)]
pub(crate) struct Work<'a> {
    pub nodes: &'a NodeTable,
    /// Where in `touched` a node is.
    places: Places,
    touched: Vec<Touched>,
    /// Nodes in the order in which they changed.
    pub log: Vec<u32>,
    /// Counts moments at which something was given back, so that what was found out before is void.
    pub generation: u32,
}

impl<'a> Work<'a> {
    pub fn new(nodes: &'a NodeTable) -> Self {
        Self { nodes, places: Places::new(), touched: Vec::new(), log: Vec::new(), generation: 0 }
    }

    fn touched(&self, node: u32) -> Option<&Touched> {
        self.touched.get(self.places.get(node)?)
    }

    fn touched_made(&mut self, node: u32) -> Option<&mut Touched> {
        if let Some(place) = self.places.get(node) {
            return self.touched.get_mut(place);
        }
        let used = (0..self.nodes.dimensions()).map(|dimension| self.nodes.used(dimension, node)).collect();
        let tasks = self.nodes.tasks.get(node as usize).copied().unwrap_or(0);
        self.places.set(node, u32::try_from(self.touched.len()).unwrap_or(u32::MAX));
        self.touched.push(Touched { version: 0, tasks, used, ports: SmallVec::new() });
        self.touched.last_mut()
    }

    /// What is promised of a dimension of a node.
    pub fn used(&self, dimension: usize, node: u32) -> u64 {
        match self.touched(node) {
            Some(touched) => touched.used.get(dimension).copied().unwrap_or(0),
            None => self.nodes.used(dimension, node),
        }
    }

    /// Tasks on a node.
    pub fn tasks(&self, node: u32) -> u32 {
        let known = || self.nodes.tasks.get(node as usize).copied().unwrap_or(0);
        self.touched(node).map_or_else(known, |touched| touched.tasks)
    }

    /// Ports of a node that this plan gave.
    pub fn ports_taken(&self, node: u32) -> &[u16] {
        self.touched(node).map_or(&[], |touched| &touched.ports)
    }

    /// How often a node has changed.
    pub fn version(&self, node: u32) -> u32 {
        self.touched(node).map_or(0, |touched| touched.version)
    }

    /// Takes what a task needs.
    pub fn taken(&mut self, node: u32, demand: &[(usize, u64)], ports: &[u16]) {
        let Some(touched) = self.touched_made(node) else { return };
        touched.version += 1;
        touched.tasks = touched.tasks.saturating_add(1);
        for &(dimension, amount) in demand {
            if let Some(used) = touched.used.get_mut(dimension) {
                *used = used.saturating_add(amount);
            }
        }
        touched.ports.extend_from_slice(ports);
        self.log.push(node);
    }

    /// Gives back what a task was given: its gang did not fit.
    pub fn returned(&mut self, node: u32, demand: &[(usize, u64)], ports: &[u16]) {
        let Some(touched) = self.touched_made(node) else { return };
        touched.version += 1;
        touched.tasks = touched.tasks.saturating_sub(1);
        for &(dimension, amount) in demand {
            if let Some(used) = touched.used.get_mut(dimension) {
                *used = used.saturating_sub(amount);
            }
        }
        touched.ports.retain(|port| !ports.contains(port));
        self.log.push(node);
    }
}
