//! What nodes of one make have in common, once per make: a node is a number then, and a class is held against each
//! layout once instead of against each node.

use std::collections::BTreeMap;

/// The layouts in use, each with a number. They are not forgotten: there are as many as makes of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Layouts<S> {
    numbers: BTreeMap<Box<[S]>, u32>,
    layouts: Vec<Box<[S]>>,
    of_node: Vec<u32>,
}

impl<S> Default for Layouts<S> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), layouts: Vec::new(), of_node: Vec::new() }
    }
}

impl<S: Clone + Ord> Layouts<S> {
    /// Every layout, from number 1 on.
    pub fn all(&self) -> impl Iterator<Item = &[S]> {
        self.layouts.iter().map(|layout| &**layout)
    }

    /// The number of a node's layout; 0: it has none.
    pub fn of(&self, node: u32) -> u32 {
        self.of_node.get(node as usize).copied().unwrap_or(0)
    }

    /// A node's layout, where it has one.
    pub fn layout_of(&self, node: u32) -> Option<&[S]> {
        let number = self.of(node).checked_sub(1)?;
        self.layouts.get(number as usize).map(|layout| &**layout)
    }

    /// Gives a node its layout; an empty one is none.
    pub(super) fn put(&mut self, node: u32, layout: Box<[S]>) {
        let number = self.interned(layout);
        let index = node as usize;
        if self.of_node.len() <= index {
            // Nodes without a layout behind the last that has one are left out.
            if number == 0 {
                return;
            }
            self.of_node.resize(index + 1, 0);
        }
        if let Some(entry) = self.of_node.get_mut(index) {
            *entry = number;
        }
    }

    fn interned(&mut self, layout: Box<[S]>) -> u32 {
        if layout.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(&layout) {
            return number;
        }
        self.layouts.push(layout.clone());
        let number = u32::try_from(self.layouts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(layout, number);
        number
    }
}
