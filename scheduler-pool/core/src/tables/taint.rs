//! Taints, and sets of taints, as small numbers. Many nodes share few sets, so a class is checked once per set and not
//! once per node.

use std::collections::BTreeMap;

use borough_model::node::Taint;

use super::node::NodeTable;

/// Taints and sets of taints, each with a number. They are never dropped, because operators use few.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taints {
    numbers: BTreeMap<Taint, u32>,
    taints: Vec<Taint>,
    sets: Vec<Box<[u32]>>,
    set_numbers: BTreeMap<Box<[u32]>, u32>,
}

impl Taints {
    /// The number of the set of these taints; 0 for the empty set.
    pub(crate) fn set_interned(&mut self, taints: &[Taint]) -> u32 {
        if taints.is_empty() {
            return 0;
        }
        let set: Box<[u32]> = taints.iter().map(|taint| self.interned(taint)).collect();
        if let Some(&number) = self.set_numbers.get(&set) {
            return number;
        }
        self.sets.push(set.clone());
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        self.set_numbers.insert(set, number);
        number
    }

    /// The time at which a taint was added does not affect placement.
    fn interned(&mut self, taint: &Taint) -> u32 {
        let taint = Taint { added_ms: 0, ..taint.clone() };
        if let Some(&number) = self.numbers.get(&taint) {
            return number;
        }
        let number = u32::try_from(self.taints.len()).unwrap_or(u32::MAX);
        self.taints.push(taint.clone());
        self.numbers.insert(taint, number);
        number
    }

    /// The taint of a number.
    pub(crate) fn get(&self, number: u32) -> Option<&Taint> {
        self.taints.get(number as usize)
    }

    /// Every set, from number 1 on, with the numbers of its taints.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &[u32]> {
        self.sets.iter().map(|set| &**set)
    }
}

impl NodeTable {
    /// The number of a node's set of taints; 0 for none.
    pub(crate) fn taint_set(&self, node: u32) -> u32 {
        self.taint_sets.get(node as usize).copied().unwrap_or(0)
    }

    /// Sets a node's taints. The column ends with the last node that has any.
    pub(super) fn taint_set_put(&mut self, node: u32, set: u32) {
        let index = node as usize;
        if self.taint_sets.len() <= index {
            if set == 0 {
                return;
            }
            self.taint_sets.resize(index + 1, 0);
        }
        if let Some(entry) = self.taint_sets.get_mut(index) {
            *entry = set;
        }
    }
}
