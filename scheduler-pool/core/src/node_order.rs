//! The order in which a search looks at the nodes of a cell. It starts inside the worker's own part of the cell, goes
//! round that part, and then round the other nodes.
//!
//! The parts are contiguous ranges of the one order of all nodes, computed from the number of nodes and of parts. A new
//! or removed node moves each border by at most one node. A part is a preference only: workers that prefer different
//! nodes conflict less.

use crate::tables::NodeTable;

/// Where a plan starts to look at a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartOffset {
    /// Breaks ties between equal nodes, and chooses where a search begins.
    pub seed: u64,
    /// The preferred part of the nodes, from 0.
    pub part: u32,
    /// The number of parts; 1: no part is preferred.
    pub parts: u32,
    /// How many more candidates than tasks a search collects; 0: the search's own minimum.
    pub beyond: usize,
}

impl StartOffset {
    /// A search over the cell as one part.
    pub fn undivided(seed: u64) -> Self {
        Self { seed, part: 0, parts: 1, beyond: 0 }
    }

    /// The range of positions of its part among `count` nodes: the first, and the one after the last.
    pub fn cut(self, count: usize) -> (usize, usize) {
        let parts = self.parts.max(1);
        let part = u128::from(self.part % parts);
        let border = |number: u128| {
            let at = count as u128 * number / u128::from(parts);
            usize::try_from(at).unwrap_or(count)
        };
        (border(part), border(part + 1))
    }
}

/// An order of the nodes. A position is an index into the order of all nodes; a rank is an index into this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeOrder {
    first: usize,
    last: usize,
    start: usize,
    count: usize,
}

impl NodeOrder {
    /// An order that goes round the part of a worker, from a place chosen by `seed`.
    pub(crate) fn new(count: usize, start_offset: StartOffset, seed: u64) -> Self {
        let (mut first, mut last) = start_offset.cut(count);
        if first == last {
            (first, last) = (0, count);
        }
        let length = (last - first).max(1) as u64;
        let start = first + usize::try_from(seed % length).unwrap_or(0);
        Self { first, last, start, count }
    }

    /// How many nodes the worker's own part has. They come first.
    pub(crate) fn own(&self) -> usize {
        self.last - self.first
    }

    /// The rank of a position.
    pub(crate) fn rank(&self, position: usize) -> usize {
        if (self.first..self.last).contains(&position) {
            return match position.checked_sub(self.start) {
                Some(rank) => rank,
                None => self.last - self.start + position - self.first,
            };
        }
        match position.checked_sub(self.last) {
            Some(rank) => self.own() + rank,
            None => self.own() + self.count - self.last + position,
        }
    }

    /// The position at a rank, and the first position after it that does not directly follow it in this order.
    pub(crate) fn position(&self, rank: usize) -> Option<(usize, usize)> {
        let (head, after) = (self.last - self.start, self.count - self.last);
        if rank >= self.count {
            None
        } else if rank < head {
            Some((self.start + rank, self.last))
        } else if rank < self.own() {
            Some((self.first + rank - head, self.start))
        } else if rank < self.own() + after {
            Some((self.last + rank - self.own(), self.count))
        } else {
            Some((rank - self.own() - after, self.first))
        }
    }

    /// The rank of a node.
    pub(crate) fn rank_of(&self, nodes: &NodeTable, node: u32) -> Option<u32> {
        let position = *nodes.positions().get(node as usize)? as usize;
        (position < self.count).then(|| u32::try_from(self.rank(position)).ok())?
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_and_positions_are_each_others_inverse(
            count in 0..300usize, parts in 1..14u32, part in 0..14u32, seed in any::<u64>(),
        ) {
            let start_offset = StartOffset { part: part % parts, parts, ..StartOffset::undivided(seed) };
            let search = NodeOrder::new(count, start_offset, seed);
            let mut seen = vec![false; count];
            for rank in 0..count {
                let (position, end) = search.position(rank).unwrap();
                prop_assert_eq!(search.rank(position), rank);
                prop_assert!(position < end);
                if position + 1 < end {
                    prop_assert_eq!(search.position(rank + 1).unwrap().0, position + 1);
                }
                prop_assert!(!std::mem::replace(&mut seen[position], true));
                let (first, last) = start_offset.cut(count);
                prop_assert_eq!(rank < search.own(), first == last || (first..last).contains(&position));
            }
            prop_assert_eq!(search.position(count), None);
        }

        #[test]
        fn the_cut_divides_the_nodes_evenly_and_moves_little(count in 0..500usize, parts in 1..14u32) {
            let cut = |part, count| StartOffset { part, parts, ..StartOffset::undivided(0) }.cut(count);
            let mut before = 0;
            for part in 0..parts {
                let (first, last) = cut(part, count);
                prop_assert_eq!(first, before);
                prop_assert!((last - first).abs_diff(count / parts as usize) <= 1);
                let (first_grown, last_grown) = cut(part, count + 1);
                prop_assert!(first_grown - first <= 1 && last_grown - last <= 1);
                before = last;
            }
            prop_assert_eq!(before, count);
        }
    }
}
