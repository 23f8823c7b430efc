//! A map from node ordinals to the entries of a plan or of a class. It is a small open-addressed table. A column per
//! node would cost more to clear than most plans of a large cell cost.

/// A map from node ordinals to places.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The ordinal plus one (0: vacant), and the place. The length is a power of two.
    table: Vec<(u32, u32)>,
    used: usize,
}

/// The entries of a plan's first table. Most plans touch fewer nodes.
pub(super) const TOUCHED_FIRST: usize = 256;

impl Places {
    /// A map that holds `nodes` nodes before it grows.
    pub(crate) fn new(nodes: usize) -> Self {
        let length = nodes.clamp(1, TOUCHED_FIRST).next_power_of_two() * 2;
        Self { table: vec![(0, 0); length], used: 0 }
    }

    /// The index of a node's entry, or the vacant entry where it would be. Fibonacci hashing, because ordinals are
    /// dense.
    fn slot(&self, node: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = (node.wrapping_mul(0x9e37_79b1) >> 7) as usize & mask;
        while let Some(&(known, _)) = self.table.get(slot) {
            if known == 0 || known == node.wrapping_add(1) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// The place of a node.
    pub(crate) fn get(&self, node: u32) -> Option<usize> {
        let &(known, place) = self.table.get(self.slot(node))?;
        (known != 0).then_some(place as usize)
    }

    /// Sets the place of a node that has none.
    pub(crate) fn set(&mut self, node: u32, place: u32) {
        if (self.used + 1) * 2 > self.table.len() {
            let doubled = vec![(0, 0); self.table.len() * 2];
            let before = std::mem::replace(&mut self.table, doubled);
            for (known, place) in before.into_iter().filter(|&(known, _)| known != 0) {
                self.entry_set(known - 1, place);
            }
        }
        self.entry_set(node, place);
        self.used += 1;
    }

    fn entry_set(&mut self, node: u32, place: u32) {
        let slot = self.slot(node);
        if let Some(entry) = self.table.get_mut(slot) {
            *entry = (node.wrapping_add(1), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again_however_many() {
        let mut places = Places::new(3);
        for (place, node) in (0..5000u32).map(|place| (place, place.wrapping_mul(512))) {
            assert_eq!(places.get(node), None);
            places.set(node, place);
        }
        for (place, node) in (0..5000u32).map(|place| (place, place.wrapping_mul(512))) {
            assert_eq!(places.get(node), Some(place as usize));
        }
        assert_eq!(places.get(7), None);
    }
}
