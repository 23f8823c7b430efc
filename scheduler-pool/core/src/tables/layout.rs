//! Layouts: the parts of a machine that all nodes of one make share, such as their cards. Each layout has a number, so
//! a class is checked once per layout and not once per node.

use std::collections::BTreeMap;

/// The layouts in use, each with a number. They are never dropped, because a cell has few makes of nodes.
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
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &[S]> {
        self.layouts.iter().map(|layout| &**layout)
    }

    /// The number of a node's layout; 0 if it has none.
    pub(crate) fn of(&self, node: u32) -> u32 {
        self.of_node.get(node as usize).copied().unwrap_or(0)
    }

    /// A node's layout, if it has one.
    pub(crate) fn layout_of(&self, node: u32) -> Option<&[S]> {
        let number = self.of(node).checked_sub(1)?;
        self.layouts.get(number as usize).map(|layout| &**layout)
    }

    /// Sets a node's layout. An empty one counts as none.
    pub(super) fn put(&mut self, node: u32, layout: Box<[S]>) {
        let number = self.interned(layout);
        let index = node as usize;
        if self.of_node.len() <= index {
            // The column ends with the last node that has a layout.
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
