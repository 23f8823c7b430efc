//! The largest limit of any node in each dimension, kept up to date, so that a plan need not look at all nodes for it.

/// The largest amount of a column, and how many nodes have it.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    amount: u64,
    nodes: u32,
}

/// The largest amount of each column.
#[derive(Clone, Debug, Default)]
pub(super) struct LargestAmounts {
    columns: Vec<Largest>,
}

impl LargestAmounts {
    /// The largest amount of a dimension; zero if no node has any.
    pub(super) fn of(&self, dimension: usize) -> u64 {
        self.columns.get(dimension).map_or(0, |largest| largest.amount)
    }

    /// Follows a change of one node's amount. `column` has the amounts after the change. It is read only if no node
    /// with the largest amount is left.
    pub(super) fn follow(&mut self, dimension: usize, before: u64, column: &[u64], after: u64) {
        if self.columns.len() <= dimension {
            self.columns.resize(dimension + 1, Largest::default());
        }
        let Some(largest) = self.columns.get_mut(dimension) else { return };
        if before == after {
            return;
        }
        if before == largest.amount && before > 0 {
            largest.nodes = largest.nodes.saturating_sub(1);
        }
        if after > largest.amount {
            *largest = Largest { amount: after, nodes: 1 };
        } else if after == largest.amount {
            largest.nodes += 1;
        }
        if largest.nodes == 0 {
            let amount = column.iter().copied().max().unwrap_or(0);
            let nodes = column.iter().filter(|&&of_node| of_node == amount && amount > 0).count();
            *largest = Largest { amount, nodes: u32::try_from(nodes).unwrap_or(u32::MAX) };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After any changes the largest amount is the maximum of the column.
        #[test]
        fn the_largest_is_the_maximum(changes in prop::collection::vec((0..6usize, 0..5u64), 0..60)) {
            let (mut largest, mut column) = (LargestAmounts::default(), vec![0; 6]);
            for (node, after) in changes {
                let before = std::mem::replace(&mut column[node], after);
                largest.follow(1, before, &column, after);
                prop_assert_eq!(largest.of(1), column.iter().copied().max().unwrap());
                prop_assert_eq!(largest.of(0), 0);
            }
        }
    }
}
